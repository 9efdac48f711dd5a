//! The committer: a thread that owns the only writing connection.
//!
//! All requests that wait are made durable together, in one transaction (group commit): under load
//! many callers share one sync, and a single caller waits for nobody.

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use ghostlight_actors::contract::StoreError;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::{
    anchor::{Anchor, Mark},
    fault::Fault,
    identity::Identity,
    writer::Writer,
};

/// The most requests that share a transaction.
const GROUP: usize = 512;

/// Whether the store still works; shared by its threads.
#[derive(Debug)]
pub(super) struct Health {
    path: PathBuf,
    place: String,
    file: Identity,
    closed: AtomicBool,
    failed: OnceLock<StoreError>,
}

impl Health {
    pub(super) fn new(path: PathBuf, file: Identity) -> Self {
        Self {
            place: path.display().to_string(),
            path,
            file,
            closed: AtomicBool::new(false),
            failed: OnceLock::new(),
        }
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Refuses work for a store that was closed or has failed.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match self.failed.get() {
            _ if self.closed.load(Ordering::Acquire) => Err(StoreError::Closed),
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Refuses all work from now on if the file is gone.
    pub(super) fn check_file(&self) -> Result<(), StoreError> {
        let checked = self.file.check(&self.path);
        checked.map_err(|gone| {
            tracing::error!(error = %gone, "the store refuses work from now on");
            self.failed.get_or_init(|| gone).clone()
        })
    }

    /// Refuses all work from now on.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Refuses all work from now on, because a write failed; the first failure is kept.
    fn fail(&self, fault: Fault) -> StoreError {
        let error = match fault.at(&self.place) {
            damaged @ StoreError::Damaged { .. } => damaged,
            StoreError::Io { reason, .. } => self.poisoned(reason),
            other => self.poisoned(other.to_string()),
        };
        self.failed.get_or_init(|| error).clone()
    }

    fn poisoned(&self, reason: String) -> StoreError {
        StoreError::Poisoned {
            place: self.place.clone(),
            reason,
        }
    }

    /// Why a request got no answer.
    fn unanswered(&self) -> StoreError {
        match self.check() {
            Err(error) => error,
            Ok(()) => self.poisoned("its committer ended".to_owned()),
        }
    }
}

/// A request: work inside the transaction, and an answer once that is durable.
trait Job: Send {
    /// Whether the answer waits until the transaction survives a loss of power.
    fn is_durable(&self) -> bool;
    fn work(&mut self, writer: &mut Writer) -> Result<(), Fault>;
    fn answer(self: Box<Self>, committed: Result<(), StoreError>);
}

struct Request<F, T> {
    durable: bool,
    work: Option<F>,
    done: Option<T>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<F, T> Job for Request<F, T>
where
    F: FnOnce(&mut Writer) -> Result<T, Fault> + Send,
    T: Send,
{
    fn is_durable(&self) -> bool {
        self.durable
    }

    fn work(&mut self, writer: &mut Writer) -> Result<(), Fault> {
        if let Some(work) = self.work.take() {
            self.done = Some(work(writer)?);
        }
        Ok(())
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
        let answer = match (committed, self.done) {
            (Ok(()), Some(done)) => Ok(done),
            (Err(error), _) => Err(error),
            // Only a job that was not run has no result; dropping the reply tells its caller.
            (Ok(()), None) => return,
        };
        // The caller may have stopped waiting.
        let _ = self.reply.send(answer);
    }
}

enum Message {
    Job(Box<dyn Job>),
    Close(oneshot::Sender<()>),
}

/// The handle of the committer. Dropping it ends the thread after the requests that wait are done.
#[derive(Debug)]
pub(super) struct Committer {
    sender: Option<Sender<Message>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    health: Arc<Health>,
}

impl Committer {
    /// Starts the thread. A stale anchor is brought up to date within this interval.
    pub(super) fn start(
        writer: Writer,
        anchor: Anchor,
        anchored: Mark,
        interval: Duration,
        health: Arc<Health>,
    ) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel();
        let mut writer = writer;
        writer.anchored = anchored.number;
        let service = Service {
            writer,
            anchor,
            durable: anchored,
            anchored,
            due: None,
            interval,
            health: health.clone(),
        };
        let thread = thread::Builder::new()
            .name("ghostlight-committer".to_owned())
            .spawn(move || service.run(&receiver))?;
        Ok(Self {
            sender: Some(sender),
            thread: Mutex::new(Some(thread)),
            health,
        })
    }

    /// Runs this work inside a transaction and answers when the transaction is durable.
    pub(super) async fn submit<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writer) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.ask(true, work).await
    }

