//! The forms of single things: calls, their results, subagents and questions.

use ghostlight_actors::vocabulary::{
    DataSource, OperationId, QuestionKind, RunId, RunResult, ToolCall, ToolResult,
};
use serde_json::{Value, json};

use super::{
    event::{Event, Interrupt, SubagentOutcome},
    input::id_of,
    reader::Asked,
};

/// The source of events that the protocol has no form for.
pub(super) const SOURCE: &str = "ghostlight";

pub(super) fn message_id(run: RunId, operation: OperationId, attempt: u32) -> String {
    let id = id_of(run, operation);
    match attempt {
        1 => id,
        _ => format!("{id}_{attempt}"),
    }
}

pub(super) fn subagent(parent: Option<RunId>, agent: &str) -> Event {
    Event::SubagentStarted {
        name: agent.to_owned(),
        parent_subagent_run_id: parent.map(|parent| parent.to_string()),
    }
}

pub(super) fn subagent_end(end: &RunResult) -> Event {
    let (message, code) = match end {
        RunResult::Answered(text) => {
            return Event::SubagentFinished {
                result: Some(text.clone()),
                outcome: SubagentOutcome::Success,
            };
        }
        RunResult::Stopped(reason) => (reason.to_string(), "stopped"),
        RunResult::Failed(error) => (error.to_string(), "failed"),
        _ => {
            return Event::SubagentFinished {
                result: None,
                outcome: SubagentOutcome::Success,
            };
        }
    };
    let code = code.to_owned();
    Event::SubagentError { message, code }
}

pub(super) fn custom(name: &str, value: Value) -> Event {
    let name = format!("{SOURCE}.{name}");
    Event::Custom { name, value }
}

pub(super) fn called(call: &ToolCall, id: &str, parent: Option<String>, events: &mut Vec<Event>) {
    let id = || id.to_owned();
    events.push(Event::ToolCallStart {
        tool_call_id: id(),
        tool_call_name: call.name.clone(),
        parent_message_id: parent,
    });
    let text = call.arguments.text();
    let text = if text.trim().is_empty() { "{}" } else { text };
    events.push(Event::ToolCallArgs {
        tool_call_id: id(),
        delta: text.to_owned(),
    });
    events.push(Event::ToolCallEnd { tool_call_id: id() });
}

pub(super) fn result_of(result: &ToolResult, id: String) -> Event {
    let mut content = Value::String(result.text.clone());
    if !result.attachments.is_empty() {
        let mut parts = vec![json!({ "type": "text", "text": result.text })];
        for data in &result.attachments {
            let kind = data.media_type.split('/').next();
            let kind = kind.filter(|kind| matches!(*kind, "image" | "audio" | "video"));
            let kind = kind.unwrap_or("document");
            let source = match &data.source {
                DataSource::Base64(value) => {
                    json!({ "type": "data", "value": value, "mimeType": data.media_type })
                }
                DataSource::Url(value) => {
                    json!({ "type": "url", "value": value, "mimeType": data.media_type })
                }
                _ => continue,
            };
            parts.push(json!({ "type": kind, "source": source }));
        }
        content = parts.into();
    }
    Event::ToolCallResult {
        message_id: format!("{id}_result"),
        tool_call_id: id,
        content,
        role: "tool",
    }
}

/// A question in the protocol's words.
pub(super) fn interrupt(asked: &Asked, root: RunId) -> Interrupt {
    let question = &asked.question;
    let yes_or_no = || json!({ "type": "boolean" });
    let (reason, schema) = match question.kind {
        QuestionKind::Approval => {
            let approved = json!({ "approved": yes_or_no(), "editedArgs": { "type": "object" } });
            let schema =
                json!({ "type": "object", "properties": approved, "required": ["approved"] });
            ("tool_call", Some(schema))
        }
        QuestionKind::Confirmation => ("confirmation", Some(yes_or_no())),
        QuestionKind::InDoubt => ("ghostlight:in_doubt", Some(yes_or_no())),
        QuestionKind::Authentication => ("ghostlight:authentication", None),
        QuestionKind::Choice => {
            let schema = json!({ "type": "string", "enum": question.options });
            ("input_required", Some(schema))
        }
        _ => ("input_required", question.schema.clone()),
    };
    let call = question
        .call
        .as_ref()
        .map(|call| json!({ "name": call.name, "arguments": call.arguments.text() }));
    let about = json!({
        "kind": question.kind, "path": question.path, "call": call, "digest": question.digest,
        "options": question.options, "labels": question.labels,
    });
    let expires = question.expires.and_then(|at| i64::try_from(at.0).ok());
    let expires = expires.and_then(|at| jiff::Timestamp::from_millisecond(at).ok());
    Interrupt {
        id: id_of(asked.run, asked.operation),
        reason,
        message: question.prompt.clone(),
        tool_call_id: asked.call.clone(),
        response_schema: schema,
        expires_at: expires.map(|at| at.to_string()),
        metadata: json!({ "ghostlight": about }),
        subagent_run_id: (asked.run != root).then(|| asked.run.to_string()),
    }
}
