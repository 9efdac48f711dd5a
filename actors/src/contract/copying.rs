//! Copies what a store holds into another store, of the same kind or another.

use std::collections::{HashMap, HashSet};

use serde_json::value::to_raw_value;

use super::{
    Append, Batch, Expected, ItemBody, JournalPages, Line, MailboxItem, RunRow, StateWrite,
    StoreError, StoreHandle, TreePages,
};
use crate::vocabulary::{Digest, JournalId, Message, RunId, Timestamp};

/// The scope and key of the value that marks an unfinished copy.
const MARK: (&str, &str) = ("copy", "unfinished");
/// How many entries, values or items are moved together.
const PAGE: usize = 1_000;
/// About how many bytes of entries, values, items or blobs are committed together.
const PAGE_BYTES: usize = 4 << 20;

/// How much was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Copied {
    /// Journals of runs.
    pub runs: u64,
    /// Journals of sessions.
    pub sessions: u64,
    /// Entries of all journals.
    pub entries: u64,
    /// Values of shared state.
    pub values: u64,
}

/// Why a store was not copied.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The target holds something already, with which the copy would be mixed.
    #[error("{place} is not empty: copy into a new store")]
    NotEmpty {
        /// The store that was to become the copy.
        place: String,
    },
    /// A living process uses the store.
    #[error("{place} is in use: a process that lives carries {journal}; stop it, then copy again")]
    InUse {
        /// The store that was to be copied.
        place: String,
        /// A journal that this process owns.
        journal: JournalId,
    },
    /// The store was written to during the copy.
    #[error(
        "{place} was changed while it was copied: delete the copy, stop who writes, then copy again"
    )]
    Changed {
        /// The store that was copied.
        place: String,
    },
    /// One of the stores failed; the copy is not finished.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Copies everything that one store holds into another, which must be empty: journals with their epochs, runs, shared
/// state with its versions, mailboxes, blobs. Runs that have not ended go on in the copy once a System is started over
/// it. Left out are checkpoints, which are made again, and the list of runs that retention deleted. Entries keep their
/// order within a session and within a run with all runs below it; positions are given anew, so an event id of the one
/// store means nothing in the other.
///
/// No process may use the source during the copy. The source is not changed. Do not use it any more once the copy is in
/// use: a call could be made twice. `progress` is called after each commit with how much was copied.
///
/// A copy that was interrupted is marked: a System refuses it as [`StoreError::Unfinished`].
///
/// # Errors
/// See [`CopyError`].
pub async fn copy_store(
    from: &StoreHandle,
    to: &StoreHandle,
    progress: impl FnMut(Copied),
) -> Result<Copied, CopyError> {
    check_finished(from).await?;
    let inventory = from.inventory().await?;
    if !to.inventory().await?.is_empty() {
        let place = to.description();
        return Err(CopyError::NotEmpty { place });
    }
    let journals: Vec<JournalId> = inventory.journals.iter().map(|it| it.0.clone()).collect();
    for page in journals.chunks(PAGE) {
        let held = from.held_elsewhere(page.to_vec()).await?;
        if let Some((_, journal)) = held.iter().zip(page).find(|(held, _)| **held) {
            let (place, journal) = (from.description(), journal.clone());
            return Err(CopyError::InUse { place, journal });
        }
    }
    let mut copy = Copy {
        from,
        to,
        batch: Batch::default(),
        rows: 0,
        bytes: 0,
        copied: Copied::default(),
        progress,
    };
    copy.mark(Some(from.description())).await?;
    copy.blobs(&inventory.blobs).await?;
    copy.journals(&journals).await?;
    copy.values(&inventory.values).await?;
    copy.items(&inventory.items).await?;
    copy.epochs(&inventory.journals).await?;
    if from.inventory().await? != inventory {
        let place = from.description();
        return Err(CopyError::Changed { place });
    }
    copy.mark(None).await?;
    Ok(copy.copied)
}

/// Refuses a store that is an unfinished copy.
pub(crate) async fn check_finished(store: &StoreHandle) -> Result<(), StoreError> {
    let (scope, key) = MARK;
    let mark = store.state(scope.to_owned(), key.to_owned()).await?;
    match mark.value {
        None => Ok(()),
        Some(from) => Err(StoreError::Unfinished {
            place: store.description(),
            from: from.as_str().unwrap_or_default().to_owned(),
        }),
    }
}

