//! Questions about calls, as they are shown and recorded.

use ghostlight_safety::deciding;
use serde_json::Value;

use crate::{
    run::OperationContext,
    vocabulary::{Question, ToolCall},
};

/// A question about this call. It shows every part of the call that has an effect, is bound to the
/// exact call, and keeps the call for the journal.
pub(super) fn about(mut question: Question, call: &ToolCall, reveal: &[String]) -> Question {
    let shown = match call.arguments.value() {
        Ok(arguments) => deciding::show(arguments, reveal).arguments,
        Err(_) => Value::String(deciding::show_text(call.arguments.text())),
    };
    let shown = ToolCall::new(call.id.clone(), call.name.clone(), shown);
    let is_exact = shown.arguments.text() == call.arguments.text();
    question.exact = (!is_exact).then(|| call.arguments.clone());
    question.digest = Some(call.digest());
    question.call = Some(shown);
    question
}

/// The agents that ask: from the root's agent to the one whose function makes the call.
pub(super) fn asking(cx: &OperationContext) -> Vec<String> {
    let mut path = cx.start().path.clone();
    if let Some(last) = path.last_mut() {
        *last = cx.agent().spec.name.clone();
    }
    path
}
