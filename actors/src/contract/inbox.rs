//! What comes to a run from outside.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::vocabulary::{
    Budget, Message, OperationId, RunId, SessionId, Timestamp, ToolDefinition,
};

/// Something from outside for a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InboxItem {
    /// The sender's id of it; an id counts once in a run.
    pub id: String,
    /// When it was posted.
    pub at: Timestamp,
    /// What it is.
    pub body: InboxBody,
}

impl InboxItem {
    /// An item with this id.
    pub fn new(id: impl Into<String>, at: Timestamp, body: InboxBody) -> Self {
        Self {
            id: id.into(),
            at,
            body,
        }
    }
}

/// What comes from outside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum InboxBody {
    /// An answer to the question that this operation asked.
    Answer {
        /// The operation.
        operation: OperationId,
        /// The answer.
        value: Value,
    },
    /// The result of a call that gave a ticket.
    Result {
        /// The operation.
        operation: OperationId,
        /// The result's text, or why it failed.
        result: Result<String, String>,
    },
    /// A typed message for `RunContext::receive`.
    Message {
        /// The type's stable name.
        name: String,
        /// Its content.
        value: Value,
    },
    /// A person says something while the run is under way.
    Steer(Message),
    /// A turn of the run's session is said to the run while it is under way. Where the run ends
    /// without having heard it, it is a turn of its own.
    Turn {
        /// The caller's id of it.
        turn: String,
        /// What is said.
        message: Message,
        /// Who says it.
        owner: Option<String>,
        /// The bounds of its run, if it has one.
        budget: Budget,
        /// When that run must have ended.
        deadline: Option<Timestamp>,
    },
    /// A turn of a session that another process carries, in the inbox of the run that it will be:
    /// that process begins it.
    Begin(Box<PostedTurn>),
    /// What became of such a turn where it is no run of its own, for the process that posted it.
    Begun {
        /// The run that was told it, or why it was refused.
        turn: Result<RunId, String>,
    },
    /// The run is to be cancelled.
    Cancel {
        /// Why.
        reason: String,
    },
    /// One call is to be cancelled while the run goes on.
    CancelCall {
        /// The operation.
        operation: OperationId,
    },
    /// A parked run is to be tried again.
    Retry,
}

/// A turn that is said to a session from a process that does not carry it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PostedTurn {
    /// The session.
    pub session: SessionId,
    /// The caller's id of the turn.
    pub turn: String,
    /// What is said.
    pub message: Message,
    /// Who says it.
    pub owner: Option<String>,
    /// The bounds of its run.
    pub budget: Budget,
    /// When that run must have ended.
    pub deadline: Option<Timestamp>,
    /// Whether the run calls no tool that has an effect.
    pub dry_run: bool,
    /// Whether models show their answers piece by piece.
    pub streaming: Option<bool>,
    /// Tools of the caller.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Arc<ToolDefinition>>,
}
