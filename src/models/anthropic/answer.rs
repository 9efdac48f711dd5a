//! Puts an answer together, whole or from the events of a stream.

use std::collections::{HashMap, HashSet};

use ghostlight_actors::vocabulary::{
    Delta, FinishReason, Message, ModelResponse, Part, Reasoning, Role, ToolCall, Transcript, Usage,
};
use serde_json::{Value, json};

use super::message::OWN;
use crate::models::http::{Failure, JsonReader, ServerEvent};

/// An answer in the making.
#[derive(Default)]
pub(super) struct Answer {
    json: JsonReader,
    /// The blocks in the order in which they began.
    blocks: Vec<Block>,
    /// The place of the last block of each index.
    by_index: HashMap<u64, usize>,
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

/// The kinds of blocks whose pieces may come under another block's index.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    Other,
}

/// The token counts that the server reported. The last value of each count is kept.
#[derive(Default)]
struct Counts {
    input: u64,
    cache_read: u64,
    cache_written: u64,
    output: u64,
    thinking: u64,
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
        let (value, _) = self.json.read(data)?;
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
        if let Some(place) = self.by_index.get(&index).copied()
            && self.blocks[place].is_begun_again_by(&block)
        {
            return;
        }
        self.by_index.insert(index, self.blocks.len());
        self.blocks.push(block);
    }

    /// Takes a piece of a block. Its own kind counts: some servers send it under the index of a block of another kind.
    fn go_on(&mut self, index: u64, delta: &Value, show: &mut impl FnMut(Delta)) {
        let more = |name: &str| delta[name].as_str().filter(|more| !more.is_empty());
        if let Some(more) = more("text") {
            if let Block::Text(text) = self.block_of(index, Kind::Text) {
                text.push_str(more);
                show(Delta::Text(more.to_owned()));
            }
        } else if let Some(more) = more("thinking") {
            if let Block::Thinking { text, .. } = self.block_of(index, Kind::Thinking) {
                text.push_str(more);
                show(Delta::Reasoning(more.to_owned()));
            }
        } else if let Some(more) = more("signature") {
            if let Block::Thinking { signature, .. } = self.block_of(index, Kind::Thinking) {
                signature.push_str(more);
            }
        } else if let Some(more) = more("partial_json") {
            let place = self.by_index.get(&index).copied();
            let is_call = |place: &usize| matches!(self.blocks[*place], Block::Call { .. });
            let is_other = |place: usize| matches!(self.blocks[place], Block::Other);
            if place.is_some_and(is_other) {
                return;
            }
            let last = self
                .blocks
                .iter()
                .rposition(|block| matches!(block, Block::Call { .. }));
            let Some(place) = place.filter(is_call).or(last) else {
                return;
            };
            if let Block::Call { place, pieces, .. } = &mut self.blocks[place] {
                pieces.push_str(more);
                show(Delta::ToolCall {
                    index: *place,
                    name: None,
                    arguments: more.to_owned(),
                });
            }
        }
    }

    /// The block of this index if it is of this kind, else the last block if it is, else a new one.
    fn block_of(&mut self, index: u64, kind: Kind) -> &mut Block {
        let of_index = self.by_index.get(&index).copied();
        let last = self.blocks.len().checked_sub(1);
        let fits = |place: &usize| self.blocks[*place].kind() == kind;
        let found = [of_index, last].into_iter().flatten().find(fits);
        let place = found.unwrap_or_else(|| {
            self.blocks.push(match kind {
                Kind::Thinking => Block::Thinking {
                    text: String::new(),
                    signature: String::new(),
                },
                _ => Block::Text(String::new()),
            });
            self.blocks.len() - 1
        });
        &mut self.blocks[place]
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
        let mut message = Message {
            role: Role::Assistant,
            author: None,
            parts: Vec::new(),
            synthetic: false,
        };
        for block in self.blocks {
            match (message.parts.last_mut(), block.part()?) {
                // A text with citations comes in several blocks, often cut in the middle of a sentence.
                (Some(Part::Text(said)), Some(Part::Text(more))) => said.push_str(&more),
                (_, part) => message.parts.extend(part),
            }
        }
        message.drop_repeated_calls();
        let mut has_calls = false;
        for part in &mut message.parts {
            if let Part::ToolCall(call) = part {
                call.id = unique(std::mem::take(&mut call.id), &mut taken);
                has_calls = true;
            }
        }
        let mut response = ModelResponse::new(message);
        response.finish = finish(stop, has_calls);
        response.usage = self.usage.usage();
        response.model = self.model;
        Ok(response)
    }
}

impl Block {
    fn kind(&self) -> Kind {
        match self {
            Self::Text(_) => Kind::Text,
            Self::Thinking { .. } => Kind::Thinking,
            Self::Redacted(_) | Self::Call { .. } | Self::Other => Kind::Other,
        }
    }

    /// Whether a block that begins under the same index is this call, sent again before any of its input.
    fn is_begun_again_by(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Call { id, pieces, .. }, Self::Call { id: other, .. }) => {
                !id.is_empty() && id == other && pieces.is_empty()
            }
            _ => false,
        }
    }

    fn part(self) -> Result<Option<Part>, Failure> {
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
        if let Some(told) = usage["output_tokens_details"]["thinking_tokens"].as_u64() {
            self.thinking = told;
        }
    }

    fn usage(&self) -> Usage {
        // The provider counts what went through its cache beside the rest.
        let cached = self.cache_read.saturating_add(self.cache_written);
        Usage {
            input_tokens: self.input.saturating_add(cached),
            output_tokens: self.output,
            cached_tokens: self.cache_read,
            reasoning_tokens: self.thinking,
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
