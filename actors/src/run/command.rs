//! Commands to a run, and the reports of its children.

use crate::{
    contract::{Append, StoreError},
    vocabulary::{AgentError, Outcome, RunId, Spent, Timestamp},
};

/// A command to a run that is under way.
#[derive(Debug)]
#[non_exhaustive]
pub enum Command {
    /// There is something in its mailbox.
    Mailbox,
    /// The run is to be cancelled. The cancellation is recorded by an ancestor, or is to be
    /// recorded by this run.
    Cancel {
        /// Why.
        reason: String,
    },
    /// A report of a child run.
    Child {
        /// The child.
        run: RunId,
        /// The report.
        report: ChildReport,
    },
    /// The run's parent was restarted and wants a report.
    Reattached,
    /// The run's journal was claimed by another process, or the system stops. The run stops here at
    /// once, without an end.
    LetGo,
}

/// How long a run waits for the outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Idleness {
    /// When it must be woken.
    pub wake_at: Option<Timestamp>,
    /// Whether nothing is waited for but providers of models, by the run and by all runs below it.
    pub for_providers: bool,
}

/// The report of a child run to its parent.
#[derive(Debug)]
pub enum ChildReport {
    /// It waits only for the outside.
    Idle(Idleness),
    /// It is at work.
    Busy,
    /// It ended. The parent commits its last entries, together with its own.
    Ended {
        /// The child's last entries, unless they are recorded.
        append: Option<Box<Append>>,
        /// How it ended.
        result: Box<ChildResult>,
        /// The items that it has heard of the parent's mailboxes.
        heard: Vec<String>,
    },
    /// It cannot go on, because the store refuses it. A parent that is gone takes it up again, and finds out for itself.
    Failed(StoreError),
}

/// The result of a child run.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct ChildResult {
    /// The child.
    pub run: RunId,
    /// Its outcome.
    pub outcome: Result<Outcome, AgentError>,
    /// The consumption of the run and its children.
    pub spent: Spent,
}

impl ChildResult {
    /// The result of this run.
    pub fn new(run: RunId, outcome: Result<Outcome, AgentError>, spent: Spent) -> Self {
        Self {
            run,
            outcome,
            spent,
        }
    }
}
