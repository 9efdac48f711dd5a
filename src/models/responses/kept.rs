//! What an answer holds besides text and calls, and how it is kept for the next request.
//!
//! The server recognises its own items by their ids, and refuses reasoning without the item that followed it. So each
//! item is kept in its place, with the server that gave it: no other server could read it.

use ghostlight_actors::vocabulary::{Part, Reasoning};
use serde_json::{Map, Value, json};

/// The key for what this adapter keeps.
const OWN: &str = "openai_responses";

/// An item of an answer, or the fields of one whose text or call stands in the next part.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kept {
    /// The server that gave it.
    pub(super) host: String,
    /// Its fields.
    pub(super) item: Map<String, Value>,
}

impl Kept {
    /// The part that keeps it, with the reasoning that it tells.
    pub(super) fn part(self, told: String) -> Part {
        let Self { host, item } = self;
        Part::Reasoning(Reasoning {
            text: told,
            signature: Some(json!({ OWN: { "host": host, "item": item } }).to_string()),
        })
    }

    /// What a part keeps, if it keeps something.
    pub(super) fn read(part: &Part) -> Option<Self> {
        let Part::Reasoning(reasoning) = part else {
            return None;
        };
        let signature = reasoning.signature.as_deref()?;
        let mut kept: Value = serde_json::from_str(signature).ok()?;
        let host = kept[OWN]["host"].as_str()?.to_owned();
        let item = match kept[OWN]["item"].take() {
            Value::Object(item) => item,
            _ => return None,
        };
        Some(Self { host, item })
    }

    /// The type of the item.
    pub(super) fn kind(&self) -> &str {
        self.item
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// A field of the item that is a text.
    pub(super) fn word(&self, name: &str) -> Option<&str> {
        self.item.get(name).and_then(Value::as_str)
    }
}
