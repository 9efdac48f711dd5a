//! Turns that are said to a run under way, and the run that takes each of them: the one that heard it, or a later one.

use std::sync::Arc;

use super::{
    Run, Session, SystemError, acting::Use, event_stream::FindTaker, launch::folded,
    poll_interval::PollInterval, shared::Shared,
};
use crate::vocabulary::{Outcome, RunId, SessionId, Spent};

impl Shared {
    /// The run that takes a turn which was said to a run under way: the run that heard it, its own, or the open one, which
    /// may still hear it. It is waited for where it is about to begin.
    async fn taker(self: &Arc<Self>, said: &(SessionId, String)) -> Result<RunId, SystemError> {
        let (session, mut interval) = (&said.0, PollInterval::new());
        loop {
            if let Some(run) = self.recorded_taker(said).await? {
                return Ok(run);
            }
            if self.is_stopped() {
                return Err(SystemError::Stopped);
            }
            // It is about to begin, here where the process is gone that was to begin it.
            self.services.clock.sleep(interval.pause()).await;
            if self.may_carry(session).await? {
                self.tell_of_steering_turns(session).await;
            }
        }
    }

    /// The same as far as it is recorded.
    async fn recorded_taker(
        &self,
        (session, turn): &(SessionId, String),
    ) -> Result<Option<RunId>, SystemError> {
        let (fold, _) = folded(&self.services.store, session, u64::MAX).await?;
        if fold.entries == 0 {
            // The session was deleted.
            return Err(SystemError::UnknownRun(RunId::of_turn(session, turn)));
        }
        let known = fold.turns.get(turn).map(|known| known.run);
        Ok(known.or(fold.open))
    }
}

impl Session {
    /// Whether the session has a turn of this id: one that began a run, or that a run has heard which has ended.
    ///
    /// # Errors
    /// [`SystemError::Foreign`]; what the store fails with.
    pub async fn has_turn(&self, id: &str) -> Result<bool, SystemError> {
        self.system.sessions().check(&self.id).await?;
        let store = self.system.store();
        if store.run(RunId::of_turn(&self.id, id)).await?.is_some() {
            return Ok(true);
        }
        let (fold, _) = folded(store, &self.id, u64::MAX).await?;
        Ok(fold.turns.contains_key(id))
    }

    /// The handle that [`send`](Self::send) gave for the turn of this id, where it was said to this run, which was under
    /// way: for a program that kept both ids. Its outcome and its events are those of the run that takes the turn.
    pub fn said_to(&self, run: RunId, turn: impl Into<String>) -> Run {
        let mut handle = self.system.run(run);
        handle.was_said(self.id.clone(), turn.into());
        handle
    }
}

impl Run {
    /// Notes for which turn this handle is given. A turn's own run takes no other.
    pub(super) fn was_said(&mut self, session: SessionId, turn: String) {
        if self.id != RunId::of_turn(&session, &turn) {
            self.said = Some(Arc::new((session, turn)));
        }
    }

    /// The search for the run that takes the turn of this handle. The events of the handle continue with those of that run.
    pub(super) fn find_taker(&self) -> Option<FindTaker> {
        let (said, system) = (self.said.clone()?, self.system.clone());
        Some(Arc::new(move || {
            let (said, system) = (said.clone(), system.clone());
            Box::pin(async move {
                let found = async {
                    let taker = system.shared().taker(&said).await?;
                    // A handle may be made for any turn.
                    system.check_run(taker, Use::Look).await.map(|()| taker)
                };
                match found.await {
                    Ok(taker) => Ok(Some(taker)),
                    Err(SystemError::Store(error)) => Err(error),
                    // The System is stopped, the session deleted, or the run somebody else's: nothing follows.
                    Err(_) => Ok(None),
                }
            })
        }))
    }

    /// Whether this handle was given for a turn that was said to the run, which was under way with another.
    pub fn has_joined(&self) -> bool {
        self.said.is_some()
    }

    /// The run that takes the turn for which this handle was given, as far as it is recorded now: the one that heard it, its
    /// own, or the one under way, which may still hear it. For any other handle it is the run itself.
    ///
    /// # Errors
    /// [`SystemError::UnknownRun`] when the session was deleted; [`SystemError::Foreign`]; what the store fails with.
    pub async fn taker(&self) -> Result<Self, SystemError> {
        let mut taker = self.clone();
        if let Some(said) = &self.said
            && let Some(run) = self.system.shared().recorded_taker(said).await?
        {
            self.system.check_run(run, Use::Look).await?;
            taker.id = run;
        }
        Ok(taker)
    }

    /// The same as [`outcome`](Self::outcome), with what the run and the runs below it consumed. This is a part of the end,
    /// so the journal is not read for it, as it is for [`budget`](Self::budget).
    ///
    /// # Errors
    /// Those of [`outcome`](Self::outcome).
    pub async fn outcome_and_spent(&self) -> Result<(Outcome, Spent), SystemError> {
        use SystemError::{Failed, Parked};
        let mut run = self.clone();
        loop {
            let ended = run.own_outcome().await;
            let is_over = matches!(&ended, Ok(_) | Err(Failed { .. } | Parked { .. }));
            let taker = match self.said.as_ref().filter(|_| is_over) {
                Some(said) => self.system.shared().taker(said).await?,
                None => run.id,
            };
            if taker == run.id {
                return ended;
            }
            run = self.system.run(taker);
        }
    }
}
