//! Results that are committed with a change of shared state, and contents to which results refer.

use std::future::ready;

use futures_util::FutureExt;

use super::{ActEvent, Acting, Attempted, Driver, LegEnd, Work, delivery};
use crate::{
    contract::{BoxFuture, StoreError},
    run::{
        Changes,
        call_identity::CallIdentity,
        completed::{End, Made},
        leg::{About, Leg},
        operation::{Attempt, Reckon, Unsaved, Write},
        ports::StateLock,
    },
    vocabulary::{ErrorKind, OperationError, OperationId, Spent},
};

/// How many conflicts a write may have before it fails.
const WRITE_ATTEMPTS: u32 = 32;

/// The recorded end of an operation. `None` if somebody else changed the state first.
type Recorded = Option<(Result<(), OperationError>, End)>;

impl Driver {
    /// Commits a change of shared state together with its operation's result. If somebody else was
    /// faster, the change is decided again while the run goes on: cancellation and deadline take
    /// effect between two attempts.
    pub(super) async fn write(
        &mut self,
        leg: &Leg,
        op: OperationId,
        attempted: Attempted,
        (attempt, turn): (Attempt<Made>, StateLock),
    ) -> Result<(), LegEnd> {
        let (identity, charge, unsaved, conflicts) = match leg.machine().call(op) {
            Some(call) => (
                call.identity.clone(),
                (call.charge(), Some(call.reckon)),
                call.unsaved.clone(),
                call.conflicts,
            ),
            None => return Ok(()),
        };
        let attempted = match conflicts < WRITE_ATTEMPTS {
            true => attempted,
            false => Err(contested()),
        };
        let call = (op, &identity, charge);
        let recorded = self.record(leg, call, attempted, unsaved).await;
        match recorded.map_err(LegEnd::Store)? {
            Some((recorded, made)) => {
                self.end(leg, op);
                leg.deliver(op, delivery(recorded, made));
            }
            None => {
                if let Some(call) = leg.machine().call_mut(op) {
                    call.conflicts += 1;
                }
                self.make_attempt(op, attempt, ready(turn).boxed());
            }
        }
        Ok(())
    }

    /// Decides a change of shared state when its turn has come.
    pub(super) fn make_attempt(
        &mut self,
        op: OperationId,
        attempt: Attempt<Made>,
        turn: BoxFuture<'static, StateLock>,
    ) {
        let attempted = Box::pin(async move {
            let turn = turn.await;
            let attempted = Box::new(attempt().await);
            ActEvent::Attempted(attempted, attempt, turn)
        });
        self.acts.push(Acting(op, Work::Other(attempted)));
    }

    /// Records the end of an operation that belongs to no function, with its change of shared
    /// state.
    pub(crate) async fn record_write(
        &mut self,
        leg: &Leg,
        (op, identity): (OperationId, &CallIdentity),
        write: Write<Made>,
    ) -> Result<(), StoreError> {
        let (scope, key) = write.place;
        let _turn = self.ports.lock_state(scope, key).await;
        for _ in 0..WRITE_ATTEMPTS {
            let attempt = (write.attempt)().await;
            let call = (op, identity, (Spent::default(), None));
            let unsaved = write.unsaved.clone();
            if self.record(leg, call, attempt, unsaved).await?.is_some() {
                return Ok(());
            }
        }
        let call = (op, identity, (Spent::default(), None));
        let contested = Err(contested());
        let recorded = self.record(leg, call, contested, write.unsaved).await;
        recorded.map(drop)
    }

    /// Whether this is a failure of the store that may be over at the next try.
    pub(super) fn passes(error: &OperationError) -> bool {
        error.kind == ErrorKind::Store && error.retryable
    }

    /// The failure of the store in which an operation came to no end. As after a failed commit, nothing is recorded,
    /// and the run's next incarnation performs the operation.
    pub(super) fn unfinished(&self, op: OperationId, error: OperationError) -> StoreError {
        StoreError::Io {
            place: format!("operation {op} of run {}", self.journal.run()),
            reason: error.message,
        }
    }

    /// Records the end of an operation, committed with a change of shared state.
    async fn record(
        &mut self,
        leg: &Leg,
        (op, identity, (charge, reckon)): (OperationId, &CallIdentity, (Spent, Option<Reckon>)),
        attempted: Attempted,
        unsaved: Option<Unsaved<Made>>,
    ) -> Result<Recorded, StoreError> {
        self.journal.flush();
        let (mut made, changes) = match (attempted, unsaved) {
            (Ok((made, changes)), _) => (Ok(made), changes),
            (Err(error), _) if Self::passes(&error) => return Err(self.unfinished(op, error)),
            (Err(error), None) => (Err(error), Changes::none()),
            (Err(error), Some(unsaved)) => (Ok(unsaved(&error)), Changes::none()),
        };
        if let (Ok(made), Some(reckon)) = (&mut made, reckon) {
            reckon(made);
        }
        let spent = made.as_ref().map_or(charge, |made| made.spent);
        let About { told, report } = leg.about(op);
        let before = self.journal.entries();
        let entries = told.into_iter().chain(changes.entries.iter().cloned());
        entries.for_each(|entry| self.journal.append(entry));
        let recorded =
            self.journal
                .append_completed(op, identity.clone(), &mut made, spent, report);
        for (run, item) in changes.posts {
            self.journal.post(run, item);
        }
        if !changes.writes.is_empty()
            && let Some(mut batch) = self.journal.take()
        {
            let places = changes.writes.iter();
            let places = places.map(|w| (w.scope.clone(), w.key.clone())).collect();
            (batch.writes, batch.blobs) = (changes.writes, changes.blobs);
            let committed = self.journal.commit_checked(batch).await;
            if matches!(committed, Ok(()) | Err(StoreError::Conflict { .. })) {
                self.ports.state_changed(places);
            }
            match committed {
                Ok(()) => {}
                Err(StoreError::Conflict { .. }) => {
                    self.journal.take_back_to(before);
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
        drop(leg.take_about(op));
        changes
            .entries
            .into_iter()
            .for_each(|entry| leg.remember(entry));
        self.charge(spent);
        Ok(Some((recorded, made)))
    }
}

/// The end of a change that had too many conflicts.
fn contested() -> OperationError {
    let message = "others kept changing the value first";
    OperationError::new(ErrorKind::Conflict, message).retryable()
}
