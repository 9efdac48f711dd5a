#![doc = include_str!("README.md")]

mod absence;
mod anchor;
mod blobs;
mod chain;
mod committer;
mod connection;
mod deletion;
mod fault;
mod identity;
mod inventory;
#[cfg(target_os = "linux")]
mod notices;
mod opening;
mod owner;
mod reader;
mod rows;
mod schema;
mod verification;
mod writer;

#[cfg(target_os = "linux")]
use std::sync::OnceLock;
use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ghostlight_actors::{
    contract::{
        Batch, BoxFuture, Claim, Committed, Deleted, Deletion, DynDeletion, DynMembership, Expiry,
        Index, Inventory, Journals, MailboxItem, Mailboxes, Notice, RunFilter, RunRow,
        SessionFilter, SessionRow, State, StateSlot, StateValue, Store, StoreError, StoredLine,
        TreeLine,
    },
    vocabulary::{Digest, JournalId, RunId, SessionId, Timestamp, seconds},
};
use serde::{Deserialize, Serialize};

use self::{
    committer::{Committer, Health},
    fault::Fault,
    identity::Identity,
    owner::{Guard, Owner},
    reader::Readers,
    writer::Writer,
};

/// How a store is opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Options {
    /// How long a commit waits for a commit of another process before it is refused with [`StoreError::Io`].
    #[serde(rename = "busy_timeout_s", with = "seconds")]
    pub busy_timeout: Duration,
    /// How many reads may run at once, each with a connection of its own; at least 1.
    pub readers: usize,
    /// The size in bytes up to which a file's indexes are compared with their tables when it is opened.
    /// This takes some 3 ms for a megabyte.
    pub full_check_bytes: u64,
    /// How long the anchor may stay behind the last commit; a second at most.
    #[serde(rename = "anchor_interval_s", with = "seconds")]
    pub anchor_interval: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            busy_timeout: Duration::from_secs(10),
            readers: 4,
            full_check_bytes: 16 << 20,
            anchor_interval: Duration::from_secs(1),
        }
    }
}

ghostlight_actors::setters!(Options {
    busy_timeout: Duration,
    readers: usize,
    full_check_bytes: u64,
    anchor_interval: Duration,
});

/// The amount that [`SqliteStore::verify`] read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// How many commits there are.
    pub commits: u64,
    /// How many entries there are.
    pub entries: u64,
}

/// A store in one SQLite file. Clones share it; see the [module](self) for what it promises.
///
/// Its methods must be called inside a tokio runtime. Dropping the last clone does what
/// [`close`](Store::close) does, and blocks until it is done.
#[derive(Clone)]
pub struct SqliteStore {
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    health: Arc<Health>,
    // Dropped before the committer, so that its connection is the last one and cleans up the log.
    readers: Arc<Readers>,
    /// The committer, or the reason why nothing can be written.
    committer: Result<Committer, StoreError>,
    /// Tells of commits, from the first time that somebody waits for one; `None` where the kernel gives no watch.
    #[cfg(target_os = "linux")]
    notices: OnceLock<Option<notices::Notices>>,
}

