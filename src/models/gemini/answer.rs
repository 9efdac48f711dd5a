//! Puts an answer together, whole or from the pieces of a stream.

use std::{collections::HashSet, sync::Arc};

use ghostlight_actors::vocabulary::{
    Delta, FinishReason, Message, ModelResponse, Part, Reasoning, Role, ToolCall, Transcript, Usage,
};
use serde_json::{Map, Value, json};

use super::message::OWN;
use crate::models::http::{Failure, JsonReader, ServerEvent};

/// An answer in the making. A whole answer is handled as a stream of one piece.
#[derive(Default)]
pub(super) struct Answer {
    json: JsonReader,
    text: String,
    reasoning: String,
    /// The signature that goes back with the text.
    text_signature: Option<Value>,
    calls: Vec<Call>,
    finish: Option<String>,
    /// Why the provider blocked the answer.
    blocked: Option<String>,
    usage: Value,
    model: String,
}

struct Call {
    /// The provider's id, where it gives one.
    id: Option<String>,
    name: String,
    arguments: String,
    signature: Option<Value>,
}

impl Answer {
    /// Takes an event of a stream.
    pub(super) fn take_event(
        &mut self,
        event: &ServerEvent,
        show: impl FnMut(Delta),
    ) -> Result<(), Failure> {
        let data = event.data.trim_ascii();
        if event.is_error || event.kind == b"error" {
            return Err(Failure::in_band(data));
        }
        if data.is_empty() || data == b"[DONE]" {
            return Ok(());
        }
        let (value, _) = self.json.read(data)?;
        if let Some(failure) = Failure::in_answer(&value) {
            return Err(failure);
        }
        self.take(&value, show);
        Ok(())
    }

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
        if let Value::Array(parts) = &candidate["content"]["parts"] {
            for part in parts {
                self.take_part(part, &mut show);
            }
        }
    }

    fn take_part(&mut self, part: &Value, show: &mut impl FnMut(Delta)) {
        let signature = part["thoughtSignature"].as_str().map(Value::from);
        let call = &part["functionCall"];
        if call.is_object() {
            let name = call["name"].as_str().unwrap_or_default().to_owned();
            let arguments = match &call["args"] {
                Value::Null => "{}".to_owned(),
                args => args.to_string(),
            };
            show(Delta::ToolCall {
                index: u32::try_from(self.calls.len()).unwrap_or(u32::MAX),
                name: Some(name.clone()),
                arguments: arguments.clone(),
            });
            let id = call["id"].as_str().filter(|id| !id.is_empty());
            self.calls.push(Call {
                id: id.map(str::to_owned),
                name,
                arguments,
                signature,
            });
            return;
        }
        // The signature may come at the end, with an empty text.
        self.text_signature = signature.or(self.text_signature.take());
        let text = part["text"].as_str().unwrap_or_default();
        if text.is_empty() {
            return;
        }
        if part["thought"] == true {
            self.reasoning.push_str(text);
            show(Delta::Reasoning(text.to_owned()));
        } else {
            self.text.push_str(text);
            show(Delta::Text(text.to_owned()));
        }
    }

    /// Whether the server said why it stopped: then nothing of the answer is missing.
    pub(super) fn is_finished(&self) -> bool {
        self.finish.is_some() || self.blocked.is_some()
    }

    /// The whole answer, as the next message of this conversation.
    pub(super) fn complete(self, conversation: &Transcript) -> Result<ModelResponse, Failure> {
        let finish = match (&self.finish, &self.blocked) {
            (None, None) if self.model.is_empty() && self.usage.is_null() => {
                let what = "it has no candidates";
                return Err(Failure::Malformed(what.to_owned()));
            }
            (None, None) => return Err(Failure::Cut),
            (Some(word), _) => finish(word, !self.calls.is_empty())?,
            (None, Some(_)) => FinishReason::ContentFilter,
        };
        let usage = usage(&self.usage);
        let model = self.model.clone();
        let parts = self.parts(conversation)?;
        let mut response = ModelResponse::new(Arc::new(Message {
            role: Role::Assistant,
            author: None,
            parts,
            synthetic: false,
        }));
        (response.finish, response.usage, response.model) = (finish, usage, model);
        Ok(response)
    }

    fn parts(self, conversation: &Transcript) -> Result<Vec<Part>, Failure> {
        let messages = conversation.messages();
        let past = messages.iter().flat_map(|message| message.tool_calls());
        let mut taken: HashSet<String> = past.map(|call| call.id.clone()).collect();
        let mut signed_calls = Map::new();
        let mut calls = Vec::new();
        let mut said = HashSet::new();
        for call in self.calls {
            let same = (call.id.clone(), call.name.clone(), call.arguments.clone());
            if call.id.is_some() && !said.insert(same) {
                continue;
            }
            if call.name.is_empty() {
                let what = "it calls a tool without a name";
                return Err(Failure::Malformed(what.to_owned()));
            }
            let fresh = (0..).map(|number| format!("call_{number}"));
            let mut ids = call.id.clone().into_iter().chain(fresh);
            let id = ids.find(|id| !taken.contains(id)).unwrap_or_default();
            taken.insert(id.clone());
            let mut signed = Map::new();
            signed.extend(call.id.map(|id| ("id".to_owned(), json!(id))));
            let signature = call.signature;
            signed.extend(signature.map(|value| ("thoughtSignature".to_owned(), value)));
            if !signed.is_empty() {
                signed_calls.insert(id.clone(), Value::Object(signed));
            }
            calls.push(Part::ToolCall(ToolCall::new(id, call.name, call.arguments)));
        }
        let mut signed = Map::new();
        signed.extend(self.text_signature.map(|value| ("text".to_owned(), value)));
        if !signed_calls.is_empty() {
            signed.insert("calls".to_owned(), Value::Object(signed_calls));
        }
        let mut parts = Vec::new();
        if !self.reasoning.is_empty() || !signed.is_empty() {
            let text = self.reasoning;
            let signature = (!signed.is_empty()).then(|| json!({ OWN: signed }).to_string());
            parts.push(Part::Reasoning(Reasoning { text, signature }));
        }
        if !self.text.is_empty() {
            parts.push(Part::Text(self.text));
        }
        parts.extend(calls);
        Ok(parts)
    }
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
        "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "IMAGE_SAFETY" => {
            FinishReason::ContentFilter
        }
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
