//! The retention of ended runs.

use std::{collections::HashSet, time::Duration};

use crate::{
    contract::{Expiry, RunRow, StoreError, StoreHandle},
    vocabulary::{RunId, Timestamp},
};

/// How many rows one commit deletes. It takes some milliseconds, for which other commits wait.
pub(super) const STEP: usize = 256;
/// How many trees are looked for at once.
const PAGE: usize = 256;

/// The rule by which ended runs are kept. A tree is deleted as a whole, with all runs below its
/// root, once every one of them has ended; its session keeps the conversation. Runs that are open,
/// wait or are parked are never deleted.
///
/// If both bounds are set, a tree is kept as long as either bound keeps it. Without a bound
/// everything is kept, except for runs in memory only: there the last
/// [1,000](crate::contract::InMemoryStore::KEPT) are kept.
///
/// ```
/// use std::time::Duration;
/// use ghostlight_actors::actor::{Limits, Retention};
///
/// let month = Duration::from_secs(30 * 24 * 3600);
/// let mut limits = Limits::default();
/// limits.retention = Retention::default().older_than(month).keep(1_000);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retention {
    /// How long ago a root must have ended for its tree to go.
    pub older_than: Option<Duration>,
    /// How many of the trees that ended last are kept.
    pub keep: Option<usize>,
}

/// Counts of what was deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Pruned {
    /// How many trees.
    pub trees: u64,
    /// How many runs in them.
    pub runs: u64,
    /// How many entries of their journals.
    pub entries: u64,
    /// How many definitions that no run is pinned to any more.
    pub blobs: u64,
}

impl Retention {
    /// Deletes trees that ended longer ago than this.
    #[must_use]
    pub fn older_than(mut self, age: Duration) -> Self {
        self.older_than = Some(age);
        self
    }

    /// Keeps this many of the trees that ended last.
    #[must_use]
    pub fn keep(mut self, trees: usize) -> Self {
        self.keep = Some(trees);
        self
    }

    /// Whether anything is ever deleted.
    pub fn deletes(&self) -> bool {
        self.older_than.is_some() || self.keep.is_some()
    }

    fn expiry(&self, now: Timestamp, limit: usize) -> Expiry {
        let age = |age: Duration| u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        Expiry {
            // With an age of zero a run that ended in this millisecond goes too.
            ended_before: self
                .older_than
                .map(|older| Timestamp(now.0.saturating_add(1).saturating_sub(age(older)))),
            keep: self.keep.unwrap_or(0),
            limit,
        }
    }

    /// The roots of the trees of a store that would be deleted now, the first to end at the front.
    ///
    /// # Errors
    /// What the store fails with.
    pub async fn expired(
        &self,
        store: &StoreHandle,
        now: Timestamp,
    ) -> Result<Vec<RunRow>, StoreError> {
        if !self.deletes() {
            return Ok(Vec::new());
        }
        store.expired(self.expiry(now, 0)).await
    }

    /// Deletes the trees of a store that the rule does not keep, in commits of a few milliseconds
    /// each.
    ///
    /// # Errors
    /// What the store fails with. Trees that were deleted before the failure stay deleted.
    pub async fn prune(&self, store: &StoreHandle, now: Timestamp) -> Result<Pruned, StoreError> {
        let mut pruned = Pruned::default();
        let mut seen = HashSet::new();
        loop {
            let expired = match self.deletes() {
                true => store.expired(self.expiry(now, PAGE)).await?,
                false => Vec::new(),
            };
            let before = seen.len();
            for row in expired.iter().filter(|row| seen.insert(row.run)) {
                match delete_tree(store, row.root, now, &mut pruned).await {
                    // The tree was retried or continued meanwhile.
                    Ok(()) | Err(StoreError::Open { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            if seen.len() == before || expired.len() < PAGE {
                break;
            }
        }
        if pruned.trees > 0 {
            pruned.blobs = store.drop_blobs().await?;
        }
        Ok(pruned)
    }
}

/// Deletes a tree of ended runs, and counts what was deleted.
pub(super) async fn delete_tree(
    store: &StoreHandle,
    root: RunId,
    now: Timestamp,
    pruned: &mut Pruned,
) -> Result<(), StoreError> {
    loop {
        let deleted = store.delete_tree(root, now, STEP).await?;
        pruned.runs += deleted.runs;
        pruned.entries += deleted.entries;
        if !deleted.more {
            pruned.trees += 1;
            return Ok(());
        }
    }
}
