//! The contents of a request: in turns, a person first.

use std::collections::HashMap;

use ghostlight_actors::vocabulary::{
    Data, DataSource, Message, ModelRequest, Part, Role, ToolCall, ToolResult, ToolStatus,
};
use serde_json::{Map, Value, json};

use crate::models::http::{CallIds, GO_ON, legal};

/// The key under which the fields that this provider wants back are kept.
pub(super) const OWN: &str = "gemini";
/// The documented signature for a call that its model did not make.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// The conversation as the provider reads it. Newer models require a signature with the first call
/// of each step, even if another model made the call.
pub(super) fn contents(request: &ModelRequest, wants_signatures: bool) -> Vec<Value> {
    let mut turns: Vec<(&'static str, Vec<Value>)> = Vec::new();
    let mut given_ids = HashMap::new();
    for message in legal(&request.conversation, CallIds::GEMINI) {
        let (role, parts) = match message.role {
            Role::Assistant => (
                "model",
                said_by_model(&message, wants_signatures, &mut given_ids),
            ),
            Role::User | Role::System | Role::Tool => ("user", said_to_model(&message, &given_ids)),
        };
        if parts.is_empty() {
            continue;
        }
        match turns.last_mut() {
            Some((last, turn)) if *last == role => turn.extend(parts),
            _ => turns.push((role, parts)),
        }
    }
    if turns.first().is_none_or(|(role, _)| *role != "user") {
        turns.insert(0, ("user", vec![json!({"text": GO_ON})]));
    }
    let to_content = |(role, parts)| json!({"role": role, "parts": parts});
    turns.into_iter().map(to_content).collect()
}

/// The fields that go back to the provider with a message: those of its text, and those of its
/// calls by our call ids.
#[derive(Default)]
struct Returned {
    text: Option<Value>,
    calls: Map<String, Value>,
}

impl Returned {
    fn of(message: &Message) -> Self {
        let signatures = message.parts.iter().filter_map(|part| match part {
            Part::Reasoning(reasoning) => reasoning.signature.as_deref(),
            _ => None,
        });
        let mut returned = Self::default();
        for signature in signatures {
            let Ok(mut signed) = serde_json::from_str::<Value>(signature) else {
                continue;
            };
            returned.text = signed.pointer("/gemini/text").cloned();
            if let Value::Object(calls) = signed[OWN]["calls"].take() {
                returned.calls = calls;
            }
        }
        returned
    }
}

fn said_by_model(
    message: &Message,
    wants_signatures: bool,
    given_ids: &mut HashMap<String, Value>,
) -> Vec<Value> {
    let mut returned = Returned::of(message);
    let mut parts = Vec::new();
    let mut first_call = true;
    for part in &message.parts {
        match part {
            Part::Text(text) if !text.trim().is_empty() => {
                let mut part = json!({"text": text});
                if let Some(signature) = returned.text.take() {
                    part["thoughtSignature"] = signature;
                }
                parts.push(part);
            }
            Part::ToolCall(call) => {
                let signed = returned.calls.get(&call.id);
                let mut part = json!({"functionCall": {"name": call.name, "args": args(call)}});
                if let Some(id) = signed.and_then(|signed| signed.get("id")) {
                    part["functionCall"]["id"] = id.clone();
                    given_ids.insert(call.id.clone(), id.clone());
                }
                let signature = signed.and_then(|signed| signed.get("thoughtSignature"));
                if let Some(signature) = signature {
                    part["thoughtSignature"] = signature.clone();
                } else if first_call && wants_signatures {
                    part["thoughtSignature"] = json!(NO_SIGNATURE);
                }
                first_call = false;
                parts.push(part);
            }
            _ => {}
        }
    }
    parts
}

fn args(call: &ToolCall) -> Value {
    match call.arguments.value() {
        Ok(Value::Object(fields)) => Value::Object(fields.clone()),
        _ => json!({"unreadable_arguments": call.arguments.text()}),
    }
}

fn said_to_model(message: &Message, given_ids: &HashMap<String, Value>) -> Vec<Value> {
    let mut parts = Vec::new();
    let mut attached = Vec::new();
    for part in &message.parts {
        match part {
            Part::Text(text) if !text.trim().is_empty() => parts.push(json!({"text": text})),
            Part::Data(data) => parts.push(attachment(data)),
            Part::ToolResult(result) => {
                parts.push(resulted(result, given_ids));
                attached.extend(result.attachments.iter().map(attachment));
            }
            _ => {}
        }
    }
    // Results stand together; their attachments come after the last of them.
    parts.extend(attached);
    parts
}

fn resulted(result: &ToolResult, given_ids: &HashMap<String, Value>) -> Value {
    let word = match result.status {
        ToolStatus::Success => "output",
        _ => "error",
    };
    let mut response = json!({"name": result.name, "response": {word: result.text}});
    if let Some(id) = given_ids.get(&result.call_id) {
        response["id"] = id.clone();
    }
    json!({"functionResponse": response})
}

/// A part for a file: embedded data as data, a link as text.
fn attachment(data: &Data) -> Value {
    let kind = data.media_type.as_str();
    let name = data.name.as_deref().unwrap_or("attachment");
    match &data.source {
        DataSource::Base64(bytes) => json!({"inlineData": {"mimeType": kind, "data": bytes}}),
        DataSource::Url(url) => json!({"text": format!("[{name} ({kind}): {url}]")}),
        _ => json!({"text": format!("[{name} ({kind}) cannot be shown]")}),
    }
}