    /// Runs this work, which claims journals and does nothing else, inside a transaction that need
    /// not be durable by itself.
    ///
    /// An entry is durable only together with its owner's claim, which comes before it in the log. A
    /// claim that is lost with the power had two owners that both ended then.
    pub(super) async fn claim<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writer) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.ask(false, work).await
    }

    async fn ask<T: Send + 'static>(
        &self,
        durable: bool,
        work: impl FnOnce(&mut Writer) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.health.check()?;
        let (reply, answer) = oneshot::channel();
        let request = Request {
            durable,
            work: Some(work),
            done: None,
            reply,
        };
        self.send(Message::Job(Box::new(request)))?;
        answer
            .await
            .unwrap_or_else(|_| Err(self.health.unanswered()))
    }

    /// Ends the thread after the requests that wait are done, and frees the journals that it owned.
    pub(super) async fn close(&self) {
        let (reply, closed) = oneshot::channel();
        if self.send(Message::Close(reply)).is_ok() {
            // The reply may be dropped when the thread ends; that counts as closed, too.
            let _ = closed.await;
        }
    }

    fn send(&self, message: Message) -> Result<(), StoreError> {
        let sender = self.sender.as_ref().ok_or(StoreError::Closed)?;
        let sent = sender.send(message);
        sent.map_err(|_| self.health.unanswered())
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.health.close();
        self.sender = None;
        if let Some(thread) = self.thread.lock().take() {
            // Waiting ensures that the store is free when its handle is gone. The thread has at
            // most one group to finish; a panic of it was already reported to its callers.
            let _ = thread.join();
        }
    }
}

/// The state of the thread.
struct Service {
    writer: Writer,
    anchor: Anchor,
    /// The last commit that survives a loss of power.
    durable: Mark,
    /// The commit that the anchor names.
    anchored: Mark,
    /// When the anchor must be brought up to date, if it is stale.
    due: Option<Instant>,
    interval: Duration,
    health: Arc<Health>,
}

impl Service {
    fn run(mut self, receiver: &Receiver<Message>) {
        let mut group: Vec<Box<dyn Job>> = Vec::with_capacity(GROUP);
        let mut closing = None;
        while closing.is_none() {
            match self.next(receiver) {
                Ok(Message::Job(job)) => group.push(job),
                Ok(Message::Close(reply)) => closing = Some(reply),
                Err(RecvTimeoutError::Timeout) => {
                    self.write_anchor();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
            while closing.is_none() && group.len() < GROUP {
                match receiver.try_recv() {
                    Ok(Message::Job(job)) => group.push(job),
                    Ok(Message::Close(reply)) => closing = Some(reply),
                    Err(_) => break,
                }
            }
            self.commit(&mut group);
            if self.due.is_some_and(|due| due <= Instant::now()) {
                self.write_anchor();
            }
        }
        self.write_anchor();
        // The connection is closed and the owner's lock is released before the caller is told.
        drop(self);
        if let Some(reply) = closing {
            let _ = reply.send(());
        }
    }

    fn next(&self, receiver: &Receiver<Message>) -> Result<Message, RecvTimeoutError> {
        match self.due {
            Some(due) => receiver.recv_timeout(due.saturating_duration_since(Instant::now())),
            None => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    fn commit(&mut self, group: &mut Vec<Box<dyn Job>>) {
        if group.is_empty() {
            return;
        }
        let committed = self.transaction(group);
        for job in group.drain(..) {
            job.answer(committed.clone());
        }
        if committed.is_ok() && self.due.is_none() && self.durable != self.anchored {
            self.due = Some(Instant::now() + self.interval);
        }
    }

    fn transaction(&mut self, group: &mut [Box<dyn Job>]) -> Result<(), StoreError> {
        if let Some(error) = self.health.failed.get() {
            return Err(error.clone());
        }
        let durable = group.iter().any(|job| job.is_durable());
        match self.writer.begin(durable) {
            Ok(()) => {}
            Err(fault) if fault.is_busy() => return Err(fault.at(&self.health.place)),
            Err(fault) => return Err(self.fail(fault)),
        }
        let work = group
            .iter_mut()
            .try_for_each(|job| job.work(&mut self.writer));
        let committed = work.and_then(|()| self.writer.finish());
        let changed = committed.map_err(|fault| self.fail(fault))?;
        // Without a change nothing was synced.
        if durable && changed {
            self.durable = self.writer.mark();
        }
        // A write to a file that was removed or replaced is not durable.
        self.health.check_file()
    }

    /// After a failed write or sync the state of the disk is unknown.
    fn fail(&mut self, fault: Fault) -> StoreError {
        let error = self.health.fail(fault);
        tracing::error!(%error, "the store refuses work from now on");
        self.writer.roll_back();
        error
    }

    fn write_anchor(&mut self) {
        self.due = None;
        let mark = self.durable;
        if mark == self.anchored || self.health.failed.get().is_some() {
            return;
        }
        match self.anchor.advance(mark) {
            Ok(()) => {
                self.anchored = mark;
                self.writer.anchored = mark.number;
            }
            // The commits are durable all the same; only the protection against their loss is
            // weaker.
            Err(error) => {
                tracing::warn!(%error, "the store's anchor could not be written");
                self.due = Some(Instant::now() + self.interval);
            }
        }
    }
}
