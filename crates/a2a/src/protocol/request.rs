//! Requests of clients.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Message, Task, TaskState};

/// A request to send a message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SendMessage {
    /// What is said.
    pub message: Message,
    /// How it is to be answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<SendConfiguration>,
    /// What else is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

/// How a message is to be answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SendConfiguration {
    /// The media types that the client takes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accepted_output_modes: Vec<String>,
    /// Where to notify; refused, since there are no push notifications.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_push_notification_config: Option<Value>,
    /// At most so many messages of the task's history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_length: Option<u32>,
    /// Whether to answer when the task is recorded, and not when it ends or asks.
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
    /// At most so many messages of its history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_length: Option<u32>,
}

/// A request for a list of tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ListTasks {
    /// Only those of this conversation.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub context_id: String,
    /// Only those with this status.
    #[serde(skip_serializing_if = "is_unspecified")]
    pub status: TaskState,
    /// At most so many; 50, and 100 at the most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_size: Option<u32>,
    /// The `nextPageToken` of the page before.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub page_token: String,
    /// At most so many messages of each one's history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_length: Option<u32>,
    /// Only those that changed at this time or later (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_timestamp_after: Option<String>,
    /// Whether artifacts are wanted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub include_artifacts: bool,
}

fn is_unspecified(state: &TaskState) -> bool {
    *state == TaskState::Unspecified
}

/// A page of tasks. All fields are always there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ListTasksResponse {
    /// The tasks, the one that changed last at the front.
    pub tasks: Vec<Task>,
    /// The token of the next page; empty where this is the last.
    pub next_page_token: String,
    /// How many a page has.
    pub page_size: u32,
    /// How many there are on all pages.
    pub total_size: u32,
}
