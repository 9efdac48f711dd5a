//! A store that lives in memory.

mod deletion;
mod ended;
mod memory;

use std::{fmt, sync::Arc};

use parking_lot::Mutex;

use self::memory::{Memory, visible};
use crate::{
    contract::{
        Batch, BoxFuture, Claim, Committed, Deleted, Deletion, DynDeletion, DynMembership, Expiry,
        Index, Inventory, Journals, MailboxItem, Mailboxes, Notice, RunFilter, RunRow,
        SessionFilter, SessionRow, State, StateSlot, StateValue, Store, StoreError, StoredLine,
        TreeLine,
    },
    vocabulary::{Digest, JournalId, RunId, SessionId, Timestamp},
};

/// A store that forgets everything when its last handle is dropped.
///
/// It keeps the [1,000](Self::KEPT) trees of runs that ended last, or as many as [`keeping`](Self::keeping) says. Of
/// earlier trees it knows only that they were deleted ([`StoreError::Deleted`]). Their conversations stay in their
/// sessions. Runs that are open, wait or are parked are always kept.
///
/// It keeps the runs of teams whose durability is `memory`, and serves tests. Clones are the same process to the
/// store; [`another_process`](Self::another_process) gives a handle on the same memory that owns
/// nothing yet, and [`crash`](Self::crash) does to a handle what `kill -9` does to a process.
#[derive(Clone)]
pub struct InMemoryStore {
    memory: Arc<Mutex<Memory>>,
    process: u64,
}

impl InMemoryStore {
    /// How many ended trees are kept by default.
    pub const KEPT: usize = ended::KEPT;

    /// The same store, which keeps this many of the trees that ended last; `usize::MAX` keeps all. The number holds
    /// for all handles on the same memory.
    #[must_use]
    pub fn keeping(self, trees: usize) -> Self {
        self.memory.lock().keep(trees);
        self
    }

    /// An empty store, opened by its first process.
    pub fn new() -> Self {
        let mut memory = Memory::default();
        let process = memory.begin_process();
        Self {
            memory: Arc::new(Mutex::new(memory)),
            process,
        }
    }

    /// A handle on the same memory that stands for another process.
    #[must_use]
    pub fn another_process(&self) -> Self {
        let process = self.memory.lock().begin_process();
        Self {
            memory: self.memory.clone(),
            process,
        }
    }

    /// Ends the process that this handle and its clones stand for, between two commits. The journals that it owned
    /// are free at once, and each later call of it is refused as [`StoreError::Closed`].
    pub fn crash(&self) {
        self.memory.lock().living.remove(&self.process);
    }

    /// Whether it has a run.
    pub(crate) fn has(&self, run: RunId) -> bool {
        self.memory.lock().runs.contains_key(&run)
    }

    /// Whether a run continues with this mailbox, or items came there.
    pub(crate) fn has_mailbox(&self, mailbox: &JournalId) -> bool {
        self.memory.lock().mailbox.has(mailbox)
    }

    /// Runs this on the memory, unless the process has ended.
    fn with<T>(
        &self,
        work: impl FnOnce(&mut Memory) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut memory = self.memory.lock();
        if memory.living.contains(&self.process) {
            work(&mut memory)
        } else {
            Err(StoreError::Closed)
        }
    }
}

impl Default for InMemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for InMemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InMemoryStore(process {})", self.process)
    }
}

impl Journals for InMemoryStore {
    async fn commit(
        &self,
        batches: Vec<Batch>,
    ) -> Result<Vec<Result<Committed, StoreError>>, StoreError> {
        self.with(|memory| {
            let each = batches.into_iter();
            Ok(each
                .map(|batch| memory.commit(self.process, batch))
                .collect())
        })
    }

    async fn claim(&self, journal: JournalId, take_over: bool) -> Result<Claim, StoreError> {
        self.with(|memory| memory.claim(self.process, journal, take_over))
    }

    async fn claim_below(
        &self,
        journal: JournalId,
        above: JournalId,
        epoch: u64,
    ) -> Result<Claim, StoreError> {
        self.with(|memory| {
            memory.check_epoch(self.process, &above, epoch)?;
            memory.claim(self.process, journal, true)
        })
    }

    fn term(&self) -> Option<u64> {
        // The journals of a process are its own until it ends.
        Some(0)
    }

    async fn confirm(&self, journal: JournalId, epoch: u64) -> Result<u64, StoreError> {
        self.with(|memory| {
            memory.check_epoch(self.process, &journal, epoch)?;
            Ok(0)
        })
    }

    async fn held_elsewhere(&self, journals: Vec<JournalId>) -> Result<Vec<bool>, StoreError> {
        self.with(|memory| {
            let held = journals.iter().map(|id| memory.is_held(self.process, id));
            Ok(held.collect())
        })
    }

