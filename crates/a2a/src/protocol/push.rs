//! Push notifications: who is told of a task by a message.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The receiver of a task's push notifications.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PushConfig {
    /// Its id, unique in the task; the server gives one when it is left out.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// The task.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub task_id: String,
    /// The address to post to.
    pub url: String,
    /// A text that each message carries in the header `X-A2A-Notification-Token`, so that the receiver knows whose it is.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub token: String,
    /// The header `Authorization` of each message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authentication: Option<PushAuthentication>,
}

/// How a server authenticates at the receiver of its push notifications.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PushAuthentication {
    /// The scheme, such as `Bearer`.
    pub scheme: String,
    /// The credentials. Servers need not show them again.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub credentials: String,
}

impl fmt::Debug for PushConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may hold a secret, as the token is one.
        f.debug_struct("PushConfig")
            .field("id", &self.id)
            .field("task_id", &self.task_id)
            .field("authentication", &self.authentication)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for PushAuthentication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushAuthentication")
            .field("scheme", &self.scheme)
            .finish_non_exhaustive()
    }
}

/// A request about the receivers of one task's push notifications, or about one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PushQuery {
    /// The task.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub task_id: String,
    /// The receiver's id.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
}

/// The receivers of a task's push notifications.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ListPushConfigsResponse {
    /// All of them.
    pub configs: Vec<PushConfig>,
    /// The token of the next page; always empty.
    pub next_page_token: String,
}
