//! A store of any type.

use std::{fmt, sync::Arc};

use super::{
    Batch, BoxFuture, CarriedTeam, Claim, Committed, Deleted, Expiry, Inventory, MailboxItem,
    Notice, RunFilter, RunRow, SessionFilter, SessionRow, StateSlot, StateValue, Store, StoreError,
    StoredLine, TreeLine,
};
use crate::vocabulary::{Digest, JournalId, RunId, SessionId, Timestamp};

/// The most entries of a journal that are read at once.
const PAGE: usize = 4096;

/// A store of any kind. Cloning shares it.
#[derive(Clone)]
pub struct StoreHandle(Arc<dyn ErasedStore>);

macro_rules! erased_store {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        trait ErasedStore: Send + Sync {
            $(fn $name(&self, $($argument: $type),*) -> BoxFuture<'_, Result<$result, StoreError>>;)*
            fn news(&self, of: Notice) -> Option<BoxFuture<'static, ()>>;
            fn term(&self) -> Option<u64>;
            fn description(&self) -> String;
        }

        impl<S: Store> ErasedStore for S {
            $(fn $name(&self, $($argument: $type),*) -> BoxFuture<'_, Result<$result, StoreError>> {
                Box::pin(Store::$name(self, $($argument),*))
            })*

            fn news(&self, of: Notice) -> Option<BoxFuture<'static, ()>> {
                Store::news(self, of)
            }

            fn term(&self) -> Option<u64> {
                Store::term(self)
            }

            fn description(&self) -> String {
                Store::description(self)
            }
        }

        impl StoreHandle {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// What the store refuses or fails with.
                pub async fn $name(&self, $($argument: $type),*) -> Result<$result, StoreError> {
                    self.0.$name($($argument),*).await
                }
            )*
        }
    };
}

erased_store! {
    /// See [`Store::commit`].
    fn commit(batches: Vec<Batch>) -> Vec<Result<Committed, StoreError>>;
    /// See [`Store::claim`].
    fn claim(journal: JournalId, take_over: bool) -> Claim;
    /// See [`Store::claim_below`].
    fn claim_below(journal: JournalId, above: JournalId, epoch: u64) -> Claim;
    /// See [`Store::claim_all`].
    fn claim_all(journals: Vec<JournalId>) -> Vec<Result<Claim, StoreError>>;
    /// See [`Store::confirm`].
    fn confirm(journal: JournalId, epoch: u64) -> u64;
    /// See [`Store::held_elsewhere`].
    fn held_elsewhere(journals: Vec<JournalId>) -> Vec<bool>;
    /// See [`Store::announce`].
    fn announce(carried: Vec<CarriedTeam>) -> ();
    /// See [`Store::advertise`].
    fn advertise(address: Option<String>) -> ();
    /// See [`Store::address_of`].
    fn address_of(journal: JournalId) -> Option<String>;
    /// See [`Store::read_all`].
    fn read_all(journals: Vec<JournalId>, limit: usize) -> Vec<Result<Vec<StoredLine>, StoreError>>;
    /// See [`Store::read`].
    fn read(journal: JournalId, from: u64, limit: usize) -> Vec<StoredLine>;
    /// See [`Store::read_tree`].
    fn read_tree(root: RunId, after: u64, limit: usize) -> Vec<TreeLine>;
    /// See [`Store::run`].
    fn run(run: RunId) -> Option<RunRow>;
    /// See [`Store::runs`].
    fn runs(filter: RunFilter) -> Vec<RunRow>;
    /// See [`Store::sessions`].
    fn sessions(filter: SessionFilter) -> Vec<SessionRow>;
    /// See [`Store::state`].
    fn state(scope: String, key: String) -> StateSlot;
    /// See [`Store::scope`].
    fn scope(scope: String) -> Vec<(String, StateValue)>;
    /// See [`Store::blob`].
    fn blob(digest: Digest) -> Option<Arc<[u8]>>;
    /// See [`Store::post`].
    fn post(run: RunId, item: MailboxItem) -> bool;
    /// See [`Store::mailbox_after`].
    fn mailbox_after(run: RunId, after: u64) -> Vec<(u64, MailboxItem)>;
    /// See [`Store::mailbox`].
    fn mailbox(run: RunId) -> Vec<MailboxItem>;
    /// See [`Store::posted`].
    fn posted(after: u64) -> (u64, Vec<RunId>);
    /// See [`Store::checkpoint`].
    fn checkpoint(session: SessionId) -> Option<Vec<u8>>;
    /// See [`Store::put_checkpoint`].
    fn put_checkpoint(session: SessionId, bytes: Option<Vec<u8>>) -> ();
    /// See [`Store::expired`].
    fn expired(expiry: Expiry) -> Vec<RunRow>;
    /// See [`Store::delete_tree`].
    fn delete_tree(root: RunId, at: Timestamp, limit: usize) -> Deleted;
    /// See [`Store::delete_session`].
    fn delete_session(session: SessionId, limit: usize) -> Deleted;
    /// See [`Store::deleted`].
    fn deleted(run: RunId) -> Option<Timestamp>;
    /// See [`Store::drop_blobs`].
    fn drop_blobs() -> u64;
    /// See [`Store::inventory`].
    fn inventory() -> Inventory;
    /// See [`Store::close`].
    fn close() -> ();
}

impl StoreHandle {
    /// Commits one batch.
    pub(crate) async fn commit_one(&self, batch: Batch) -> Result<Committed, StoreError> {
        let mut committed = self.commit(vec![batch]).await?;
        committed.pop().unwrap_or(Err(StoreError::Closed))
    }

    /// The entries of a journal from this one on, however many there are.
    pub(crate) async fn journal(
        &self,
        journal: JournalId,
        from: u64,
    ) -> Result<Vec<StoredLine>, StoreError> {
        let mut lines: Vec<StoredLine> = Vec::new();
        loop {
            let next = lines.last().map_or(from, |line| line.sequence + 1);
            let page = self.read(journal.clone(), next, PAGE).await?;
            let last = page.len() < PAGE;
            lines.extend(page);
            if last {
                return Ok(lines);
            }
        }
    }

    /// Keeps a store.
    pub fn new(store: impl Store) -> Self {
        Self(Arc::new(store))
    }

    /// See [`Store::news`].
    pub fn news(&self, of: Notice) -> Option<BoxFuture<'static, ()>> {
        self.0.news(of)
    }

    /// See [`Store::term`].
    pub fn term(&self) -> Option<u64> {
        self.0.term()
    }

    /// The store's name for people, such as its file.
    pub fn description(&self) -> String {
        self.0.description()
    }
}

impl<S: Store> From<S> for StoreHandle {
    fn from(store: S) -> Self {
        Self::new(store)
    }
}

impl fmt::Debug for StoreHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreHandle({})", self.description())
    }
}
