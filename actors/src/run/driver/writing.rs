//! Results that are committed with a change of shared state, and contents that results refer to.

use std::sync::Arc;

use super::{Driver, LegEnd, delivery};
use crate::{
    contract::StoreError,
    run::{
        Changes, Ports,
        leg::Leg,
        operation::{ErasedAttempt, Made},
    },
    vocabulary::{Digest, Entry, ErrorKind, OperationError, OperationId},
};

/// How many times a conflicting write is tried again before it fails.
const WRITE_ATTEMPTS: u32 = 32;

impl Driver {
    /// Writes what changed of a run's passing state alone.
    fn tell(&mut self, leg: &Leg, entries: Vec<Entry>) {
        for entry in entries {
            self.journal.append(&entry);
            leg.remember(entry);
        }
    }

    /// Commits a change of shared state together with its operation's result.
    pub(super) async fn write(
        &mut self,
        leg: &Arc<Leg>,
        op: OperationId,
        mut made: Made,
        mut changes: Changes,
        attempt: ErasedAttempt,
    ) -> Option<LegEnd> {
        if !self.under.contains_key(&op) {
            return None;
        }
        self.journal.flush();
        for _ in 0..WRITE_ATTEMPTS {
            if changes.writes.is_empty() {
                self.tell(leg, changes.entries);
                self.complete(leg, op, made);
                return None;
            }
            let keys = changes
                .writes
                .iter()
                .map(|w| (w.scope.clone(), w.key.clone()))
                .collect();
            let spent = made.spent.unwrap_or_default();
            let identity = &self.under.get(&op)?.identity;
            changes
                .entries
                .iter()
                .for_each(|entry| self.journal.append(entry));
            let told = changes.entries.len() as u64;
            let recorded = self.journal.append_completed(op, identity, &made, spent);
            let mut batch = self.journal.take()?;
            (batch.writes, batch.blobs) = (changes.writes, changes.blobs);
            match self.journal.commit_checked(batch).await {
                Ok(()) => {
                    self.ports.state_changed(keys);
                    self.under.remove(&op);
                    if let Some(call) = leg.books.lock().recorded.get_mut(&op) {
                        call.completed = true;
                    }
                    let told = changes.entries.into_iter();
                    told.for_each(|entry| leg.remember(entry));
                    self.charge(spent);
                    leg.deliver(op, delivery(recorded, made));
                    return None;
                }
                Err(StoreError::Conflict { .. }) => {
                    self.journal.take_back(1 + told);
                    self.ports.state_changed(keys);
                    (made, changes) = attempt().await;
                }
                Err(error) => return Some(LegEnd::Store(error)),
            }
        }
        let message = "others kept changing the value first; try again later".to_owned();
        let error = OperationError::new(ErrorKind::Conflict, message).retryable();
        self.complete(leg, op, Made::failed(error));
        None
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
