//! The events of AG-UI 1.0 that runs can cause.

use serde::Serialize;
use serde_json::{Map, Value};

/// The version of the protocol.
pub(super) const VERSION: &str = "1.0";

/// An event with the properties that all events share.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Told {
    #[serde(flatten)]
    pub(super) event: Event,
    /// When it happened, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timestamp: Option<u64>,
    /// The run below the root that it concerns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) subagent_run_id: Option<String>,
}

/// The event. The names are the protocol's.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(
    tag = "type",
    rename_all = "SCREAMING_SNAKE_CASE",
    rename_all_fields = "camelCase"
)]
pub(super) enum Event {
    RunStarted {
        thread_id: String,
        run_id: String,
        protocol_version: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<Value>,
    },
    RunFinished {
        thread_id: String,
        run_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Value>,
        outcome: Outcome,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        usage: Vec<TokenUsage>,
    },
    RunError {
        message: String,
        code: String,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        usage: Vec<TokenUsage>,
    },
    StepStarted {
        step_name: String,
    },
    StepFinished {
        step_name: String,
    },
    TextMessageStart {
        message_id: String,
        role: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    TextMessageContent {
        message_id: String,
        delta: String,
    },
    TextMessageEnd {
        message_id: String,
    },
    ReasoningStart {
        message_id: String,
    },
    ReasoningMessageStart {
        message_id: String,
        role: &'static str,
    },
    ReasoningMessageContent {
        message_id: String,
        delta: String,
    },
    ReasoningMessageEnd {
        message_id: String,
    },
    ReasoningEnd {
        message_id: String,
    },
    ToolCallStart {
        tool_call_id: String,
        tool_call_name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_message_id: Option<String>,
    },
    ToolCallArgs {
        tool_call_id: String,
        delta: String,
    },
    ToolCallEnd {
        tool_call_id: String,
    },
    ToolCallResult {
        message_id: String,
        tool_call_id: String,
        content: Value,
        role: &'static str,
    },
    StateSnapshot {
        snapshot: Value,
    },
    StateDelta {
        delta: Value,
    },
    MessagesSnapshot {
        messages: Vec<Value>,
    },
    ActivitySnapshot {
        message_id: String,
        activity_type: &'static str,
        content: Map<String, Value>,
    },
    ActivityDelta {
        message_id: String,
        activity_type: &'static str,
        patch: Value,
    },
    SubagentStarted {
        name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_subagent_run_id: Option<String>,
    },
    SubagentFinished {
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<String>,
        outcome: SubagentOutcome,
    },
    SubagentError {
        message: String,
        code: String,
    },
    Custom {
        name: String,
        value: Value,
    },
    Raw {
        event: Value,
        source: &'static str,
    },
}

/// Why a run ended that did not fail.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(
    tag = "type",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
pub(super) enum Outcome {
    Success {
        /// Calls of the client's tools that wait for their results.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pending_tool_call_ids: Vec<String>,
    },
    Interrupt {
        interrupts: Vec<Interrupt>,
    },
    Cancelled,
}

/// Why the part of a subagent in a run ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(
    tag = "type",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
pub(super) enum SubagentOutcome {
    Success,
    Suspended { interrupt_ids: Vec<String> },
}

/// A question of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Interrupt {
    pub(super) id: String,
    pub(super) reason: &'static str,
    pub(super) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_call_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_schema: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<String>,
    pub(super) metadata: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) subagent_run_id: Option<String>,
}

/// The tokens that calls of one model consumed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TokenUsage {
    pub(super) model: String,
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) total_tokens: u64,
    pub(super) reasoning_tokens: u64,
    pub(super) cached_input_tokens: u64,
}
