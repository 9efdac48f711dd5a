//! The messages of a request: in turns, a person first, each result right after its call.

use std::collections::HashSet;

use ghostlight_actors::vocabulary::{
    Data, DataSource, Message, ModelRequest, Part, Role, ToolCall, ToolResult, ToolStatus,
};
use serde_json::{Value, json};

use crate::http::{CallIds, GO_ON, OwnBlocks, in_words, legal};

/// The key under which a signature of this provider is kept.
pub(super) const OWN: &str = "bedrock";
/// Documents are not taken without words.
const ATTACHED: &str = "See the attached document.";
/// How many turns of the user are marked for the provider's cache: the last one, and the one that was last before.
const MARKED: usize = 2;
/// The most characters of a document's name.
const LONGEST_NAME: usize = 200;

/// The files that are sent as what they are: their media types, their kinds of block and their formats.
const FORMATS: [(&str, &str, &str); 17] = [
    ("image/png", "image", "png"),
    ("image/jpeg", "image", "jpeg"),
    ("image/gif", "image", "gif"),
    ("image/webp", "image", "webp"),
    ("application/pdf", "document", "pdf"),
    ("application/msword", "document", "doc"),
    (
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "document",
        "docx",
    ),
    ("application/vnd.ms-excel", "document", "xls"),
    (
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "document",
        "xlsx",
    ),
    ("video/mp4", "video", "mp4"),
    ("video/quicktime", "video", "mov"),
    ("video/x-matroska", "video", "mkv"),
    ("video/webm", "video", "webm"),
    ("video/x-flv", "video", "flv"),
    ("video/mpeg", "video", "mpeg"),
    ("video/x-ms-wmv", "video", "wmv"),
    ("video/3gpp", "video", "three_gp"),
];

/// The media types that models take beside text. The server refuses what one of them does not take.
pub(super) fn taken() -> impl Iterator<Item = &'static str> {
    FORMATS.iter().map(|(kind, _, _)| *kind)
}

/// The place up to which the provider keeps a request.
pub(super) fn cache_point() -> Value {
    json!({"cachePoint": {"type": "default"}})
}

