//! The runs that have not ended, and which of them will not end by themselves.

use std::{collections::HashMap, time::Duration};

use super::{System, next_page};
use crate::{
    actor::SystemError,
    contract::{RunFilter, RunRow, RunStatus, StoreError, StoreHandle},
    vocabulary::{RunId, Timestamp},
};

/// Counts of the trees of runs that have not ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenRuns {
    /// How many there are.
    pub total: usize,
    /// How many are under way, or will be once a process takes them up.
    pub running: usize,
    /// How many wait for something outside: an answer, a message, a timer, a ticket.
    pub waiting: usize,
    /// How many wait until they are retried, forked or cancelled.
    pub parked: usize,
    /// How many are being cancelled.
    pub cancelling: usize,
    /// The roots of the trees that recorded nothing for longer than the given time, and that no
    /// timer will wake; the tree that is silent for longest first.
    pub expired: Vec<RunId>,
    /// How long ago the oldest of the trees began.
    pub oldest: Duration,
    /// How long ago the trees began on average.
    pub average_age: Duration,
}

/// The knowledge of a tree.
#[derive(Default)]
struct Tree {
    /// When it began, and how its root stands; `None` if the root is not open or not visible.
    root: Option<(Timestamp, RunStatus)>,
    /// When the tree's last entry was written, by any of its runs.
    last: Timestamp,
    has_timer: bool,
}

impl Tree {
    fn add(&mut self, row: &RunRow) {
        if row.run == row.root {
            self.root = Some((row.started_at, row.status));
        }
        self.last = self.last.max(row.last_entry_by());
        self.has_timer |= row.wake_at.is_some();
    }
}

impl OpenRuns {
    /// Counts the runs of a store that have not ended, and lists those that recorded nothing for `silent`. A System is
    /// not needed for it.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn read(
        store: &StoreHandle,
        now: Timestamp,
        silent: Duration,
    ) -> Result<Self, StoreError> {
        let (mut filter, mut trees) = (RunFilter::open(), Trees::new());
        while let Some(rows) = next_page(store, &mut filter).await? {
            add(&mut trees, &rows);
        }
        Ok(stand(trees, now, silent))
    }
}

type Trees = HashMap<RunId, Tree>;

fn add(trees: &mut Trees, rows: &[RunRow]) {
    for row in rows {
        trees.entry(row.root).or_default().add(row);
    }
}

impl System {
    /// Counts the runs of the store that have not ended, and lists those that recorded nothing for
    /// `silent`; only the runs of its owner, where the System acts for one.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn open_runs(&self, silent: Duration) -> Result<OpenRuns, SystemError> {
        let (mut filter, mut trees) = (RunFilter::open(), Trees::new());
        while let Some(rows) = self.next_page(&mut filter).await? {
            add(&mut trees, &rows);
        }
        Ok(stand(trees, self.0.services.clock.now(), silent))
    }

    /// Ends the trees as failed that recorded nothing for `silent` and that no timer will wake, and
    /// returns their roots, so that the runs of an interrupted process do not stay open for ever.
    /// Trees of other processes expire too, and whoever carries a tree, or takes it up, closes it. With
    /// [`SystemOptions::expire_silent`](crate::actor::SystemOptions) a System does so by itself.
    ///
    /// # Errors
    /// The errors of the store; the first one, after all trees that could be told.
    pub async fn expire_open(&self, silent: Duration) -> Result<Vec<RunId>, SystemError> {
        let (mut expired, mut failed) = (Vec::new(), Ok(()));
        for run in self.open_runs(silent).await?.expired {
            match self.run(run).expire(silent.as_secs()).await {
                Ok(true) => expired.push(run),
                Ok(false) => {}
                Err(error) => failed = failed.and(Err(error)),
            }
        }
        failed.map(|()| expired)
    }
}

fn stand(trees: Trees, now: Timestamp, silent: Duration) -> OpenRuns {
    let mut open = OpenRuns::default();
    let mut ages = Duration::ZERO;
    let mut expired = Vec::new();
    for (root, tree) in trees {
        let Some((begun, status)) = tree.root else {
            continue;
        };
        let count = match status {
            RunStatus::Running => &mut open.running,
            RunStatus::Waiting => &mut open.waiting,
            RunStatus::Parked => &mut open.parked,
            _ => &mut open.cancelling,
        };
        *count += 1;
        open.total += 1;
        let age = now.since(begun);
        (open.oldest, ages) = (open.oldest.max(age), ages.saturating_add(age));
        if !tree.has_timer && now.since(tree.last) > silent {
            expired.push((tree.last, root));
        }
    }
    expired.sort_unstable();
    open.expired = expired.into_iter().map(|(_, root)| root).collect();
    let total = u32::try_from(open.total).unwrap_or(u32::MAX);
    open.average_age = ages.checked_div(total).unwrap_or_default();
    open
}
