//! The messages of the Agent Client Protocol, version 1: those that we send and read, in the names of its schema.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the protocol.
pub const VERSION: u16 = 1;

/// Fields that both sides may add to the protocol's own.
pub type Meta = BTreeMap<String, Value>;

/// A program's name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Implementation {
    /// The name.
    pub name: String,
    /// The version.
    pub version: String,
}

/// The parameters of `initialize`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeRequest {
    /// The newest version that the client speaks. Old clients send a text.
    pub protocol_version: Value,
}

/// The result of `initialize`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InitializeResponse {
    /// The version that is spoken.
    pub protocol_version: u16,
    /// The abilities of the agent.
    pub agent_capabilities: AgentCapabilities,
    /// The ways to sign in; none is needed.
    pub auth_methods: Vec<Value>,
    /// The program.
    pub agent_info: Option<Implementation>,
}

/// The abilities of an agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentCapabilities {
    /// Whether it has `session/load`.
    pub load_session: bool,
    /// The parts that a prompt may contain.
    pub prompt_capabilities: PromptCapabilities,
    /// The methods for sessions that it has: an object for each.
    pub session_capabilities: BTreeMap<String, Value>,
    /// More, such as that prompts are known by name.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// The parts that a prompt may contain beside text and links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PromptCapabilities {
    /// Images.
    pub image: bool,
    /// Audio.
    pub audio: bool,
    /// Resources with their content.
    pub embedded_context: bool,
}

/// The parameters of `session/new`, `session/load`, `session/resume` and `session/fork`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SetupRequest {
    /// The session; none in `session/new`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The client's directory: an absolute path.
    pub cwd: String,
    /// Servers of the Model Context Protocol that the client offers.
    #[serde(default)]
    pub mcp_servers: Vec<Value>,
}

/// The result of these methods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SetupResponse {
    /// The session, if it is a new one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The modes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modes: Option<Modes>,
}

/// The modes of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Modes {
    /// The mode that it is in.
    pub current_mode_id: String,
    /// All modes.
    pub available_modes: Vec<Mode>,
}

/// A mode of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mode {
    /// Its id.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// Its meaning.
    pub description: String,
}

/// The parameters of `session/set_mode`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SetModeRequest {
    /// The session.
    pub session_id: String,
    /// The mode.
    pub mode_id: String,
}

/// The parameters of `session/cancel`, `session/close` and `session/delete`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OfSession {
    /// The session.
    pub session_id: String,
}

/// The parameters of `session/list`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListRequest {
    /// Only sessions of this directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The `nextCursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// The result of `session/list`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListResponse {
    /// The sessions, the one that changed last at the front.
    pub sessions: Vec<SessionInfo>,
    /// Where the next page begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A session in a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionInfo {
    /// Its id.
    pub session_id: String,
    /// Its directory.
    pub cwd: String,
    /// Its subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// When it changed last (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<String>,
}

/// The parameters of `session/prompt`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptRequest {
    /// The session.
    pub session_id: String,
    /// The message.
    pub prompt: Vec<ContentBlock>,
    /// More, such as the turn's id.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// The result of `session/prompt`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptResponse {
    /// Why the turn ended.
    pub stop_reason: StopReason,
    /// Its usage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The run, as `ghostlight/run`.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// Why a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The agent is done, or asks something.
    EndTurn,
    /// The model's answer reached the bound on its tokens.
    MaxTokens,
    /// A bound on steps, calls, money or time was reached.
    MaxTurnRequests,
    /// The model's provider held the answer back.
    Refusal,
    /// The client cancelled the turn.
    Cancelled,
}

/// The usage of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// All tokens.
    pub total_tokens: u64,
    /// Tokens of requests.
    pub input_tokens: u64,
    /// Tokens of answers.
    pub output_tokens: u64,
    /// Tokens of answers that were reasoning.
    pub thought_tokens: u64,
    /// Tokens of requests that came from a cache.
    pub cached_read_tokens: u64,
}

