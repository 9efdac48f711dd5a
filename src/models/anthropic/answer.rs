//! Puts an answer together, whole or from the events of a stream.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use ghostlight_actors::vocabulary::{
    Delta, FinishReason, Message, ModelResponse, Part, Reasoning, Role, ToolCall, Transcript, Usage,
};
use serde_json::{Value, json};

use super::message::OWN;
use crate::models::http::{Failure, ServerEvent};

/// An answer in the making.
#[derive(Default)]
pub(super) struct Answer {
    /// The blocks by their index.
    blocks: BTreeMap<u64, Block>,
    /// How many of them are calls.
    calls: u32,
    has_begun: bool,
    stop: Option<String>,
    is_over: bool,
    model: String,
    usage: Counts,
}

enum Block {
    Text(String),
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
    },
    /// A block of an unknown kind: one of the provider's own tools, or something newer.
    Other,
}

/// The token counts that the server reported. The last value of each count is kept.
#[derive(Default)]
struct Counts {
    input: u64,
    cache_read: u64,
    cache_written: u64,
    output: u64,
}

impl Answer {
    /// Takes an answer that came in one piece.
    pub(super) fn take_whole(&mut self, whole: Value) -> Result<(), Failure> {
        if whole["type"] != "message" {
            let what = "it is no message of the Messages API";
            return Err(Failure::Malformed(what.to_owned()));
        }
        self.begin(&whole);
        if let Value::Array(blocks) = &whole["content"] {
            for (index, block) in (0..).zip(blocks) {
                self.begin_block(index, block, &mut |_| {});
            }
        }
        self.stop = whole["stop_reason"].as_str().map(str::to_owned);
        self.is_over = true;
        Ok(())
    }

    /// Takes an event of a stream, and shows what is new in it. Events and pieces of kinds that are
    /// not known are left out: the provider says that new ones may come.
    pub(super) fn take(
        &mut self,
        event: &ServerEvent,
        mut show: impl FnMut(Delta),
    ) -> Result<(), Failure> {
        let data = event.data.trim_ascii();
        if event.is_error || event.kind == b"error" {
            return Err(Failure::in_band(data));
        }
        if data.is_empty() || event.kind == b"ping" {
            return Ok(());
        }
        let value: Value =
            serde_json::from_slice(data).map_err(|error| Failure::unreadable(&error))?;
        if let Some(failure) = Failure::in_answer(&value) {
            return Err(failure);
        }
        let index = value["index"].as_u64().unwrap_or_default();
        match value["type"].as_str().unwrap_or_default() {
            "message_start" => self.begin(&value["message"]),
            "content_block_start" => self.begin_block(index, &value["content_block"], &mut show),
            "content_block_delta" => self.go_on(index, &value["delta"], &mut show),
            "message_delta" => {
                if let Some(stop) = value["delta"]["stop_reason"].as_str() {
                    self.stop = Some(stop.to_owned());
                }
                self.usage.take(&value["usage"]);
            }
            "message_stop" => self.is_over = true,
            _ => {}
        }
        Ok(())
    }

    /// Whether the server said that the stream is over.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether the server said why it stopped: then nothing of the answer is missing.
    pub(super) fn is_finished(&self) -> bool {
        self.stop.is_some()
    }

    fn begin(&mut self, message: &Value) {
        self.has_begun = true;
        if let Some(model) = message["model"].as_str() {
            model.clone_into(&mut self.model);
        }
        self.usage.take(&message["usage"]);
    }

    fn begin_block(&mut self, index: u64, block: &Value, show: &mut impl FnMut(Delta)) {
        let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
        let block = match block["type"].as_str().unwrap_or_default() {
            "text" => Block::Text(text("text")),
            "thinking" => Block::Thinking {
                text: text("thinking"),
                signature: text("signature"),
            },
            "redacted_thinking" => Block::Redacted(text("data")),
            "tool_use" => {
                let place = self.calls;
                self.calls += 1;
                show(Delta::ToolCall {
                    index: place,
                    name: Some(text("name")),
                    arguments: String::new(),
                });
                Block::Call {
                    place,
                    id: text("id"),
                    name: text("name"),
                    input: block["input"].clone(),
                    pieces: String::new(),
                }
            }
            _ => Block::Other,
        };
        match &block {
            Block::Text(text) if !text.is_empty() => show(Delta::Text(text.clone())),
            Block::Thinking { text, .. } if !text.is_empty() => {
                show(Delta::Reasoning(text.clone()));
            }
            _ => {}
        }
        self.blocks.insert(index, block);
    }