impl SqliteStore {
    /// Opens the store in this file for reading and writing, and makes it if there is none. It
    /// blocks while it checks the file, which takes milliseconds, and while another process makes
    /// the file.
    ///
    /// A symbolic link is followed once, and the store's other files stand beside its target.
    ///
    /// # Errors
    /// [`StoreError::Damaged`], also for another program's file; [`StoreError::TooNew`];
    /// [`StoreError::Truncated`], after which [`open_read_only`](Self::open_read_only) still works;
    /// [`StoreError::Io`], also for a device, a FIFO, a socket, a dangling link, and a file with a
    /// second name (a hard link). The file is left untouched in all these cases.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_with(path, &Options::default())
    }

    /// Opens the store in this file with these options.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub fn open_with(path: impl AsRef<Path>, options: &Options) -> Result<Self, StoreError> {
        let path = &opening::real_path(path.as_ref())?;
        opening::make_if_missing(path)?;
        let place = path.display().to_string();
        let found = opening::inspect(path, options)?;
        if let Some(truncated) = found.truncated {
            return Err(truncated);
        }
        let locking = |error: io::Error| {
            let unwritable = [
                io::ErrorKind::ReadOnlyFilesystem,
                io::ErrorKind::PermissionDenied,
            ];
            let act = match unwritable.contains(&error.kind()) {
                true => {
                    "taking its lock in the folder of owners, which `SqliteStore::open_read_only` does without"
                }
                false => "taking its lock in the folder of owners",
            };
            fault::io(&place, act, &error)
        };
        let guard = Guard::wait(path).map_err(locking)?;
        let owner = Owner::register(path, &guard).map_err(locking)?;
        let connection =
            opening::open_writer(path, options, &guard).map_err(|fault| fault.at(&place))?;
        opening::sync_log(path).map_err(|error| fault::io(&place, "syncing its log", &error))?;
        let anchor = anchor::ensure(&anchor::path_of(path), found.mark, &guard)
            .map_err(|error| fault::io(&place, "writing its anchor", &error))?;
        drop(guard);
        let file =
            Identity::of(path).map_err(|error| fault::io(&place, "looking at it", &error))?;
        let health = Arc::new(Health::new(path.to_owned(), file));
        let committer = Committer::start(
            Writer::new(connection, place.clone(), owner),
            anchor,
            found.mark,
            options.anchor_interval.min(Duration::from_secs(1)),
            health.clone(),
        );
        let committer =
            committer.map_err(|error| fault::io(&place, "starting its committer", &error))?;
        Ok(Self::new(path, options, health, Ok(committer)))
    }

    /// Opens the store in this file for reading only, even if it lost commits, so that what is left can
    /// be read; [`whole`](Self::whole) refuses such a store. Other processes can still write to it.
    ///
    /// # Errors
    /// See [`open`](Self::open); a missing file is [`StoreError::Io`].
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = &opening::real_path(path.as_ref())?;
        let place = path.display().to_string();
        let options = Options::default();
        let found = opening::inspect(path, &options)?;
        let why = found.truncated.unwrap_or_else(|| StoreError::Io {
            place: place.clone(),
            reason: "it was opened for reading only".to_owned(),
        });
        let file =
            Identity::of(path).map_err(|error| fault::io(&place, "looking at it", &error))?;
        let health = Arc::new(Health::new(path.to_owned(), file));
        Ok(Self::new(path, &options, health, Err(why)))
    }

    fn new(
        path: &Path,
        options: &Options,
        health: Arc<Health>,
        committer: Result<Committer, StoreError>,
    ) -> Self {
        let readers = Readers::new(path.to_owned(), health.clone(), options.readers);
        Self {
            inner: Arc::new(Inner {
                path: path.to_owned(),
                health,
                readers: Arc::new(readers),
                committer,
                #[cfg(target_os = "linux")]
                notices: OnceLock::new(),
            }),
        }
    }

    /// Whether there is a file at this path, or there was a store. Nothing is opened or made: a file that holds no store
    /// is refused when it is opened.
    ///
    /// # Errors
    /// [`StoreError::Truncated`] and [`StoreError::Damaged`] if the file is gone, but its anchor or its
    /// log is still there; [`StoreError::Io`].
    pub fn exists(path: impl AsRef<Path>) -> Result<bool, StoreError> {
        let path = path.as_ref();
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        if folder.is_some_and(|folder| matches!(folder.try_exists(), Ok(false))) {
            return Ok(false);
        }
        let path = opening::real_path(path)?;
        Ok(opening::is_made(&path)? || path.exists())
    }

    /// Reads everything that is stored and compares every hash and every index. This takes some
    /// seconds for a gigabyte.
    ///
    /// # Errors
    /// [`StoreError::Truncated`] if the store lost commits; [`StoreError::Damaged`] with the first
    /// damage found.
    pub async fn verify(&self) -> Result<Verified, StoreError> {
        self.whole()?;
        self.read(verification::verify).await
    }

    /// Refuses a store that lost commits: what is read from it is incomplete.
    ///
    /// # Errors
    /// [`StoreError::Truncated`].
    pub fn whole(&self) -> Result<(), StoreError> {
        match self.why_read_only() {
            Some(lost @ StoreError::Truncated { .. }) => Err(lost.clone()),
            _ => Ok(()),
        }
    }

    /// Why nothing can be written: [`StoreError::Truncated`] if commits are missing, so that what
    /// is read is incomplete; [`StoreError::Io`] if the store was opened for reading only.
    pub fn why_read_only(&self) -> Option<&StoreError> {
        self.inner.committer.as_ref().err()
    }

    fn committer(&self) -> Result<&Committer, StoreError> {
        self.inner.health.check()?;
        self.inner.committer.as_ref().map_err(StoreError::clone)
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&rusqlite::Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.inner.readers.read(work).await
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SqliteStore({})", self.inner.path.display())
    }
}

