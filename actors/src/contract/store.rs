//! Where journals are kept.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use super::{
    Deleted, Expiry, InboxItem, Inventory, Line, RunStatus, SessionFilter, SessionRow, StoreError,
};
use crate::vocabulary::{Digest, Entry, JournalId, RunId, SessionId, Timestamp};

/// A durable store of journals, state, inboxes and checkpoints.
///
/// The conformance suite in `ghostlight_actors::testing::store_conformance` says by example
/// what every implementation owes; run it against yours. In short:
///
/// * A [`Batch`] is all or nothing, over several journals. A commit is durable when it returns.
/// * An append that does not carry the journal's next sequence number, or the epoch of its
///   latest claim, is refused and changes nothing.
/// * After a failed write or sync the store refuses all work until it is opened again.
/// * What cannot be read is an error, never an empty answer.
pub trait Store: Send + Sync + 'static {
    /// Commits batches, in order, in one durable transaction. A refused batch (a stale epoch, a
    /// wrong sequence number, a state conflict) leaves no trace and does not hinder the others.
    fn commit(
        &self,
        batches: Vec<Batch>,
    ) -> impl Future<Output = Result<Vec<Result<Committed, StoreError>>, StoreError>> + Send;

    /// Makes this process the owner of a journal and raises its epoch. A journal that does not
    /// exist yet is made, empty. Without `take_over` a journal whose owner lives is refused as
    /// [`StoreError::Owned`]; the owner itself may claim again, which closes its old epoch.
    fn claim(
        &self,
        journal: JournalId,
        take_over: bool,
    ) -> impl Future<Output = Result<Claim, StoreError>> + Send;

    /// Makes this process the owner of a journal that belongs to another one, `above`, as
    /// [`claim`](Self::claim) does with `take_over`, but only while `epoch` is the epoch of
    /// `above`. A process that has lost `above` is refused as [`StoreError::Stale`], so it cannot
    /// take this journal back. Both journals are checked in one transaction; the default, for
    /// stores of one process, does not check `above`.
    fn claim_below(
        &self,
        journal: JournalId,
        above: JournalId,
        epoch: u64,
    ) -> impl Future<Output = Result<Claim, StoreError>> + Send {
        let _ = (above, epoch);
        self.claim(journal, true)
    }

    /// Makes this process the owner of several journals, each as [`claim`](Self::claim) does
    /// without `take_over`; one that is refused does not hinder the others. A store that can
    /// makes them durable together.
    fn claim_all(
        &self,
        journals: Vec<JournalId>,
    ) -> impl Future<Output = Result<Vec<Result<Claim, StoreError>>, StoreError>> + Send {
        async move {
            let mut claims = Vec::with_capacity(journals.len());
            for journal in journals {
                claims.push(self.claim(journal, false).await);
            }
            Ok(claims)
        }
    }

    /// The places in this list of the journals that belong to another living process, so that a
    /// [`claim`](Self::claim) would be refused now. Nothing is claimed. The default returns none.
    fn held_elsewhere(
        &self,
        journals: Vec<JournalId>,
    ) -> impl Future<Output = Result<Vec<bool>, StoreError>> + Send {
        async move { Ok(vec![false; journals.len()]) }
    }

    /// The first entries of several journals, at most so many of each; one that cannot be read
    /// does not hinder the others.
    fn read_all(
        &self,
        journals: Vec<JournalId>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Result<Vec<StoredLine>, StoreError>>, StoreError>> + Send
    {
        async move {
            let mut found = Vec::with_capacity(journals.len());
            for journal in journals {
                found.push(self.read(journal, 0, limit).await);
            }
            Ok(found)
        }
    }

    /// Entries of one journal, from this sequence number on, at most so many. An unknown journal
    /// has none.
    fn read(
        &self,
        journal: JournalId,
        from: u64,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<StoredLine>, StoreError>> + Send;

    /// Entries of a root run and all runs below it, after this position, in the order of their
    /// commits, at most so many.
    fn read_tree(
        &self,
        root: RunId,
        after: u64,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<TreeLine>, StoreError>> + Send;

    /// What the index knows of a run.
    fn run(&self, run: RunId) -> impl Future<Output = Result<Option<RunRow>, StoreError>> + Send;

    /// Runs, the latest begun first.
    fn runs(
        &self,
        filter: RunFilter,
    ) -> impl Future<Output = Result<Vec<RunRow>, StoreError>> + Send;

    /// Sessions that have entries, the one whose last entry came last at the front; of several at
    /// the same time by their names.
    fn sessions(
        &self,
        filter: SessionFilter,
    ) -> impl Future<Output = Result<Vec<SessionRow>, StoreError>> + Send;

    /// A value of shared state, and how often it was changed, also where it was deleted.
    fn state(
        &self,
        scope: String,
        key: String,
    ) -> impl Future<Output = Result<StateSlot, StoreError>> + Send;

    /// All values of a scope that are there, by key.
    fn scope(
        &self,
        scope: String,
    ) -> impl Future<Output = Result<Vec<(String, StateValue)>, StoreError>> + Send;

    /// A blob by its content hash.
    fn blob(
        &self,
        digest: Digest,
    ) -> impl Future<Output = Result<Option<Arc<[u8]>>, StoreError>> + Send;

    /// Puts something into a run's inbox, durably; anyone may, from any process. `false` when an
    /// item with this id was there before, taken or not.
    fn post(
        &self,
        run: RunId,
        item: InboxItem,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// What is in a run's inbox, was posted after this mark, and was not yet taken by a commit,
    /// oldest first, each with its own mark. Marks grow in the order in which items of a run can be
    /// read; a run that goes on reads only what is new, so it must cost nothing to have more before
    /// the mark.
    fn inbox_after(
        &self,
        run: RunId,
        after: u64,
    ) -> impl Future<Output = Result<Vec<(u64, InboxItem)>, StoreError>> + Send;

    /// What is in a run's inbox and was not yet taken by a commit, oldest first.
    fn inbox(&self, run: RunId) -> impl Future<Output = Result<Vec<InboxItem>, StoreError>> + Send {
        let items = self.inbox_after(run, 0);
        async { Ok(items.await?.into_iter().map(|(_, item)| item).collect()) }
    }

    /// The runs that have something in their inboxes that was posted after this mark, and the
    /// new mark. It is asked some ten times a second, so it must be cheap when nothing is new.
    fn posted(
        &self,
        after: u64,
    ) -> impl Future<Output = Result<(u64, Vec<RunId>), StoreError>> + Send;

    /// A session's checkpoint, if there is one.
    fn checkpoint(
        &self,
        session: SessionId,
    ) -> impl Future<Output = Result<Option<Vec<u8>>, StoreError>> + Send;

    /// Replaces or deletes a session's checkpoint. It is only a cache and need not be durable.
    fn put_checkpoint(
        &self,
        session: SessionId,
        bytes: Option<Vec<u8>>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The roots of trees all of whose runs have ended, the one that ended first at the front.
    /// The default knows of none, and nothing is ever deleted.
    fn expired(
        &self,
        expiry: Expiry,
    ) -> impl Future<Output = Result<Vec<RunRow>, StoreError>> + Send {
        let _ = expiry;
        async { Ok(Vec::new()) }
    }

    /// Deletes a tree all of whose runs have ended: index, journals, inboxes and working memory.
    /// From the first call on none of its journals can be read; as one call deletes at most so
    /// many rows, it is called until there is no more. What a crash left over is dealt with by
    /// the next call for any tree. A tree with a run that has not ended is refused as
    /// [`StoreError::Open`].
    fn delete_tree(
        &self,
        root: RunId,
        at: Timestamp,
        limit: usize,
    ) -> impl Future<Output = Result<Deleted, StoreError>> + Send {
        let _ = (root, at, limit);
        async { Ok(Deleted::default()) }
    }

    /// Deletes a session: its journal, its checkpoint, and the state and artifacts of its scope. Its
    /// runs stay; [`delete_tree`](Self::delete_tree) deletes those. From the first call on nothing
    /// of it can be read; as one call deletes at most so many rows, it is called until there is no
    /// more. It is refused as [`StoreError::Owned`] where another process that lives owns the session,
    /// and as [`StoreError::Open`] where one of its runs has not ended. The default refuses.
    fn delete_session(
        &self,
        session: SessionId,
        limit: usize,
    ) -> impl Future<Output = Result<Deleted, StoreError>> + Send {
        let _ = (session, limit);
        let place = self.description();
        async {
            let reason = "this store does not delete sessions".to_owned();
            Err(StoreError::Io { place, reason })
        }
    }

    /// When a run was deleted, if it is one of the last
    /// [`DELETIONS_KNOWN`](super::DELETIONS_KNOWN) that were.
    fn deleted(
        &self,
        run: RunId,
    ) -> impl Future<Output = Result<Option<Timestamp>, StoreError>> + Send {
        let _ = run;
        async { Ok(None) }
    }

    /// Lets go of blobs to which no entry refers any more, and tells how many there were.
    fn drop_blobs(&self) -> impl Future<Output = Result<u64, StoreError>> + Send {
        async { Ok(0) }
    }

    /// All that is in the store by name, as of one moment, for [`copy_store`](super::copy_store). The default
    /// refuses: such a store cannot be copied.
    fn inventory(&self) -> impl Future<Output = Result<Inventory, StoreError>> + Send {
        let place = self.description();
        async move {
            let reason = "a store of this kind does not tell what it holds".to_owned();
            Err(StoreError::Io { place, reason })
        }
    }

    /// Lets go of what this process owns. Nothing can be committed afterwards.
    fn close(&self) -> impl Future<Output = Result<(), StoreError>> + Send {
        async { Ok(()) }
    }

    /// What people call it, such as its file.
    fn description(&self) -> String;
}

/// Changes that are made together or not at all.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Batch {
    /// Entries, journal by journal.
    pub appends: Vec<Append>,
    /// Changes of shared state.
    pub writes: Vec<StateWrite>,
    /// Blobs, kept by their content hash. One that is there already is left as it is.
    pub blobs: Vec<(Digest, Arc<[u8]>)>,
    /// Inbox items that these entries deal with.
    pub taken: Vec<(RunId, String)>,
    /// Items for inboxes, which are put there as [`Store::post`] does.
    pub posts: Vec<(RunId, InboxItem)>,
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
    /// The sequence number of the first of these entries: how many the journal has.
    pub expected: u64,
    /// The epoch of the owner's claim.
    pub epoch: u64,
    /// The entries.
    pub lines: Vec<Line>,
    /// The run's row in the index as it is after these entries, when it changed. With
    /// `expected` 0 and `epoch` 1 it makes the run, owned by this process; a session's journal,
    /// which has no row, is made by such an append without one.
    pub row: Option<Box<RunRow>>,
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
        }
    }

    /// Sets the run's row in the index.
    #[must_use]
    pub fn row(mut self, row: RunRow) -> Self {
        self.row = Some(Box::new(row));
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
    /// [`StoreError::Newer`] for an entry of a later program, [`StoreError::Damaged`] for one that
    /// does not read.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The epoch that appends must carry.
    pub epoch: u64,
    /// How many entries the journal has.
    pub entries: u64,
}

/// What the index knows of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunRow {
    /// The run.
    pub run: RunId,
    /// The root of its tree.
    pub root: RunId,
    /// The run that delegated it.
    pub parent: Option<RunId>,
    /// The session that it belongs to.
    pub session: Option<SessionId>,
    /// The team.
    pub team: String,
    /// The agent that carries it.
    pub agent: String,
    /// The agents from the root's to this one.
    pub path: Vec<String>,
    /// Its status.
    pub status: RunStatus,
    /// The first characters of its input, for lists.
    pub title: String,
    /// When it must be woken, if it sleeps.
    pub wake_at: Option<Timestamp>,
    /// When it began.
    pub started_at: Timestamp,
    /// When its last entry was written.
    pub updated_at: Timestamp,
}

impl RunRow {
    /// The row of a root run that begins now.
    pub fn new(run: RunId, team: impl Into<String>, agent: impl Into<String>) -> Self {
        let agent = agent.into();
        Self {
            run,
            root: run,
            parent: None,
            session: None,
            team: team.into(),
            path: vec![agent.clone()],
            agent,
            status: RunStatus::Running,
            title: String::new(),
            wake_at: None,
            started_at: Timestamp::default(),
            updated_at: Timestamp::default(),
        }
    }

    /// Whether the run goes on by itself: it runs or is being cancelled, or waits until a time.
    pub fn is_awake(&self) -> bool {
        match self.status {
            RunStatus::Running | RunStatus::Cancelling => true,
            RunStatus::Waiting => self.wake_at.is_some(),
            _ => false,
        }
    }
}

/// A filter for lists of runs.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RunFilter {
    /// Only runs that have not ended.
    pub open: bool,
    /// Only runs that nobody delegated: the roots of trees, and what they go on in.
    pub roots: bool,
    /// Only runs that go on by themselves: see [`RunRow::is_awake`].
    pub awake: bool,
    /// Only runs of this session.
    pub session: Option<SessionId>,
    /// Only runs whose id begins with these hexadecimal digits.
    pub prefix: Option<String>,
    /// Only runs of this tree.
    pub root: Option<RunId>,
    /// Only runs of this team.
    pub team: Option<String>,
    /// Only runs with one of these statuses; an empty list takes any.
    pub statuses: Vec<RunStatus>,
    /// Only runs that began at this time or later.
    pub since: Option<Timestamp>,
    /// Only runs after this one in the order of the list: the next page. Where it was deleted since, those that began
    /// before it.
    pub after: Option<RunRow>,
    /// The most rows; 0 means no bound.
    pub limit: usize,
}

