//! Requests of clients.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Message, PushConfig, Task, TaskState};

/// A request to send a message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SendMessage {
    /// The message.
    pub message: Message,
    /// The configuration of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<SendConfiguration>,
    /// Further data about the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

/// The configuration of a message's answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SendConfiguration {
    /// The media types that the client accepts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accepted_output_modes: Vec<String>,
    /// The receiver of the task's push notifications.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_push_notification_config: Option<PushConfig>,
    /// The most messages of the task's history in the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_length: Option<u32>,
    /// Whether to answer when the task is recorded, instead of when it ends or asks.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub return_immediately: bool,
}

/// A request about one task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskQuery {
    /// The task.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// The most messages of its history in the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_length: Option<u32>,
}

/// A request for a list of tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ListTasks {
    /// Only tasks of this conversation.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub context_id: String,
    /// Only tasks with this status.
    #[serde(skip_serializing_if = "is_unspecified")]
    pub status: TaskState,
    /// The most tasks in a page; 50 when left out, 100 at the most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_size: Option<u32>,
    /// The `nextPageToken` of the page before.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub page_token: String,
    /// The most messages of each task's history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_length: Option<u32>,
    /// Only tasks that changed at this time or later (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_timestamp_after: Option<String>,
    /// Whether to include artifacts.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub include_artifacts: bool,
}

fn is_unspecified(state: &TaskState) -> bool {
    *state == TaskState::Unspecified
}

/// A page of tasks. No field may be left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ListTasksResponse {
    /// The tasks, the latest change first.
    pub tasks: Vec<Task>,
    /// The token of the next page; empty where this is the last.
    pub next_page_token: String,
    /// The size of a page.
    pub page_size: u32,
    /// The number of tasks on all pages.
    pub total_size: u32,
}
