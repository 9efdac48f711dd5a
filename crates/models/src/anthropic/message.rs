//! The messages of a request: in turns, a person first, each result right after its call.

use ghostlight_actors::vocabulary::{
    Data, DataSource, Message, ModelRequest, Part, Role, ToolCall, ToolResult, ToolStatus,
};
use serde_json::{Value, json};

use crate::http::{CallIds, GO_ON, OwnBlocks, in_words, legal};

/// The key under which a signature of this provider is kept.
pub(super) const OWN: &str = "anthropic";

/// How many turns of the user are marked for the provider's cache: this request's last one, up to which the next request
/// finds it, and the one before, which was the last one of the request before. The provider looks for another place only
/// among the 20 blocks before a mark, and many calls at once have more.
const MARKED: usize = 2;

/// The conversation as the provider reads it, with marks for its cache. An answer that was paused stands at its end and goes
/// on.
pub(super) fn messages(
    request: &ModelRequest,
    mark: Option<&Value>,
    is_paused: bool,
) -> Vec<Value> {
    let mut turns: Vec<(&'static str, Vec<Value>)> = Vec::new();
    for message in legal(&request.conversation, CallIds::PLAIN, OWN) {
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
    if turns.last().is_some_and(|(role, _)| *role != "user") && !is_paused {
        // The provider would take a last message of the model for the beginning of its answer.
        turns.push(("user", vec![text(GO_ON)]));
    }
    for (role, blocks) in &mut turns {
        if *role == "user" {
            // Results come first in their turn. The sort is stable.
            blocks.sort_by_key(|block| block["type"] != "tool_result");
        }
    }
    let of_user = turns.iter_mut().rev().filter(|(role, _)| *role == "user");
    let last = of_user
        .take(MARKED)
        .filter_map(|(_, blocks)| blocks.last_mut());
    for (block, mark) in last.zip(mark.into_iter().cycle()) {
        block["cache_control"] = mark.clone();
    }
    let to_message = |(role, content)| json!({"role": role, "content": content});
    turns.into_iter().map(to_message).collect()
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn blocks(message: &Message) -> Vec<Value> {
    let is_own = message.role == Role::Assistant;
    let mut own = OwnBlocks::of(OWN);
    for part in &message.parts {
        own.add(part, |part| match part {
            // The provider refuses empty texts.
            Part::Text(words) if words.trim().is_empty() => None,
            Part::Text(words) => Some(text(words)),
            Part::Reasoning(reasoning) if is_own => {
                thought(reasoning.signature.as_deref()?, &reasoning.text)
            }
            Part::ToolCall(call) if is_own => Some(called(call)),
            Part::ToolResult(result) => Some(resulted(result)),
            // The provider takes files from users alone.
            Part::Data(data) if is_own => Some(text(&in_words(data))),
            Part::Data(data) => Some(attachment(data)),
            _ => None,
        });
    }
    let mut blocks = own.into_blocks();
    // It refuses white space at the end of the model's last text.
    if is_own
        && let Some(Value::String(words)) = blocks.last_mut().and_then(|last| last.get_mut("text"))
    {
        words.truncate(words.trim_end().len());
    }
    blocks
}

/// The id of the container of the last answer, if the provider still keeps it: its tools go on there.
pub(super) fn container(request: &ModelRequest) -> Option<Value> {
    let messages = request.conversation.messages();
    let last = messages
        .iter()
        .rev()
        .find(|said| said.role == Role::Assistant)?;
    let Some(Part::Provider(own)) = last.parts.first() else {
        return None;
    };
    let container = own
        .content
        .get("container")
        .filter(|_| own.provider == OWN)?;
    let ends = container["expires_at"]
        .as_str()?
        .parse::<jiff::Timestamp>()
        .ok()?;
    (ends > jiff::Timestamp::now()).then(|| container["id"].clone())
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