    async fn read(
        &self,
        journal: JournalId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<StoredLine>, StoreError> {
        self.with(|memory| Ok(memory.read(&journal, from, limit)))
    }

    async fn read_tree(
        &self,
        root: RunId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<TreeLine>, StoreError> {
        self.with(|memory| Ok(memory.read_tree(root, after, limit)))
    }
}

impl State for InMemoryStore {
    async fn state(&self, scope: String, key: String) -> Result<StateSlot, StoreError> {
        self.with(|memory| {
            let slot = memory.scopes.get(&scope).and_then(|keys| keys.get(&key));
            slot.map_or(Ok(StateSlot::default()), |slot| visible(&scope, &key, slot))
        })
    }

    async fn scope(&self, scope: String) -> Result<Vec<(String, StateValue)>, StoreError> {
        self.with(|memory| {
            let mut values = Vec::new();
            for (key, slot) in memory.scopes.get(&scope).into_iter().flatten() {
                let value = visible(&scope, key, slot)?.present();
                values.extend(value.map(|value| (key.clone(), value)));
            }
            Ok(values)
        })
    }

    async fn blob(&self, digest: Digest) -> Result<Option<Arc<[u8]>>, StoreError> {
        self.with(|memory| Ok(memory.blobs.get(&digest).cloned()))
    }

    async fn checkpoint(&self, session: SessionId) -> Result<Option<Vec<u8>>, StoreError> {
        self.with(|memory| Ok(memory.checkpoints.get(&session).cloned()))
    }

    async fn put_checkpoint(
        &self,
        session: SessionId,
        bytes: Option<Vec<u8>>,
    ) -> Result<(), StoreError> {
        self.with(|memory| {
            match bytes {
                Some(bytes) => memory.checkpoints.insert(session, bytes),
                None => memory.checkpoints.remove(&session),
            };
            Ok(())
        })
    }
}

impl Mailboxes for InMemoryStore {
    async fn post(&self, mailbox: JournalId, item: MailboxItem) -> Result<bool, StoreError> {
        self.with(|memory| Ok(memory.mailbox.post(mailbox, item)))
    }

    async fn mailbox_after(
        &self,
        mailbox: JournalId,
        after: u64,
    ) -> Result<Vec<(u64, MailboxItem)>, StoreError> {
        self.with(|memory| Ok(memory.mailbox.of(&mailbox, after)))
    }

    async fn posted(&self, after: u64) -> Result<(u64, Vec<JournalId>), StoreError> {
        self.with(|memory| Ok(memory.mailbox.posted(after)))
    }

    fn news(&self, _of: Notice) -> Option<BoxFuture<'static, ()>> {
        None
    }
}

impl Index for InMemoryStore {
    async fn run(&self, run: RunId) -> Result<Option<RunRow>, StoreError> {
        self.with(|memory| {
            let found = memory.runs.get(&run);
            Ok(found.map(|found| RunRow::clone(&found.row)))
        })
    }

    async fn runs(&self, filter: RunFilter) -> Result<Vec<RunRow>, StoreError> {
        self.with(|memory| Ok(memory.find_runs(&filter)))
    }

    async fn sessions(&self, filter: SessionFilter) -> Result<Vec<SessionRow>, StoreError> {
        self.with(|memory| Ok(memory.sessions(&filter)))
    }

    async fn inventory(&self) -> Result<Inventory, StoreError> {
        self.with(|memory| Ok(memory.inventory()))
    }
}

impl Deletion for InMemoryStore {
    async fn expired(&self, expiry: Expiry) -> Result<Vec<RunRow>, StoreError> {
        self.with(|memory| Ok(memory.expired(expiry)))
    }

    async fn delete_tree(
        &self,
        root: RunId,
        at: Timestamp,
        _limit: usize,
    ) -> Result<Deleted, StoreError> {
        self.with(|memory| memory.delete_tree(root, at))
    }

    async fn delete_session(
        &self,
        session: SessionId,
        _limit: usize,
    ) -> Result<Deleted, StoreError> {
        self.with(|memory| memory.delete_session(self.process, &session))
    }

    async fn deleted(&self, run: RunId) -> Result<Option<Timestamp>, StoreError> {
        self.with(|memory| Ok(memory.deletions.get(&run)))
    }

    async fn drop_blobs(&self) -> Result<u64, StoreError> {
        self.with(|memory| Ok(memory.drop_blobs()))
    }
}

impl Store for InMemoryStore {
    async fn close(&self) -> Result<(), StoreError> {
        self.crash();
        Ok(())
    }

    fn description(&self) -> String {
        "memory".to_owned()
    }

    fn deletion(&self) -> Option<&dyn DynDeletion> {
        Some(self)
    }

    fn membership(&self) -> Option<&dyn DynMembership> {
        None
    }
}
