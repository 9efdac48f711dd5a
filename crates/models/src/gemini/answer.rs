//! Puts an answer together, whole or from the pieces of a stream.

use std::sync::Arc;

use ghostlight_actors::vocabulary::{
    Data, DataSource, Delta, FinishReason, Message, ModelResponse, Part, ProviderPart, Reasoning,
    Role, ToolCall, Transcript, Usage,
};
use serde_json::{Map, Value, json};

use super::message::OWN;
use crate::http::{Failure, Notes, settle_calls, text_ends};

/// An answer in the making. A whole answer is handled as a stream of one piece.
#[derive(Default)]
pub(super) struct Answer {
    pieces: Vec<Piece>,
    /// How many of them are calls.
    calls: u32,
    /// Sources, probabilities and the like.
    notes: Notes,
    finish: Option<String>,
    /// Why the provider blocked the answer.
    blocked: Option<String>,
    usage: Value,
    /// The tokens that were written to the provider's cache before.
    written: u64,
    model: String,
}

/// A part of an answer, and its signature.
struct Piece {
    kind: Kind,
    signature: Option<Value>,
}

enum Kind {
    Text(String),
    Thought(String),
    Call(Call),
    File(Data),
    /// The values that only the provider reads, as they came.
    Own(Value),
}

struct Call {
    /// The provider's id, where it gives one.
    id: Option<String>,
    name: String,
    arguments: String,
}

/// The values beside an answer.
const NOTES: [&str; 5] = [
    "groundingMetadata",
    "citationMetadata",
    "urlContextMetadata",
    "logprobsResult",
    "safetyRatings",
];

impl Answer {
    /// Takes the next piece, and shows what is new in it.
    pub(super) fn take(&mut self, piece: &Value, mut show: impl FnMut(Delta)) {
        if let Some(model) = piece["modelVersion"].as_str() {
            model.clone_into(&mut self.model);
        }
        if piece["usageMetadata"].is_object() {
            // The counts of each piece include all pieces before it, so the last counts are kept.
            self.usage = piece["usageMetadata"].clone();
        }
        if let Some(reason) = piece["promptFeedback"]["blockReason"].as_str() {
            self.blocked = Some(reason.to_owned());
        }
        let candidate = &piece["candidates"][0];
        if let Some(finish) = candidate["finishReason"].as_str() {
            self.finish = Some(finish.to_owned());
        }
        for name in NOTES {
            self.notes.add(name, candidate[name].clone());
        }
        if let Value::Array(parts) = &candidate["content"]["parts"] {
            for part in parts {
                self.take_part(part, &mut show);
            }
        }
    }

    fn take_part(&mut self, part: &Value, show: &mut impl FnMut(Delta)) {
        let signature = part["thoughtSignature"].as_str().map(Value::from);
        let is_thought = part["thought"] == true;
        let call = &part["functionCall"];
        let kind = if call.is_object() {
            let name = call["name"].as_str().unwrap_or_default().to_owned();
            let arguments = match &call["args"] {
                Value::Null => "{}".to_owned(),
                args => args.to_string(),
            };
            show(Delta::ToolCall {
                index: self.calls,
                name: Some(name.clone()),
                arguments: arguments.clone(),
            });
            self.calls = self.calls.saturating_add(1);
            let id = call["id"].as_str().filter(|id| !id.is_empty());
            Kind::Call(Call {
                id: id.map(str::to_owned),
                name,
                arguments,
            })
        } else if let Some(file) = file(part) {
            if is_thought {
                // A sketch, which the provider does not want back.
                return;
            }
            Kind::File(file)
        } else if let Some(text) = part["text"].as_str() {
            if text.is_empty() && signature.is_none() {
                return;
            }
            let kind = |text: String| match is_thought {
                true => Kind::Thought(text),
                false => Kind::Text(text),
            };
            let delta = |text: String| match is_thought {
                true => Delta::Reasoning(text),
                false => Delta::Text(text),
            };
            if !text.is_empty() {
                show(delta(text.to_owned()));
            }
            // A signature covers its own part alone.
            if signature.is_none()
                && let Some(Piece {
                    kind: last,
                    signature: None,
                }) = self.pieces.last_mut()
            {
                match (last, is_thought) {
                    (Kind::Text(said), false) | (Kind::Thought(said), true) => {
                        return said.push_str(text);
                    }
                    _ => {}
                }
            }
            match text.is_empty() {
                true => Kind::Own(part.clone()),
                false => kind(text.to_owned()),
            }
        } else if part.as_object().is_some_and(|fields| !fields.is_empty()) {
            Kind::Own(part.clone())
        } else {
            return;
        };
        self.pieces.push(Piece { kind, signature });
    }

    /// Whether the server said why it stopped: then nothing of the answer is missing.
    pub(super) fn is_finished(&self) -> bool {
        self.finish.is_some() || self.blocked.is_some()
    }

    /// Notes that tokens were written to the provider's cache for this answer.
    pub(super) fn wrote(&mut self, tokens: u64) {
        self.written = tokens;
    }

    /// The usage that the provider told.
    pub(super) fn told(&self) -> Usage {
        let mut usage = usage(&self.usage);
        usage.input_tokens = usage.input_tokens.saturating_add(self.written);
        usage.cache_write_tokens = self.written;
        usage
    }

