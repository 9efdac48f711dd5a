//! The waking of runs: what is asked of the wake service, and a wake on its way to an agent.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::{SystemError, poll_interval::AGAIN};
use crate::{
    contract::{Clock, StoreError},
    vocabulary::{RunId, Timestamp},
};

/// A request to the wake service.
#[derive(Debug)]
pub(crate) enum TimerRequest {
    /// Wake this run at this time.
    WakeAt(Timestamp, RunId),
    /// This run is awake: when it falls asleep again it sends its next time.
    Awake(RunId),
    /// The first agent has nothing to do, or one more than may stay in memory.
    LookForIdle,
}

/// Who learns what became of a wake.
pub(crate) enum WakeReply {
    /// A caller, who is told.
    Caller(oneshot::Sender<Result<RunId, SystemError>>),
    /// Nobody: the wake itself is made again if it is lost.
    Again(WakeAgain),
}

impl WakeReply {
    pub(super) fn give(self, result: Result<RunId, SystemError>) {
        match (self, result) {
            // The caller may have gone.
            (Self::Caller(caller), result) => drop(caller.send(result)),
            (Self::Again(again), Err(SystemError::Store(error))) => again.failed(&error),
            (Self::Again(again), _) => again.done(),
        }
    }

    /// The caller; nobody, if the wake is to be made again: from here on the run's agent does what is needed.
    pub(super) fn taken(self) -> Option<Self> {
        match self {
            Self::Again(again) => {
                again.done();
                None
            }
            caller => Some(caller),
        }
    }
}

/// A wake on its way to a run's agent. Dropped on the way, because the agent left or could not read its session, it is made
/// again after a pause: whoever posted something to the run does not say so again.
pub(crate) struct WakeAgain {
    run: RunId,
    clock: Arc<dyn Clock>,
    requests: Option<mpsc::UnboundedSender<TimerRequest>>,
}

impl WakeAgain {
    pub(super) fn new(
        run: RunId,
        requests: mpsc::UnboundedSender<TimerRequest>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let requests = Some(requests);
        Self {
            run,
            clock,
            requests,
        }
    }

    pub(super) fn done(mut self) {
        self.requests = None;
    }

    /// The run was not taken up, for this reason. The wake is given up where the next try would fail too, or another process
    /// has the code that the run needs.
    pub(super) fn failed(self, error: &StoreError) {
        if !matches!(error, StoreError::Owned { .. }) {
            tracing::warn!(run = %self.run, %error, "what came for the run is not read");
        }
        if error.is_lasting() || matches!(error, StoreError::LaterCode { .. }) {
            self.done();
        }
    }
}

impl Drop for WakeAgain {
    fn drop(&mut self) {
        if let Some(requests) = self.requests.take() {
            let at = self.clock.now().after(AGAIN);
            let _ = requests.send(TimerRequest::WakeAt(at, self.run));
        }
    }
}