/// The conversation as the provider reads it.
pub(super) fn messages(request: &ModelRequest, is_marked: bool) -> Vec<Value> {
    let mut turns: Vec<(&'static str, Vec<Value>)> = Vec::new();
    let mut names = HashSet::new();
    for message in legal(&request.conversation, CallIds::PLAIN, OWN) {
        let (role, blocks) = match message.role {
            Role::Assistant => ("assistant", said_by_model(&message)),
            Role::User | Role::System | Role::Tool => ("user", said_to_model(&message, &mut names)),
        };
        if blocks.is_empty() {
            continue;
        }
        match turns.last_mut() {
            Some((last, turn)) if *last == role => turn.extend(blocks),
            _ => turns.push((role, blocks)),
        }
    }
    if turns.first().is_none_or(|(role, _)| *role != "user") {
        turns.insert(0, ("user", vec![json!({"text": GO_ON})]));
    }
    if turns.last().is_some_and(|(role, _)| *role != "user") {
        turns.push(("user", vec![json!({"text": GO_ON})]));
    }
    let mut marks = if is_marked { MARKED } else { 0 };
    for (_, blocks) in turns.iter_mut().rev().filter(|(role, _)| *role == "user") {
        // Results come first in their turn. The sort is stable.
        blocks.sort_by_key(|block| block.get("toolResult").is_none());
        let has = |name: &str| blocks.iter().any(|block| block.get(name).is_some());
        if has("document") && !has("text") {
            let results = blocks
                .iter()
                .take_while(|block| block.get("toolResult").is_some());
            let place = results.count();
            blocks.insert(place, json!({"text": ATTACHED}));
        }
        if marks > 0 {
            marks -= 1;
            blocks.push(cache_point());
        }
    }
    let to_message = |(role, content)| json!({"role": role, "content": content});
    turns.into_iter().map(to_message).collect()
}

fn said_by_model(message: &Message) -> Vec<Value> {
    let mut own = OwnBlocks::of(OWN);
    for part in &message.parts {
        own.add(part, |part| match part {
            Part::Text(text) if text.trim().is_empty() => None,
            Part::Text(text) => Some(json!({"text": text})),
            Part::Reasoning(reasoning) => thought(reasoning.signature.as_deref()?, &reasoning.text),
            Part::ToolCall(call) => Some(called(call)),
            // The provider takes files from users alone.
            Part::Data(data) => Some(json!({"text": in_words(data)})),
            _ => None,
        });
    }
    let mut blocks = own.into_blocks();
    // It refuses white space at the end of the model's last text.
    if let Some(Value::String(text)) = blocks.last_mut().and_then(|last| last.get_mut("text")) {
        text.truncate(text.trim_end().len());
    }
    blocks
}

/// The block of a thought that this provider signed; `None` for another provider's signature.
fn thought(signature: &str, text: &str) -> Option<Value> {
    let signature: Value = serde_json::from_str(signature).ok()?;
    let own = &signature[OWN];
    if let Some(data) = own["redacted"].as_str() {
        return Some(json!({"reasoningContent": {"redactedContent": data}}));
    }
    let signature = own["signature"].as_str()?;
    Some(json!({"reasoningContent": {"reasoningText": {"text": text, "signature": signature}}}))
}

fn called(call: &ToolCall) -> Value {
    // The input must be an object, also where the model once wrote something else.
    let input = match call.arguments.value() {
        Ok(Value::Object(fields)) => Value::Object(fields.clone()),
        _ => json!({"unreadable_arguments": call.arguments.text()}),
    };
    json!({"toolUse": {"toolUseId": call.id, "name": call.name, "input": input}})
}

fn said_to_model(message: &Message, names: &mut HashSet<String>) -> Vec<Value> {
    let mut blocks = Vec::new();
    for part in &message.parts {
        match part {
            Part::Text(text) if !text.trim().is_empty() => blocks.push(json!({"text": text})),
            Part::Data(data) => blocks.push(attachment(data, names)),
            Part::ToolResult(result) => {
                blocks.push(resulted(result));
                // Not every model takes files within a result, and those that take them take them beside it.
                let attached = result.attachments.iter();
                blocks.extend(attached.map(|data| attachment(data, names)));
            }
            _ => {}
        }
    }
    blocks
}

fn resulted(result: &ToolResult) -> Value {
    let status = match result.status {
        ToolStatus::Success => "success",
        _ => "error",
    };
    json!({"toolResult": {
        "toolUseId": result.call_id,
        "content": [{"text": result.text}],
        "status": status,
    }})
}

/// A block for a file: embedded data in its own form, a link as text.
fn attachment(data: &Data, names: &mut HashSet<String>) -> Value {
    let kind = data.media_type.as_str();
    let known = FORMATS.iter().find(|(known, _, _)| *known == kind);
    let (Some((_, block, format)), DataSource::Base64(bytes)) = (known, &data.source) else {
        return json!({"text": in_words(data)});
    };
    let mut file = json!({"format": format, "source": {"bytes": bytes}});
    if *block == "document" {
        file["name"] = json!(document_name(
            data.name.as_deref().unwrap_or("document"),
            names
        ));
    }
    json!({ *block: file })
}

/// A name that the provider takes, and that no other document of the request has.
fn document_name(name: &str, names: &mut HashSet<String>) -> String {
    let plain = |c: char| match c {
        c if c.is_ascii_alphanumeric() || "-()[]".contains(c) => c,
        _ => ' ',
    };
    let name: String = name.chars().map(plain).take(LONGEST_NAME - 10).collect();
    let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
    let name = if name.is_empty() {
        "document".to_owned()
    } else {
        name
    };
    let mut free = name.clone();
    let mut number = 1;
    while !names.insert(free.clone()) {
        number += 1;
        free = format!("{name} ({number})");
    }
    free
}
