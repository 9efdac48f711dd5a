//! What people see and correct of a memory, outside of any run.

use std::sync::Arc;

use ghostlight_actors::{
    contract::{Batch, Clock, Entropy, StoreError, StoreHandle, SystemClock, SystemEntropy},
    run::operations::stored_scope,
    vocabulary::{OperationError, RunId, Scope, SessionId},
};
use serde::{Deserialize, Serialize};

use crate::{
    Forgetting, Memory, MemoryHit, MemoryItem, MemoryQuery, MemoryStats, Reacted, Reaction,
    draft::Draft, editing, episode, view::View,
};

/// How often a change is tried again where a run was faster.
const ATTEMPTS: u32 = 32;

/// One scope of a memory in a store, for people and programs outside of runs: the command line, a server, a
/// messenger. Where a run writes at the same time, both writes are made. What is changed here stands in no
/// journal: a session that is forked or rewound to a point before it may bring back what was forgotten.
#[derive(Clone, Debug)]
pub struct StoredMemory {
    store: StoreHandle,
    memory: Memory,
    scope: String,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
}

/// Why something outside of runs could not be done.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoredMemoryError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It cannot be done with what is there, or what is there cannot be read.
    #[error("{0}")]
    Refused(OperationError),
    /// Runs kept changing the memory first.
    #[error("runs kept changing the memory {memory:?} first; try again")]
    Contested {
        /// The memory.
        memory: String,
    },
    /// A document is of a later program.
    #[error(
        "the document has the format {found}, and this program reads up to {known}; use a later program"
    )]
    Newer {
        /// What it has.
        found: u32,
        /// What is read.
        known: u32,
    },
}

impl From<OperationError> for StoredMemoryError {
    fn from(error: OperationError) -> Self {
        Self::Refused(error)
    }
}

/// All items of a scope of a memory, to be kept elsewhere or put into another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MemoryDocument {
    /// How it is written; 1.
    pub format: u32,
    /// The memory's name.
    pub memory: String,
    /// The items, by their ids.
    pub items: Vec<MemoryItem>,
}

impl MemoryDocument {
    /// How documents are written now.
    pub const FORMAT: u32 = 1;
    /// How many items of a document are put in at most.
    pub const MOST: usize = 100_000;
}

/// What becomes of what is there when a document is put in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Import {
    /// What is there stays; only items of other ids are added.
    #[default]
    Merge,
    /// Items of the same id take its place, others are added.
    Upsert,
    /// All that is there goes.
    Replace,
}

impl StoredMemory {
    /// A scope of a memory in this store, named by a session: its own, its team's, or a user's of its team.
    /// `None` for a scope that no store keeps beside runs.
    pub fn new(
        store: StoreHandle,
        memory: Memory,
        session: &SessionId,
        scope: &Scope,
    ) -> Option<Self> {
        Some(Self {
            store,
            memory,
            scope: stored_scope(session, scope)?,
            clock: Arc::new(SystemClock::new()),
            entropy: Arc::new(SystemEntropy),
        })
    }

