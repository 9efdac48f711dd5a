//! Families of operations, for which the engine does more than recording.

use super::{Resource, Spent};

/// The kinds of operations for which the engine does more than record and deliver their results. The kind in the
/// journal decides: a kind belongs to the family of its name, or of the part before its first `/`. So an operation
/// from outside of the engine whose kind is `tool/remote` is a tool call in all respects, and one whose kind is
/// `remote` is only recorded.
///
/// | family | its result | what is done for it |
/// |---|---|---|
/// | `model` | a `ModelResponse` | what it says is kept of a leg that is broken off, and is told as an event |
/// | `tool` | a `ToolResult` | the same; it is a tool call of the budget, and is aborted when nobody wants it any more |
/// | `delegate` | a `ChildResult` | the same; its child shares the budget, and ends when nobody wants it any more |
/// | `spawn` | anything | its child shares the budget, and goes on beside the function |
/// | `join` | a `ChildResult` | it is told as an event; the child is another operation's |
/// | `ask` | an answer | it is told as an event |
/// | `receive` | a message | when the function crashes on it, it is quarantined |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Family {
    /// A model call.
    Model,
    /// A tool call.
    Tool,
    /// A child run that is waited for.
    Delegate,
    /// A child run that goes on beside the function.
    Spawn,
    /// The end of a child run that went on beside the function.
    Join,
    /// A question to a person.
    Ask,
    /// A message from the run's mailbox.
    Receive,
    /// Any other operation, which is only recorded.
    Other,
}

impl Family {
    /// The family of a kind.
    pub fn of(kind: &str) -> Self {
        match kind.split('/').next() {
            Some("model") => Self::Model,
            Some("tool") => Self::Tool,
            Some("delegate") => Self::Delegate,
            Some("spawn") => Self::Spawn,
            Some("join") => Self::Join,
            Some("ask") => Self::Ask,
            Some("receive") => Self::Receive,
            _ => Self::Other,
        }
    }

    /// Whether the operation has a child run, with which it shares the budget.
    pub fn has_child(self) -> bool {
        matches!(self, Self::Delegate | Self::Spawn)
    }

    /// Whether something outside of the run carries the operation and can be told to abort it.
    pub(crate) fn is_aborted(self) -> bool {
        self == Self::Tool
    }

    /// The consumption of a call that began and has no known result.
    pub fn consumed(self) -> Spent {
        match self {
            Self::Tool => Spent::one(Resource::ToolCalls),
            _ => Spent::default(),
        }
    }
}
