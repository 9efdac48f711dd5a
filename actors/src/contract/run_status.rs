//! The status of runs.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::vocabulary::{RunEnd, StopReason};

/// The status of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunStatus {
    /// It is under way, or will be once a process takes it up.
    Running,
    /// It waits for something from outside: an answer, a message, a timer, a ticket.
    Waiting,
    /// It waits until somebody retries, forks or cancels it.
    Parked,
    /// It is being cancelled.
    Cancelling,
    /// It ended with an answer.
    Answered,
    /// It ended before its task was done.
    Stopped,
    /// It ended with an error.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// It goes on in another run's journal.
    Continued,
}

impl RunStatus {
    /// The status of a run that ended like this.
    pub(crate) fn of(end: &RunEnd) -> Self {
        match end {
            RunEnd::Answered { .. } => Self::Answered,
            RunEnd::Stopped {
                reason: StopReason::Cancelled(_),
                ..
            } => Self::Cancelled,
            RunEnd::Stopped { .. } => Self::Stopped,
            RunEnd::Failed { .. } => Self::Failed,
            RunEnd::Continued { .. } => Self::Continued,
        }
    }

    /// Whether the run is at work, or being cancelled.
    pub fn is_under_way(self) -> bool {
        matches!(self, Self::Running | Self::Cancelling)
    }

    /// Whether the run has ended.
    pub fn is_ended(self) -> bool {
        matches!(
            self,
            Self::Answered | Self::Stopped | Self::Failed | Self::Cancelled | Self::Continued
        )
    }

    /// Whether the run does nothing until it is told to: it has ended, or it is parked.
    pub(crate) fn is_at_rest(self) -> bool {
        self.is_ended() || self == Self::Parked
    }

    /// The status in one word, for people and for stores.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Parked => "parked",
            Self::Cancelling => "cancelling",
            Self::Answered => "answered",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Continued => "continued",
        }
    }

    /// The status for a word of [`as_str`](Self::as_str).
    pub fn parse(word: &str) -> Option<Self> {
        use RunStatus::*;
        [
            Running, Waiting, Parked, Cancelling, Answered, Stopped, Failed, Cancelled, Continued,
        ]
        .into_iter()
        .find(|status| status.as_str() == word)
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
