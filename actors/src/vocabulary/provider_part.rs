//! Parts that only a provider itself can read.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::Error as _};
use serde_json::Value;

/// A part that a provider put into an answer and this vocabulary has no word for: the use of a tool of its own, a compacted
/// conversation, a signature, a citation. It is kept in its place among the parts of the answer, goes back unchanged to
/// the same provider, and is left out for others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProviderPart {
    /// Whose it is: what the adapter of the provider calls it. For a protocol that many servers speak, this is the host.
    pub provider: String,
    /// Its role in the answer.
    pub kind: ProviderPartKind,
    /// Its content, as it came.
    #[serde(serialize_with = "write_json", deserialize_with = "read_json")]
    pub content: Value,
}

/// The role of a provider's part in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ProviderPartKind {
    /// A block of its own, which goes back in its place.
    Block,
    /// Further fields of the part before it, with which it goes back; of the whole message, where it is the first part.
    Fields,
    /// Notes beside the answer (sources, probabilities). They are kept, and go back to nobody.
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

    /// Notes beside the answer.
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