/// A piece of content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentBlock {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image, in base64.
    #[serde(rename_all = "camelCase")]
    Image {
        /// The bytes.
        data: String,
        /// The media type.
        mime_type: String,
    },
    /// Audio, in base64.
    #[serde(rename_all = "camelCase")]
    Audio {
        /// The bytes.
        data: String,
        /// The media type.
        mime_type: String,
    },
    /// A link to a resource, such as a file.
    ResourceLink {
        /// Its address.
        uri: String,
        /// Its name.
        name: String,
    },
    /// A resource with its content.
    Resource {
        /// The resource.
        resource: Resource,
    },
}

impl ContentBlock {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

/// A resource with its content, which is a text or bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Resource {
    /// Its address.
    pub uri: String,
    /// Its media type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The bytes in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
}

/// The parameters of `session/update`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionNotification {
    /// The session.
    pub session_id: String,
    /// The event.
    pub update: Update,
}

/// An event in a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "sessionUpdate", rename_all = "snake_case")]
pub enum Update {
    /// A piece of what the user said, when a session is loaded.
    UserMessageChunk(Chunk),
    /// A piece of what the agent says.
    AgentMessageChunk(Chunk),
    /// A piece of what the agent thinks.
    AgentThoughtChunk(Chunk),
    /// A tool call.
    ToolCall(ToolCall),
    /// A change of a tool call.
    ToolCallUpdate(ToolCall),
    /// The plan, whole.
    Plan {
        /// Its entries.
        entries: Vec<PlanEntry>,
    },
    /// Another mode.
    #[serde(rename_all = "camelCase")]
    CurrentModeUpdate {
        /// The mode.
        current_mode_id: String,
    },
    /// An update that this version does not know.
    #[serde(other)]
    Other,
}

/// A piece of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Chunk {
    /// The piece.
    pub content: ContentBlock,
    /// The message; pieces of one message have the same id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
}

/// A tool call, or the changed fields of one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolCall {
    /// Its id.
    pub tool_call_id: String,
    /// Its description, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Its kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<ToolKind>,
    /// How far it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ToolCallStatus>,
    /// Its content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<Vec<ToolCallContent>>,
    /// Its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_input: Option<Value>,
    /// Its result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_output: Option<Value>,
}

/// The content of a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToolCallContent {
    /// Content.
    Content {
        /// The content.
        content: ContentBlock,
    },
}

impl ToolCallContent {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        let content = ContentBlock::text(text);
        Self::Content { content }
    }
}

/// The kind of a tool, by which an editor chooses how to show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum ToolKind {
    Read,
    Edit,
    Delete,
    Move,
    Search,
    Execute,
    Think,
    Fetch,
    SwitchMode,
    #[serde(other)]
    Other,
}

/// How far a tool call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolCallStatus {
    /// It has not begun; perhaps a person is asked first.
    Pending,
    /// It is under way.
    InProgress,
    /// It has ended.
    Completed,
    /// It failed, or was not allowed.
    Failed,
}

/// A thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanEntry {
    /// The task.
    pub content: String,
    /// How important it is; ours are all `medium`.
    pub priority: String,
    /// How far it is: `pending`, `in_progress` or `completed`.
    pub status: String,
}

/// The parameters of `session/request_permission`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionRequest {
    /// The session.
    pub session_id: String,
    /// The call that it is about.
    pub tool_call: ToolCall,
    /// The possible answers.
    pub options: Vec<PermissionOption>,
}

/// A possible answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionOption {
    /// Its id.
    pub option_id: String,
    /// Its label.
    pub name: String,
    /// Its meaning.
    pub kind: PermissionKind,
}

/// The meaning of a possible answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PermissionKind {
    /// This once.
    AllowOnce,
    /// From now on.
    AllowAlways,
    /// Not this time.
    RejectOnce,
    /// Never.
    RejectAlways,
}

/// The result of `session/request_permission`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionResponse {
    /// The answer.
    pub outcome: PermissionOutcome,
}

/// A person's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum PermissionOutcome {
    /// The turn was cancelled before an answer.
    Cancelled,
    /// One of the options.
    #[serde(rename_all = "camelCase")]
    Selected {
        /// The option.
        option_id: String,
    },
}