    /// The usage and the text of an answer that failed; `None` if it had not begun.
    pub(super) fn spent(&self) -> Option<(Usage, String)> {
        let mut said = String::new();
        for piece in &self.pieces {
            match &piece.kind {
                Kind::Text(text) | Kind::Thought(text) => said.push_str(text),
                Kind::Call(call) => said.push_str(&call.arguments),
                _ => {}
            }
        }
        let has_spent = !self.pieces.is_empty() || self.usage.is_object() || self.written > 0;
        has_spent.then(|| (self.told(), said))
    }

    /// The whole answer, as the next message of this conversation.
    pub(super) fn complete(self, conversation: &Transcript) -> Result<ModelResponse, Failure> {
        let finish = match (&self.finish, &self.blocked) {
            (None, None) if self.model.is_empty() && self.usage.is_null() => {
                let what = "it has no candidates";
                return Err(Failure::Malformed(what.to_owned()));
            }
            (None, None) => return Err(Failure::Cut),
            (Some(word), _) => finish(word, self.calls > 0)?,
            (None, Some(_)) => FinishReason::ContentFilter,
        };
        let usage = self.told();
        let model = self.model.clone();
        let mut message = Message {
            role: Role::Assistant,
            author: None,
            parts: self.parts()?,
            synthetic: false,
        };
        settle_calls(&mut message, conversation);
        let mut response = ModelResponse::new(Arc::new(message));
        (response.finish, response.usage, response.model) = (finish, usage, model);
        Ok(response)
    }

    fn parts(self) -> Result<Vec<Part>, Failure> {
        let mut parts: Vec<Part> = Vec::new();
        for Piece { kind, signature } in self.pieces {
            let mut fields = Map::new();
            fields.extend(signature.map(|value| ("thoughtSignature".to_owned(), value)));
            match kind {
                Kind::Text(text) => {
                    if matches!(parts.last(), Some(Part::Text(_))) {
                        parts.push(text_ends(OWN));
                    }
                    parts.push(Part::Text(text));
                }
                Kind::Thought(text) => {
                    let signature = None;
                    parts.push(Part::Reasoning(Reasoning { text, signature }));
                }
                Kind::File(data) => parts.push(Part::Data(data)),
                Kind::Own(block) => {
                    // It holds its signature.
                    fields.clear();
                    parts.push(Part::Provider(ProviderPart::block(OWN, block)));
                }
                Kind::Call(call) => {
                    if call.name.is_empty() {
                        let what = "it calls a tool without a name";
                        return Err(Failure::Malformed(what.to_owned()));
                    }
                    let id = call.id.unwrap_or_default();
                    if !id.is_empty() {
                        fields.insert("functionCall".to_owned(), json!({"id": id}));
                    }
                    parts.push(Part::ToolCall(ToolCall::new(id, call.name, call.arguments)));
                }
            }
            if !fields.is_empty() {
                let fields = ProviderPart::fields(OWN, Value::Object(fields));
                parts.push(Part::Provider(fields));
            }
        }
        parts.extend(self.notes.part(OWN));
        Ok(parts)
    }
}

/// The file in a part, if it holds one.
fn file(part: &Value) -> Option<Data> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let (file, source) = match (&part["inlineData"], &part["fileData"]) {
        (inline @ Value::Object(_), _) => (inline, DataSource::Base64(text(&inline["data"])?)),
        (_, linked @ Value::Object(_)) => (linked, DataSource::Url(text(&linked["fileUri"])?)),
        _ => return None,
    };
    let media_type = text(&file["mimeType"]);
    Some(Data {
        media_type: media_type.unwrap_or_else(|| "application/octet-stream".to_owned()),
        name: text(&file["displayName"]),
        source,
    })
}

fn usage(usage: &Value) -> Usage {
    let count = |name: &str| usage[name].as_u64().unwrap_or_default();
    // The provider counts thoughts beside the answer.
    let thoughts = count("thoughtsTokenCount");
    Usage {
        input_tokens: count("promptTokenCount").saturating_add(count("toolUsePromptTokenCount")),
        output_tokens: count("candidatesTokenCount").saturating_add(thoughts),
        cached_tokens: count("cachedContentTokenCount"),
        reasoning_tokens: thoughts,
        ..Usage::default()
    }
}

fn finish(word: &str, has_calls: bool) -> Result<FinishReason, Failure> {
    Ok(match word {
        "MAX_TOKENS" => FinishReason::Length,
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION"
        | "MODEL_ARMOR" => FinishReason::ContentFilter,
        // The model wrote a call that its server could not read. Another attempt may succeed. Calls beside it are not
        // made: they are a part of what the model meant.
        "MALFORMED_FUNCTION_CALL" => return Err(unreadable_call()),
        "UNEXPECTED_TOOL_CALL" if !has_calls => return Err(unreadable_call()),
        _ if has_calls => FinishReason::ToolCalls,
        "STOP" => FinishReason::Stop,
        other => FinishReason::Other(other.to_owned()),
    })
}

fn unreadable_call() -> Failure {
    let what = "the model's call of a tool could not be read by its server";
    Failure::Malformed(what.to_owned())
}
