//! The contents of a request: in turns, a person first.

use std::collections::HashMap;

use ghostlight_actors::vocabulary::{
    Data, DataSource, Message, ModelRequest, Part, ProviderPartKind, Role, ToolCall, ToolResult,
    ToolStatus,
};
use serde_json::{Value, json};

use crate::http::{CallIds, GO_ON, OwnBlocks, add_fields, legal};

/// The key under which the fields that this provider wants back are kept.
pub(super) const OWN: &str = "gemini";
/// The documented signature for a call that its model did not make.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// The conversation as the provider reads it. Newer models require a signature with the first call
/// of each step, even if another model made the call.
pub(super) fn contents(request: &ModelRequest, wants_signatures: bool) -> Vec<Value> {
    let mut turns: Vec<(&'static str, Vec<Value>)> = Vec::new();
    let mut given_ids = HashMap::new();
    for message in legal(&request.conversation, CallIds::GEMINI, OWN) {
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

/// The fields that go back to the provider with a message, as earlier programs kept them: those of its text, and those
/// of its calls by our call ids.
#[derive(Default)]
struct Returned {
    text: Option<Value>,
    calls: HashMap<String, Value>,
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
                let fields = calls.into_iter().map(|(call, mut signed)| {
                    let id = signed
                        .as_object_mut()
                        .and_then(|signed| signed.remove("id"));
                    if let Some(id) = id {
                        signed["functionCall"] = json!({"id": id});
                    }
                    (call, signed)
                });
                returned.calls = fields.collect();
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
    let mut own = OwnBlocks::of(OWN);
    for (place, part) in message.parts.iter().enumerate() {
        own.add(part, |part| match part {
            Part::Text(text) if !text.trim().is_empty() => {
                let mut block = json!({"text": text});
                if let Some(signature) = returned.text.take() {
                    block["thoughtSignature"] = signature;
                }
                Some(block)
            }
            Part::ToolCall(call) => {
                let mut block = json!({"functionCall": {"name": call.name, "args": args(call)}});
                if let Some(signed) = returned.calls.get(&call.id) {
                    add_fields(&mut block, signed);
                }
                let after = message.parts.get(place + 1);
                let id = after.and_then(given_id).or(block["functionCall"].get("id"));
                given_ids.extend(id.map(|id| (call.id.clone(), id.clone())));
                Some(block)
            }
            Part::Data(data) => Some(attachment(data)),
            _ => None,
        });
    }
    let mut blocks = own.into_blocks();
    let mut calls = blocks.iter_mut();
    let first = calls.find(|block| block.get("functionCall").is_some());
    if let Some(first) = first.filter(|_| wants_signatures)
        && first.get("thoughtSignature").is_none()
    {
        first["thoughtSignature"] = json!(NO_SIGNATURE);
    }
    blocks
}

/// The id that the provider gave to the call before this part.
fn given_id(part: &Part) -> Option<&Value> {
    match part {
        Part::Provider(own) if own.provider == OWN && own.kind == ProviderPartKind::Fields => {
            own.content.get("functionCall")?.get("id")
        }
        _ => None,
    }
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
        // The provider reads its own stores and films, and nothing else by its address.
        DataSource::Url(url) if is_at_provider(url) => {
            json!({"fileData": {"mimeType": kind, "fileUri": url}})
        }
        DataSource::Url(url) => json!({"text": format!("[{name} ({kind}): {url}]")}),
        _ => json!({"text": format!("[{name} ({kind}) cannot be shown]")}),
    }
}

fn is_at_provider(url: &str) -> bool {
    let places = [
        "gs://",
        "https://generativelanguage.googleapis.com/",
        "https://www.youtube.com/",
        "https://youtu.be/",
    ];
    places.iter().any(|place| url.starts_with(place))
}
