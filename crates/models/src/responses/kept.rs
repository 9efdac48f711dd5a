//! The parts of an answer besides text and calls, and how they are kept for the next request.
//!
//! The server recognises its own items by their ids, and refuses reasoning without the item that followed it. So each
//! item is kept in its place, or, where a part of the message says what it says, its other fields behind that part.

use ghostlight_actors::vocabulary::{Part, ProviderPart, ProviderPartKind};
use serde_json::{Map, Value};

/// The name of a server among what is kept. Chat completions of the same host keep other things.
pub(super) fn name_of(host: &str) -> String {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    };
    format!("responses:{name}")
}

/// The value that a part keeps for this server.
pub(super) enum Kept<'p> {
    /// An item of its own.
    Item(&'p Map<String, Value>),
    /// Further fields of the part before it, or of the whole answer.
    Fields(&'p Map<String, Value>),
}

impl<'p> Kept<'p> {
    pub(super) fn of(part: &'p Part, server: &str) -> Option<Self> {
        let Part::Provider(ProviderPart {
            provider,
            kind,
            content: Value::Object(content),
            ..
        }) = part
        else {
            return None;
        };
        match kind {
            _ if provider != server => None,
            ProviderPartKind::Block => Some(Self::Item(content)),
            ProviderPartKind::Fields => Some(Self::Fields(content)),
            _ => None,
        }
    }
}

/// A part for an item of its own.
pub(super) fn item(server: &str, item: Map<String, Value>) -> Part {
    Part::Provider(ProviderPart::block(server, Value::Object(item)))
}

/// A part for fields of the part before it.
pub(super) fn fields(server: &str, fields: Map<String, Value>) -> Part {
    Part::Provider(ProviderPart::fields(server, Value::Object(fields)))
}
