//! Turns that are said to a run under way, and the run that takes each of them: the one that heard it, or a later one.

use std::sync::Arc;

use super::{
    Run, Session, SystemError, acting::Use, agent::item_of, event_stream::FindTaker,
    launch::folded, poll_interval::PollInterval, shared::Shared,
};
use crate::{
    contract::{Batch, ItemBody, StoreError},
    session::Turn,
    vocabulary::{Entry, Outcome, RunId, SessionId, Spent},
};

impl Shared {
    /// The run that takes a turn which was said to a run under way: the run that heard it, its own, or the open one, where
    /// that may still hear it. It is waited for where it is about to begin.
    async fn taker(self: &Arc<Self>, said: &(SessionId, String)) -> Result<RunId, SystemError> {
        let (session, mut interval) = (&said.0, PollInterval::new());
        loop {
            if let Some(run) = self.recorded_taker(said).await? {
                return Ok(run);
            }
            if self.is_stopped() {
                return Err(SystemError::Stopped);
            }
            if self.waiting(said).await?.is_none() {
                // It left the mailbox with what a run recorded, or was taken back.
                let (session, turn) = (session.to_string(), said.1.clone());
                let taken_back = SystemError::TakenBack { session, turn };
                return self.recorded_taker(said).await?.ok_or(taken_back);
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
        said: &(SessionId, String),
    ) -> Result<Option<RunId>, SystemError> {
        let (session, turn) = said;
        let (fold, _) = folded(&self.services.store, session, u64::MAX).await?;
        if fold.entries == 0 {
            // The session was deleted.
            return Err(SystemError::UnknownRun(RunId::of_turn(session, turn)));
        }
        if let Some(known) = fold.turns.get(turn) {
            return Ok(Some(known.run));
        }
        let Some(open) = fold.open else {
            return Ok(None);
        };
        let takes = match self.waiting(said).await? {
            Some(turn) => {
                let row = self.services.store.run(open).await?;
                row.is_some_and(|row| row.owner == turn.owner)
            }
            None => self.has_heard(open, turn).await?,
        };
        Ok(takes.then_some(open))
    }

    /// Whether a run has recorded that it heard this turn.
    async fn has_heard(&self, run: RunId, turn: &str) -> Result<bool, SystemError> {
        for line in self.services.store.journal(run.into(), 0).await? {
            if let Entry::TurnHeard { turn: heard, .. } = line.decode(&run.into())?
                && heard == turn
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The turn, where it stands in its session's mailbox.
    async fn waiting(
        &self,
        (session, turn): &(SessionId, String),
    ) -> Result<Option<Turn>, StoreError> {
        let item = item_of(turn);
        let items = self.services.store.mailbox(session.clone().into()).await?;
        Ok(items.into_iter().find_map(|waits| match waits.body {
            ItemBody::SteeringTurn(turn) if waits.id == item => Some(*turn),
            _ => None,
        }))
    }

    /// Takes a turn out of its session's mailbox. A run that is under way here forgets it, unless its function has it.
    async fn take_back(&self, (session, turn): &(SessionId, String)) -> Result<(), SystemError> {
        let (fold, _) = folded(&self.services.store, session, u64::MAX).await?;
        let item = item_of(turn);
        let live = &self.services.previewer.live;
        if let Some(run) = fold.open.and_then(|open| live.get(open)) {
            run.sender.words().take_items(std::slice::from_ref(&item));
        }
        let mut batch = Batch::default();
        batch.taken.push((session.clone().into(), item));
        self.services.store.commit_one(batch).await?;
        Ok(())
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
        let submitted = || self.beginning.as_ref().map(|it| it.turn.clone());
        let (said, system) = (self.said.clone().or_else(submitted)?, self.system.clone());
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

    /// Cancels the turn for which this handle was given: takes it back as long as it stands in the session's mailbox, and
    /// else cancels the run that took it.
    pub(super) async fn cancel_turn(
        &self,
        said: &(SessionId, String),
        reason: String,
    ) -> Result<bool, SystemError> {
        let (shared, acting) = (self.system.shared(), self.system.acting());
        if let Some(turn) = shared.waiting(said).await? {
            // A handle may be made for any turn.
            acting.check(turn.owner.as_deref(), Use::Act, &said.0)?;
            shared.take_back(said).await?;
            return Ok(true);
        }
        match shared.recorded_taker(said).await {
            Ok(Some(run)) => Box::pin(self.system.run(run).cancel(reason)).await,
            Ok(None) | Err(SystemError::UnknownRun(_)) => Ok(false),
            Err(error) => Err(error),
        }
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
