//! Cancelling a run or one call of it, and knowing when all is quiet.

use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::{Run, SystemError, acting::Use, poll_interval::PollInterval, recording::each_line};
use crate::{
    contract::{ItemBody, RunStatus, StoreError},
    run::{is_error, read_end},
    vocabulary::{Entry, ErrorKind, OperationId, RunId, StopReason},
};

/// A run's end, and the calls of it that still run in this process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quiet {
    /// How the run ended.
    pub status: RunStatus,
    /// Calls of its tree that were told to stop and whose code blocks. They record nothing any
    /// more, but what they do outside goes on until they return.
    pub still_running: Vec<StillRunning>,
}

/// A call whose code could not be stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StillRunning {
    /// The run.
    pub run: RunId,
    /// The operation.
    pub operation: OperationId,
    /// The tool.
    pub tool: String,
}

impl Run {
    /// Cancels the run and everything below it. `false` when there is no such run or it has
    /// ended. Cancelling twice is cancelling once.
    ///
    /// A handle that [`Session::send`](super::Session::send) gave for a turn which was said to a run under way
    /// ([`has_joined`](Self::has_joined)) cancels that turn. As long as no run has heard the turn, it is taken back, and the
    /// run goes on. A model that just then answers, or a run below, may hear it nevertheless. Once a run has taken the turn,
    /// that run is cancelled, since it works for this turn too.
    ///
    /// # Errors
    /// [`SystemError::Foreign`]; what the store fails with.
    pub async fn cancel(&self, reason: impl Into<String>) -> Result<bool, SystemError> {
        match &self.said {
            Some(said) => {
                self.check(Use::Act).await?;
                self.cancel_turn(said, reason.into()).await
            }
            None => self.stop(reason.into(), None).await,
        }
    }

    /// Ends the run and everything below it as failed, because nothing was recorded for this many seconds. `false` when
    /// there is no such run or it has ended.
    pub(super) async fn expire(&self, silent_s: u64) -> Result<bool, SystemError> {
        let stop = StopReason::Expired(silent_s);
        self.stop(stop.to_string(), Some(stop)).await
    }

    async fn stop(&self, reason: String, stop: Option<StopReason>) -> Result<bool, SystemError> {
        self.check(Use::Act).await?;
        let cancel = ItemBody::Cancel { reason, stop };
        self.post_if_open("cancel".to_owned(), cancel).await
    }

    /// Cancels one call of the run; the run goes on. `false` when no such operation is under way,
    /// or the operation came to its own end first. The method returns when the process that carries
    /// the run has dealt with it, which takes up to the grace period for a `once` tool. Cancelling
    /// twice is cancelling once.
    ///
    /// After `continue_as` the next journal may use this operation's id for another call. The calls
    /// of a closed journal are over; a call of the next journal is cancelled by the id of the run
    /// that goes on there.
    ///
    /// # Errors
    /// [`SystemError::Foreign`]; what the store fails with.
    pub async fn cancel_call(&self, operation: OperationId) -> Result<bool, SystemError> {
        self.check(Use::Act).await?;
        let run = match self.current().await {
            Ok(run) => run,
            Err(SystemError::UnknownRun(_) | SystemError::Store(StoreError::Deleted { .. })) => {
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        let services = &self.system.shared().services;
        if let Some(cancelled) = self.was_cancelled(operation).await? {
            return Ok(cancelled);
        }
        if run.id != self.id {
            // All calls of a closed journal are over, and the next one has other calls under their ids.
            return Ok(false);
        }
        let id = format!("cancel/{operation}/{}", services.fresh_id());
        let body = ItemBody::CancelCall { operation };
        if self.is_at_rest().await? || !self.post_if_open(id.clone(), body).await? {
            return Ok(false);
        }
        let mut interval = PollInterval::new();
        loop {
            let mailbox = services.store.mailbox(self.id.into()).await?;
            if mailbox.iter().all(|item| item.id != id) || self.is_at_rest().await? {
                return Ok(self.was_cancelled(operation).await?.unwrap_or(false));
            }
            if self.system.shared().is_stopped() {
                return Err(SystemError::Stopped);
            }
            services.clock.sleep(interval.pause()).await;
        }
    }

    /// Whether the run has ended or is parked.
    async fn is_at_rest(&self) -> Result<bool, SystemError> {
        Ok(self.status().await?.status.is_at_rest())
    }

    /// Whether an operation ended by being cancelled; `None` when its end is not recorded.
    async fn was_cancelled(&self, operation: OperationId) -> Result<Option<bool>, SystemError> {
        for stored in self.lines().await?.iter().rev() {
            match stored.decode(&self.id().into())? {
                Entry::Completed { op, result, .. } if op == operation => {
                    let kind = error_kind(&result);
                    let cancelled = matches!(kind, Some(ErrorKind::Cancelled | ErrorKind::InDoubt));
                    return Ok(Some(cancelled));
                }
                Entry::Dropped { op, .. } if op == operation => return Ok(Some(false)),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Waits until the run and the runs below it can neither record nor start anything any more.
    /// Returns how the run ended, and the code that could not be stopped.
    ///
    /// A run's end is recorded after the ends of all runs below it and of all their calls, so the
    /// run is quiet when it has ended. A child that outlives its parent is a tree of its own.
    ///
    /// # Errors
    /// [`SystemError::UnknownRun`], and what the store fails with.
    pub async fn quiet(&self) -> Result<Quiet, SystemError> {
        self.check(Use::Look).await?;
        let run = loop {
            let run = self.current().await?;
            run.rest(RunStatus::is_ended).await?;
            if run.status().await?.status != RunStatus::Continued {
                break run;
            }
        };
        let row = run.status().await?;
        let mut still_running = Vec::new();
        let store = self.system.store();
        each_line(store, row.root, 0, |line| -> Result<(), SystemError> {
            if let Entry::Completed {
                op, name, result, ..
            } = line.stored.decode(&line.run.into())?
                && error_kind(&result) == Some(ErrorKind::StillRunning)
            {
                let (run, operation, tool) = (line.run, op, name);
                still_running.push(StillRunning {
                    run,
                    operation,
                    tool,
                });
            }
            Ok(())
        })
        .await?;
        let status = row.status;
        Ok(Quiet {
            status,
            still_running,
        })
    }
}

/// The kind of failure in a recorded result.
fn error_kind(result: &RawValue) -> Option<ErrorKind> {
    match is_error(result) {
        true => Some(read_end::<IgnoredAny>(result)?.err()?.kind),
        false => None,
    }
}