/// A value of shared state with its version.
#[derive(Clone, Debug, PartialEq)]
pub struct StateValue {
    /// The value.
    pub value: Value,
    /// How often it was changed; 1 after the first time.
    pub version: u64,
}

/// A place of shared state: the value that is there, if one is, and how often it was changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StateSlot {
    /// The value; `None` where it was deleted or never written, which is not the value `null`.
    pub value: Option<Value>,
    /// How often it was written or deleted; 0 where it never was. It does not begin anew with a
    /// deletion, so that a later value is never taken for an earlier one.
    pub version: u64,
}

impl StateSlot {
    /// The value, if it is there.
    pub fn present(self) -> Option<StateValue> {
        let version = self.version;
        self.value.map(|value| StateValue { value, version })
    }
}

/// A change of shared state.
#[derive(Clone, Debug)]
pub struct StateWrite {
    /// The scope, such as `user:42` or a run's working memory.
    pub scope: String,
    /// The key of the value.
    pub key: String,
    /// The new value; `None` deletes it.
    pub value: Option<Box<RawValue>>,
    /// What must be there before.
    pub expected: Expected,
}

/// What must be there before a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// Anything or nothing: the last write wins.
    #[default]
    Any,
    /// Nothing: it was deleted or never written.
    Absent,
    /// The value, or its absence, that this version left: see [`StateSlot::version`].
    Version(u64),
    /// Anything or nothing. The write copies a value: the copy has the version of its source, or
    /// the next version here where that is higher.
    Copy(u64),
}

impl Expected {
    /// The version that a write makes of a value that has this one.
    pub fn next(self, version: u64) -> u64 {
        let next = version.saturating_add(1);
        match self {
            Self::Copy(copied) => copied.max(next),
            _ => next,
        }
    }
}
