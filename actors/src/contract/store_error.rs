//! The refusals and failures of stores.

use std::fmt;

use crate::vocabulary::{ErrorKind, JournalId, OperationError, RunId, Timestamp};

/// A refusal or a failure of a store.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another process owns the journal.
    #[error(
        "{journal} is owned by {owner}, which is alive: stop it, or take the run over with \
         `resume --take-over` if it hangs"
    )]
    Owned {
        /// The journal.
        journal: JournalId,
        /// Its owner, in words.
        owner: String,
    },
    /// A process with later code of the journal's team has carried it, and this process leaves it to such processes.
    #[error(
        "{journal} was carried by version {version} of the code of team {team:?}, and this process has \
         version {known}: a process that has the later version continues it"
    )]
    LaterCode {
        /// The journal.
        journal: JournalId,
        /// The team.
        team: String,
        /// The version that the journal needs.
        version: u32,
        /// The version of this process.
        known: u32,
    },
    /// The journal was claimed again since, so this owner may not write any more.
    #[error("{journal} has moved to epoch {current}; epoch {epoch} may not write to it any more")]
    Stale {
        /// The journal.
        journal: JournalId,
        /// The epoch of the refused append.
        epoch: u64,
        /// The epoch of the latest claim.
        current: u64,
    },
    /// An append did not carry the journal's next sequence number.
    #[error("{journal} has {have} entries, but the append expected {expected}")]
    Sequence {
        /// The journal.
        journal: JournalId,
        /// The state that the append expected.
        expected: u64,
        /// The content of the journal.
        have: u64,
    },
    /// Somebody else wrote the value first.
    #[error("{scope}/{key} was changed by somebody else first (its version is {version:?})")]
    Conflict {
        /// The scope.
        scope: String,
        /// The key.
        key: String,
        /// Its version now, if it exists.
        version: Option<u64>,
    },
    /// The stored data cannot be trusted or read.
    #[error("{place} is damaged: {reason}; restore it from a copy, the rest was left untouched")]
    Damaged {
        /// Where.
        place: String,
        /// The fault.
        reason: String,
    },
    /// The store lost commits that it once had.
    #[error(
        "{place} ends at commit {have}, but its anchor says that commit {expected} was durable: \
         it was truncated or replaced by an older copy; restore it from a copy, or move its anchor \
         away to continue with the rest"
    )]
    Truncated {
        /// Where.
        place: String,
        /// The last commit that is there.
        have: u64,
        /// The last commit that was durable.
        expected: u64,
    },
    /// The store is a copy that was never finished.
    #[error("{place} is an unfinished copy of {from}: delete it, and copy again")]
    Unfinished {
        /// The store.
        place: String,
        /// The source of the copy.
        from: String,
    },
    /// An entry has no form as JSON.
    #[error(
        "an entry cannot be written as JSON ({reason}), so nothing of it was written: this is a \
         defect of the program that made it"
    )]
    Unwritable {
        /// The fault.
        reason: String,
    },
    /// The run was deleted when its retention time was over.
    #[error("run {run} was deleted after its retention time, and nothing of it is left")]
    Deleted {
        /// The run.
        run: RunId,
        /// When.
        at: Timestamp,
    },
    /// A tree cannot be deleted while one of its runs has not ended.
    #[error("run {run} has not ended, so its tree cannot be deleted: cancel it first")]
    Open {
        /// The run.
        run: RunId,
    },
    /// A later version of the program wrote the store.
    #[error(
        "{place} has format version {found}, this program reads up to {known}: use a newer \
         program; the file was left untouched"
    )]
    TooNew {
        /// Where.
        place: String,
        /// The version of what is stored.
        found: u32,
        /// The latest version that this program knows.
        known: u32,
    },
    /// An earlier version of the program made the store, and opening it was not to change it.
    #[error(
        "{place} has format version {found}, and this program needs {known}: run `ghostlight store migrate` first"
    )]
    TooOld {
        /// Where.
        place: String,
        /// The version of what is stored; 0 where there is nothing yet.
        found: u32,
        /// The version that this program needs.
        known: u32,
    },
    /// A program from before the first version that is promised to be read made the store or wrote the journal.
    #[error(
        "{place} has format version {found}, and this program reads version {oldest} and later: continue with \
         the program that wrote it until its runs have ended, or begin a new store; nothing was changed"
    )]
    NoLongerRead {
        /// Where.
        place: String,
        /// The version of what is stored.
        found: u32,
        /// The earliest version that this program reads.
        oldest: u32,
    },
    /// A later program wrote the journal, or a part of it. The journal is left alone.
    #[error(
        "{place} was written by a newer program ({reason}; this one knows formats up to {known}): \
         use that program; nothing was changed"
    )]
    Newer {
        /// Where.
        place: String,
        /// The journal's format, where it names one.
        format: Option<u32>,
        /// The latest format that this program knows.
        known: u32,
        /// The unknown part.
        reason: String,
    },
    /// A write or sync failed earlier; the store must be opened again.
    #[error("{place} refuses work since a write failed ({reason}): open it again")]
    Poisoned {
        /// Where.
        place: String,
        /// The part that failed.
        reason: String,
    },
    /// Reading or writing failed.
    #[error("{place}: {reason}")]
    Io {
        /// Where.
        place: String,
        /// The part that failed.
        reason: String,
    },
    /// The store does not take these rows, however often it is asked, for instance since they are larger than it can
    /// hold.
    #[error(
        "{place} does not take what is to be written to {to} ({reason}), so nothing of it was written"
    )]
    Refused {
        /// Where.
        place: String,
        /// The journal, or the place of another row.
        to: String,
        /// Their fault.
        reason: String,
    },
    /// The file was removed, moved or replaced while it was open. Entries written since the last check are in the
    /// file that was opened, if that still exists.
    #[error(
        "{place} is not the file any more that was opened ({reason}): it refuses work; put the file \
         back and start again"
    )]
    Gone {
        /// Where it was.
        place: String,
        /// The names that are there instead.
        reason: String,
    },
    /// The store has no part that can do this.
    #[error(
        "{place} is a store that cannot {what}: use one that can, such as SQLite or PostgreSQL"
    )]
    Unsupported {
        /// The store.
        place: String,
        /// The work that it was asked for, as a verb with its object.
        what: &'static str,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

/// The message: it is what a program prints whose `main` returns the error.
impl fmt::Debug for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<StoreError> for OperationError {
    fn from(error: StoreError) -> Self {
        let passes = error.passes();
        let error = Self::new(ErrorKind::Store, error.to_string());
        if passes { error.retryable() } else { error }
    }
}

impl StoreError {
    /// Whether the journal is for another process: one owns it, or has the code that it needs.
    pub fn is_elsewhere(&self) -> bool {
        matches!(self, Self::Owned { .. } | Self::LaterCode { .. })
    }

    /// Whether a run whose journal met this can be taken up from what is recorded: the store closed, a read or write
    /// failed, or a batch was built on a failed one.
    pub(crate) fn passes(&self) -> bool {
        matches!(self, Self::Closed | Self::Io { .. } | Self::Sequence { .. })
    }

    /// Whether the same call fails again however often it is made: what is stored cannot be read,
    /// or what is to be written cannot be stored.
    pub(crate) fn is_lasting(&self) -> bool {
        matches!(self, Self::Newer { .. } | Self::Damaged { .. }) || self.is_about_what_is_written()
    }

    /// Whether this cannot be stored at all, while the store takes other writes.
    pub(crate) fn is_about_what_is_written(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::Unwritable { .. })
    }
}
