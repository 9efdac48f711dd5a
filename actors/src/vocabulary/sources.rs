//! The sources that an answer cites.

use serde_json::Value;

use super::{Message, Part, ProviderPartKind};

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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::vocabulary::ProviderPart;

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
