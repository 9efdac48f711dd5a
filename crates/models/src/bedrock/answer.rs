//! Puts an answer together, whole or from the events of a stream.

use std::sync::Arc;

use ghostlight_actors::vocabulary::{
    Data, DataSource, Delta, FinishReason, Message, ModelResponse, Part, ProviderPart, Reasoning,
    Role, ToolCall, Transcript, Usage,
};
use ghostlight_safety::ServerEvent;
use serde_json::{Value, json};

use super::message::OWN;
use crate::http::{Blocks, Failure, JsonReader, Notes, settle_calls, text_ends};

/// An answer in the making.
#[derive(Default)]
pub(super) struct Answer {
    json: JsonReader,
    blocks: Blocks<Block>,
    /// How many of them are calls.
    calls: u32,
    has_begun: bool,
    stop: Option<String>,
    usage: Value,
    /// Citations, and what a guardrail found.
    notes: Notes,
}

enum Block {
    Text(String),
    Thought {
        text: String,
        signature: String,
    },
    Redacted(String),
    Call(Call),
    File(Data),
    /// A part that only the provider reads, as it came.
    Own {
        block: Value,
        pieces: String,
    },
}

struct Call {
    place: u32,
    id: String,
    name: String,
    /// The input that came whole.
    input: Value,
    pieces: String,
}

impl Block {
    /// A text that has not begun.
    fn text() -> Self {
        Self::Text(String::new())
    }

    /// A thought that has not begun.
    fn thought() -> Self {
        let (text, signature) = (String::new(), String::new());
        Self::Thought { text, signature }
    }

    /// A hidden thought that has not come.
    fn redacted() -> Self {
        Self::Redacted(String::new())
    }

    /// Whether a block that begins so under the same index is this call, sent again before any of its input.
    fn is_begun_again_by(&self, start: &Value) -> bool {
        let id = start["toolUse"]["toolUseId"].as_str().unwrap_or_default();
        matches!(self, Self::Call(call) if !id.is_empty() && call.id == id && call.pieces.is_empty())
    }
}

impl Answer {
    /// Takes an answer that came in one piece.
    pub(super) fn take_whole(&mut self, whole: &Value) -> Result<(), Failure> {
        let Value::Array(blocks) = &whole["output"]["message"]["content"] else {
            let what = "it is not an answer of Converse";
            return Err(Failure::Malformed(what.to_owned()));
        };
        self.has_begun = true;
        for (index, block) in (0..).zip(blocks) {
            if let Some(block) = self.block(block) {
                self.blocks.begin(index, block);
            }
        }
        self.stop = whole["stopReason"].as_str().map(str::to_owned);
        self.usage = whole["usage"].clone();
        self.notes.add("trace", whole["trace"].clone());
        Ok(())
    }

    /// Takes an event of a stream, and shows what is new in it. Events and pieces of kinds that are not known are left out.
    pub(super) fn take(
        &mut self,
        event: &ServerEvent,
        mut show: impl FnMut(Delta),
    ) -> Result<(), Failure> {
        if event.is_error {
            return Err(Failure::in_band(&event.data));
        }
        let (value, _) = self.json.read(&event.data)?;
        let index = value["contentBlockIndex"].as_u64().unwrap_or_default();
        match event.kind.as_slice() {
            b"messageStart" => self.has_begun = true,
            b"contentBlockStart" => self.begin(index, &value["start"], &mut show),
            b"contentBlockDelta" => self.go_on(index, &value["delta"], &mut show),
            b"messageStop" => self.stop = value["stopReason"].as_str().map(str::to_owned),
            b"metadata" => {
                self.usage = value["usage"].clone();
                self.notes.add("trace", value["trace"].clone());
            }
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, index: u64, start: &Value, show: &mut impl FnMut(Delta)) {
        if self
            .blocks
            .at(index)
            .is_some_and(|known| known.is_begun_again_by(start))
        {
            return;
        }
        let Some(block) = self.block(start) else {
            return;
        };
        if let Block::Call(call) = &block {
            show(Delta::ToolCall {
                index: call.place,
                name: Some(call.name.clone()),
                arguments: String::new(),
            });
        }
        self.blocks.begin(index, block);
    }

    /// The block that is written so; `None` for one whose kind its first piece says.
    fn block(&mut self, block: &Value) -> Option<Block> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let thought = &block["reasoningContent"];
        let call = &block["toolUse"];
        let cited = &block["citationsContent"];
        Some(if let Some(said) = block["text"].as_str() {
            Block::Text(said.to_owned())
        } else if thought.is_object() {
            let told = &thought["reasoningText"];
            match thought["redactedContent"].as_str() {
                Some(data) => Block::Redacted(data.to_owned()),
                None => Block::Thought {
                    text: text(&told["text"]),
                    signature: text(&told["signature"]),
                },
            }
        } else if call.is_object() && call["type"] != "server_tool_use" {
            let place = self.calls;
            self.calls = self.calls.saturating_add(1);
            Block::Call(Call {
                place,
                id: text(&call["toolUseId"]),
                name: text(&call["name"]),
                input: call["input"].clone(),
                pieces: String::new(),
            })
        } else if cited.is_object() {
            self.notes.add("citations", cited["citations"].clone());
            let texts = cited["content"].as_array().into_iter().flatten();
            Block::Text(texts.map(|piece| text(&piece["text"])).collect())
        } else if let Some(file) = picture(&block["image"]) {
            Block::File(file)
        } else if block.as_object().is_some_and(|fields| !fields.is_empty()) {
            // Among them are tools of the provider's, which have run when the answer comes.
            Block::Own {
                block: block.clone(),
                pieces: String::new(),
            }
        } else {
            return None;
        })
    }

