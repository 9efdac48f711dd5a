//! Tasks, and their updates.

use ghostlight_actors::vocabulary::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Message, Part};

/// How a task stands.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
)]
pub enum TaskState {
    /// No state is given.
    #[default]
    #[serde(rename = "TASK_STATE_UNSPECIFIED")]
    Unspecified,
    /// The task was accepted and has not begun.
    #[serde(rename = "TASK_STATE_SUBMITTED")]
    Submitted,
    /// It is under way.
    #[serde(rename = "TASK_STATE_WORKING")]
    Working,
    /// It is done.
    #[serde(rename = "TASK_STATE_COMPLETED")]
    Completed,
    /// It failed.
    #[serde(rename = "TASK_STATE_FAILED")]
    Failed,
    /// It was cancelled.
    #[serde(rename = "TASK_STATE_CANCELED")]
    Canceled,
    /// It continues with the client's next message.
    #[serde(rename = "TASK_STATE_INPUT_REQUIRED")]
    InputRequired,
    /// The agent refuses the task.
    #[serde(rename = "TASK_STATE_REJECTED")]
    Rejected,
    /// It continues when a credential was given, in another way than by a message.
    #[serde(rename = "TASK_STATE_AUTH_REQUIRED")]
    AuthRequired,
}

impl TaskState {
    /// Whether this state is final.
    pub fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Completed | Self::Failed | Self::Canceled | Self::Rejected
        )
    }

    /// Whether the task waits for input from outside.
    pub fn is_interrupted(self) -> bool {
        matches!(self, Self::InputRequired | Self::AuthRequired)
    }
}

/// The status of a task: its state, since when it holds, and the agent's message about it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskStatus {
    /// The state.
    pub state: TaskState,
    /// The agent's message about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
    /// The time since when it holds (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
}

/// A result of an agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Artifact {
    /// Its id, unique in its task.
    pub artifact_id: String,
    /// Its name, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its content.
    pub parts: Vec<Part>,
    /// Further data about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// The URIs of the extensions that it uses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
}

/// A piece of work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Task {
    /// Its id, which the agent gave it.
    pub id: String,
    /// The conversation that it belongs to.
    pub context_id: String,
    /// Its status.
    pub status: TaskStatus,
    /// Its results.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// Its messages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Message>,
    /// Further data about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

impl Task {
    /// Applies an update, as a client does when it follows the task.
    pub fn apply(&mut self, update: &StreamResponse) {
        match update {
            StreamResponse::Task(task) => self.clone_from(task),
            StreamResponse::Message(message) => self.history.push(message.clone()),
            StreamResponse::StatusUpdate(update) => {
                // The previous status message becomes a part of the history.
                let said = std::mem::replace(&mut self.status, update.status.clone());
                self.history.extend(said.message);
            }
            StreamResponse::ArtifactUpdate(update) => self.add(&update.artifact, update.append),
        }
    }

    fn add(&mut self, artifact: &Artifact, append: bool) {
        let id = &artifact.artifact_id;
        match self
            .artifacts
            .iter_mut()
            .find(|known| known.artifact_id == *id)
        {
            Some(known) if append => known.parts.extend(artifact.parts.iter().cloned()),
            Some(known) => known.clone_from(artifact),
            None => self.artifacts.push(artifact.clone()),
        }
    }

    /// The same task with at most this many messages of its history, the latest ones.
    #[must_use]
    pub fn with_history(mut self, most: Option<u32>) -> Self {
        if let Some(most) = most {
            let passed = self.history.len().saturating_sub(most as usize);
            self.history.drain(..passed);
        }
        self
    }
}

/// A change of a task's status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusUpdate {
    /// The task.
    pub task_id: String,
    /// Its conversation.
    pub context_id: String,
    /// Its status.
    pub status: TaskStatus,
    /// Further data about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

/// A new artifact of a task, or a piece of one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ArtifactUpdate {
    /// The task.
    pub task_id: String,
    /// Its conversation.
    pub context_id: String,
    /// The artifact, or the next piece of it.
    pub artifact: Artifact,
    /// Whether to append it to the artifact's earlier pieces; otherwise it replaces them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub append: bool,
    /// Whether this is the last piece.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub last_chunk: bool,
    /// Further data about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

/// An item of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::large_enum_variant)]
pub enum StreamResponse {
    /// The whole task.
    Task(Task),
    /// A message.
    Message(Message),
    /// The task's new status.
    StatusUpdate(StatusUpdate),
    /// A result of the task.
    ArtifactUpdate(ArtifactUpdate),
}

/// The answer to a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::large_enum_variant)]
pub enum SendResponse {
    /// The task that it began or continued.
    Task(Task),
    /// A message, without a task.
    Message(Message),
}

/// A point in time in the protocol's form (RFC 3339); `None` if it is out of range.
pub fn time_of(at: Timestamp) -> Option<String> {
    let millis = i64::try_from(at.0).ok()?;
    let time = jiff::Timestamp::from_millisecond(millis).ok()?;
    Some(time.to_string())
}

/// The point in time of a text of RFC 3339; `None` if it is invalid or before 1970.
pub fn timestamp_of(text: &str) -> Option<Timestamp> {
    let time: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(time.as_millisecond()).ok().map(Timestamp)
}
