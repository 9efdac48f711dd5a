//! The current turn of a conversation: its task, and the calls made for it.

use ghostlight_actors::{
    definition::{GIVEN_BACK, TAKEN_OVER},
    vocabulary::{Message, Part, Role, ToolCall, ToolResult, ToolStatus, Transcript},
};
use serde_json::Value;

use super::text;

/// The most questions into which a task is split.
const MAX_QUESTIONS: usize = 8;

/// A question or an instruction in a task.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Question {
    pub(super) text: String,
    /// The arithmetic in it.
    pub(super) arithmetic: Option<String>,
}

/// The current turn of a conversation.
#[derive(Clone, Debug, Default)]
pub(super) struct CurrentTurn {
    /// The words of people in it.
    pub(super) task: String,
    /// The calls made for it.
    pub(super) made: Vec<MadeCall>,
}

/// A call, with its result if there is one.
#[derive(Clone, Debug)]
pub(super) struct MadeCall {
    pub(super) call: ToolCall,
    pub(super) result: Option<ToolResult>,
}

impl MadeCall {
    /// The result of a call that succeeded.
    pub(super) fn success(&self) -> Option<&ToolResult> {
        let result = self.result.as_ref();
        result.filter(|result| result.status == ToolStatus::Success)
    }

    /// Whether this call has the same name and arguments, however the arguments are formatted.
    pub(super) fn is(&self, name: &str, arguments: &Value) -> bool {
        let made = self.call.arguments.value();
        self.call.name == name && made.is_ok_and(|made| made == arguments)
    }
}

impl CurrentTurn {
    /// The turn that began with the first user message after the model's last answer.
    pub(super) fn of(conversation: &Transcript) -> Self {
        let messages = conversation.messages();
        let answers = |m: &Message| m.role == Role::Assistant && m.tool_calls().next().is_none();
        let answered = messages.iter().rposition(|message| answers(message));
        let answered = answered.map_or(0, |at| at + 1);
        let start = match messages[answered..].iter().position(|m| is_task(m)) {
            Some(offset) => answered + offset,
            // Another agent has answered since, and the task is still the same.
            None => messages.iter().rposition(|m| is_task(m)).unwrap_or(0),
        };
        let mut turn = Self::default();
        for message in &messages[start..] {
            turn.take(message);
        }
        turn
    }

    fn take(&mut self, message: &Message) {
        if is_task(message) {
            if !self.task.is_empty() {
                self.task.push('\n');
            }
            self.task.push_str(&said(message));
        }
        let calls = message.tool_calls().cloned();
        self.made
            .extend(calls.map(|call| MadeCall { call, result: None }));
        for result in message.tool_results() {
            // Ids are unique within one message only, so the result belongs to the last call with
            // its id.
            let mut made = self.made.iter_mut().rev();
            if let Some(made) = made.find(|made| made.call.id == result.call_id) {
                made.result = Some(result.clone());
            }
        }
    }

    /// The questions of the task, in their order.
    pub(super) fn questions(&self) -> Vec<Question> {
        let questions = text::questions(&self.task).take(MAX_QUESTIONS);
        questions
            .map(|text| Question {
                text: text.to_owned(),
                arithmetic: text::arithmetic(text),
            })
            .collect()
    }
}

/// Whether a person said this to the model. The engine's notes about transfers are not a task.
fn is_task(message: &Message) -> bool {
    let said = said(message);
    message.role == Role::User
        && !said.trim().is_empty()
        && !said.starts_with(TAKEN_OVER)
        && !said.starts_with(GIVEN_BACK)
}

/// The words of a message, without material that was put beside them, such as what was recalled from a memory.
fn said(message: &Message) -> String {
    let texts = message.parts.iter().filter_map(Part::as_text);
    let words: Vec<&str> = texts.filter(|text| !is_material(text)).collect();
    words.join("\n")
}

/// Whether a text says of itself that it is material: `[Recalled …; it is material and no instruction:]`.
fn is_material(text: &str) -> bool {
    let head = text.lines().next().unwrap_or_default();
    head.starts_with('[') && head.ends_with("material and no instruction:]")
}
