//! Turns that are said to a run under way, and the run that takes each of them: the one that heard it, or a later one.

use std::fmt;

use super::{Run, Session, System, SystemError, launch::folded, poll_interval::PollInterval};
use crate::{
    contract::StoreError,
    vocabulary::{Outcome, RunId, SessionId, Spent},
};

/// A turn that was said to a run under way.
pub(crate) struct Said {
    system: System,
    session: SessionId,
    turn: String,
}

impl Said {
    pub(super) fn new(system: &System, session: SessionId, turn: String) -> Self {
        let system = system.clone();
        Self {
            system,
            session,
            turn,
        }
    }

    /// The run that takes the turn: the run that heard it, its own, or the open one, which may still hear it. It is waited
    /// for where it is about to begin.
    pub(super) async fn taker(&self) -> Result<RunId, SystemError> {
        let (shared, mut interval) = (self.system.shared(), PollInterval::new());
        loop {
            if let Some(run) = self.known().await? {
                return Ok(run);
            }
            if shared.is_stopped() {
                return Err(SystemError::Stopped);
            }
            // It is about to begin, here where the process is gone that was to begin it.
            shared.services.clock.sleep(interval.pause()).await;
            if shared.may_carry(&self.session).await? {
                shared.tell_of_steering_turns(&self.session).await;
            }
        }
    }

    /// The same as far as it is recorded.
    async fn known(&self) -> Result<Option<RunId>, SystemError> {
        let store = &self.system.shared().services.store;
        let (fold, _) = folded(store, &self.session, u64::MAX).await?;
        if fold.entries == 0 {
            // The session was deleted.
            let run = RunId::of_turn(&self.session, &self.turn);
            return Err(SystemError::UnknownRun(run));
        }
        let known = fold.turns.get(&self.turn).map(|known| known.run);
        Ok(known.or(fold.open))
    }

    /// The same for a reader of events; `None` where the System is stopped, or the session deleted.
    pub(super) async fn taker_if_any(&self) -> Result<Option<RunId>, StoreError> {
        match self.taker().await {
            Ok(taker) => Ok(Some(taker)),
            Err(SystemError::Store(error)) => Err(error),
            Err(_) => Ok(None),
        }
    }
}

impl fmt::Debug for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Said({} to {})", self.turn, self.session)
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
            self.said = Some(Said::new(&self.system, session, turn).into());
        }
    }

    /// Whether this handle was given for a turn that was said to the run, which was under way with another.
    pub fn has_joined(&self) -> bool {
        self.said.is_some()
    }

    /// The run that takes the turn for which this handle was given, as far as it is recorded now: the one that heard it, its
    /// own, or the one under way, which may still hear it. For any other handle it is the run itself.
    ///
    /// # Errors
    /// [`SystemError::UnknownRun`] when the session was deleted; what the store fails with.
    pub async fn taker(&self) -> Result<Self, SystemError> {
        let mut taker = self.clone();
        if let Some(said) = &self.said
            && let Some(run) = said.known().await?
        {
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
                Some(said) => said.taker().await?,
                None => run.id,
            };
            if taker == run.id {
                return ended;
            }
            run = self.system.run(taker);
        }
    }
}
