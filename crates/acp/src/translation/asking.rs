//! Questions as permission requests, and their answers.

use ghostlight_actors::vocabulary::{OperationId, Question, QuestionKind, RunId};
use serde_json::{Value, json};

use super::showing;
use crate::protocol::{
    PermissionKind, PermissionOption, PermissionRequest, ToolCall, ToolCallContent, ToolCallStatus,
};

/// The most options of a choice that is asked as a permission request.
const MAX_OPTIONS: usize = 20;

/// A question of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The run that asks.
    pub run: RunId,
    /// The operation, which an answer names.
    pub operation: OperationId,
    /// The question.
    pub question: Question,
    /// The tool call that it is about, or an id of its own.
    pub tool_call_id: String,
}

/// A question as a permission request, with the answer that each option stands for; `None` for one that is answered in
/// words.
pub fn permission(session: &str, asked: &Asked) -> Option<(PermissionRequest, Vec<Value>)> {
    let question = &asked.question;
    let options = options(question)?;
    let call = question.call.as_ref();
    let content = call.map(|call| {
        format!(
            "{}\n\n{} {}",
            question.prompt,
            call.name,
            call.arguments.text()
        )
    });
    let arguments = call.and_then(|call| call.arguments.value().ok()).cloned();
    let tool_call = ToolCall {
        tool_call_id: asked.tool_call_id.clone(),
        title: Some(showing::title(None, &question.prompt, None)),
        kind: call.map(|call| showing::kind_of(&call.name)),
        status: Some(ToolCallStatus::Pending),
        content: content.map(|text| vec![ToolCallContent::text(text)]),
        raw_input: arguments,
        ..ToolCall::default()
    };
    let (options, values) = options
        .into_iter()
        .enumerate()
        .map(|(place, (kind, name, value))| {
            let option_id = place.to_string();
            let option = PermissionOption {
                option_id,
                name,
                kind,
            };
            (option, value)
        })
        .unzip();
    let request = PermissionRequest {
        session_id: session.to_owned(),
        tool_call,
        options,
    };
    Some((request, values))
}

fn options(question: &Question) -> Option<Vec<(PermissionKind, String, Value)>> {
    use PermissionKind::{AllowAlways, AllowOnce, RejectOnce};
    let yes_or_no = |yes: &str, no: &str| {
        let yes = (AllowOnce, yes.to_owned(), Value::Bool(true));
        vec![yes, (RejectOnce, no.to_owned(), Value::Bool(false))]
    };
    match question.kind {
        QuestionKind::Approval => {
            // The answer counts for the very call that was shown.
            let decided = |mut answer: Value| {
                if let (Some(digest), Some(fields)) = (question.digest, answer.as_object_mut()) {
                    fields.insert("digest".to_owned(), digest.to_string().into());
                }
                answer
            };
            let once = decided(json!({ "approved": true }));
            let always = decided(json!({ "approved": true, "remember": true }));
            let no = decided(json!({ "approved": false }));
            Some(vec![
                (AllowOnce, "Allow".to_owned(), once),
                (
                    AllowAlways,
                    "Allow in this session, if the team permits".to_owned(),
                    always,
                ),
                (RejectOnce, "Deny".to_owned(), no),
            ])
        }
        QuestionKind::Confirmation => Some(yes_or_no("Yes", "No")),
        QuestionKind::InDoubt => Some(yes_or_no("It happened", "It did not happen")),
        QuestionKind::Choice if (1..=MAX_OPTIONS).contains(&question.options.len()) => {
            let options = question.options.iter();
            let options = options.map(|option| {
                let label = question.label(option).to_owned();
                (AllowOnce, label, Value::String(option.clone()))
            });
            Some(options.collect())
        }
        _ => None,
    }
}

/// A question in words, for a client that answers it with its next prompt.
pub fn prompt(question: &Question) -> String {
    let mut text = question.prompt.clone();
    if let Some(call) = &question.call {
        text.push_str(&format!("\n\n{} {}", call.name, call.arguments.text()));
    }
    let hint = match question.kind {
        QuestionKind::Approval | QuestionKind::Confirmation | QuestionKind::InDoubt => {
            "Answer yes or no.".to_owned()
        }
        QuestionKind::Choice => {
            let options = question.options.iter();
            let options: Vec<&str> = options.map(|option| question.label(option)).collect();
            format!("Answer with one of: {}.", options.join(", "))
        }
        QuestionKind::Form => {
            let schema = question.schema.as_ref().map(Value::to_string);
            format!(
                "Answer with a JSON object that fits this schema: {}",
                schema.unwrap_or_default()
            )
        }
        QuestionKind::Authentication => {
            "Your next message goes to the tool alone and is not recorded here, but your editor may keep it."
                .to_owned()
        }
        _ => return text,
    };
    format!("{text}\n\n{hint}")
}

/// The value that a text gives as the answer to a question. Whether it fits is decided where it is given.
pub fn answer_of(question: &Question, text: &str) -> Value {
    let text = text.trim();
    match question.kind {
        QuestionKind::Approval | QuestionKind::Confirmation | QuestionKind::InDoubt => {
            match text.to_lowercase().trim_end_matches(['.', '!']) {
                "yes" | "y" | "true" | "allow" | "approve" | "approved" | "ok" => Value::Bool(true),
                "no" | "n" | "false" | "deny" | "denied" => Value::Bool(false),
                _ => Value::String(text.to_owned()),
            }
        }
        QuestionKind::Choice => {
            let mut options = question.options.iter();
            let meant = options.find(|option| question.label(option).eq_ignore_ascii_case(text));
            Value::String(meant.map_or(text, String::as_str).to_owned())
        }
        _ => Value::String(text.to_owned()),
    }
}
