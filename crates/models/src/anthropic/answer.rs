//! Puts an answer together, whole or from the events of a stream.

use ghostlight_actors::vocabulary::{
    Delta, FinishReason, Message, ModelResponse, Part, ProviderPart, Role, Transcript, Usage,
};
use ghostlight_safety::ServerEvent;
use serde_json::{Value, json};

use super::{
    blocks::{Block, Kind},
    message::OWN,
};
use crate::http::{Blocks, Failure, JsonReader, settle_calls, text_ends};

/// The reason to stop of an answer that goes on when it is sent back.
const PAUSED: &str = "pause_turn";

/// An answer in the making.
#[derive(Default)]
pub(crate) struct Answer {
    json: JsonReader,
    blocks: Blocks<Block>,
    /// How many of them are calls.
    calls: u32,
    has_begun: bool,
    stop: Option<String>,
    is_over: bool,
    model: String,
    usage: Counts,
    /// The usage of the parts of the answer before its last pause.
    usage_before: Usage,
    /// The container in which the provider's tools ran.
    container: Value,
}

/// The token counts that the server reported. The last value of each count is kept.
#[derive(Clone, Copy, Default)]
struct Counts {
    input: u64,
    cache_read: u64,
    cache_written: u64,
    output: u64,
    thinking: u64,
}

impl Answer {
    /// Takes an answer that came in one piece.
    pub(crate) fn take_whole(&mut self, whole: Value) -> Result<(), Failure> {
        if whole["type"] != "message" {
            let what = "it is not a message of the Messages API";
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
    pub(crate) fn take(
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
                self.take_container(&value["delta"]);
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
    pub(crate) fn is_finished(&self) -> bool {
        self.stop.is_some()
    }

    fn begin(&mut self, message: &Value) {
        self.has_begun = true;
        if let Some(model) = message["model"].as_str() {
            model.clone_into(&mut self.model);
        }
        self.take_container(message);
        self.usage.take(&message["usage"]);
    }

    fn take_container(&mut self, holder: &Value) {
        if holder["container"].is_object() {
            self.container = holder["container"].clone();
        }
    }

    /// Whether the provider paused in the middle of its answer, and goes on once it gets back what it said so far.
    pub(super) fn is_paused(&self) -> bool {
        self.stop.as_deref() == Some(PAUSED) && self.calls == 0
    }

    /// Begins the next part of an answer that was paused, and gives what was said so far.
    pub(super) fn resume(&mut self) -> Result<Message, Failure> {
        let said = self.message()?;
        self.usage_before = self.told();
        self.usage = Counts::default();
        self.blocks.forget_indexes();
        (self.stop, self.is_over, self.has_begun) = (None, false, false);
        Ok(said)
    }

    fn begin_block(&mut self, index: u64, block: &Value, show: &mut impl FnMut(Delta)) {
        let block = Block::begun(block, self.calls);
        let known = self.blocks.at(index);
        if known.is_some_and(|known| known.is_begun_again_by(&block)) {
            return;
        }
        match &block {
            Block::Text { text, .. } if !text.is_empty() => show(Delta::Text(text.clone())),
            Block::Thinking { text, .. } if !text.is_empty() => {
                show(Delta::Reasoning(text.clone()));
            }
            Block::Call { place, name, .. } => {
                self.calls += 1;
                show(Delta::ToolCall {
                    index: *place,
                    name: Some(name.clone()),
                    arguments: String::new(),
                });
            }
            _ => {}
        }
        self.blocks.begin(index, block);
    }

    /// Takes a piece of a block. Its own kind counts: some servers send it under the index of a block of another kind.
    fn go_on(&mut self, index: u64, delta: &Value, show: &mut impl FnMut(Delta)) {
        let more = |name: &str| delta[name].as_str().filter(|more| !more.is_empty());
        if let Some(more) = more("text") {
            if let Block::Text { text, .. } = self.block_of(index, Kind::Text) {
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
            if let Some(Block::Own { pieces, .. }) = self.blocks.at(index) {
                return pieces.push_str(more);
            }
            let is_call = |block: &Block| matches!(block, Block::Call { .. });
            if let Some(Block::Call { place, pieces, .. }) = self.blocks.find(index, is_call) {
                pieces.push_str(more);
                show(Delta::ToolCall {
                    index: *place,
                    name: None,
                    arguments: more.to_owned(),
                });
            }
        } else if let Some(block) = self.blocks.at(index) {
            block.take_fields(delta);
        }
    }

    /// The block of this kind that a piece under this index belongs to.
    fn block_of(&mut self, index: u64, kind: Kind) -> &mut Block {
        let new = || match kind {
            Kind::Thinking => Block::Thinking {
                text: String::new(),
                signature: String::new(),
            },
            _ => Block::text(),
        };
        self.blocks.of(index, |block| block.kind() == kind, new)
    }

    /// The whole answer, as the next message of this conversation.
    pub(crate) fn complete(self, conversation: &Transcript) -> Result<ModelResponse, Failure> {
        let Some(stop) = self.stop.clone() else {
            return Err(Failure::Cut);
        };
        if !self.has_begun {
            let what = "it is not a message of the Messages API";
            return Err(Failure::Malformed(what.to_owned()));
        }
        let usage = self.told();
        let mut message = self.message()?;
        settle_calls(&mut message, conversation);
        let has_calls = message.tool_calls().next().is_some();
        let mut response = ModelResponse::new(message);
        response.finish = finish(stop, has_calls);
        response.usage = usage;
        response.model = self.model;
        Ok(response)
    }

    /// The message so far.
    fn message(&self) -> Result<Message, Failure> {
        let mut message = Message {
            role: Role::Assistant,
            author: None,
            parts: Vec::new(),
            synthetic: false,
        };
        if !self.container.is_null() {
            let container = ProviderPart::fields(OWN, json!({"container": self.container}));
            message.parts.push(Part::Provider(container));
        }
        for block in self.blocks.iter() {
            let Some((part, fields)) = block.clone().part()? else {
                continue;
            };
            match (message.parts.last_mut(), part) {
                // Some servers cut a text into blocks, also in the middle of a sentence.
                (Some(Part::Text(said)), Part::Text(more)) if fields.is_none() => {
                    said.push_str(&more);
                    continue;
                }
                (Some(Part::Text(_)), part @ Part::Text(_)) => {
                    message.parts.extend([text_ends(OWN), part]);
                }
                (_, part) => message.parts.push(part),
            }
            let fields = fields.map(|fields| ProviderPart::fields(OWN, fields));
            message.parts.extend(fields.map(Part::Provider));
        }
        Ok(message)
    }

    /// The usage and the text of an answer that failed; `None` if it had not begun.
    pub(crate) fn spent(&self) -> Option<(Usage, String)> {
        let said: String = self.blocks.iter().map(Block::said).collect();
        let has_begun = self.has_begun || self.usage_before != Usage::default();
        has_begun.then(|| (self.told(), said))
    }

    /// The usage that the provider told.
    pub(crate) fn told(&self) -> Usage {
        let mut usage = self.usage_before;
        usage += self.usage.usage();
        usage
    }
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
            cache_write_tokens: self.cache_written,
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
