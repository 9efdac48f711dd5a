//! How a run is told things: the sender that others hold, and the mailbox that its task reads.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use futures_channel::mpsc;
use futures_util::StreamExt;
use parking_lot::Mutex;

use super::{ChildReport, Command};
use crate::{contract::StoreError, vocabulary::RunId};

/// Where a run is told things. Cloning shares it.
#[derive(Clone, Debug)]
pub struct RunSender {
    door: mpsc::UnboundedSender<Command>,
    tree: Arc<Told>,
    /// Whether the word that something is in the inbox waits in the door: one is enough for all
    /// that came before it is taken.
    inbox: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
}

/// What the runs of one tree were told. The root falls asleep with all of them, and must not do so
/// over what is on its way to one of them.
#[derive(Debug, Default)]
struct Told {
    /// How much they were ever told.
    ever: AtomicU64,
    /// How much of it is not dealt with yet.
    open: AtomicUsize,
}

impl RunSender {
    /// The two ends of the door of a root run. What comes through it is bounded by the run's own
    /// operations and children, and by its inbox, which is durable.
    ///
    /// The queue holds no more than what waits in it: one that keeps room for its next messages
    /// would be a good part of a run that only waits.
    pub fn channel() -> (Self, RunMailbox) {
        Self::of(Arc::default())
    }

    /// The two ends of a door of another run of this tree, or of another life of this run.
    pub(crate) fn beside(&self) -> (Self, RunMailbox) {
        Self::of(self.tree.clone())
    }

    fn of(tree: Arc<Told>) -> (Self, RunMailbox) {
        let (door, queue) = mpsc::unbounded();
        let inbox = Arc::new(AtomicBool::new(false));
        let written = Arc::new(AtomicU64::new(0));
        let commands = RunMailbox {
            queue,
            tree: tree.clone(),
            inbox: inbox.clone(),
            written: written.clone(),
            taken: 0,
        };
        let sender = Self {
            door,
            tree,
            inbox,
            written,
        };
        (sender, commands)
    }

    /// How many entries come before what the operation that began last shows.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Tells the run. `false` when it is gone.
    pub fn tell(&self, command: Command) -> bool {
        self.send(command).is_ok()
    }

    /// Tells the run, or gives it back when the run is gone.
    fn send(&self, command: Command) -> Result<(), Command> {
        let is_inbox = matches!(command, Command::Inbox);
        if is_inbox && !self.door.is_closed() && self.inbox.swap(true, Ordering::AcqRel) {
            self.tree.ever.fetch_add(1, Ordering::AcqRel);
            return Ok(());
        }
        self.tree.open.fetch_add(1, Ordering::AcqRel);
        self.tree.ever.fetch_add(1, Ordering::AcqRel);
        self.door.unbounded_send(command).map_err(|untold| {
            self.tree.open.fetch_sub(1, Ordering::AcqRel);
            untold.into_inner()
        })
    }

    /// How much the runs of this tree were ever told.
    pub(crate) fn told_so_far(&self) -> u64 {
        self.tree.ever.load(Ordering::Acquire)
    }

    /// Whether a run of this tree still deals with something that it was told.
    pub(crate) fn is_dealing(&self) -> bool {
        self.tree.open.load(Ordering::Acquire) > 0
    }
}

/// The inner end of a run's door.
#[derive(Debug)]
pub struct RunMailbox {
    queue: mpsc::UnboundedReceiver<Command>,
    tree: Arc<Told>,
    inbox: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    /// What was taken and not dealt with yet.
    taken: usize,
}

impl RunMailbox {
    /// An operation begins after so many entries of the run.
    pub(crate) fn begins_after(&self, entries: u64) {
        self.written.store(entries, Ordering::Release);
    }

    /// Waits for the next word; `None` when nobody is left who could say one.
    pub async fn next(&mut self) -> Option<Command> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The next word, if there is one; the task is woken by it otherwise. Who asks has dealt with
    /// the word before, and told its parent what came of it.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Command>> {
        if self.taken > 0 {
            let dealt_with = std::mem::take(&mut self.taken);
            self.tree.open.fetch_sub(dealt_with, Ordering::AcqRel);
        }
        let next = self.queue.poll_next_unpin(cx);
        if let Poll::Ready(Some(command)) = &next {
            self.taken = 1;
            if matches!(command, Command::Inbox) {
                // Before the inbox is read: what comes from now on has a word of its own.
                self.inbox.store(false, Ordering::Release);
            }
        }
        next
    }
}

impl Drop for RunMailbox {
    fn drop(&mut self) {
        self.queue.close();
        while self.queue.try_recv().is_ok() {
            self.taken += 1;
        }
        self.tree.open.fetch_sub(self.taken, Ordering::AcqRel);
    }
}

/// The door of a child's parent. A parent that was restarted has another one.
#[derive(Clone, Debug)]
pub(crate) struct ParentSender {
    /// The id under which the parent began the child. It stays the child's name there, in whatever
    /// journal the child goes on.
    child: RunId,
    parent: Arc<Mutex<RunSender>>,
}

impl ParentSender {
    /// The door of the parent that began this child.
    pub(crate) fn of(child: RunId, sender: RunSender) -> Self {
        let parent = Arc::new(Mutex::new(sender));
        Self { child, parent }
    }

    /// The parent has this door now.
    pub(crate) fn set(&self, sender: RunSender) {
        *self.parent.lock() = sender;
    }

    /// Tells the parent that the store refuses this child.
    pub(crate) fn failed(&self, error: StoreError) {
        // A parent that is gone takes the child up again, and finds out for itself.
        self.parent.lock().tell(Command::ChildFailed(error));
    }

    /// Tells the parent how this child stands. `false` when there is nobody to tell.
    pub(crate) fn tell(&self, sender: ChildReport) -> bool {
        self.hand(sender).is_ok()
    }

    /// Tells the parent how this child stands, or gives it back when there is nobody to tell.
    pub(crate) fn hand(&self, sender: ChildReport) -> Result<(), ChildReport> {
        let run = self.child;
        let told = self.parent.lock().send(Command::Child { run, sender });
        told.map_err(|untold| match untold {
            Command::Child { sender, .. } => sender,
            _ => ChildReport::Busy,
        })
    }
}
