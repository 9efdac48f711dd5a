//! Tasks, and what is told of them while they are under way.

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
    /// It is not said.
    #[default]
    #[serde(rename = "TASK_STATE_UNSPECIFIED")]
    Unspecified,
    /// It was taken and has not begun.
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
    /// It goes on with the client's next message.
    #[serde(rename = "TASK_STATE_INPUT_REQUIRED")]
    InputRequired,
    /// The agent does not do it.
    #[serde(rename = "TASK_STATE_REJECTED")]
    Rejected,
    /// It goes on when somebody has given a credential, by another way than a message.
    #[serde(rename = "TASK_STATE_AUTH_REQUIRED")]
    AuthRequired,
}

impl TaskState {
    /// Whether nothing changes any more.
    pub fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Completed | Self::Failed | Self::Canceled | Self::Rejected
        )
    }

    /// Whether it waits for somebody outside.
    pub fn is_interrupted(self) -> bool {
        matches!(self, Self::InputRequired | Self::AuthRequired)
    }
}

/// The status of a task, since when it holds, and the agent's words about it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskStatus {
    /// How.
    pub state: TaskState,
    /// What the agent says about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
    /// Since when (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
}

/// What an agent made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Artifact {
    /// Its id, unique in its task.
    pub artifact_id: String,
    /// Its name, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its content.
    pub parts: Vec<Part>,
    /// Further data about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// The extensions by which it is to be read.
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
    /// Applies an update, as a client does that follows the task.
    pub fn apply(&mut self, update: &StreamResponse) {
        match update {
            StreamResponse::Task(task) => self.clone_from(task),
            StreamResponse::Message(message) => self.history.push(message.clone()),
            StreamResponse::StatusUpdate(update) => {
                // What the agent said before belongs to what was said.
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

    /// The same with at most so many messages of its history, the latest.
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

/// An artifact that a task has made, or a piece of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ArtifactUpdate {
    /// The task.
    pub task_id: String,
    /// Its conversation.
    pub context_id: String,
    /// The artifact, or the next piece of it.
    pub artifact: Artifact,
    /// Whether it is put behind what was told of the artifact before; else it takes its place.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub append: bool,
    /// Whether the artifact is whole.
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
    /// The task, whole.
    Task(Task),
    /// A message.
    Message(Message),
    /// How the task stands now.
    StatusUpdate(StatusUpdate),
    /// What it made.
    ArtifactUpdate(ArtifactUpdate),
}

/// The answer to a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::large_enum_variant)]
pub enum SendResponse {
    /// The task that it began or went on with.
    Task(Task),
    /// A message; there is no task.
    Message(Message),
}

/// A point in time as the protocol writes it (RFC 3339); `None` past what it can write.
pub fn time_of(at: Timestamp) -> Option<String> {
    let millis = i64::try_from(at.0).ok()?;
    let time = jiff::Timestamp::from_millisecond(millis).ok()?;
    Some(time.to_string())
}

/// The point in time that a text of RFC 3339 means; `None` where it means none since 1970.
pub fn timestamp_of(text: &str) -> Option<Timestamp> {
    let time: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(time.as_millisecond()).ok().map(Timestamp)
}
