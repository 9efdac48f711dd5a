//! Results that are committed with a change of shared state, and contents that results refer to.

use std::sync::Arc;

use super::{Driver, LegEnd, delivery};
use crate::{
    contract::StoreError,
    run::{
        Changes, Ports,
        leg::{CallIdentity, Leg},
        operation::{Ended, ErasedAttempt, ErasedUnsaved, ErasedWrite, Made},
    },
    vocabulary::{Digest, ErrorKind, OperationError, OperationId, Spent},
};

/// How many times a conflicting write is tried again before it fails.
const WRITE_ATTEMPTS: u32 = 32;

impl Driver {
    /// Commits a change of shared state together with its operation's result.
    pub(super) async fn write(
        &mut self,
        leg: &Arc<Leg>,
        op: OperationId,
        (made, changes): (Made, Changes),
        attempt: ErasedAttempt,
    ) -> Option<LegEnd> {
        let under = self.under.get(&op)?;
        let (identity, charge, unsaved) = (
            under.identity.clone(),
            under.charge(),
            under.unsaved.clone(),
        );
        let attempts = (&attempt, unsaved.as_ref());
        let call = (op, &identity, charge);
        match self.record(leg, call, (made, changes), attempts).await {
            Ok((recorded, made)) => {
                self.strike_off(leg, op);
                leg.deliver(op, delivery(recorded, made));
                None
            }
            Err(error) => Some(LegEnd::Store(error)),
        }
    }

    /// Records the end of an operation of which no function knows, with the change that it makes.
    pub(crate) async fn record_write(
        &mut self,
        leg: &Leg,
        (op, identity): (OperationId, &CallIdentity),
        write: ErasedWrite,
    ) -> Result<(), StoreError> {
        let (scope, key) = write.place;
        let turn = self.ports.state_turn(scope, key).await;
        let first = (write.attempt)().await;
        let attempts = (&write.attempt, write.unsaved.as_ref());
        let call = (op, identity, Spent::default());
        let recorded = self.record(leg, call, first, attempts).await;
        drop(turn);
        recorded.map(drop)
    }

    /// Records the end of an operation, committed with a change of shared state. The change is
    /// decided again as often as somebody else was faster.
    async fn record(
        &mut self,
        leg: &Leg,
        (op, identity, charge): (OperationId, &CallIdentity, Spent),
        (mut made, mut changes): (Made, Changes),
        (attempt, unsaved): (&ErasedAttempt, Option<&ErasedUnsaved>),
    ) -> Result<(Result<(), OperationError>, Made), StoreError> {
        self.journal.flush();
        let told = leg.take_told(op);
        let mut conflicts = 0;
        loop {
            if conflicts == WRITE_ATTEMPTS {
                let message = "others kept changing the value first".to_owned();
                let error = OperationError::new(ErrorKind::Conflict, message).retryable();
                (made, changes) = (Made::failed(error), Changes::none());
            }
            if let (Ended::Failed(error), Some(unsaved)) = (&made.ended, unsaved) {
                if error.kind == ErrorKind::Store {
                    // Whether the change can be made is not known, so neither is recorded.
                    return Err(StoreError::Io {
                        place: format!("operation {op} of run {}", self.journal.run),
                        reason: error.message.clone(),
                    });
                }
                (made, changes) = (unsaved(error), Changes::none());
            }
            let spent = made.spent.unwrap_or(charge);
            let entries = told.iter().chain(&changes.entries);
            entries.for_each(|entry| self.journal.append(entry));
            let recorded = self.journal.append_completed(op, identity, &made, spent);
            if !changes.writes.is_empty()
                && let Some(mut batch) = self.journal.take()
            {
                let places = changes.writes.iter();
                let places = places.map(|w| (w.scope.clone(), w.key.clone())).collect();
                (batch.writes, batch.blobs) = (changes.writes, changes.blobs);
                let told = changes.posts.iter().map(|(run, _)| *run).collect();
                batch.posts = changes.posts;
                let committed = self.journal.commit_checked(batch).await;
                if matches!(committed, Ok(()) | Err(StoreError::Conflict { .. })) {
                    self.ports.state_changed(places);
                }
                match committed {
                    Ok(()) => self.ports.posted(told),
                    Err(StoreError::Conflict { .. }) => {
                        self.journal
                            .take_back(1 + (told.len() + changes.entries.len()) as u64);
                        conflicts += 1;
                        (made, changes) = attempt().await;
                        continue;
                    }
                    Err(error) => return Err(error),
                }
            }
            let told = changes.entries.into_iter();
            told.for_each(|entry| leg.remember(entry));
            self.charge(spent);
            return Ok((recorded, made));
        }
    }
}

/// Puts the content that a recorded result refers to where the function finds it.
pub(super) async fn bring_content(
    ports: Arc<dyn Ports>,
    leg: &Leg,
    op: OperationId,
    digest: Digest,
) -> Result<(), LegEnd> {
    match ports.blob(digest).await.map_err(LegEnd::Store)? {
        Some(content) => {
            leg.contents.lock().insert(op, content);
            Ok(())
        }
        None => Err(LegEnd::Store(StoreError::Damaged {
            place: format!("operation {op} of run {}", leg.run),
            reason: format!("the blob {digest}, which it loaded, is not there"),
        })),
    }
}