struct Copy<'s, P> {
    from: &'s StoreHandle,
    to: &'s StoreHandle,
    /// The lines that are committed next.
    batch: Batch,
    rows: usize,
    bytes: usize,
    copied: Copied,
    progress: P,
}

impl<P: FnMut(Copied)> Copy<'_, P> {
    /// Marks the copy as unfinished, or removes the mark.
    async fn mark(&mut self, from: Option<String>) -> Result<(), CopyError> {
        let (scope, key) = MARK;
        self.write(scope, key, from.map(Into::into), Expected::Any)?;
        self.commit().await
    }

    async fn blobs(&mut self, blobs: &[Digest]) -> Result<(), CopyError> {
        for digest in blobs {
            if let Some(bytes) = self.from.blob(*digest).await? {
                let size = bytes.len();
                self.batch.blobs.push((*digest, bytes));
                self.added(size).await?;
            }
        }
        self.commit().await
    }

    async fn journals(&mut self, journals: &[JournalId]) -> Result<(), CopyError> {
        let mut trees: HashMap<RunId, Timestamp> = HashMap::new();
        for journal in journals {
            match journal {
                JournalId::Session(_) => self.session(journal).await?,
                // A journal that was claimed and never written to has no row.
                JournalId::Run(run) => {
                    if let Some(row) = self.from.run(*run).await? {
                        let began = trees.entry(row.root).or_insert(row.started_at);
                        *began = row.started_at.min(*began);
                    }
                }
            }
        }
        // Runs are listed by when they began, and of several that began together by when they were made.
        let mut trees: Vec<_> = trees.into_iter().collect();
        trees.sort_unstable_by_key(|(root, began)| (*began, *root));
        for (root, _) in trees {
            self.tree(root).await?;
        }
        Ok(())
    }

    async fn session(&mut self, journal: &JournalId) -> Result<(), CopyError> {
        let mut pages = JournalPages::new(journal.clone(), 0);
        let mut next = 0;
        loop {
            let page = pages.next(self.from).await?;
            if page.is_empty() {
                break;
            }
            for stored in page {
                let size = stored.line.text.len();
                self.append(journal.clone(), next, stored.line, (None, None));
                next += 1;
                self.added(size).await?;
            }
        }
        self.commit().await?;
        self.copied.sessions += u64::from(next > 0);
        Ok(())
    }

    /// A run with all runs below it, in the order of their commits.
    async fn tree(&mut self, root: RunId) -> Result<(), CopyError> {
        let mut entries: HashMap<RunId, u64> = HashMap::new();
        let mut pages = TreePages::new(root, 0);
        loop {
            let page = pages.next(self.from).await?;
            if page.is_empty() {
                break;
            }
            for line in page {
                let row = match entries.contains_key(&line.run) {
                    true => None,
                    false => Some(self.row(line.run).await?),
                };
                let next = entries.entry(line.run).or_default();
                let expected = *next;
                *next += 1;
                let size = line.stored.line.text.len();
                let run = line.run.into();
                self.append(run, expected, line.stored.line, (Some(root), row));
                self.added(size).await?;
            }
        }
        self.commit().await?;
        self.copied.runs += entries.len() as u64;
        Ok(())
    }

    async fn row(&self, run: RunId) -> Result<RunRow, CopyError> {
        let row = self.from.run(run).await?;
        let missing = || StoreError::Damaged {
            place: self.from.description(),
            reason: format!("run {run} has entries and no row"),
        };
        Ok(row.ok_or_else(missing)?)
    }

    /// Entries that follow one another in a journal are one append.
    fn append(
        &mut self,
        journal: JournalId,
        expected: u64,
        line: Line,
        (root, row): (Option<RunId>, Option<RunRow>),
    ) {
        self.copied.entries += 1;
        if let Some(last) = self.batch.appends.last_mut()
            && last.journal == journal
        {
            last.lines.push(line);
            return;
        }
        let mut append = Append::new(journal, expected, 1, vec![line]);
        append.root = root;
        let append = match row {
            Some(row) => append.row(row),
            None => append,
        };
        self.batch.appends.push(append);
    }

    async fn values(&mut self, values: &[(String, String, u64)]) -> Result<(), CopyError> {
        for (scope, key, version) in values {
            if (scope.as_str(), key.as_str()) == MARK {
                continue;
            }
            let slot = self.from.state(scope.clone(), key.clone()).await?;
            self.write(scope, key, slot.value, Expected::Copy(*version))?;
            self.copied.values += 1;
            self.added(0).await?;
        }
        self.commit().await
    }

    fn write(
        &mut self,
        scope: &str,
        key: &str,
        value: Option<serde_json::Value>,
        expected: Expected,
    ) -> Result<(), StoreError> {
        let value = value.map(|value| to_raw_value(&value)).transpose();
        let value = value.map_err(|error| StoreError::Unwritable {
            reason: format!("{scope}/{key}: {error}"),
        })?;
        self.bytes += value.as_ref().map_or(0, |value| value.get().len());
        self.batch.writes.push(StateWrite {
            scope: scope.to_owned(),
            key: key.to_owned(),
            value,
            expected,
        });
        Ok(())
    }

    /// Posts each item, and takes those that the source has as taken, so that their ids stay known.
    async fn items(&mut self, items: &[(JournalId, String)]) -> Result<(), CopyError> {
        let mut waiting: HashMap<JournalId, HashMap<String, MailboxItem>> = HashMap::new();
        let mailboxes: HashSet<JournalId> =
            items.iter().map(|(mailbox, _)| mailbox.clone()).collect();
        for mailbox in mailboxes {
            let found = self.from.mailbox(mailbox.clone()).await?;
            if !found.is_empty() {
                let by_id = found.into_iter().map(|item| (item.id.clone(), item));
                waiting.insert(mailbox, by_id.collect());
            }
        }
        for page in items.chunks(PAGE) {
            let mut taken = Vec::new();
            for (mailbox, id) in page {
                let item = waiting.get_mut(mailbox).and_then(|items| items.remove(id));
                let item = item.unwrap_or_else(|| {
                    taken.push((mailbox.clone(), id.clone()));
                    let body = ItemBody::Steer(Message::user(""));
                    MailboxItem::new(id.clone(), Timestamp::default(), body)
                });
                let size = serde_json::to_string(&item.body).map_or(0, |body| body.len());
                self.batch.posts.push((mailbox.clone(), item));
                self.added(size).await?;
            }
            self.commit().await?;
            self.batch.taken = taken;
            self.commit().await?;
        }
        Ok(())
    }

    /// Claims each journal until it has the epoch of the source, so that no epoch is used twice.
    async fn epochs(&mut self, journals: &[(JournalId, u64)]) -> Result<(), CopyError> {
        let now = self.to.inventory().await?.journals;
        let now: HashMap<JournalId, u64> = now.into_iter().collect();
        let mut behind: Vec<(JournalId, u64)> = Vec::new();
        for (journal, epoch) in journals {
            let missing = epoch.saturating_sub(now.get(journal).copied().unwrap_or(0));
            if missing > 0 {
                behind.push((journal.clone(), missing));
            }
        }
        while !behind.is_empty() {
            for page in behind.chunks(PAGE) {
                let page = page.iter().map(|(journal, _)| journal.clone()).collect();
                for claim in self.to.claim_all(page).await? {
                    claim?;
                }
            }
            behind.retain_mut(|(_, missing)| {
                *missing -= 1;
                *missing > 0
            });
        }
        Ok(())
    }

    /// Counts a row of this size, and commits once enough bytes are collected.
    async fn added(&mut self, bytes: usize) -> Result<(), CopyError> {
        self.rows += 1;
        self.bytes += bytes;
        match self.rows >= PAGE || self.bytes >= PAGE_BYTES {
            true => self.commit().await,
            false => Ok(()),
        }
    }

    async fn commit(&mut self) -> Result<(), CopyError> {
        let batch = std::mem::take(&mut self.batch);
        (self.rows, self.bytes) = (0, 0);
        for committed in self.to.commit(vec![batch]).await? {
            committed?;
        }
        (self.progress)(self.copied);
        Ok(())
    }
}
