//! Contents, for those who opt in: without secrets, and bounded.

use ghostlight_actors::vocabulary::{Arguments, FinishReason, Message, Part, Role};
use serde_json::{Value, json};

use crate::words::word;

/// The most characters of one text, and the most parts of a message.
const CHARACTERS: usize = 8_192;
const PARTS: usize = 64;

/// A message, in the form of the conventions.
pub(crate) fn message(message: &Message, finish: Option<&FinishReason>) -> String {
    let parts: Vec<Value> = message.parts.iter().take(PARTS).filter_map(part).collect();
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let mut said = json!({ "role": role, "parts": parts });
    if let Some(finish) = finish {
        said["finish_reason"] = word(finish).into();
    }
    json!([said]).to_string()
}

/// An answer, in the form of the conventions.
pub(crate) fn answer(text: &str) -> String {
    message(&Message::assistant(text), None)
}

/// The arguments of a call.
pub(crate) fn arguments(arguments: &Arguments) -> String {
    bounded(&ghostlight_safety::redact_arguments(arguments.text()).to_string())
}

/// A text of a person, a model or a tool.
pub(crate) fn text(text: &str) -> String {
    // A secret that the bound would cut is no longer found, so the text is redacted first.
    bounded(&ghostlight_safety::redact_text(text))
}

fn part(part: &Part) -> Option<Value> {
    Some(match part {
        Part::Text(said) => json!({ "type": "text", "content": text(said) }),
        Part::Reasoning(reasoning) => {
            json!({ "type": "reasoning", "content": text(&reasoning.text) })
        }
        Part::ToolCall(call) => json!({
            "type": "tool_call", "id": call.id, "name": call.name,
            "arguments": arguments(&call.arguments),
        }),
        Part::ToolResult(result) => json!({
            "type": "tool_call_response", "id": result.call_id, "response": text(&result.text),
        }),
        _ => return None,
    })
}

fn bounded(text: &str) -> String {
    ghostlight_safety::cut(text, CHARACTERS).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_without_secrets_and_bounded() {
        let said = message(
            &Message::user(format!("password=hunter22hunter22 {}", "x".repeat(20_000))),
            None,
        );
        assert!(!said.contains("hunter22"), "{said}");
        assert!(said.len() < 10_000);
        let arguments = arguments(&Arguments::from(json!({ "api_key": "abc" })));
        assert!(!arguments.contains("abc"), "{arguments}");
    }
}
