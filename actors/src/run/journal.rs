//! A run's own journal, as its driver writes and reads it.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use futures_util::task::AtomicWaker;
use tokio::sync::Notify;

use super::{
    OnCommitted, Ports,
    call_identity::CallIdentity,
    completed::{End, record},
};
use crate::{
    contract::{Append, AsText, Batch, Claim, Committed, Line, MailboxItem, RunRow, StoreError},
    vocabulary::{CallReport, JournalId, OperationError, OperationId, RunId, Spent, Timestamp},
};

/// How far a run's entries are durable.
#[derive(Debug)]
pub(crate) struct Durable {
    run: RunId,
    epoch: u64,
    ports: Arc<dyn Ports>,
    entries: AtomicU64,
    /// The store's term in which this process last proved by an append that it carries the run; [`NO_TERM`] if it
    /// was in none.
    term: AtomicU64,
    /// When no former owner begins an effect any more, by the clock's monotonic time.
    settled_at: Timestamp,
    failed: OnceLock<StoreError>,
    changed: Notify,
    /// Wakes the driver when a commit failed.
    driver: AtomicWaker,
}

/// No term of the store.
const NO_TERM: u64 = u64::MAX;

impl Durable {
    fn new(run: RunId, claim: Claim, ports: Arc<dyn Ports>) -> Self {
        Self {
            run,
            epoch: claim.epoch,
            entries: AtomicU64::new(claim.entries),
            term: AtomicU64::new(ports.store().term().unwrap_or(NO_TERM)),
            settled_at: ports.clock().monotonic().after(claim.settles_in),
            ports,
            failed: OnceLock::new(),
            changed: Notify::new(),
            driver: AtomicWaker::new(),
        }
    }

    /// Returns when this process surely carries the run still, so that an effect may begin: a process that was frozen
    /// since its last append may have been replaced by another one.
    ///
    /// # Errors
    /// The run is lost, or the store failed; the driver is told, and ends everything.
    pub(crate) async fn confirm(&self) -> Result<(), StoreError> {
        if self.ports.store().term() == Some(self.term.load(Ordering::Acquire)) {
            return Ok(());
        }
        match self
            .ports
            .store()
            .confirm(self.run.into(), self.epoch)
            .await
        {
            Ok(term) => {
                self.term.store(term, Ordering::Release);
                Ok(())
            }
            Err(error) => {
                self.committed((0, NO_TERM), Err(error.clone()));
                Err(error)
            }
        }
    }

    /// Waits until no former owner of the run can begin an effect any more, so that it can be asked what became of one.
    pub(crate) async fn settled(&self) {
        let clock = self.ports.clock();
        let left = self.settled_at.since(clock.monotonic());
        if !left.is_zero() {
            clock.sleep(left).await;
        }
    }

    /// Takes note of a commit's result, and of the term in which it was sent.
    fn committed(&self, (entries, term): (u64, u64), result: Result<Committed, StoreError>) {
        match result {
            Ok(_) => {
                self.term.store(term, Ordering::Release);
                self.entries.fetch_max(entries, Ordering::Release);
            }
            Err(error) => {
                let _ = self.failed.set(error);
                self.driver.wake();
            }
        }
        self.changed.notify_waiters();
    }

    /// Waits until this many entries are durable, or a commit failed.
    pub(crate) async fn reached(&self, entries: u64) -> Result<(), StoreError> {
        loop {
            let changed = self.changed.notified();
            if self.entries.load(Ordering::Acquire) >= entries {
                return Ok(());
            }
            if let Some(error) = self.failed.get() {
                return Err(error.clone());
            }
            changed.await;
        }
    }

    /// Waits until this many entries are durable, and for ever if a commit failed: the driver hears of
    /// the failure by itself and ends everything.
    pub(crate) async fn passed(&self, entries: u64) {
        if self.reached(entries).await.is_err() {
            std::future::pending().await
        }
    }

    /// Whether a commit has failed; if none has, the driver is woken by the first that does.
    pub(crate) fn poll_failed(&self, cx: &mut Context<'_>) -> Poll<StoreError> {
        if self.failed.get().is_none() {
            self.driver.register(cx.waker());
        }
        match self.failed.get() {
            Some(error) => Poll::Ready(error.clone()),
            None => Poll::Pending,
        }
    }
}

/// Writes one run's journal. It holds the owner's epoch and the next sequence number.
pub(crate) struct JournalWriter {
    /// The sequence number of the next entry, after those in `pending`.
    next: u64,
    pending: Vec<Line>,
    /// The mailboxes that the run reads.
    pub(crate) mailboxes: Vec<JournalId>,
    /// Mailbox items that the pending entries handle.
    taken: Vec<(JournalId, String)>,
    /// Items for the mailboxes of other runs.
    posts: Vec<(JournalId, MailboxItem)>,
    pub(crate) row: Arc<RunRow>,
    row_changed: bool,
    pub(crate) durable: Arc<Durable>,
    pub(crate) ports: Arc<dyn Ports>,
}

impl JournalWriter {
    pub(crate) fn new(row: Arc<RunRow>, claim: Claim, ports: Arc<dyn Ports>) -> Self {
        let durable = Arc::new(Durable::new(row.run, claim, ports.clone()));
        Self {
            next: claim.entries,
            pending: Vec::new(),
            mailboxes: row.mailboxes().collect(),
            taken: Vec::new(),
            posts: Vec::new(),
            row,
            row_changed: false,
            durable,
            ports,
        }
    }

    /// How many entries the journal has, including those not yet sent.
    pub(crate) fn entries(&self) -> u64 {
        self.next
    }

