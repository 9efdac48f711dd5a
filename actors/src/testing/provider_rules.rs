//! The demands of model servers on a conversation.

use std::{collections::BTreeSet, sync::Arc};

use super::schema_rules::check_schema;
use crate::vocabulary::{Message, Part, ProviderPartKind, Role, ToolSet};

/// The most characters of a tool's name, for all providers.
const LONGEST_NAME: usize = 64;

/// Checks that every provider accepts a conversation: each tool call has exactly one result with its id, in the order
/// of the calls and before any other message; no message is empty; instructions are at the beginning; calls are the
/// model's and results are tools'.
///
/// Use it on each request that a [`ScriptedModel`](super::ScriptedModel) saw, and on the
/// messages of an outcome.
///
/// ```
/// use std::sync::Arc;
/// use ghostlight_actors::{testing::check_transcript, vocabulary::{Message, ModelResponse, ToolCall}};
///
/// let asks = ModelResponse::tool_calls([ToolCall::new("1", "search", "{}")]).message;
/// let open = [Arc::new(Message::user("hello")), asks];
/// assert!(check_transcript(&open).unwrap_err().contains("has no result"));
/// ```
///
/// # Errors
/// The first breach, with the place of its message from 0.
pub fn check_transcript(messages: &[Arc<Message>]) -> Result<(), String> {
    let mut open: Vec<(String, String)> = Vec::new();
    for (place, message) in messages.iter().enumerate() {
        let told = |reason: String| format!("message {place} ({:?}): {reason}", message.role);
        if message.role != Role::Tool
            && let Some((id, tool)) = open.first()
        {
            return Err(told(format!("the call {id:?} of {tool} has no result yet")));
        }
        check_content(message, place).map_err(told)?;
        if message.role == Role::Assistant {
            open = calls(message).map_err(told)?;
        }
        for result in message.tool_results() {
            let Some((id, tool)) = open.first() else {
                return Err(told(format!(
                    "the result {:?} of {} belongs to no open call",
                    result.call_id, result.name
                )));
            };
            if *id != result.call_id || *tool != result.name {
                return Err(told(format!(
                    "the next result must be that of the call {id:?} of {tool}, and it is {:?} of {}",
                    result.call_id, result.name
                )));
            }
            open.remove(0);
        }
    }
    match open.first() {
        Some((id, tool)) => Err(format!(
            "at the end: the call {id:?} of {tool} has no result"
        )),
        None => Ok(()),
    }
}

