//! A store of any type.

use std::{fmt, sync::Arc};

use super::{
    Batch, BoxFuture, Claim, Commits, Committed, DynDeletion, DynMembership, DynStore, Inventory,
    MailboxItem, Notice, RunFilter, RunRow, SessionFilter, SessionRow, StateSlot, StateValue,
    Store, StoreError, StoredLine, TreeLine,
    files_apart::{FilesApart, detach},
    store_methods::with_store_methods,
};
use crate::vocabulary::{Digest, JournalId, RunId, SessionId, Timestamp};

/// The most entries of a journal that are read at once.
const PAGE: usize = 4096;

/// A store of any kind. Cloning shares it. The store keeps the bytes of a long file once, however many entries hold it; an
/// entry that is read here has its files.
#[derive(Clone)]
pub struct StoreHandle(Arc<dyn DynStore>, Inner);

/// The store inside, which knows nothing of files apart.
type Inner = Arc<dyn DynStore>;

macro_rules! handle {
    (
        required { $($part:ident {
            $(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*
            $(~ fn $derived:ident($($each:ident: $one:ty),*) -> $all:ty;)*
            $(+ fn $told:ident($($about:ident: $of:ty),*) -> $plain:ty;)?
        })* }
        optional { $($asked:ident, $erased:ident, $ask:ident, $doing:literal { $($methods:tt)* })* }
    ) => {
        impl DynStore for StoreHandle {
            $($(
                fn $name(&self, $($argument: $type),*) -> BoxFuture<'_, Result<$result, StoreError>> {
                    self.0.$name($($argument),*)
                }
            )*
            $(
                fn $derived(&self, $($each: $one),*) -> BoxFuture<'_, Result<$all, StoreError>> {
                    self.0.$derived($($each),*)
                }
            )*
            $(
                fn $told(&self, $($about: $of),*) -> $plain {
                    self.0.$told($($about),*)
                }
            )?)*

            fn commit_shared(self: Arc<Self>, batches: Vec<Batch>) -> BoxFuture<'static, Commits> {
                Self::commit_shared(&self, batches)
            }

            fn close(&self) -> BoxFuture<'_, Result<(), StoreError>> {
                self.0.close()
            }

            fn description(&self) -> String {
                self.0.description()
            }

            $(
                fn $ask(&self) -> Option<&dyn $erased> {
                    self.0.$ask()
                }
            )*
        }

        impl StoreHandle {
            $($(
                #[doc = concat!("See [`", stringify!($part), "::", stringify!($name), "`](super::", stringify!($part), "::", stringify!($name), ").")]
                ///
                /// # Errors
                /// The errors and refusals of the store.
                pub async fn $name(&self, $($argument: $type),*) -> Result<$result, StoreError> {
                    self.0.$name($($argument),*).await
                }
            )*
            $(
                #[doc = concat!("See [`", stringify!($part), "::", stringify!($derived), "`](super::", stringify!($part), "::", stringify!($derived), ").")]
                ///
                /// # Errors
                /// The errors and refusals of the store.
                pub async fn $derived(&self, $($each: $one),*) -> Result<$all, StoreError> {
                    self.0.$derived($($each),*).await
                }
            )*
            $(
                #[doc = concat!("See [`", stringify!($part), "::", stringify!($told), "`](super::", stringify!($part), "::", stringify!($told), ").")]
                pub fn $told(&self, $($about: $of),*) -> $plain {
                    self.0.$told($($about),*)
                }
            )?)*
            $(
                #[doc = concat!("See [`Store::", stringify!($ask), "`].")]
                pub fn $ask(&self) -> Option<&dyn $erased> {
                    self.0.$ask()
                }
            )*
        }
    };
}

with_store_methods!(handle);

impl StoreHandle {
    /// Keeps a store.
    pub fn new(store: impl Store) -> Self {
        let store: Inner = Arc::new(store);
        Self(Arc::new(FilesApart(store.clone())), store)
    }

    /// See [`Store::close`].
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.0.close().await
    }

    /// The store's name for people, such as its file.
    pub fn description(&self) -> String {
        self.0.description()
    }

    /// When a run was deleted: see [`Deletion::deleted`](super::Deletion::deleted). A store that deletes nothing deleted
    /// none.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn deleted(&self, run: RunId) -> Result<Option<Timestamp>, StoreError> {
        match self.0.deletion() {
            Some(part) => part.deleted(run).await,
            None => Ok(None),
        }
    }

    /// Commits batches. The future keeps the store.
    pub(crate) fn commit_shared(&self, mut batches: Vec<Batch>) -> BoxFuture<'static, Commits> {
        batches.iter_mut().for_each(detach);
        self.1.clone().commit_shared(batches)
    }

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
