//! Tool calls and plans, as people see them.

use ghostlight_actors::vocabulary::{CallReport, ToolCall as Call, ToolResult, ToolStatus};
use serde_json::Value;

use crate::protocol::{PlanEntry, ToolCall, ToolCallContent, ToolCallStatus, ToolKind, Update};

/// The most characters of a title.
const TITLE: usize = 160;
/// The most entries of a plan.
const MAX_ENTRIES: usize = 200;

/// A call that a model asks for.
pub(super) fn call(id: String, by: Option<&str>, call: &Call) -> ToolCall {
    let arguments = call.arguments.value().cloned();
    ToolCall {
        tool_call_id: id,
        title: Some(title(by, &call.name, Some(call.arguments.text()))),
        kind: Some(kind_of(&call.name)),
        status: Some(ToolCallStatus::Pending),
        raw_input: Some(arguments.unwrap_or_else(|_| call.arguments.text().into())),
        ..ToolCall::default()
    }
}

/// A task for another agent.
pub(super) fn task(id: String, agent: &str) -> ToolCall {
    ToolCall {
        tool_call_id: id,
        title: Some(ghostlight_safety::sanitize_line(
            &format!("asks {agent}"),
            TITLE,
        )),
        kind: Some(ToolKind::Other),
        status: Some(ToolCallStatus::InProgress),
        ..ToolCall::default()
    }
}

/// The end of a call.
pub(super) fn ended(id: String, status: ToolCallStatus, content: ToolCallContent) -> ToolCall {
    ToolCall {
        tool_call_id: id,
        status: Some(status),
        content: Some(vec![content]),
        ..ToolCall::default()
    }
}

/// A line that tells what is called, by which agent if it is not the turn's.
pub(super) fn title(by: Option<&str>, tool: &str, arguments: Option<&str>) -> String {
    let by = by.map(|agent| format!("{agent}: ")).unwrap_or_default();
    let arguments = arguments.filter(|text| !matches!(text.trim(), "" | "{}"));
    let arguments = arguments.unwrap_or_default();
    ghostlight_safety::sanitize_line(&format!("{by}{tool} {arguments}"), TITLE)
}

/// The kind of a tool, where it is one of the built-in tools.
pub(super) fn kind_of(tool: &str) -> ToolKind {
    match tool {
        "read_file" | "list_files" | "diff_file" | "read_note" | "read_skill_file"
        | "read_process" | "list_artifacts" | "load_artifact" => ToolKind::Read,
        "write_file" | "edit_file" | "patch_files" | "undo_file" | "write_note" => ToolKind::Edit,
        "grep_files" | "find_notes" | "search_tools" | "document_search" => ToolKind::Search,
        "run_command"
        | "run_command_with_approval"
        | "start_process"
        | "write_process"
        | "stop_process" => ToolKind::Execute,
        "web_fetch" | "web_request" | "web_search" => ToolKind::Fetch,
        "todo_write" | "create_tasks" => ToolKind::Think,
        _ => ToolKind::Other,
    }
}

/// The plan that a call of `create_tasks` wrote.
pub(super) fn plan(result: &ToolResult, call: &CallReport) -> Option<Update> {
    let is_plan = result.name == "create_tasks" && result.status == ToolStatus::Success;
    let tasks = is_plan.then(|| call.arguments.value().ok()).flatten()?;
    entries(tasks.get("tasks")?)
}

/// The list that `todo_write` keeps in the session's state.
pub(super) fn todos(key: &str, value: &Value) -> Option<Update> {
    (key == "todos").then(|| entries(value)).flatten()
}

/// Objects with a `content` and a `status`, as a plan; `None` if they are something else.
fn entries(list: &Value) -> Option<Update> {
    let mut entries = Vec::new();
    for one in list.as_array()?.iter().take(MAX_ENTRIES) {
        let (content, status) = (one.get("content")?.as_str()?, one.get("status")?.as_str()?);
        match status {
            "pending" | "in_progress" | "completed" => entries.push(PlanEntry {
                content: content.to_owned(),
                priority: "medium".to_owned(),
                status: status.to_owned(),
            }),
            "canceled" => {}
            _ => return None,
        }
    }
    Some(Update::Plan { entries })
}

/// A text of at most this many bytes, which says what was left out.
pub(super) fn bounded(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most);
    format!("{}\n[{} more bytes]", &text[..end], text.len() - end)
}
