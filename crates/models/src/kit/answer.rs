//! An answer, put together from what a server sends.

use std::sync::Arc;

use ghostlight_actors::{
    contract::ModelContext,
    vocabulary::{
        Delta, FinishReason, Message, ModelResponse, Part, Reasoning, Role, ToolCall, Transcript,
        Usage,
    },
};
use serde_json::Value;

use crate::http::{Failure, settle_calls};

/// An answer in the making. What is added to it is shown at once where the answer is streamed.
pub struct Answer<'c> {
    cx: &'c ModelContext,
    /// Whether what comes is a piece of a stream.
    pub(super) is_shown: bool,
    drafts: Vec<Draft>,
    finish: Option<FinishReason>,
    usage: Option<Usage>,
    model: String,
    failure: Option<Failure>,
}

enum Draft {
    Text(String),
    Reasoning(String),
    Call(Call),
    Whole(Part),
}

struct Call {
    index: u64,
    /// Its place among the calls of the answer.
    place: u32,
    id: String,
    name: String,
    arguments: String,
}

impl<'c> Answer<'c> {
    pub(super) fn shown_to(cx: &'c ModelContext) -> Self {
        Self {
            cx,
            is_shown: false,
            drafts: Vec::new(),
            finish: None,
            usage: None,
            model: String::new(),
            failure: None,
        }
    }

    /// Adds a text, or more of it.
    pub fn text(&mut self, more: &str) {
        if more.is_empty() {
            return;
        }
        match self.drafts.last_mut() {
            Some(Draft::Text(text)) => text.push_str(more),
            _ => self.drafts.push(Draft::Text(more.to_owned())),
        }
        self.show(|| Delta::Text(more.to_owned()));
    }

    /// Adds reasoning, or more of it.
    pub fn reasoning(&mut self, more: &str) {
        if more.is_empty() {
            return;
        }
        match self.drafts.last_mut() {
            Some(Draft::Reasoning(text)) => text.push_str(more),
            _ => self.drafts.push(Draft::Reasoning(more.to_owned())),
        }
        self.show(|| Delta::Reasoning(more.to_owned()));
    }

    /// Adds the call of a tool, or more of the call with this index: what comes of its id and its name, and the next piece of its
    /// arguments as JSON. A call without an id gets one.
    pub fn call(&mut self, index: u64, id: &str, name: &str, arguments: &str) {
        let mut calls = self.drafts.iter_mut().filter_map(|draft| match draft {
            Draft::Call(call) => Some(call),
            _ => None,
        });
        let known = calls.find(|call| call.index == index);
        let (place, is_named_now) = match known {
            Some(call) => {
                let is_named_now = call.name.is_empty() && !name.is_empty();
                if call.id.is_empty() {
                    id.clone_into(&mut call.id);
                }
                if is_named_now {
                    name.clone_into(&mut call.name);
                }
                call.arguments.push_str(arguments);
                (call.place, is_named_now)
            }
            None => {
                let is_call = |draft: &&Draft| matches!(draft, Draft::Call(_));
                let place = self.drafts.iter().filter(is_call).count();
                let place = u32::try_from(place).unwrap_or(u32::MAX);
                self.drafts.push(Draft::Call(Call {
                    index,
                    place,
                    id: id.to_owned(),
                    name: name.to_owned(),
                    arguments: arguments.to_owned(),
                }));
                (place, !name.is_empty())
            }
        };
        self.show(|| Delta::ToolCall {
            index: place,
            name: is_named_now.then(|| name.to_owned()),
            arguments: arguments.to_owned(),
        });
    }

    /// Adds a part of another kind, such as a picture or [what only this provider
    /// reads](ghostlight_actors::vocabulary::ProviderPart).
    pub fn part(&mut self, part: Part) {
        self.drafts.push(Draft::Whole(part));
    }

    /// Sets why the model stopped. Until then the answer is not whole: a stream that ends without it was cut off.
    pub fn finish(&mut self, reason: FinishReason) {
        self.finish = Some(reason);
    }

    /// Sets what the server tells of the usage. A later one replaces it; what it leaves at 0 is estimated.
    pub fn usage(&mut self, usage: Usage) {
        self.usage = Some(usage);
    }

    /// Sets the name by which the server calls the model that answers.
    pub fn model(&mut self, name: &str) {
        name.clone_into(&mut self.model);
    }

    /// Ends the attempt with an error that the server reports in a form of its own.
    pub fn fail(&mut self, error: &Value) {
        self.failure = Some(Failure::reported(error));
    }

    fn show(&self, delta: impl FnOnce() -> Delta) {
        if self.is_shown {
            self.cx.delta(delta());
        }
    }

    /// The error that ends the attempt, if there is one.
    pub(super) fn failure(&mut self) -> Result<(), Failure> {
        self.failure.take().map_or(Ok(()), Err)
    }

    pub(super) fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    /// The usage and the text of an answer that failed; `None` if it had not begun.
    pub(super) fn spent(&self) -> Option<(Usage, String)> {
        let mut said = String::new();
        for draft in &self.drafts {
            match draft {
                Draft::Text(text) | Draft::Reasoning(text) => said.push_str(text),
                Draft::Call(call) => said.push_str(&call.arguments),
                Draft::Whole(_) => {}
            }
        }
        let has_begun = !self.drafts.is_empty() || self.usage.is_some();
        has_begun.then(|| (self.usage.unwrap_or_default(), said))
    }

    /// The whole answer, as the next message of this conversation.
    pub(super) fn complete(self, conversation: &Transcript) -> Result<ModelResponse, Failure> {
        let Some(finish) = self.finish else {
            return Err(match self.drafts.is_empty() {
                true => Failure::Malformed("nothing in it is an answer".to_owned()),
                false => Failure::Cut,
            });
        };
        let parts = self.drafts.into_iter().map(|draft| match draft {
            Draft::Text(text) => Part::Text(text),
            Draft::Reasoning(text) => Part::Reasoning(Reasoning {
                text,
                signature: None,
            }),
            Draft::Call(call) => {
                let arguments = match call.arguments.trim() {
                    "" => "{}",
                    _ => &call.arguments,
                };
                Part::ToolCall(ToolCall::new(call.id, call.name, arguments))
            }
            Draft::Whole(part) => part,
        });
        let mut message = Message {
            role: Role::Assistant,
            author: None,
            parts: parts.collect(),
            synthetic: false,
        };
        settle_calls(&mut message, conversation);
        let asks = message.tool_calls().next().is_some();
        let mut response = ModelResponse::new(Arc::new(message));
        response.finish = match finish {
            FinishReason::Stop | FinishReason::Unknown if asks => FinishReason::ToolCalls,
            finish => finish,
        };
        (response.usage, response.model) = (self.usage.unwrap_or_default(), self.model);
        Ok(response)
    }
}

impl std::fmt::Debug for Answer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer").finish_non_exhaustive()
    }
}
