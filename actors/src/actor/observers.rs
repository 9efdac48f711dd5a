//! The observers of trees of runs.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::{broadcast, watch};

use crate::vocabulary::{EventRecord, RunId};

/// How many previews a slow observer may lag behind before it misses some.
const PREVIEWS: usize = 1024;

/// Tells observers that there is more to read. The teller never waits: observers read the journal
/// for themselves, at their own pace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observers(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    watched: AtomicUsize,
    trees: Mutex<HashMap<RunId, Tree>>,
}

#[derive(Debug)]
struct Tree {
    position: watch::Sender<u64>,
    previews: broadcast::Sender<Shown>,
}

/// A preview, and its place among the recorded entries.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    /// How far the journal was when the preview was shown: entries up to there come before it.
    pub(crate) before: u64,
    /// How many entries the run had written when it began what is shown. The preview rests on them,
    /// so they come before it, even if they are recorded later.
    pub(crate) entries: u64,
    pub(crate) record: Arc<EventRecord>,
}

/// An observer's subscription to a tree.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) position: watch::Receiver<u64>,
    pub(crate) previews: broadcast::Receiver<Shown>,
    root: RunId,
    observers: Observers,
}

impl Observers {
    /// Watches a tree.
    pub(crate) fn subscribe(&self, root: RunId) -> Subscription {
        let mut trees = self.0.trees.lock();
        let tree = trees.entry(root).or_insert_with(|| Tree {
            position: watch::channel(0).0,
            previews: broadcast::channel(PREVIEWS).0,
        });
        let (position, previews) = (tree.position.subscribe(), tree.previews.subscribe());
        self.0.watched.store(trees.len(), Ordering::Release);
        Subscription {
            position,
            previews,
            root,
            observers: self.clone(),
        }
    }

    /// The journal has more of this tree.
    pub(crate) fn published(&self, root: RunId, position: u64) {
        if !self.any() {
            return;
        }
        if let Some(tree) = self.0.trees.lock().get(&root) {
            tree.position.send_if_modified(|have| {
                let more = position > *have;
                *have = (*have).max(position);
                more
            });
        }
    }

    /// Whether anybody watches any tree: one look, without a lock.
    pub(crate) fn any(&self) -> bool {
        self.0.watched.load(Ordering::Acquire) > 0
    }

    /// Whether anybody would see a preview.
    pub(crate) fn watched(&self, root: RunId) -> bool {
        self.any() && self.0.trees.lock().contains_key(&root)
    }

    /// Shows a preview, which is not recorded.
    pub(crate) fn preview(&self, root: RunId, entries: u64, record: EventRecord) {
        if let Some(tree) = self.0.trees.lock().get(&root) {
            let shown = Shown {
                before: *tree.position.borrow(),
                entries,
                record: Arc::new(record),
            };
            // A preview without an observer is no failure.
            let _ = tree.previews.send(shown);
        }
    }
}

impl Subscription {
    /// Whether this subscription is to that tree.
    pub(crate) fn is_of(&self, root: RunId) -> bool {
        self.root == root
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut trees = self.observers.0.trees.lock();
        if trees
            .get(&self.root)
            .is_some_and(|tree| tree.position.receiver_count() <= 1)
        {
            trees.remove(&self.root);
        }
        self.observers
            .0
            .watched
            .store(trees.len(), Ordering::Release);
    }
}
