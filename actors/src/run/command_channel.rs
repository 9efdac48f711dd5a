//! Commands to a run: the sender that others hold, and the channel that the run's task reads.

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

use super::{
    command::{ChildReport, Command},
    steering_inbox::SteeringInbox,
};
use crate::vocabulary::RunId;

/// Sends commands to a run. Cloning shares it.
#[derive(Clone, Debug)]
pub struct RunSender {
    sender: mpsc::UnboundedSender<Command>,
    tree: Arc<Told>,
    run: Arc<OfRun>,
}

/// The news between the senders to a run and its channel.
#[derive(Debug, Default)]
struct OfRun {
    /// Whether the channel holds a command to read the mailbox. One such command is enough for all
    /// items that come before it is taken.
    mailbox: AtomicBool,
    /// The number of entries before the output of the operation that began last.
    written: AtomicU64,
    /// The words of people to the run.
    words: Arc<SteeringInbox>,
}

/// Counts of the commands to the runs of one tree. The root falls asleep together with all of them,
/// and must not do so while a command to one of them is on its way.
#[derive(Debug, Default)]
struct Told {
    /// The number of all commands so far.
    ever: AtomicU64,
    /// The number of commands that are not handled yet.
    open: AtomicUsize,
}

impl RunSender {
    /// The sender and the channel of a root run. The number of commands is bounded by the run's own
    /// operations and children, and by its mailbox, which is durable.
    ///
    /// The queue keeps no spare room: room for further commands would be a good part of the memory
    /// of a run that only waits.
    pub fn channel() -> (Self, RunCommands) {
        Self::of(Arc::default())
    }

    /// The sender and the channel of another run of this tree, or of another incarnation of this run.
    pub(crate) fn beside(&self) -> (Self, RunCommands) {
        Self::of(self.tree.clone())
    }

    fn of(tree: Arc<Told>) -> (Self, RunCommands) {
        let (sender, queue) = mpsc::unbounded();
        let run = Arc::<OfRun>::default();
        let commands = RunCommands {
            queue,
            tree: tree.clone(),
            run: run.clone(),
            taken: 0,
        };
        (Self { sender, tree, run }, commands)
    }

    /// How many entries come before the output of the operation that began last.
    pub(crate) fn written(&self) -> u64 {
        self.run.written.load(Ordering::Acquire)
    }

    /// The words of people to the run that wait to be heard.
    pub(crate) fn words(&self) -> &Arc<SteeringInbox> {
        &self.run.words
    }

    /// Tells the run. `false` when it is gone.
    pub fn tell(&self, command: Command) -> bool {
        self.send(command).is_ok()
    }

    /// Sends the command to the run, or returns it when the run is gone.
    fn send(&self, command: Command) -> Result<(), Command> {
        let is_mailbox = matches!(command, Command::Mailbox);
        if is_mailbox && !self.sender.is_closed() && self.run.mailbox.swap(true, Ordering::AcqRel) {
            self.tree.ever.fetch_add(1, Ordering::AcqRel);
            return Ok(());
        }
        self.tree.open.fetch_add(1, Ordering::AcqRel);
        self.tree.ever.fetch_add(1, Ordering::AcqRel);
        self.sender.unbounded_send(command).map_err(|untold| {
            self.tree.open.fetch_sub(1, Ordering::AcqRel);
            untold.into_inner()
        })
    }

    /// The number of commands to the runs of this tree so far.
    pub(crate) fn told_so_far(&self) -> u64 {
        self.tree.ever.load(Ordering::Acquire)
    }

    /// Whether a run of this tree still handles a command.
    pub(crate) fn is_dealing(&self) -> bool {
        self.tree.open.load(Ordering::Acquire) > 0
    }
}

/// The channel that a run reads.
#[derive(Debug)]
pub struct RunCommands {
    queue: mpsc::UnboundedReceiver<Command>,
    tree: Arc<Told>,
    run: Arc<OfRun>,
    /// The number of commands taken and not handled yet.
    taken: usize,
}

impl RunCommands {
    /// Notes that an operation begins after this many entries of the run.
    pub(crate) fn begins_after(&self, entries: u64) {
        self.run.written.store(entries, Ordering::Release);
    }

    /// Waits for the next command. `None` when no sender is left.
    pub async fn next(&mut self) -> Option<Command> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The next command, if there is one. Otherwise the next command wakes the task. The caller
    /// must have handled the command before, and reported the outcome to its parent.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Command>> {
        if self.taken > 0 {
            let dealt_with = std::mem::take(&mut self.taken);
            self.tree.open.fetch_sub(dealt_with, Ordering::AcqRel);
        }
        let next = self.queue.poll_next_unpin(cx);
        if let Poll::Ready(Some(command)) = &next {
            self.taken = 1;
            if matches!(command, Command::Mailbox) {
                // This is cleared before the mailbox is read, so that later items send a command of
                // their own.
                self.run.mailbox.store(false, Ordering::Release);
            }
        }
        next
    }
}

impl Drop for RunCommands {
    fn drop(&mut self) {
        self.queue.close();
        while self.queue.try_recv().is_ok() {
            self.taken += 1;
        }
        self.tree.open.fetch_sub(self.taken, Ordering::AcqRel);
    }
}

/// The sender to a child's parent. A restarted parent has another channel.
#[derive(Clone, Debug)]
pub(crate) struct ParentSender {
    /// The id under which the parent began the child. It stays the child's name there, in whatever
    /// journal the child goes on.
    child: RunId,
    parent: Arc<Mutex<RunSender>>,
    /// Whether the child hears what people say to the parent.
    hears: bool,
}

impl ParentSender {
    /// The sender to the parent that began this child.
    pub(crate) fn of(child: RunId, sender: RunSender, hears: bool) -> Self {
        Self {
            child,
            parent: Arc::new(Mutex::new(sender)),
            hears,
        }
    }

    /// The words of people to the parent, if the child hears them.
    pub(crate) fn words(&self) -> Option<Arc<SteeringInbox>> {
        self.hears.then(|| self.parent.lock().words().clone())
    }

    /// Sets the sender to the restarted parent.
    pub(crate) fn set(&self, sender: RunSender) {
        *self.parent.lock() = sender;
    }

    /// Sends this child's report to the parent. `false` when the parent is gone.
    pub(crate) fn tell(&self, report: ChildReport) -> bool {
        self.hand(report).is_ok()
    }

    /// Sends this child's report to the parent, or returns it when the parent is gone.
    pub(crate) fn hand(&self, report: ChildReport) -> Result<(), ChildReport> {
        let run = self.child;
        let told = self.parent.lock().send(Command::Child { run, report });
        told.map_err(|untold| match untold {
            Command::Child { report, .. } => report,
            _ => ChildReport::Busy,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_reaches_nobody_is_not_under_way() {
        let (sender, commands) = RunSender::channel();
        drop(commands);
        for command in [Command::Reattached, Command::Mailbox] {
            assert!(!sender.tell(command));
            assert!(!sender.is_dealing());
        }
    }
}