/// Checks what an adapter sends to its provider as the strictest of them does: a conversation by [`check_transcript`], in
/// which each call has an id of its own with at most this many characters, each name of a tool is one to 64 letters,
/// digits, `_` or `-`, and each text and result says something; and tools with such names, whose schemas are valid down to
/// the last of their properties.
///
/// # Errors
/// The first breach.
pub fn check_sent(
    messages: &[Arc<Message>],
    tools: &ToolSet,
    longest_id: usize,
) -> Result<(), String> {
    check_transcript(messages)?;
    if messages.is_empty() {
        return Err("there is no message".to_owned());
    }
    let mut ids = BTreeSet::new();
    for part in messages.iter().flat_map(|message| &message.parts) {
        match part {
            Part::Text(text) if text.trim().is_empty() => return Err("a text is empty".to_owned()),
            Part::ToolResult(result) if result.text.trim().is_empty() => {
                return Err(format!("the result of {} is empty", result.name));
            }
            Part::ToolCall(call) => {
                check_name(&call.name)?;
                if call.id.chars().count() > longest_id {
                    return Err(format!("the id {:?} is too long", call.id));
                }
                if !ids.insert(&call.id) {
                    return Err(format!("the id {:?} is used twice", call.id));
                }
            }
            _ => {}
        }
    }
    let mut names = BTreeSet::new();
    for tool in tools.iter() {
        check_name(&tool.name)?;
        if !names.insert(&tool.name) {
            return Err(format!("two tools have the name {:?}", tool.name));
        }
        check_schema(&tool.parameters).map_err(|fault| format!("{}: {fault}", tool.name))?;
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let length = name.chars().count();
    match (1..=LONGEST_NAME).contains(&length) && name.chars().all(fits) {
        true => Ok(()),
        false => Err(format!("{name:?} is no name of a tool")),
    }
}

fn check_content(message: &Message, place: usize) -> Result<(), String> {
    let says_something = message.parts.iter().any(|part| match part {
        Part::Text(text) => !text.trim().is_empty(),
        Part::Reasoning(_) => false,
        Part::Provider(part) => part.kind == ProviderPartKind::Block,
        _ => true,
    });
    if !says_something {
        return Err("it says nothing".to_owned());
    }
    for part in &message.parts {
        let whose = match part {
            Part::ToolCall(_) | Part::Reasoning(_) | Part::Provider(_) => Role::Assistant,
            Part::ToolResult(_) => Role::Tool,
            Part::Text(_) if message.role == Role::Tool => Role::User,
            _ => continue,
        };
        if whose != message.role {
            return Err(format!("only {whose:?} may say {part:?}"));
        }
    }
    if message.role == Role::System && place > 0 {
        return Err("instructions stand at the beginning only".to_owned());
    }
    Ok(())
}

fn calls(message: &Message) -> Result<Vec<(String, String)>, String> {
    let mut seen = BTreeSet::new();
    for call in message.tool_calls() {
        if call.id.is_empty() || call.name.is_empty() {
            return Err(format!("a call without id or name: {call:?}"));
        }
        if !seen.insert(&call.id) {
            return Err(format!("two calls have the id {:?}", call.id));
        }
    }
    let named = message.tool_calls();
    Ok(named
        .map(|call| (call.id.clone(), call.name.clone()))
        .collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::vocabulary::{Reasoning, ToolCall, ToolResult, ToolStatus};

    fn call(id: &str) -> ToolCall {
        ToolCall::new(id, "search", "{}")
    }

    fn asks(ids: &[&str]) -> Message {
        let parts = ids.iter().map(|id| Part::ToolCall(call(id))).collect();
        Message {
            role: Role::Assistant,
            author: None,
            parts,
            synthetic: false,
        }
    }

    fn results(ids: &[&str]) -> Message {
        let result = |id: &&str| ToolResult::new(&call(id), ToolStatus::Success, "found");
        Message::results(ids.iter().map(result))
    }

    fn breach(messages: impl IntoIterator<Item = Message>) -> String {
        let messages: Vec<_> = messages.into_iter().map(Arc::new).collect();
        check_transcript(&messages).err().unwrap_or_default()
    }

    #[test]
    fn what_providers_accept_passes() {
        let user = || Message::user("hello");
        assert_eq!(breach([]), "");
        assert_eq!(breach([user(), Message::assistant("hi"), user()]), "");
        let with_tools = [user(), asks(&["a", "b"]), results(&["a", "b"]), user()];
        assert_eq!(breach(with_tools), "");
        let in_two = [user(), asks(&["a", "b"]), results(&["a"]), results(&["b"])];
        assert_eq!(breach(in_two), "");
    }

    #[test]
    fn each_breach_is_told() {
        let user = || Message::user("hello");
        let thinks = Message {
            parts: vec![Part::Reasoning(Reasoning::default())],
            ..Message::assistant("")
        };
        let says = Message {
            parts: vec![Part::ToolCall(call("a"))],
            ..user()
        };
        for (messages, expected) in [
            (vec![user(), asks(&["a"])], "has no result"),
            (vec![user(), asks(&["a"]), user()], "has no result yet"),
            (
                vec![asks(&["a", "b"]), results(&["b", "a"])],
                "the next result must be",
            ),
            (
                vec![asks(&["a"]), results(&["a", "a"])],
                "belongs to no open call",
            ),
            (vec![user(), results(&["a"])], "belongs to no open call"),
            (
                vec![asks(&["a", "a"]), results(&["a", "a"])],
                "two calls have the id",
            ),
            (vec![asks(&[""]), results(&[""])], "without id or name"),
            (vec![user(), Message::assistant("  ")], "says nothing"),
            (vec![user(), thinks], "says nothing"),
            (vec![says], "only Assistant may say"),
            (
                vec![user(), Message::text(Role::System, "x")],
                "at the beginning",
            ),
        ] {
            let told = breach(messages);
            assert!(told.contains(expected), "{told:?} for {expected:?}");
        }
    }
}
