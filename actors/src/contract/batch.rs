//! The changes that a commit makes, and the entries that a store gives back.

use std::{sync::Arc, time::Duration};

use super::{Line, MailboxItem, RunRow, StateWrite, StoreError};
use crate::vocabulary::{Digest, Entry, JournalId, RunId};

/// Changes that are made together or not at all.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Batch {
    /// Entries, journal by journal.
    pub appends: Vec<Append>,
    /// Changes of shared state.
    pub writes: Vec<StateWrite>,
    /// Blobs, kept by their content hash. A blob that the store already has stays as it is.
    pub blobs: Vec<(Digest, Arc<[u8]>)>,
    /// Mailbox items that these entries process, each with the mailbox in which it is.
    pub taken: Vec<(JournalId, String)>,
    /// Items for mailboxes, which are put there as [`Mailboxes::post`](super::Mailboxes::post) does.
    pub posts: Vec<(JournalId, MailboxItem)>,
}

impl Batch {
    /// A batch of one append.
    pub fn of(append: Append) -> Self {
        Self {
            appends: vec![append],
            ..Self::default()
        }
    }
}

/// Entries for one journal.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Append {
    /// The journal.
    pub journal: JournalId,
    /// The sequence number of the first of these entries, which is the number of entries that the journal has now.
    pub expected: u64,
    /// The epoch of the owner's claim.
    pub epoch: u64,
    /// The entries.
    pub lines: Vec<Line>,
    /// The run's row in the index as it is after these entries, when it changed. With
    /// `expected` 0 and `epoch` 1 it makes the run, owned by this process; a session's journal,
    /// which has no row, is made by such an append without one.
    pub row: Option<Arc<RunRow>>,
    /// The root of the run's tree, where the caller knows it. Files in the entries are kept as long as the tree.
    pub root: Option<RunId>,
}

impl Append {
    /// Entries for this journal.
    pub fn new(journal: impl Into<JournalId>, expected: u64, epoch: u64, lines: Vec<Line>) -> Self {
        Self {
            journal: journal.into(),
            expected,
            epoch,
            lines,
            row: None,
            root: None,
        }
    }

    /// Sets the run's row in the index.
    #[must_use]
    pub fn row(mut self, row: impl Into<Arc<RunRow>>) -> Self {
        let row = row.into();
        self.root = Some(row.root);
        self.row = Some(row);
        self
    }

    /// Sets the root of the run's tree.
    #[must_use]
    pub fn root(mut self, root: RunId) -> Self {
        self.root = Some(root);
        self
    }
}

/// An entry as it stands in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredLine {
    /// Its place in its journal, from 0.
    pub sequence: u64,
    /// Its place in the order of commits over the whole store.
    pub position: u64,
    /// The entry.
    pub line: Line,
}

impl StoredLine {
    /// Decodes the entry, which stands in this journal.
    ///
    /// # Errors
    /// [`StoreError::Newer`] for an entry of a later program, [`StoreError::NoLongerRead`] for the beginning of a run of
    /// a format from before the first that is read, [`StoreError::Damaged`] for one that cannot be read.
    pub fn decode(&self, journal: &JournalId) -> Result<Entry, StoreError> {
        let named = || match journal {
            JournalId::Run(run) => format!("run {run}"),
            JournalId::Session(session) => format!("session {session}"),
        };
        let entry = self.line.decode();
        entry.map_err(|error| error.at(self.sequence, &named()))
    }
}

/// An entry of one of the runs of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeLine {
    /// The run.
    pub run: RunId,
    /// The entry.
    pub stored: StoredLine,
}

/// The result of a committed batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// The position of its first entry; the others follow one by one, in the batch's order.
    pub position: u64,
}

/// Ownership of a journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// The epoch that appends must carry.
    pub epoch: u64,
    /// How many entries the journal has.
    pub entries: u64,
    /// For how long a former owner may still begin an effect that it was allowed to begin: nobody asks before whether
    /// that effect happened. Zero where the former owner is known to have ended.
    pub settles_in: Duration,
}
