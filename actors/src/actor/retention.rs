//! The retention of ended runs and idle sessions.

use std::{collections::HashSet, sync::Arc, time::Duration};

use crate::{
    contract::{DynDeletion, Expiry, RunRow, SessionFilter, SessionRow, StoreError, StoreHandle},
    vocabulary::{RunId, SessionId, Timestamp},
};

/// How many rows one commit deletes. It takes some milliseconds, for which other commits wait.
pub(super) const STEP: usize = 256;
/// How many trees are looked for at once.
const PAGE: usize = 256;
/// How many idle sessions are looked for at once. A store may read all its sessions for a page.
const SESSIONS: usize = 4096;

/// The rule by which ended runs and idle sessions are kept. A tree of runs is deleted as a whole, with
/// all runs below its root, once every one of them has ended; its session keeps the conversation.
/// Runs that are open, wait or are parked are never deleted, and neither is a session with such a
/// run.
///
/// If both bounds of runs are set, a tree is kept as long as either bound keeps it. Without a bound
/// everything is kept, except for runs in memory only: there the last
/// [1,000](crate::contract::InMemoryStore::KEPT) are kept.
///
/// ```
/// use std::time::Duration;
/// use ghostlight_actors::actor::{SystemOptions, Retention};
///
/// let month = Duration::from_secs(30 * 24 * 3600);
/// let retention = Retention::default()
///     .older_than(month)
///     .keep(1_000)
///     .sessions_idle_for(12 * month);
/// let options = SystemOptions::default().retention(retention);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retention {
    /// How long ago a root must have ended for its tree to go.
    pub older_than: Option<Duration>,
    /// How many of the trees that ended last are kept.
    pub keep: Option<usize>,
    /// For how long nothing may have happened in a session for it to go; see
    /// [`Sessions::prune`](crate::actor::Sessions::prune).
    pub sessions_idle_for: Option<Duration>,
}

/// Counts of what was deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Pruned {
    /// How many sessions.
    pub sessions: u64,
    /// How many trees.
    pub trees: u64,
    /// How many runs in them.
    pub runs: u64,
    /// How many entries of the journals of runs and sessions.
    pub entries: u64,
    /// How many definitions, contents of artifacts, and files of entries to which nothing refers any more.
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

    /// Deletes sessions in which nothing happened for at least this long, with everything that
    /// [`Sessions::delete`](crate::actor::Sessions::delete) deletes.
    #[must_use]
    pub fn sessions_idle_for(mut self, age: Duration) -> Self {
        self.sessions_idle_for = Some(age);
        self
    }

    /// Whether anything is ever deleted.
    pub fn deletes(&self) -> bool {
        self.deletes_runs() || self.sessions_idle_for.is_some()
    }

    /// Whether runs are deleted whose session stays.
    pub(super) fn deletes_runs(&self) -> bool {
        self.older_than.is_some() || self.keep.is_some()
    }

    /// The shortest age after which something is deleted.
    pub(super) fn shortest_age(&self) -> Option<Duration> {
        let ages = [self.older_than, self.sessions_idle_for];
        ages.into_iter().flatten().min()
    }

    fn expiry(&self, now: Timestamp, limit: usize) -> Expiry {
        Expiry {
            // With an age of zero a run that ended in this millisecond goes too.
            ended_before: self
                .older_than
                .map(|older| Timestamp(before(now, older).0.saturating_add(1))),
            keep: self.keep.unwrap_or(0),
            limit,
        }
    }

    /// The roots of the trees of a store that would be deleted now, the first to end at the front.
    /// The runs of sessions that would be deleted are not among them.
    ///
    /// # Errors
    /// [`StoreError::Unsupported`] where the store deletes nothing; what it fails with.
    pub async fn expired(
        &self,
        store: &StoreHandle,
        now: Timestamp,
    ) -> Result<Vec<RunRow>, StoreError> {
        if !self.deletes_runs() {
            return Ok(Vec::new());
        }
        deletion(store)?.expired(self.expiry(now, 0)).await
    }

    /// The sessions of a store in which nothing happened for long enough, the one that changed last
    /// at the front. `after` is the last one of the page before; the last page is empty. A session
    /// that another process holds, or of which a run has not ended, is in the list as well, and
    /// stays.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn idle_sessions(
        &self,
        store: &StoreHandle,
        now: Timestamp,
        after: Option<SessionRow>,
    ) -> Result<Vec<SessionRow>, StoreError> {
        let Some(age) = self.sessions_idle_for else {
            return Ok(Vec::new());
        };
        // A list of sessions goes from the latest to the earliest, so the idle ones follow this row.
        let first = || SessionRow {
            session: SessionId {
                team: Arc::default(),
                key: Arc::default(),
            },
            entries: 0,
            updated_at: before(now, age),
        };
        let filter = SessionFilter {
            after: Some(after.unwrap_or_else(first)),
            limit: SESSIONS,
            ..SessionFilter::default()
        };
        store.sessions(filter).await
    }

    /// Deletes the trees of a store that the rule does not keep, in commits of a few milliseconds
    /// each. Trees that were deleted before a failure stay deleted. A tree that cannot be deleted keeps no other: the first
    /// such error is returned at the end.
    pub(super) async fn prune_runs(
        &self,
        store: &StoreHandle,
        now: Timestamp,
        pruned: &mut Pruned,
    ) -> Result<(), StoreError> {
        let mut failed = Ok(());
        let mut seen = HashSet::new();
        loop {
            let expired = match self.deletes_runs() {
                true => deletion(store)?.expired(self.expiry(now, PAGE)).await?,
                false => Vec::new(),
            };
            let before = seen.len();
            for row in expired.iter().filter(|row| seen.insert(row.run)) {
                match delete_tree(store, row.root, now, pruned).await {
                    // The tree was retried or continued meanwhile.
                    Ok(()) | Err(StoreError::Open { .. }) => {}
                    Err(error) if error.is_lasting() => failed = failed.and(Err(error)),
                    Err(error) => return Err(error),
                }
            }
            if seen.len() == before || expired.len() < PAGE {
                break;
            }
        }
        failed
    }
}

/// The part of a store that deletes.
pub(super) fn deletion(store: &StoreHandle) -> Result<&dyn DynDeletion, StoreError> {
    store.deletion().ok_or_else(|| StoreError::Unsupported {
        place: store.description(),
        what: "delete anything",
    })
}

/// The time so long before another.
fn before(now: Timestamp, age: Duration) -> Timestamp {
    let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    Timestamp(now.0.saturating_sub(age))
}

/// Deletes a tree of ended runs, and counts what was deleted.
pub(super) async fn delete_tree(
    store: &StoreHandle,
    root: RunId,
    now: Timestamp,
    pruned: &mut Pruned,
) -> Result<(), StoreError> {
    loop {
        let deleted = deletion(store)?.delete_tree(root, now, STEP).await?;
        pruned.runs += deleted.runs;
        pruned.entries += deleted.entries;
        if !deleted.more {
            pruned.trees += 1;
            return Ok(());
        }
    }
}