    /// Whether any change waits for a commit.
    fn is_pending(&self) -> bool {
        !self.pending.is_empty() || self.row_changed || !self.taken.is_empty()
    }

    pub(crate) fn run(&self) -> RunId {
        self.row.run
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.durable.epoch
    }

    /// Adds an entry to the next commit.
    pub(crate) fn append(&mut self, entry: impl AsText + 'static) {
        self.push(Line::later(self.now(), entry));
    }

    fn push(&mut self, line: Line) {
        self.pending.push(line);
        self.next += 1;
    }

    /// Adds the end of an operation to the next commit. If its result cannot be recorded, the
    /// returned error is recorded instead.
    pub(crate) fn append_completed(
        &mut self,
        op: OperationId,
        identity: CallIdentity,
        made: &mut End,
        spent: Spent,
        call: Option<CallReport>,
    ) -> Result<(), OperationError> {
        let (text, ended) = record((op, identity, spent, call), made);
        let at = self.now();
        self.push(Line { at, text });
        ended
    }

    /// Acknowledges an item of the run's mailboxes, with the next commit. In whichever of them it is, the others have none
    /// of this id that anybody waits for.
    pub(crate) fn acknowledge(&mut self, item: String) {
        let mailboxes = self.mailboxes.iter();
        self.taken
            .extend(mailboxes.map(|mailbox| (mailbox.clone(), item.clone())));
    }

    /// Puts an item into the mailbox of the run that began as this one, with the next commit.
    pub(crate) fn post(&mut self, run: RunId, item: MailboxItem) {
        self.posts.push((run.into(), item));
    }

    /// Takes note in the index that the next entry asks something.
    pub(crate) fn asks(&mut self, op: OperationId) {
        let entry = self.next;
        self.change_row(|row| row.asks.push((op, entry)));
    }

    /// Takes note in the index that this operation asks nothing any more.
    pub(crate) fn asks_no_more(&mut self, op: OperationId) {
        if self.row.asks.iter().any(|(asked, _)| *asked == op) {
            self.change_row(|row| row.asks.retain(|(asked, _)| *asked != op));
        }
    }

    /// Changes the run's row in the index, with the next commit.
    pub(crate) fn change_row(&mut self, change: impl FnOnce(&mut RunRow)) {
        change(Arc::make_mut(&mut self.row));
        self.row_changed = true;
    }

    /// Takes the pending changes as one batch.
    pub(crate) fn take(&mut self) -> Option<Batch> {
        if !self.is_pending() {
            return None;
        }
        let lines = std::mem::take(&mut self.pending);
        let expected = self.next - lines.len() as u64;
        let is_behind = lines.last().is_some_and(|line| self.row.is_behind(line.at));
        let mut append =
            Append::new(self.row.run, expected, self.epoch(), lines).root(self.row.root);
        if std::mem::take(&mut self.row_changed) || is_behind {
            let now = self.ports.clock().now();
            Arc::make_mut(&mut self.row).updated_at = now;
            append = append.row(self.row.clone());
        }
        let mut batch = Batch::of(append);
        batch.taken = std::mem::take(&mut self.taken);
        batch.posts = std::mem::take(&mut self.posts);
        Some(batch)
    }

    /// Sends the pending changes to the journal without waiting.
    pub(crate) fn flush(&mut self) {
        if let Some(batch) = self.take() {
            self.commit(batch);
        }
    }

    /// Sends the pending changes, and waits until all entries so far are durable.
    pub(crate) async fn settle(&mut self) -> Result<(), StoreError> {
        self.flush();
        self.durable.reached(self.next).await
    }

    /// Sends a batch that holds all pending changes.
    pub(crate) fn commit(&self, batch: Batch) {
        self.send(batch, Durable::committed);
    }

    /// Sends a batch and waits for its result. A refusal for a conflict harms nothing: the caller
    /// takes the entries back with `take_back_to`.
    pub(crate) async fn commit_checked(&mut self, batch: Batch) -> Result<(), StoreError> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        self.send(batch, |durable, reached, result| {
            let told = result.clone().map(drop);
            // The caller handles a conflict, which is no failure of the journal.
            if !matches!(result, Err(StoreError::Conflict { .. })) {
                durable.committed(reached, result);
            }
            let _ = sender.send(told);
        });
        receiver.await.unwrap_or(Err(StoreError::Closed))
    }

    fn send(
        &self,
        batch: Batch,
        tell: impl FnOnce(&Durable, (u64, u64), Result<Committed, StoreError>) + Send + 'static,
    ) {
        let durable = self.durable.clone();
        let reached = (self.next, self.ports.store().term().unwrap_or(NO_TERM));
        let (ports, root) = (self.ports.clone(), self.row.root);
        let posted = batch.posts.iter().filter_map(|(mailbox, _)| match mailbox {
            JournalId::Run(run) => Some(*run),
            JournalId::Session(_) => None,
        });
        let posted: Vec<RunId> = posted.collect();
        let lines: usize = batch.appends.iter().map(|append| append.lines.len()).sum();
        self.ports.commit(
            batch,
            OnCommitted::new(move |result| {
                if let Ok(Committed { position }) = &result {
                    ports.published(root, position + lines as u64);
                    ports.posted(posted);
                }
                tell(&durable, reached, result);
            }),
        );
    }

    /// Takes back the entries of a refused batch. `entries` is their number without the batch.
    pub(crate) fn take_back_to(&mut self, entries: u64) {
        self.next = entries;
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.ports.clock().now()
    }
}

/// A function that panics takes the driver with it. The entries recorded by then are kept, so their
/// operations are not done again, and the journal shows on which input the function crashed.
impl Drop for JournalWriter {
    fn drop(&mut self) {
        self.flush();
    }
}