impl Journals for SqliteStore {
    async fn commit(
        &self,
        batches: Vec<Batch>,
    ) -> Result<Vec<Result<Committed, StoreError>>, StoreError> {
        let work = move |writer: &mut Writer| {
            let each = batches.into_iter();
            each.map(|batch| writer.commit(batch)).collect()
        };
        self.committer()?.submit(work).await
    }

    async fn claim(&self, journal: JournalId, take_over: bool) -> Result<Claim, StoreError> {
        let work = move |writer: &mut Writer| writer.claim(journal, take_over);
        self.committer()?.claim(work).await?
    }

    async fn claim_below(
        &self,
        journal: JournalId,
        above: JournalId,
        epoch: u64,
    ) -> Result<Claim, StoreError> {
        let work = move |writer: &mut Writer| writer.claim_below(journal, &above, epoch);
        self.committer()?.claim(work).await?
    }

    async fn claim_all(
        &self,
        journals: Vec<JournalId>,
    ) -> Result<Vec<Result<Claim, StoreError>>, StoreError> {
        let work = move |writer: &mut Writer| {
            let each = journals.into_iter();
            each.map(|journal| writer.claim(journal, false)).collect()
        };
        self.committer()?.claim(work).await
    }

    fn term(&self) -> Option<u64> {
        // What a process owns is its own until it ends.
        Some(0)
    }

    async fn confirm(&self, journal: JournalId, epoch: u64) -> Result<u64, StoreError> {
        let work = move |writer: &mut Writer| writer.confirm(&journal, epoch);
        self.committer()?.claim(work).await?
    }

    async fn held_elsewhere(&self, journals: Vec<JournalId>) -> Result<Vec<bool>, StoreError> {
        let Ok(committer) = self.committer() else {
            // A read-only store owns no journals itself.
            let folder = owner::folder_of(&self.inner.path);
            let held = move |connection: &_| reader::held(connection, &folder, &journals);
            return self.read(held).await;
        };
        let work = move |writer: &mut Writer| writer.held_elsewhere(&journals);
        committer.submit(work).await?
    }

    async fn read_all(
        &self,
        journals: Vec<JournalId>,
        limit: usize,
    ) -> Result<Vec<Result<Vec<StoredLine>, StoreError>>, StoreError> {
        let place = self.description();
        self.read(move |connection| {
            let read = |journal: &JournalId| match reader::entries(connection, journal, 0, limit) {
                Err(fault) if fault.is_damage() => Ok(Err(fault.at(&place))),
                found => found.map(Ok),
            };
            journals.iter().map(read).collect()
        })
        .await
    }