    /// Sets the clock; the machine's, when left out.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    async fn view(&self) -> Result<View, StoredMemoryError> {
        let rows = self.store.scope(self.scope.clone()).await?;
        Ok(View::read(&self.memory.keys(), rows, None)?)
    }

    async fn change<T>(
        &self,
        decide: impl Fn(&mut Draft) -> Result<T, OperationError>,
    ) -> Result<T, StoredMemoryError> {
        for _ in 0..ATTEMPTS {
            let view = Arc::new(self.view().await?);
            let now = self.clock.now();
            let draft = Draft::new(view, self.memory.keys(), now, self.memory.bounds());
            let mut draft = draft.outside(format!("outside/{:032x}", self.entropy.bits()));
            let result = decide(&mut draft)?;
            if draft.is_empty() {
                return Ok(result);
            }
            let mut batch = Batch::default();
            batch.writes = draft.writes(&self.scope);
            let mut committed = self.store.commit(vec![batch]).await?;
            match committed.pop() {
                Some(Err(StoreError::Conflict { .. })) => {}
                Some(Err(error)) => return Err(error.into()),
                Some(Ok(_)) | None => return Ok(result),
            }
        }
        let memory = self.memory.name().to_owned();
        Err(StoredMemoryError::Contested { memory })
    }

    /// All items, by their ids.
    ///
    /// # Errors
    /// What the store fails with, and what does not read.
    pub async fn list(&self) -> Result<Vec<MemoryItem>, StoredMemoryError> {
        Ok(self.view().await?.items().cloned().collect())
    }

    /// An item by its id, or by the beginning of it that no other has.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub async fn get(&self, id: &str) -> Result<Option<MemoryItem>, StoredMemoryError> {
        let view = self.view().await?;
        if let Some(item) = view.get(id) {
            return Ok(Some(item.clone()));
        }
        let mut found = view
            .items()
            .filter(|item| !id.is_empty() && item.id.starts_with(id));
        let first = found.next().cloned();
        Ok(first.filter(|_| found.next().is_none()))
    }

    /// What it holds, in numbers.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub async fn stats(&self) -> Result<MemoryStats, StoredMemoryError> {
        Ok(editing::stats(self.view().await?.items()))
    }

    /// What answers a question best by its words. It is no use of what is found.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub async fn search(&self, query: &MemoryQuery) -> Result<Vec<MemoryHit>, StoredMemoryError> {
        let decay = self.memory.bounds().decay_hours;
        Ok(self
            .view()
            .await?
            .search(query, None, decay, self.clock.now()))
    }

    /// Forgets, or tells what would be forgotten. What is pinned stays.
    ///
    /// # Errors
    /// As [`list`](Self::list), and where runs were faster again and again.
    pub async fn forget(&self, what: &Forgetting) -> Result<Vec<MemoryItem>, StoredMemoryError> {
        self.change(|draft| Ok(what.decide(draft))).await
    }

    /// Forgets one item, pinned or not; `None` where there was none.
    ///
    /// # Errors
    /// As [`forget`](Self::forget).
    pub async fn remove(&self, id: &str) -> Result<Option<MemoryItem>, StoredMemoryError> {
        self.change(|draft| Ok(draft.remove(id))).await
    }

    /// All items, to be kept elsewhere.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub async fn export(&self) -> Result<MemoryDocument, StoredMemoryError> {
        Ok(MemoryDocument {
            format: MemoryDocument::FORMAT,
            memory: self.memory.name().to_owned(),
            items: self.list().await?,
        })
    }

    /// Puts the items of a document in, sanitised, and gives how many. All are put in or none.
    ///
    /// # Errors
    /// As [`forget`](Self::forget), and for a document of a later program.
    pub async fn import(
        &self,
        document: &MemoryDocument,
        how: Import,
    ) -> Result<usize, StoredMemoryError> {
        if document.format > MemoryDocument::FORMAT {
            let (found, known) = (document.format, MemoryDocument::FORMAT);
            return Err(StoredMemoryError::Newer { found, known });
        }
        self.change(|draft| {
            if how == Import::Replace {
                let ids: Vec<String> = draft.view().items().map(|item| item.id.clone()).collect();
                for id in ids {
                    draft.remove(&id);
                }
            }
            let mut count = 0;
            for item in document.items.iter().take(MemoryDocument::MOST) {
                if how == Import::Merge && draft.view().get(&item.id).is_some() {
                    continue;
                }
                if let Some(item) = item.clone().checked() {
                    draft.put(item.clone());
                    draft.make_room(&item.id);
                    count += 1;
                }
            }
            Ok(count)
        })
        .await
    }

    /// Notes that the result of a run was sent to a person with this message: see
    /// [`ScopedMemory::sent`](crate::ScopedMemory::sent).
    ///
    /// # Errors
    /// As [`forget`](Self::forget).
    pub async fn sent(
        &self,
        run: RunId,
        message: &str,
        sender: &str,
        time: std::time::Duration,
    ) -> Result<usize, StoredMemoryError> {
        self.change(|draft| Ok(episode::sent(draft, run, message, sender, time)))
            .await
    }

    /// Counts a reaction of a person to a message: see [`Reaction`].
    ///
    /// # Errors
    /// As [`forget`](Self::forget).
    pub async fn react(&self, reaction: &Reaction) -> Result<Reacted, StoredMemoryError> {
        self.change(|draft| Ok(episode::react(draft, reaction)))
            .await
    }
}
