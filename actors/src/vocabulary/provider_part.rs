//! What only a provider itself can read.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::Error as _};
use serde_json::Value;

use super::{Message, Part};

/// What a provider put into an answer and this vocabulary has no word for: the use of a tool of its own, a compacted
/// conversation, a signature, a citation. It is kept in its place among the parts of the answer, goes back unchanged to
/// the same provider, and is left out for others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProviderPart {
    /// Whose it is: what the adapter of the provider calls it. For a protocol that many servers speak, this is the host.
    pub provider: String,
    /// What it is in the answer.
    pub kind: ProviderPartKind,
    /// Its content, as it came.
    #[serde(serialize_with = "write_json", deserialize_with = "read_json")]
    pub content: Value,
}

/// What a provider's part is in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ProviderPartKind {
    /// A block of its own, which goes back in its place.
    Block,
    /// Further fields of the part before it, with which it goes back; of the whole message, where it is the first part.
    Fields,
    /// What is told beside the answer (sources, probabilities). It is kept, and goes back to nobody.
    Note,
}

impl ProviderPart {
    /// A block of its own.
    pub fn block(provider: impl Into<String>, content: Value) -> Self {
        Self::of(provider, ProviderPartKind::Block, content)
    }

    /// Further fields of the part before it.
    pub fn fields(provider: impl Into<String>, content: Value) -> Self {
        Self::of(provider, ProviderPartKind::Fields, content)
    }

    /// What is told beside the answer.
    pub fn note(provider: impl Into<String>, content: Value) -> Self {
        Self::of(provider, ProviderPartKind::Note, content)
    }

    fn of(provider: impl Into<String>, kind: ProviderPartKind, content: Value) -> Self {
        Self {
            provider: provider.into(),
            kind,
            content,
        }
    }
}

impl Message {
    /// The addresses of the sources that an answer cites, as its provider told them, each once and in their order.
    pub fn sources(&self) -> Vec<String> {
        let mut sources = Vec::new();
        for part in &self.parts {
            if let Part::Provider(own) = part
                && own.kind != ProviderPartKind::Block
            {
                add_sources(&own.content, &mut sources);
            }
        }
        sources
    }
}

/// Adds the addresses under the names that providers use.
fn add_sources(told: &Value, sources: &mut Vec<String>) {
    let mut add = |address: &Value| {
        let address = address.as_str().filter(|text| text.starts_with("http"));
        if let Some(address) = address.filter(|text| !sources.iter().any(|known| known == text)) {
            sources.push(address.to_owned());
        }
    };
    match told {
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), value) {
                    ("url" | "uri", address @ Value::String(_)) => add(address),
                    ("citations", Value::Array(cited)) if cited.iter().all(Value::is_string) => {
                        cited.iter().for_each(&mut add);
                    }
                    _ => {}
                }
            }
            fields
                .values()
                .for_each(|value| add_sources(value, sources));
        }
        Value::Array(items) => items.iter().for_each(|item| add_sources(item, sources)),
        _ => {}
    }
}

/// JSON holds the content as it is, and other formats as a text.
fn write_json<S: Serializer>(content: &Value, serializer: S) -> Result<S::Ok, S::Error> {
    match serializer.is_human_readable() {
        true => content.serialize(serializer),
        false => {
            serializer.serialize_str(&serde_json::to_string(content).map_err(S::Error::custom)?)
        }
    }
}

fn read_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    match deserializer.is_human_readable() {
        true => Value::deserialize(deserializer),
        false => {
            serde_json::from_str(&String::deserialize(deserializer)?).map_err(D::Error::custom)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_sources_of_an_answer_are_found_in_the_words_of_each_provider() {
        let part = |part| Part::Provider(part);
        let cited = json!({"citations": [{"url": "https://a.example", "cited_text": "x"}]});
        let grounds = json!({"groundingMetadata": {"groundingChunks": [{"web": {"uri": "https://b.example"}}]}});
        let notes = json!({"citations": ["https://c.example", "https://a.example"],
            "annotations": [{"url_citation": {"url": "https://d.example"}}]});
        let found = json!({"content": [{"url": "https://not-cited.example"}]});
        let mut message = Message::assistant("x");
        message.parts.extend([
            part(ProviderPart::fields("anthropic", cited)),
            part(ProviderPart::block("anthropic", found)),
            part(ProviderPart::note("gemini", grounds)),
            part(ProviderPart::note("perplexity", notes)),
        ]);
        let mut sources = message.sources();
        sources.sort();
        let expected = ["a", "b", "c", "d"].map(|site| format!("https://{site}.example"));
        assert_eq!(sources, expected);
    }
}