    async fn read(
        &self,
        journal: JournalId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<StoredLine>, StoreError> {
        self.read(move |connection| reader::entries(connection, &journal, from, limit))
            .await
    }

    async fn read_tree(
        &self,
        root: RunId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<TreeLine>, StoreError> {
        self.read(move |connection| reader::tree(connection, root, after, limit))
            .await
    }
}

impl State for SqliteStore {
    async fn state(&self, scope: String, key: String) -> Result<StateSlot, StoreError> {
        self.read(move |connection| reader::state(connection, &scope, &key))
            .await
    }

    async fn scope(&self, scope: String) -> Result<Vec<(String, StateValue)>, StoreError> {
        self.read(move |connection| reader::scope(connection, &scope))
            .await
    }

    async fn blob(&self, digest: Digest) -> Result<Option<Arc<[u8]>>, StoreError> {
        self.read(move |connection| reader::blob(connection, digest))
            .await
    }

    async fn checkpoint(&self, session: SessionId) -> Result<Option<Vec<u8>>, StoreError> {
        let session = session.to_string();
        self.read(move |connection| reader::checkpoint(connection, &session))
            .await
    }

    async fn put_checkpoint(
        &self,
        session: SessionId,
        bytes: Option<Vec<u8>>,
    ) -> Result<(), StoreError> {
        let work = move |writer: &mut Writer| writer.put_checkpoint(&session, bytes.as_deref());
        self.committer()?.submit(work).await
    }
}

impl Mailboxes for SqliteStore {
    async fn post(&self, mailbox: JournalId, item: MailboxItem) -> Result<bool, StoreError> {
        let work = move |writer: &mut Writer| writer.post(&mailbox, &item);
        self.committer()?.submit(work).await
    }

    async fn mailbox_after(
        &self,
        mailbox: JournalId,
        after: u64,
    ) -> Result<Vec<(u64, MailboxItem)>, StoreError> {
        self.read(move |connection| reader::mailbox_after(connection, &mailbox, after))
            .await
    }

    async fn posted(&self, after: u64) -> Result<(u64, Vec<JournalId>), StoreError> {
        self.inner.readers.posted(after)
    }

    #[cfg(target_os = "linux")]
    fn news(&self, of: Notice) -> Option<BoxFuture<'static, ()>> {
        if of != Notice::Posted {
            return None;
        }
        let notices = self.inner.notices.get_or_init(|| {
            notices::Notices::watch(&self.inner.path)
                .inspect_err(|error| {
                    let store = self.inner.path.display();
                    tracing::debug!(%store, %error, "the store's log is not watched, so the store is polled");
                })
                .ok()
        });
        notices.as_ref().map(notices::Notices::next)
    }

    #[cfg(not(target_os = "linux"))]
    fn news(&self, _of: Notice) -> Option<BoxFuture<'static, ()>> {
        None
    }
}

impl Index for SqliteStore {
    async fn run(&self, run: RunId) -> Result<Option<RunRow>, StoreError> {
        self.read(move |connection| reader::run(connection, run))
            .await
    }

    async fn runs(&self, filter: RunFilter) -> Result<Vec<RunRow>, StoreError> {
        self.read(move |connection| reader::runs(connection, &filter))
            .await
    }

    async fn sessions(&self, filter: SessionFilter) -> Result<Vec<SessionRow>, StoreError> {
        self.read(move |connection| reader::sessions(connection, &filter))
            .await
    }

    async fn inventory(&self) -> Result<Inventory, StoreError> {
        self.read(inventory::read).await
    }
}

impl Deletion for SqliteStore {
    async fn expired(&self, expiry: Expiry) -> Result<Vec<RunRow>, StoreError> {
        self.read(move |connection| deletion::expired(connection, &expiry))
            .await
    }

    async fn delete_tree(
        &self,
        root: RunId,
        at: Timestamp,
        limit: usize,
    ) -> Result<Deleted, StoreError> {
        let work = move |writer: &mut Writer| writer.delete_tree(root, at, limit);
        self.committer()?.submit(work).await?
    }

    async fn delete_session(
        &self,
        session: SessionId,
        limit: usize,
    ) -> Result<Deleted, StoreError> {
        let work = move |writer: &mut Writer| writer.delete_session(&session, limit);
        self.committer()?.submit(work).await?
    }

    async fn deleted(&self, run: RunId) -> Result<Option<Timestamp>, StoreError> {
        self.read(move |connection| deletion::deleted(connection, run))
            .await
    }

    async fn drop_blobs(&self) -> Result<u64, StoreError> {
        // The runs are searched outside the transaction; only what is new is searched inside.
        let (after, unused) = self.read(blobs::unused_blobs).await?;
        if unused.is_empty() {
            return Ok(0);
        }
        let work = move |writer: &mut Writer| writer.delete_blobs(after, unused);
        self.committer()?.submit(work).await
    }
}

impl Store for SqliteStore {
    async fn close(&self) -> Result<(), StoreError> {
        self.inner.health.close();
        self.inner.readers.close();
        if let Ok(committer) = &self.inner.committer {
            committer.close().await;
        }
        Ok(())
    }

    fn description(&self) -> String {
        self.inner.path.display().to_string()
    }

    fn deletion(&self) -> Option<&dyn DynDeletion> {
        Some(self)
    }

    fn membership(&self) -> Option<&dyn DynMembership> {
        None
    }
}
