//! How children and supervisors end.

use std::fmt;
use std::time::Duration;

use ractor::{ActorProcessingErr, SupervisionEvent};
use serde::{Deserialize, Serialize};

/// The reason in a supervisor's request to a child to stop.
pub const SHUTDOWN: &str = "shutdown";

/// How a child ended.
///
/// ractor reports a kill as an ordinary termination with the reason `killed`. Here it is abnormal,
/// as in OTP. (`stop(Some("killed"))` cannot be told apart from it, and is abnormal too.)
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
#[non_exhaustive]
pub enum Exit {
    /// It was stopped or drained: every handler and its `post_stop` ran to completion. This is
    /// normal, whatever the reason.
    Stopped {
        /// The reason given to `stop`, if any.
        reason: Option<String>,
    },
    /// It was killed: its work was dropped at an await point.
    Killed,
    /// Its task was aborted from outside.
    Aborted,
    /// A handler panicked or returned an error.
    Failed {
        /// The panic's or the error's text.
        error: String,
    },
    /// It did not start: its factory or its `pre_start` panicked or returned an error.
    StartFailed {
        /// The panic's or the error's text.
        error: String,
    },
    /// It is gone, and its exit is unknown because it unlinked itself. Abnormal.
    Unobserved,
}

impl Exit {
    /// Whether a transient child is not restarted after this exit.
    #[must_use]
    pub fn is_normal(&self) -> bool {
        matches!(self, Self::Stopped { .. })
    }

    /// Converts ractor's event into an exit. The state in the event is dropped unread, because
    /// after a kill it may be inconsistent.
    pub(crate) fn from_event(event: SupervisionEvent) -> Option<Self> {
        match event {
            SupervisionEvent::ActorTerminated(_, _, Some(reason)) if reason == "killed" => {
                Some(Self::Killed)
            }
            SupervisionEvent::ActorTerminated(_, None, Some(reason))
                if reason == "actor_task_cancelled" =>
            {
                Some(Self::Aborted)
            }
            SupervisionEvent::ActorTerminated(_, _, reason) => Some(Self::Stopped { reason }),
            SupervisionEvent::ActorFailed(_, error) => Some(Self::Failed {
                error: chain(&error),
            }),
            // These include an event that exists only with ractor's `cluster` feature.
            _ => None,
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped { reason: None } => f.write_str("stopped"),
            Self::Stopped {
                reason: Some(reason),
            } => write!(f, "stopped ({reason})"),
            Self::Killed => f.write_str("killed"),
            Self::Aborted => f.write_str("its task was aborted"),
            Self::Failed { error } => write!(f, "failed: {error}"),
            Self::StartFailed { error } => write!(f, "did not start: {error}"),
            Self::Unobserved => f.write_str("ended unobserved"),
        }
    }
}

/// The text of an error, followed by those of its sources.
pub(crate) fn chain(error: &ActorProcessingErr) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// The verdict of a child's classifier on an exit that requires a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RestartDecision {
    /// It counts against the supervisor's intensity.
    #[default]
    Counted,
    /// It does not count (an outage of the provider, for example, which is not the child's fault).
    /// The child is restarted all the same, but never immediately, because the number of such
    /// restarts is unbounded.
    Excused,
}

/// A notice to a supervisor's parent that the restarts are used up. It is sent before the
/// supervisor stops its children and ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Escalation {
    /// The child whose exit was one too many.
    pub child: String,
    /// How it ended.
    pub exit: Exit,
    /// Restarts within the period, including the one for that exit.
    pub restarts: u32,
    /// The period, in milliseconds.
    pub period_ms: u64,
}

#[cfg(feature = "cluster")]
impl ractor::Message for Escalation {}

impl fmt::Display for Escalation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            child,
            exit,
            restarts,
            period_ms,
        } = self;
        let period = Duration::from_millis(*period_ms);
        write!(
            f,
            "{restarts} restarts in {period:?} are too many; the last was of `{child}`: {exit}"
        )
    }
}

/// Why a supervisor ended, by its own decision or on request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
#[non_exhaustive]
pub enum EndReason {
    /// It was asked to.
    Stopped,
    /// One of its first children did not start.
    StartFailed {
        /// That child.
        child: String,
        /// Why.
        error: String,
    },
    /// There were more restarts than its intensity allows.
    RestartsUsedUp(Escalation),
    /// Significant children ended, the last of them this one.
    AutoShutdown {
        /// That child.
        child: String,
    },
}

impl fmt::Display for EndReason {
    /// Begins with [`SHUTDOWN`]: all of these are OTP's `shutdown` and `{shutdown, _}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str(SHUTDOWN),
            Self::StartFailed { child, error } => {
                write!(f, "{SHUTDOWN}: child `{child}` did not start: {error}")
            }
            Self::RestartsUsedUp(escalation) => write!(f, "{SHUTDOWN}: {escalation}"),
            Self::AutoShutdown { child } => {
                write!(f, "{SHUTDOWN}: significant child `{child}` ended")
            }
        }
    }
}
