//! All that reaches a run or a session from outside.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::turn::Turn;
use crate::vocabulary::{Message, OperationId, RunId, StopReason, Timestamp};

/// An item of a mailbox. A mailbox has the id of a session, or of a run: of the run as which it began
/// ([`RunRow::first`](super::RunRow::first)), but for an item that belongs to an operation, which stands in the mailbox
/// of its own journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MailboxItem {
    /// The sender's id of the item. A second item with the same id has no effect on a run.
    pub id: String,
    /// When it was posted.
    pub at: Timestamp,
    /// The item's content.
    pub body: ItemBody,
}

impl MailboxItem {
    /// An item with this id.
    pub fn new(id: impl Into<String>, at: Timestamp, body: ItemBody) -> Self {
        Self {
            id: id.into(),
            at,
            body,
        }
    }
}

/// The content of a mailbox item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ItemBody {
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
    /// A turn in a session's mailbox, from which the run that is under way takes it. If no run does, it becomes a turn
    /// of its own.
    #[serde(rename = "turn")]
    SteeringTurn(Box<Turn>),
    /// A turn in the mailbox of a session that another process owns. The session's owner begins its run.
    #[serde(rename = "begin")]
    ForwardedTurn(Box<Turn>),
    /// Tells the process that posted a turn what became of the turn, where it got no run of its own.
    #[serde(rename = "begun")]
    ForwardedTurnEnded {
        /// The run that received it, or why it was refused.
        turn: Result<RunId, String>,
    },
    /// The run is to be cancelled.
    Cancel {
        /// Why.
        reason: String,
        /// The reason to stop where nobody cancelled, such as a run that expired.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stop: Option<StopReason>,
    },
    /// One call is to be cancelled while the run goes on.
    CancelCall {
        /// The operation.
        operation: OperationId,
    },
}
