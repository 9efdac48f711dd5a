//! The observers of trees of runs.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, watch};

use super::partial_answers::PartialAnswers;
use crate::vocabulary::{Event, EventRecord, OperationId, Preview, RunId};

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
    /// Locked before `trees`: who begins to watch gets what was said before, and then the rest.
    partial_answers: Mutex<PartialAnswers>,
    trees: Mutex<HashMap<RunId, Tree>>,
    relays: Mutex<Relays>,
}

/// The trees whose previews are asked for at other processes.
#[derive(Debug, Default)]
struct Relays {
    /// The operation that asks for them, if there is one.
    asks: Option<mpsc::UnboundedSender<RunId>>,
    trees: HashSet<RunId>,
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
    /// Whether only those of this process are shown.
    are_own: bool,
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
        let subscription = self.subscribe_to(root, false);
        self.ask_for(root);
        subscription
    }

    /// Watches what this process itself has of a tree.
    pub(crate) fn subscribe_to_own(&self, root: RunId) -> Subscription {
        self.subscribe_to(root, true)
    }

    fn subscribe_to(&self, root: RunId, are_own: bool) -> Subscription {
        let partial_answers = self.0.partial_answers.lock();
        let mut trees = self.0.trees.lock();
        let tree = trees.entry(root).or_insert_with(|| Tree {
            position: watch::channel(0).0,
            observers: Vec::new(),
        });
        let position = tree.position.subscribe();
        let previews = Arc::new(Previews {
            are_own,
            ..Previews::default()
        });
        for (entries, record) in partial_answers.previews(root) {
            previews.push(Shown {
                before: *tree.position.borrow(),
                entries,
                record: Arc::new(record),
            });
        }
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
        self.show(root, entries, record, false);
    }

    /// Shows a preview of a model's answer, and keeps the answer so far.
    pub(crate) fn live(
        &self,
        root: RunId,
        entries: u64,
        preview: Preview,
        record: impl FnOnce(Preview) -> EventRecord,
    ) {
        let mut partial_answers = self.0.partial_answers.lock();
        let record = record(preview);
        if let Event::Preview(preview) = &record.event {
            match preview {
                Preview::ModelStarted { .. } => partial_answers.begin(root, entries, &record),
                other => partial_answers.add(record.run, other),
            }
        }
        if self.any() {
            self.preview(root, entries, record);
        }
    }

    /// Keeps a piece of a model's answer; `false` where somebody watches, who must see it at once.
    pub(crate) fn say_unseen(&self, run: RunId, preview: &Preview) -> bool {
        let mut partial_answers = self.0.partial_answers.lock();
        let is_unseen = !self.any();
        if is_unseen {
            partial_answers.add(run, preview);
        }
        is_unseen
    }

    /// A model's answer is whole, or there is none.
    pub(crate) fn said(&self, run: RunId, operation: OperationId) {
        self.0.partial_answers.lock().end(run, operation);
    }

    /// Nobody waits for a model's answer any more.
    pub(crate) fn answer_dropped(&self, run: RunId, operation: OperationId) {
        self.0.partial_answers.lock().drop_answer(run, operation);
    }

    /// The text of an answer that the run's model has not ended.
    pub(crate) fn saying(&self, run: RunId) -> Option<String> {
        self.0.partial_answers.lock().text(run)
    }

    /// Forgets what models said in a run.
    pub(crate) fn forget(&self, run: RunId) {
        self.0.partial_answers.lock().forget(run);
    }

    /// Forgets what models said in the runs of a tree.
    pub(crate) fn forget_tree(&self, root: RunId) {
        self.0.partial_answers.lock().forget_tree(root);
    }

    /// Shows a preview of another process. Observers that ask on behalf of another process get none, so that none goes in a
    /// circle.
    pub(crate) fn relay(&self, root: RunId, entries: u64, record: EventRecord) {
        self.show(root, entries, record, true);
    }

    fn show(&self, root: RunId, entries: u64, record: EventRecord, is_relayed: bool) {
        if let Some(tree) = self.0.trees.lock().get(&root) {
            let shown = Shown {
                before: *tree.position.borrow(),
                entries,
                record: Arc::new(record),
            };
            let observers = tree.observers.iter();
            for observer in observers.filter(|observer| !is_relayed || !observer.are_own) {
                observer.push(shown.clone());
            }
        }
    }

    /// The position up to which the observers of a tree have read; 0 where that is unknown.
    pub(crate) fn position(&self, root: RunId) -> u64 {
        let trees = self.0.trees.lock();
        trees.get(&root).map_or(0, |tree| *tree.position.borrow())
    }

    /// The trees that are observed from now on, each once until it is observed no more; also those that are already.
    pub(crate) fn relays(&self) -> mpsc::UnboundedReceiver<RunId> {
        let (asks, asked) = mpsc::unbounded_channel();
        *self.0.relays.lock() = Relays {
            asks: Some(asks),
            trees: HashSet::new(),
        };
        let roots: Vec<RunId> = self.0.trees.lock().keys().copied().collect();
        roots.into_iter().for_each(|root| self.ask_for(root));
        asked
    }

    /// Asks other processes for the previews of a tree, if it is observed and nobody asks yet.
    fn ask_for(&self, root: RunId) {
        let mut relays = self.0.relays.lock();
        if relays.asks.is_some() && self.is_observed(root) && relays.trees.insert(root) {
            let is_heard = relays.asks.as_ref().map(|asks| asks.send(root));
            if !matches!(is_heard, Some(Ok(()))) {
                *relays = Relays::default();
            }
        }
    }

    /// Whether previews of other processes are still wanted. If not, the next observer asks for them anew.
    pub(crate) fn wants_relay(&self, root: RunId) -> bool {
        let mut relays = self.0.relays.lock();
        let is_observed = self.is_observed(root);
        if !is_observed {
            relays.trees.remove(&root);
        }
        is_observed
    }

    fn is_observed(&self, root: RunId) -> bool {
        let trees = self.0.trees.lock();
        let observers = trees.get(&root).map(|tree| &tree.observers);
        observers.is_some_and(|observers| observers.iter().any(|previews| !previews.are_own))
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

    /// Waits until there is one.
    pub(crate) async fn any(&self) {
        while self.waiting.lock().shown.is_empty() {
            self.more.notified().await;
        }
    }
}