    /// Takes a piece of a block. Its own kind counts: some servers send it under the index of a block of another kind.
    fn go_on(&mut self, index: u64, delta: &Value, show: &mut impl FnMut(Delta)) {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let thought = &delta["reasoningContent"];
        if let Some(more) = text(&delta["text"]) {
            if !more.is_empty()
                && let Block::Text(said) = self.block_of(index, Block::text)
            {
                said.push_str(&more);
                show(Delta::Text(more));
            }
        } else if let Some(data) = text(&thought["redactedContent"]) {
            if let Block::Redacted(known) = self.block_of(index, Block::redacted) {
                *known = data;
            }
        } else if thought.is_object() {
            let block = self.block_of(index, Block::thought);
            if let Block::Thought {
                text: said,
                signature,
            } = block
            {
                signature.push_str(thought["signature"].as_str().unwrap_or_default());
                if let Some(more) = text(&thought["text"]).filter(|more| !more.is_empty()) {
                    said.push_str(&more);
                    show(Delta::Reasoning(more));
                }
            }
        } else if let Some(more) = text(&delta["toolUse"]["input"]) {
            if let Some(Block::Own { pieces, .. }) = self.blocks.at(index) {
                return pieces.push_str(&more);
            }
            let is_call = |block: &Block| matches!(block, Block::Call(_));
            if let Some(Block::Call(call)) = self.blocks.find(index, is_call) {
                call.pieces.push_str(&more);
                show(Delta::ToolCall {
                    index: call.place,
                    name: None,
                    arguments: more,
                });
            }
        } else if let Value::Array(more) = &delta["toolResult"] {
            if let Some(Block::Own { block, .. }) = self.blocks.at(index)
                && block["toolResult"].is_object()
            {
                match &mut block["toolResult"]["content"] {
                    Value::Array(content) => content.extend(more.iter().cloned()),
                    content => *content = json!(more),
                }
            }
        } else if delta["citation"].is_object() {
            self.notes.add("citations", json!([delta["citation"]]));
        }
    }

    /// The block of the kind of this new one that a piece under this index belongs to. A text or a thought begins with its
    /// first piece.
    fn block_of(&mut self, index: u64, new: fn() -> Block) -> &mut Block {
        if self.blocks.at(index).is_none() {
            self.blocks.begin(index, new());
        }
        let kind = std::mem::discriminant(&new());
        let fits = |block: &Block| std::mem::discriminant(block) == kind;
        self.blocks.of(index, fits, new)
    }

    /// Whether the server said why it stopped: then nothing of the answer is missing.
    pub(super) fn is_finished(&self) -> bool {
        self.stop.is_some()
    }

    /// The provider's count of the tokens.
    pub(super) fn told(&self) -> Usage {
        let count = |name: &str| self.usage[name].as_u64().unwrap_or_default();
        // The provider counts what went through its cache beside the rest.
        let (read, written) = (
            count("cacheReadInputTokens"),
            count("cacheWriteInputTokens"),
        );
        Usage {
            input_tokens: count("inputTokens")
                .saturating_add(read)
                .saturating_add(written),
            output_tokens: count("outputTokens"),
            cached_tokens: read,
            cache_write_tokens: written,
            ..Usage::default()
        }
    }

