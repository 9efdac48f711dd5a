//! The observers of trees of runs.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::vocabulary::{EventRecord, RunId};

/// How many previews a slow observer may lag behind before it misses some.
const PREVIEWS: usize = 1024;
/// The most previews for which an observer that has read all of them keeps room.
const ROOM: usize = 16;

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
    observers: Vec<Arc<Previews>>,
}

/// The previews that wait for one observer. They take no room before there are any: most observers wait, and there may
/// be thousands.
#[derive(Debug, Default)]
pub(crate) struct Previews {
    waiting: Mutex<Waiting>,
    more: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    shown: VecDeque<Shown>,
    missed: u64,
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
    pub(crate) previews: Arc<Previews>,
    root: RunId,
    observers: Observers,
}

impl Observers {
    /// Watches a tree.
    pub(crate) fn subscribe(&self, root: RunId) -> Subscription {
        let mut trees = self.0.trees.lock();
        let tree = trees.entry(root).or_insert_with(|| Tree {
            position: watch::channel(0).0,
            observers: Vec::new(),
        });
        let (position, previews) = (tree.position.subscribe(), Arc::<Previews>::default());
        tree.observers.push(previews.clone());
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
            for observer in &tree.observers {
                observer.push(shown.clone());
            }
        }
    }
}

impl Previews {
    fn push(&self, shown: Shown) {
        let mut waiting = self.waiting.lock();
        if waiting.shown.len() == PREVIEWS {
            waiting.shown.pop_front();
            waiting.missed += 1;
        }
        waiting.shown.push_back(shown);
        drop(waiting);
        self.more.notify_one();
    }

    /// The oldest preview that waits, and how many were missed before it.
    pub(crate) fn take(&self) -> (Option<Shown>, u64) {
        let mut waiting = self.waiting.lock();
        let shown = waiting.shown.pop_front();
        if waiting.shown.is_empty() {
            waiting.shown.shrink_to(ROOM);
        }
        (shown, std::mem::take(&mut waiting.missed))
    }

    /// The same, as soon as there is one. Dropped while it waits, it loses none.
    pub(crate) async fn next(&self) -> (Shown, u64) {
        loop {
            if let (Some(shown), missed) = self.take() {
                return (shown, missed);
            }
            self.more.notified().await;
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
        if let Some(tree) = trees.get_mut(&self.root) {
            tree.observers
                .retain(|previews| !Arc::ptr_eq(previews, &self.previews));
            if tree.observers.is_empty() {
                trees.remove(&self.root);
            }
        }
        self.observers
            .0
            .watched
            .store(trees.len(), Ordering::Release);
    }
}
