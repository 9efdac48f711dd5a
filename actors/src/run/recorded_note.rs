//! Notes of a function as journals hold them.

use std::{collections::BTreeMap, fmt, sync::Arc};

use parking_lot::Mutex;

use crate::vocabulary::{Entry, OperationId, ToolCall, ToolStatus};

/// The lane for the places of answers to calls. It is no lane of the function.
pub(super) const ANSWERS: u32 = u32::MAX;

/// A note that takes a place in the order of operations, as an earlier incarnation recorded it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RecordedNote {
    /// An event of this name. Nothing rests on what it holds, which is not compared.
    Emitted(String),
    Undo(ToolCall),
    /// The answer to a call of this tool, which ended so.
    Answered(String, ToolStatus),
}

impl RecordedNote {
    /// The note that an entry records, and its place.
    pub(crate) fn of(entry: &Entry) -> Option<(OperationId, Self)> {
        Some(match entry {
            Entry::Emitted { op, name, .. } => (*op, Self::Emitted(name.clone())),
            Entry::UndoRegistered { op, call } => (*op, Self::Undo(call.clone())),
            Entry::CallAnswered { op, result, .. } => {
                (*op, Self::Answered(result.name.clone(), result.status))
            }
            _ => return None,
        })
    }

    /// Whether both are one note.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Undo(recorded), Self::Undo(found)) => {
                recorded.name == found.name && recorded.arguments.text() == found.arguments.text()
            }
            (recorded, found) => recorded == found,
        }
    }
}

impl fmt::Display for RecordedNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Emitted(name) => write!(f, "emit {name:?}"),
            Self::Answered(tool, status) => write!(f, "an answer to {tool:?} ({status:?})"),
            Self::Undo(call) => {
                write!(
                    f,
                    "on_cancel {:?} with {}",
                    call.name,
                    call.arguments.text()
                )
            }
        }
    }
}

/// The variants of changed code that a run goes by, over all its legs; shared by the clones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Versions(pub(super) Arc<Mutex<BTreeMap<String, u32>>>);

impl Versions {
    pub(crate) fn record(&self, name: String, version: u32) {
        self.0.lock().insert(name, version);
    }
}
