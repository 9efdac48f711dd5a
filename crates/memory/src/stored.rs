//! Access to a memory outside of any run, for people to see and correct it.

use std::{collections::HashSet, fmt, sync::Arc};

use ghostlight_actors::{
    contract::{Batch, Clock, Entropy, StoreError, StoreHandle, SystemClock, SystemEntropy},
    run::operations::stored_scope,
    vocabulary::{OperationError, RunId, Scope, SessionId},
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    Forgetting, Memory, MemoryHit, MemoryItem, MemoryPatch, MemoryQuery, MemoryStats, Reacted,
    Reaction,
    conversations::{Whose, search_once},
    draft::Draft,
    editing, episode, learning,
    view::View,
};

/// How many items of a document are written at once.
const STEP: usize = 1_000;
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
    /// An item of a document cannot be imported.
    #[error("item {number} of the document: {reason}; nothing of it was imported")]
    Item {
        /// Its place in the document, from 1.
        number: usize,
        /// The reason.
        reason: String,
    },
    /// The document is not an export of a memory.
    #[error("it is not a document that `ghostlight memory export` writes: {reason}")]
    Document {
        /// The reason.
        reason: String,
    },
    /// The document has more items than are imported from one.
    #[error("the document has {found} items, and at most {most} are imported from one")]
    TooMany {
        /// How many items it has.
        found: usize,
        /// [`MemoryDocument::MOST`].
        most: usize,
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

ghostlight_actors::parts_of_system_error!(StoredMemoryError);

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

    /// Reads a document from its JSON text, as `ghostlight memory export` prints it.
    ///
    /// # Errors
    /// [`StoredMemoryError::Document`], [`StoredMemoryError::Newer`], [`StoredMemoryError::TooMany`], and
    /// [`StoredMemoryError::Item`] for the first item that cannot be read.
    pub fn from_json(text: &str) -> Result<Self, StoredMemoryError> {
        /// A document whose items are not read yet.
        #[derive(Deserialize)]
        struct Unread<'a> {
            format: u32,
            memory: String,
            #[serde(borrow)]
            items: Vec<&'a RawValue>,
        }
        /// The beginning of every format.
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        let wrong = |error: serde_json::Error| StoredMemoryError::Document {
            reason: error.to_string(),
        };
        check_format(serde_json::from_str::<Head>(text).map_err(wrong)?.format)?;
        let unread: Unread<'_> = serde_json::from_str(text).map_err(wrong)?;
        check_number(unread.items.len())?;
        let items = unread.items.iter().enumerate();
        let items = items.map(|(place, item)| {
            serde_json::from_str(item.get()).map_err(|error| bad_item(place, error))
        });
        Ok(Self {
            format: unread.format,
            memory: unread.memory,
            items: items.collect::<Result<_, _>>()?,
        })
    }

    /// Its items, sanitised.
    fn checked(&self) -> Result<Vec<MemoryItem>, StoredMemoryError> {
        check_format(self.format)?;
        check_number(self.items.len())?;
        let items = self.items.iter().enumerate();
        items
            .map(|(place, item)| {
                let checked = item.clone().checked();
                checked.map_err(|reason| bad_item(place, reason))
            })
            .collect()
    }
}

fn check_format(found: u32) -> Result<(), StoredMemoryError> {
    let known = MemoryDocument::FORMAT;
    match found <= known {
        true => Ok(()),
        false => Err(StoredMemoryError::Newer { found, known }),
    }
}

fn check_number(found: usize) -> Result<(), StoredMemoryError> {
    let most = MemoryDocument::MOST;
    match found <= most {
        true => Ok(()),
        false => Err(StoredMemoryError::TooMany { found, most }),
    }
}

fn bad_item(place: usize, reason: impl fmt::Display) -> StoredMemoryError {
    StoredMemoryError::Item {
        number: place + 1,
        reason: reason.to_string(),
    }
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
            let draft = draft.compared_by(self.memory.same());
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

    /// Changes one item, and returns it as it is now; `None` if it does not exist. It does not count as a use.
    ///
    /// # Errors
    /// As [`forget`](Self::forget), and [`StoredMemoryError::Refused`] for an empty content.
    pub async fn update(
        &self,
        id: &str,
        change: &MemoryPatch,
    ) -> Result<Option<MemoryItem>, StoredMemoryError> {
        self.change(|draft| {
            let Some(item) = draft.view().get(id).cloned() else {
                return Ok(None);
            };
            let item = editing::patch(item, change, draft.now)?;
            draft.put(item.clone());
            Ok(Some(item))
        })
        .await
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

    /// Imports the items of a document, sanitised, and returns how many were added or replaced. Beyond the memory's
    /// capacity the items least worth keeping are forgotten. A document has no vectors: as with other items that have none,
    /// the searches that follow make them.
    ///
    /// If one of the items is invalid, nothing is imported. The items are written in commits of at most a thousand; if a
    /// commit fails, those before it stay, and importing again imports the rest. Importing a document twice changes
    /// nothing.
    ///
    /// # Errors
    /// As [`forget`](Self::forget), and those of [`MemoryDocument::from_json`].
    pub async fn import(
        &self,
        document: &MemoryDocument,
        how: Import,
    ) -> Result<usize, StoredMemoryError> {
        let items = document.checked()?;
        if how == Import::Replace {
            let kept: HashSet<&str> = items.iter().map(|item| item.id.as_str()).collect();
            self.change(|draft| {
                let items = draft.view().items();
                let others = items.filter(|item| !kept.contains(item.id.as_str()));
                let others: Vec<String> = others.map(|item| item.id.clone()).collect();
                others.iter().for_each(|id| drop(draft.remove(id)));
                Ok(())
            })
            .await?;
        }
        let mut count = 0;
        for step in items.chunks(STEP) {
            count += self.change(|draft| Ok(put(draft, step, how))).await?;
        }
        Ok(count)
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

/// Adds these items to a memory and returns how many are new or changed.
fn put(draft: &mut Draft, items: &[MemoryItem], how: Import) -> usize {
    let mut count = 0;
    for item in items {
        let mut item = item.clone();
        if let Some(there) = draft.view().get(&item.id) {
            item.accesses = item.accesses.max(there.accesses);
            item.accessed_at = item.accessed_at.max(there.accessed_at);
            if how == Import::Merge || *there == item {
                continue;
            }
        }
        learning::recoded(draft, &mut item);
        draft.put(item);
        count += 1;
    }
    draft.fit(None);
    count
}
