//! Access to a memory outside of any run, for people to see and correct it.

use std::sync::Arc;

use ghostlight_actors::{
    contract::{Batch, Clock, Entropy, StoreError, StoreHandle, SystemClock, SystemEntropy},
    run::operations::stored_scope,
    vocabulary::{OperationError, RunId, Scope, SessionId},
};
use serde::{Deserialize, Serialize};

use crate::{
    Forgetting, Memory, MemoryHit, MemoryItem, MemoryQuery, MemoryStats, Reacted, Reaction,
    conversations::{Whose, search_once},
    draft::Draft,
    editing, episode,
    view::View,
};

/// How often a change is tried again after a run has changed the memory first.
const ATTEMPTS: u32 = 32;

/// One scope of a memory in a store, for people and programs outside of runs: the command line, a server, a messenger.
/// If a run writes at the same time, both writes take effect. Changes made here are in no journal: a session that is
/// forked or rewound to an earlier point may bring back forgotten items.
#[derive(Clone, Debug)]
pub struct StoredMemory {
    store: StoreHandle,
    memory: Memory,
    scope: String,
    /// Whose conversations belong to the scope, if it has any.
    whose: Option<Whose>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
}

/// Why an operation outside of runs failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoredMemoryError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The operation was refused, or the stored content cannot be read.
    #[error("{0}")]
    Refused(OperationError),
    /// Runs have changed the memory first, again and again.
    #[error("runs kept changing the memory {memory:?} first; try again")]
    Contested {
        /// The memory.
        memory: String,
    },
    /// The document was written by a later version of the program.
    #[error(
        "the document has the format {found}, and this program reads up to {known}; use a later program"
    )]
    Newer {
        /// The document's format.
        found: u32,
        /// The latest format that this program reads.
        known: u32,
    },
}

impl From<OperationError> for StoredMemoryError {
    fn from(error: OperationError) -> Self {
        Self::Refused(error)
    }
}

/// All items of a scope of a memory, for a backup or another memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MemoryDocument {
    /// The format of the document; 1.
    pub format: u32,
    /// The memory's name.
    pub memory: String,
    /// The items, by their ids.
    pub items: Vec<MemoryItem>,
}

impl MemoryDocument {
    /// The current format of documents.
    pub const FORMAT: u32 = 1;
    /// The most items that are imported from one document.
    pub const MOST: usize = 100_000;
}

/// The effect of an import on existing items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Import {
    /// Existing items stay; only items with other ids are added.
    #[default]
    Merge,
    /// Items with the same id are replaced, others are added.
    Upsert,
    /// All existing items are removed.
    Replace,
}

impl StoredMemory {
    /// A scope of a memory in this store, in relation to a session: its own scope, its team's, or a user's of its team.
    /// `None` for a scope that no store keeps outside of runs.
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
            whose: Whose::of(&session.team, Some(session), scope),
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
    /// The store fails, or a row cannot be read.
    pub async fn list(&self) -> Result<Vec<MemoryItem>, StoredMemoryError> {
        Ok(self.view().await?.items().cloned().collect())
    }

    /// The item with this id, or with this beginning of an id if it is unique.
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

    /// Statistics of the scope.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub async fn stats(&self) -> Result<MemoryStats, StoredMemoryError> {
        Ok(editing::stats(self.view().await?.items()))
    }

    /// The items that answer a question best, by their words. It does not count as a use.
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

    /// The turns that answer a question best by their words: those of the session, or of all the user's conversations with
    /// the team; none for another scope. See [`ScopedMemory::conversations`](crate::ScopedMemory::conversations); here the
    /// turns are read from the store for each question.
    ///
    /// # Errors
    /// The store fails.
    pub async fn conversations(
        &self,
        query: &MemoryQuery,
    ) -> Result<Vec<MemoryHit>, StoredMemoryError> {
        match &self.whose {
            Some(whose) => Ok(search_once(&self.store, whose, query, self.clock.now()).await?),
            None => Ok(Vec::new()),
        }
    }

    /// Forgets items, or reports those that would be forgotten. Pinned items stay.
    ///
    /// # Errors
    /// As [`list`](Self::list), and if runs change the memory first, again and again.
    pub async fn forget(&self, what: &Forgetting) -> Result<Vec<MemoryItem>, StoredMemoryError> {
        self.change(|draft| Ok(what.decide(draft))).await
    }

    /// Forgets one item, pinned or not; `None` if it did not exist.
    ///
    /// # Errors
    /// As [`forget`](Self::forget).
    pub async fn remove(&self, id: &str) -> Result<Option<MemoryItem>, StoredMemoryError> {
        self.change(|draft| Ok(draft.remove(id))).await
    }

    /// Exports all items.
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

    /// Imports the items of a document, sanitised, and returns their number. Either all are imported or none; beyond the
    /// memory's capacity the items least worth keeping are forgotten afterwards.
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
                    draft.put(item);
                    count += 1;
                }
            }
            draft.fit(None);
            Ok(count)
        })
        .await
    }

    /// Records that the result of a run was sent to a person in this message: see
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