    /// The consumption of an answer that failed, and its text; `None` if it had not begun.
    pub(super) fn spent(&self) -> Option<(Usage, String)> {
        let mut said = String::new();
        for block in self.blocks.iter() {
            match block {
                Block::Text(text) | Block::Thought { text, .. } => said.push_str(text),
                Block::Call(call) => said.push_str(&call.pieces),
                _ => {}
            }
        }
        self.has_begun.then(|| (self.told(), said))
    }

    /// The whole answer, as the next message of this conversation, from the model of this name.
    pub(super) fn complete(
        mut self,
        conversation: &Transcript,
        model: &str,
    ) -> Result<ModelResponse, Failure> {
        let Some(stop) = self.stop.take() else {
            return Err(Failure::Cut);
        };
        let usage = self.told();
        let finish = finish(stop, self.calls > 0)?;
        let parts = self.parts()?;
        let mut message = Message {
            role: Role::Assistant,
            author: None,
            parts,
            synthetic: false,
        };
        settle_calls(&mut message, conversation);
        let mut response = ModelResponse::new(Arc::new(message));
        (response.finish, response.usage) = (finish, usage);
        model.clone_into(&mut response.model);
        Ok(response)
    }

    fn parts(self) -> Result<Vec<Part>, Failure> {
        let signed = |signature: Value| Some(json!({ OWN: signature }).to_string());
        let mut parts: Vec<Part> = Vec::new();
        for block in self.blocks.into_all() {
            match block {
                Block::Text(text) if text.is_empty() => {}
                Block::Text(text) => {
                    if matches!(parts.last(), Some(Part::Text(_))) {
                        parts.push(text_ends(OWN));
                    }
                    parts.push(Part::Text(text));
                }
                Block::Thought { text, signature } if signature.is_empty() => {
                    let signature = None;
                    if !text.is_empty() {
                        parts.push(Part::Reasoning(Reasoning { text, signature }));
                    }
                }
                Block::Thought { text, signature } => {
                    let signature = signed(json!({"signature": signature}));
                    parts.push(Part::Reasoning(Reasoning { text, signature }));
                }
                Block::Redacted(data) => parts.push(Part::Reasoning(Reasoning {
                    text: String::new(),
                    signature: signed(json!({"redacted": data})),
                })),
                Block::File(file) => parts.push(Part::Data(file)),
                Block::Call(call) if call.name.is_empty() => {
                    let what = "it calls a tool without a name";
                    return Err(Failure::Malformed(what.to_owned()));
                }
                Block::Call(call) => {
                    let arguments = match (call.pieces.trim().is_empty(), call.input) {
                        (false, _) => call.pieces,
                        (true, Value::Object(input)) => Value::Object(input).to_string(),
                        (true, _) => "{}".to_owned(),
                    };
                    parts.push(Part::ToolCall(ToolCall::new(call.id, call.name, arguments)));
                }
                Block::Own { mut block, pieces } => {
                    if !pieces.is_empty() {
                        let input = serde_json::from_str(&pieces);
                        // One that does not read was cut off, so the provider's tool did not run.
                        let Ok(input) = input else { continue };
                        if block["toolUse"].is_object() {
                            block["toolUse"]["input"] = input;
                        }
                    }
                    parts.push(Part::Provider(ProviderPart::block(OWN, block)));
                }
            }
        }
        parts.extend(self.notes.part(OWN));
        Ok(parts)
    }
}

/// A picture that the model made.
fn picture(image: &Value) -> Option<Data> {
    let format = image["format"].as_str()?;
    let bytes = image["source"]["bytes"].as_str()?;
    Some(Data {
        media_type: format!("image/{format}"),
        name: None,
        source: DataSource::Base64(bytes.to_owned()),
    })
}

fn finish(word: String, has_calls: bool) -> Result<FinishReason, Failure> {
    Ok(match word.as_str() {
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "guardrail_intervened" | "content_filtered" => FinishReason::ContentFilter,
        // What the model wrote could not be read by its server. Another attempt may succeed.
        "malformed_model_output" | "malformed_tool_use" => {
            let what = "what the model wrote could not be read by its server";
            return Err(Failure::Malformed(what.to_owned()));
        }
        _ if has_calls => FinishReason::ToolCalls,
        "end_turn" | "stop_sequence" | "tool_use" => FinishReason::Stop,
        _ => FinishReason::Other(word),
    })
}
