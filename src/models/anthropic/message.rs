//! The messages of a request: in turns, a person first, each result right after its call.

use ghostlight_actors::vocabulary::{
    Data, DataSource, Message, ModelRequest, Part, Role, ToolCall, ToolResult, ToolStatus,
};
use serde_json::{Value, json};

use crate::models::http::{CallIds, GO_ON, legal};

/// The key under which a signature of this provider is kept.
pub(super) const OWN: &str = "anthropic";

/// The conversation as the provider reads it.
pub(super) fn messages(request: &ModelRequest, cache: bool) -> Vec<Value> {
    let mut turns: Vec<(&'static str, Vec<Value>)> = Vec::new();
    for message in legal(&request.conversation, CallIds::ANTHROPIC) {
        let role = match message.role {
            Role::Assistant => "assistant",
            Role::User | Role::System | Role::Tool => "user",
        };
        let blocks = blocks(&message);
        if blocks.is_empty() {
            continue;
        }
        match turns.last_mut() {
            Some((last, turn)) if *last == role => turn.extend(blocks),
            _ => turns.push((role, blocks)),
        }
    }
    if turns.first().is_none_or(|(role, _)| *role != "user") {
        turns.insert(0, ("user", vec![text(GO_ON)]));
    }
    if turns.last().is_some_and(|(role, _)| *role != "user") {
        // The provider would take a last message of the model for the beginning of its answer.
        turns.push(("user", vec![text(GO_ON)]));
    }
    for (role, blocks) in &mut turns {
        if *role == "user" {
            // Results come first in their turn. The sort is stable.
            blocks.sort_by_key(|block| block["type"] != "tool_result");
        }
    }
    if let Some(last) = turns.last_mut().and_then(|(_, blocks)| blocks.last_mut())
        && cache
    {
        last["cache_control"] = json!({"type": "ephemeral"});
    }
    let to_message = |(role, content)| json!({"role": role, "content": content});
    turns.into_iter().map(to_message).collect()
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn blocks(message: &Message) -> Vec<Value> {
    let is_own = message.role == Role::Assistant;
    let blocks = message.parts.iter().filter_map(|part| match part {
        // The provider refuses empty texts, and white space at the end of the model's last text.
        Part::Text(words) if words.trim().is_empty() => None,
        Part::Text(words) if is_own => Some(text(words.trim_end())),
        Part::Text(words) => Some(text(words)),
        Part::Reasoning(reasoning) if is_own => {
            thought(reasoning.signature.as_deref()?, &reasoning.text)
        }
        Part::ToolCall(call) if is_own => Some(called(call)),
        Part::ToolResult(result) => Some(resulted(result)),
        Part::Data(data) if !is_own => Some(attachment(data)),
        _ => None,
    });
    blocks.collect()
}

/// The block of a thought that this provider signed; `None` for another provider's signature.
fn thought(signature: &str, text: &str) -> Option<Value> {
    let signature: Value = serde_json::from_str(signature).ok()?;
    let own = &signature[OWN];
    if let Some(data) = own["redacted"].as_str() {
        return Some(json!({"type": "redacted_thinking", "data": data}));
    }
    let signature = own["signature"].as_str()?;
    Some(json!({"type": "thinking", "thinking": text, "signature": signature}))
}

fn called(call: &ToolCall) -> Value {
    // The input must be an object, also where the model once wrote something else.
    let input = match call.arguments.value() {
        Ok(Value::Object(fields)) => Value::Object(fields.clone()),
        _ => json!({"unreadable_arguments": call.arguments.text()}),
    };
    json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
}

fn resulted(result: &ToolResult) -> Value {
    let mut content = Vec::new();
    if !result.text.trim().is_empty() {
        content.push(text(&result.text));
    }
    content.extend(result.attachments.iter().map(attachment));
    let mut block = json!({
        "type": "tool_result",
        "tool_use_id": result.call_id,
        "content": content,
    });
    if result.status != ToolStatus::Success {
        block["is_error"] = json!(true);
    }
    block
}

/// A block for a file: an image, a PDF or embedded text in its own form, any other link as text.
fn attachment(data: &Data) -> Value {
    let kind = data.media_type.as_str();
    let name = data.name.as_deref().unwrap_or("attachment");
    let block = match kind {
        "application/pdf" => "document",
        kind if kind.starts_with("image/") => "image",
        _ => "",
    };
    match &data.source {
        DataSource::Url(url) if !block.is_empty() => {
            json!({"type": block, "source": {"type": "url", "url": url}})
        }
        DataSource::Base64(bytes) if !block.is_empty() => json!({
            "type": block,
            "source": {"type": "base64", "media_type": kind, "data": bytes},
        }),
        DataSource::Url(url) => text(&format!("[{name} ({kind}): {url}]")),
        _ => match data.bytes() {
            Some(Ok(bytes)) if kind.starts_with("text/") => {
                let words = String::from_utf8_lossy(&bytes);
                text(&format!("[{name} ({kind})]\n{words}"))
            }
            _ => text(&format!("[{name} ({kind}) cannot be shown]")),
        },
    }
}
