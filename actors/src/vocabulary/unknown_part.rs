//! A part of a message whose kind is not known.

use serde_json::Value;

/// A part whose kind this version does not know. It survives a round trip unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPart {
    /// The kind's name.
    pub kind: String,
    /// Its content.
    pub content: Value,
}
