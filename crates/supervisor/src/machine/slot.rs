//! One child's row in the supervisor's table.

use std::time::Duration;

use super::{Caller, ChildKey, ChildState, Incarnation, Timer};
use crate::spec::{ChildSpec, Restart};

/// The origin of a life, which decides how a failure to start is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A caller, who gets the failure.
    Command,
    /// The supervisor, which retries.
    Restart,
}

/// The future of a child after it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// It stays in the table, stopped.
    Keep,
    /// It waits for its group's restart.
    Hold,
    /// It is forgotten.
    Remove,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Stopped,
    /// Not running; its group's restart (or the first start) will start it in its turn.
    Held,
    /// Not running; waits for its own restart.
    BackingOff(Timer),
    Starting {
        generation: u64,
        origin: Origin,
    },
    Running {
        generation: u64,
    },
    Stopping {
        generation: u64,
        after: After,
        /// The timer after which it is killed.
        kill: Option<Timer>,
    },
}

impl Status {
    pub(super) fn state(self) -> ChildState {
        match self {
            Self::Stopped => ChildState::Stopped,
            Self::Held | Self::BackingOff(_) => ChildState::Restarting,
            Self::Starting { .. } => ChildState::Starting,
            Self::Running { .. } => ChildState::Running,
            Self::Stopping { .. } => ChildState::Stopping,
        }
    }

    pub(super) fn incarnation(self, child: ChildKey) -> Option<Incarnation> {
        match self {
            Self::Starting { generation, .. }
            | Self::Running { generation }
            | Self::Stopping { generation, .. } => Some(Incarnation { child, generation }),
            Self::Stopped | Self::Held | Self::BackingOff(_) => None,
        }
    }

    pub(super) fn is_alive(self) -> bool {
        matches!(
            self,
            Self::Starting { .. } | Self::Running { .. } | Self::Stopping { .. }
        )
    }

    /// Whether OTP would say that the child has a process or will soon have one again.
    pub(super) fn is_active(self) -> bool {
        match self {
            Self::Stopped => false,
            Self::Stopping { after, .. } => after == After::Hold,
            Self::Held | Self::BackingOff(_) | Self::Starting { .. } | Self::Running { .. } => true,
        }
    }
}

/// A command that waits for the end of a child that was told to stop, as all commands do in OTP.
#[derive(Debug)]
pub(super) enum Queued {
    Start(ChildKey, ChildSpec),
    Restart,
    Delete,
}

#[derive(Debug)]
pub(super) struct ChildSlot {
    pub(super) spec: ChildSpec,
    pub(super) status: Status,
    /// Added by a command and never started: a failed start removes it again.
    pub(super) fresh: bool,
    pub(super) start_callers: Vec<Caller>,
    pub(super) stop_callers: Vec<Caller>,
    pub(super) queued: Vec<(Caller, Queued)>,
    /// Failures in a row, for the back-off.
    pub(super) failures: u32,
    pub(super) restarts: u64,
    pub(super) started_at: Duration,
}

impl ChildSlot {
    pub(super) fn new(spec: ChildSpec, status: Status) -> Self {
        Self {
            spec,
            status,
            fresh: false,
            start_callers: Vec::new(),
            stop_callers: Vec::new(),
            queued: Vec::new(),
            failures: 0,
            restarts: 0,
            started_at: Duration::ZERO,
        }
    }

    pub(super) fn is_temporary(&self) -> bool {
        self.spec.restart == Restart::Temporary
    }
}