impl Subscription {
    /// The same of another tree.
    pub(crate) fn next(&self, root: RunId) -> Self {
        match self.previews.are_own {
            true => self.observers.subscribe_to_own(root),
            false => self.observers.subscribe(root),
        }
    }

    /// The observer has read this far, so the journal has at least as much of the tree.
    pub(crate) fn read_up_to(&self, position: u64) {
        self.observers.published(self.root, position);
    }

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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::vocabulary::Timestamp;

    fn preview(run: RunId) -> EventRecord {
        let preview = Preview::ModelStarted {
            operation: OperationId::default(),
            attempt: 1,
            model: "m".to_owned(),
        };
        EventRecord::new(run, Timestamp(1), Vec::new(), Event::Preview(preview))
    }

    #[test]
    fn a_preview_of_another_process_goes_to_none_that_asks_for_another_process() {
        let (observers, root) = (Observers::default(), RunId::from_random(7));
        let (here, elsewhere) = (observers.subscribe(root), observers.subscribe_to_own(root));
        let seen = || [&here, &elsewhere].map(|observer| observer.previews.take().0.is_some());
        observers.relay(root, 0, preview(root));
        assert_eq!(seen(), [true, false]);
        observers.preview(root, 0, preview(root));
        assert_eq!(seen(), [true, true]);
    }

    #[test]
    fn a_tree_is_asked_for_once_while_it_is_followed_and_anew_afterwards() {
        let (observers, root) = (Observers::default(), RunId::from_random(7));
        let earlier = observers.subscribe(root);
        let mut asked = observers.relays();
        let later = observers.subscribe(root);
        assert_eq!(asked.try_recv(), Ok(root));
        assert!(asked.try_recv().is_err(), "it is asked for already");
        drop((earlier, later));
        // A process that asks for its own followers is no reason to ask others.
        let own = observers.subscribe_to_own(root);
        assert!(!observers.wants_relay(root));
        assert!(asked.try_recv().is_err());
        drop(own);
        let _anew = observers.subscribe(root);
        assert_eq!(asked.try_recv(), Ok(root));
        assert!(observers.wants_relay(root));
    }
}