    fn go_on(&mut self, index: u64, delta: &Value, show: &mut impl FnMut(Delta)) {
        let more = |name: &str| delta[name].as_str().unwrap_or_default();
        match self.blocks.get_mut(&index) {
            Some(Block::Text(text)) => {
                let more = more("text");
                text.push_str(more);
                if !more.is_empty() {
                    show(Delta::Text(more.to_owned()));
                }
            }
            Some(Block::Thinking { text, signature }) => {
                signature.push_str(more("signature"));
                let more = more("thinking");
                text.push_str(more);
                if !more.is_empty() {
                    show(Delta::Reasoning(more.to_owned()));
                }
            }
            Some(Block::Call { place, pieces, .. }) => {
                let more = more("partial_json");
                pieces.push_str(more);
                if !more.is_empty() {
                    show(Delta::ToolCall {
                        index: *place,
                        name: None,
                        arguments: more.to_owned(),
                    });
                }
            }
            Some(Block::Redacted(_) | Block::Other) | None => {}
        }
    }

    /// The whole answer, as the next message of this conversation.
    pub(super) fn complete(self, conversation: &Transcript) -> Result<ModelResponse, Failure> {
        let Some(stop) = self.stop else {
            return Err(Failure::Cut);
        };
        if !self.has_begun {
            let what = "it is no message of the Messages API";
            return Err(Failure::Malformed(what.to_owned()));
        }
        let messages = conversation.messages();
        let past = messages.iter().flat_map(|message| message.tool_calls());
        let mut taken: HashSet<String> = past.map(|call| call.id.clone()).collect();
        let mut parts = Vec::new();
        for block in self.blocks.into_values() {
            parts.extend(block.part(&mut taken)?);
        }
        let has_calls = parts.iter().any(|part| matches!(part, Part::ToolCall(_)));
        let mut response = ModelResponse::new(Arc::new(Message {
            role: Role::Assistant,
            author: None,
            parts,
            synthetic: false,
        }));
        response.finish = finish(stop, has_calls);
        response.usage = self.usage.usage();
        response.model = self.model;
        Ok(response)
    }
}

impl Block {
    fn part(self, taken: &mut HashSet<String>) -> Result<Option<Part>, Failure> {
        let signed = |signature: Value| Some(json!({ OWN: signature }).to_string());
        Ok(match self {
            Self::Text(text) => (!text.is_empty()).then_some(Part::Text(text)),
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
                ..
            } => {
                let arguments = match (pieces.trim().is_empty(), input) {
                    (false, _) => pieces,
                    (true, Value::Object(input)) => Value::Object(input).to_string(),
                    (true, _) => "{}".to_owned(),
                };
                let id = unique(id, taken);
                Some(Part::ToolCall(ToolCall::new(id, name, arguments)))
            }
            Self::Other => None,
        })
    }
}

/// An id that is unique in the conversation, and the same each time.
fn unique(id: String, taken: &mut HashSet<String>) -> String {
    let fresh = (0..).map(|number| format!("call_{number}"));
    let mut ids = std::iter::once(id).chain(fresh);
    let id = ids
        .find(|id| !id.is_empty() && !taken.contains(id))
        .unwrap_or_default();
    taken.insert(id.clone());
    id
}

impl Counts {
    fn take(&mut self, usage: &Value) {
        let read = |count: &mut u64, name: &str| {
            if let Some(told) = usage[name].as_u64() {
                *count = told;
            }
        };
        read(&mut self.input, "input_tokens");
        read(&mut self.cache_read, "cache_read_input_tokens");
        read(&mut self.cache_written, "cache_creation_input_tokens");
        read(&mut self.output, "output_tokens");
    }

    fn usage(&self) -> Usage {
        // The provider counts what went through its cache beside the rest.
        let cached = self.cache_read.saturating_add(self.cache_written);
        Usage {
            input_tokens: self.input.saturating_add(cached),
            output_tokens: self.output,
            cached_tokens: self.cache_read,
            ..Usage::default()
        }
    }
}

fn finish(word: String, has_calls: bool) -> FinishReason {
    match word.as_str() {
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "refusal" => FinishReason::ContentFilter,
        _ if has_calls => FinishReason::ToolCalls,
        // `tool_use` without a call is an ordinary end of the answer.
        "end_turn" | "stop_sequence" | "tool_use" => FinishReason::Stop,
        _ => FinishReason::Other(word),
    }
}
