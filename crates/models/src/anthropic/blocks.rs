//! The blocks of an answer.

use ghostlight_actors::vocabulary::{Part, ProviderPart, Reasoning, ToolCall};
use serde_json::{Map, Value, json};

use super::message::OWN;
use crate::http::Failure;

/// A block of an answer in the making.
#[derive(Clone)]
pub(super) enum Block {
    Text {
        text: String,
        /// Its other fields, such as citations.
        fields: Map<String, Value>,
    },
    Thinking {
        text: String,
        signature: String,
    },
    Redacted(String),
    Call {
        place: u32,
        id: String,
        name: String,
        /// The input that came with the start of the block. It is whole if no pieces follow.
        input: Value,
        pieces: String,
        /// Its other fields, such as who calls.
        fields: Map<String, Value>,
    },
    /// A block that only the provider reads: one of its own tools, a compacted conversation, or something newer.
    Own {
        block: Value,
        /// The pieces of its input.
        pieces: String,
    },
}

/// The kinds of blocks whose pieces may come under another block's index.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Thinking,
    Other,
}

impl Block {
    /// A text that has not begun.
    pub(super) fn text() -> Self {
        Self::Text {
            text: String::new(),
            fields: Map::new(),
        }
    }

    /// The block that begins so; a call has this place among the calls.
    pub(super) fn begun(block: &Value, place: u32) -> Self {
        let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
        let others = |known: &[&str]| {
            let fields = block.as_object().into_iter().flatten();
            let fields = fields.filter(|(name, value)| {
                let is_empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
                !is_empty && *name != "type" && !known.contains(&name.as_str())
            });
            fields
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect()
        };
        match block["type"].as_str().unwrap_or_default() {
            "text" => Self::Text {
                text: text("text"),
                fields: others(&["text"]),
            },
            "thinking" => Self::Thinking {
                text: text("thinking"),
                signature: text("signature"),
            },
            "redacted_thinking" => Self::Redacted(text("data")),
            "tool_use" => Self::Call {
                place,
                id: text("id"),
                name: text("name"),
                input: block["input"].clone(),
                pieces: String::new(),
                fields: others(&["id", "name", "input"]),
            },
            _ => Self::Own {
                block: block.clone(),
                pieces: String::new(),
            },
        }
    }

    /// The words of it that the model wrote.
    pub(super) fn said(&self) -> &str {
        match self {
            Self::Text { text, .. } | Self::Thinking { text, .. } => text,
            Self::Call { pieces, .. } | Self::Own { pieces, .. } => pieces,
            Self::Redacted(_) => "",
        }
    }

    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Text { .. } => Kind::Text,
            Self::Thinking { .. } => Kind::Thinking,
            Self::Redacted(_) | Self::Call { .. } | Self::Own { .. } => Kind::Other,
        }
    }

    /// Whether a block that begins under the same index is this call, sent again before any of its input.
    pub(super) fn is_begun_again_by(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Call { id, pieces, .. }, Self::Call { id: other, .. }) => {
                !id.is_empty() && id == other && pieces.is_empty()
            }
            _ => false,
        }
    }

    /// Takes a piece that is neither text nor thinking nor input: a citation, or more of a block that only the
    /// provider reads.
    pub(super) fn take_fields(&mut self, delta: &Value) {
        match self {
            Self::Text { fields, .. } if delta["citation"].is_object() => {
                let cited = fields.entry("citations").or_insert_with(|| json!([]));
                if let Value::Array(cited) = cited {
                    cited.push(delta["citation"].clone());
                }
            }
            Self::Own {
                block: Value::Object(block),
                ..
            } => {
                let known = ["type", "text", "thinking", "signature", "partial_json"];
                let fields = delta.as_object().into_iter().flatten();
                for (name, value) in fields.filter(|(name, _)| !known.contains(&name.as_str())) {
                    match (block.get_mut(name), value) {
                        (Some(Value::String(text)), Value::String(more)) => text.push_str(more),
                        (_, value) => drop(block.insert(name.clone(), value.clone())),
                    }
                }
            }
            _ => {}
        }
    }

    /// The part that it is in the vocabulary, and its further fields; `None` where there is nothing in it.
    pub(super) fn part(self) -> Result<Option<(Part, Option<Value>)>, Failure> {
        let signed = |signature: Value| Some(json!({ OWN: signature }).to_string());
        let further = |fields: Map<String, Value>| {
            let fields = Some(fields).filter(|fields| !fields.is_empty());
            fields.map(Value::Object)
        };
        let part = match self {
            Self::Text { text, fields } => {
                return Ok((!text.is_empty()).then(|| (Part::Text(text), further(fields))));
            }
            Self::Thinking { text, signature } if signature.is_empty() => {
                let signature = None;
                (!text.is_empty()).then_some(Part::Reasoning(Reasoning { text, signature }))
            }
            Self::Thinking { text, signature } => Some(Part::Reasoning(Reasoning {
                text,
                signature: signed(json!({"signature": signature})),
            })),
            Self::Redacted(data) => Some(Part::Reasoning(Reasoning {
                text: String::new(),
                signature: signed(json!({"redacted": data})),
            })),
            Self::Call { name, .. } if name.is_empty() => {
                let what = "it calls a tool without a name";
                return Err(Failure::Malformed(what.to_owned()));
            }
            Self::Call {
                id,
                name,
                input,
                pieces,
                fields,
                ..
            } => {
                let arguments = match (pieces.trim().is_empty(), input) {
                    (false, _) => pieces,
                    (true, Value::Object(input)) => Value::Object(input).to_string(),
                    (true, _) => "{}".to_owned(),
                };
                let call = ToolCall::new(id, name, arguments);
                return Ok(Some((Part::ToolCall(call), further(fields))));
            }
            Self::Own { mut block, pieces } => {
                if !pieces.trim().is_empty() && block.is_object() {
                    match serde_json::from_str(&pieces) {
                        Ok(input) => block["input"] = input,
                        // It was cut off, so the provider's tool did not run.
                        Err(_) => return Ok(None),
                    }
                }
                let is_block = block["type"].is_string();
                is_block.then(|| Part::Provider(ProviderPart::block(OWN, block)))
            }
        };
        Ok(part.map(|part| (part, None)))
    }
}
