//! Where journals are kept.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    BoxFuture, Deleted, Expiry, Inventory, Line, MailboxItem, Notice, RunFilter, RunRow,
    SessionFilter, SessionRow, StateSlot, StateValue, StateWrite, StoreError,
};
use crate::vocabulary::{Digest, Entry, JournalId, RunId, SessionId, Timestamp};

/// A durable store of journals, state, mailboxes and checkpoints.
///
/// The conformance suite in `ghostlight_actors::testing::store_conformance` holds every promise of a store as a test;
/// run it against your implementation. In short:
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
    ///
    /// No commit of the owner is durable before its claim is. A claim may be lost only together with every process that
    /// could have the journal, as when power fails and the store is a file of that machine.
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

    /// Makes this process the owner of several journals, each as [`claim`](Self::claim) does without `take_over`. A
    /// refused claim does not hinder the others. A store should make all of them durable together if it can.
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

    /// The number of the term for which this process surely owns all that it has claimed; `None` while it is not sure,
    /// since a lease has run out and others may claim its journals. Each time it is sure again, a new term begins. A run
    /// asks before each effect. By default one term never ends.
    fn term(&self) -> Option<u64> {
        Some(0)
    }

    /// Waits until a term has begun, and returns it if this process still owns the journal with this epoch. A run asks
    /// before an effect in another term than that of its last append. It is refused as [`StoreError::Stale`] when
    /// another process has claimed the journal.
    fn confirm(
        &self,
        journal: JournalId,
        epoch: u64,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send {
        let _ = (journal, epoch);
        async { Ok(0) }
    }

    /// Tells for each journal of the list whether another living process owns it, so that a [`claim`](Self::claim)
    /// would be refused now. Nothing is claimed. The default says `false` for all.
    fn held_elsewhere(
        &self,
        journals: Vec<JournalId>,
    ) -> impl Future<Output = Result<Vec<bool>, StoreError>> + Send {
        async move { Ok(vec![false; journals.len()]) }
    }

    /// Tells the other processes which teams this one carries, in place of what it told before. The default, for
    /// stores that do not list processes, tells nobody.
    fn announce(
        &self,
        carried: Vec<CarriedTeam>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        let _ = carried;
        async { Ok(()) }
    }

    /// Tells the other processes where the server of this one is reached, such as `http://10.0.0.1:8080`; `None` where it
    /// is not. The default, for stores that do not list processes, tells nobody.
    fn advertise(
        &self,
        address: Option<String>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        let _ = address;
        async { Ok(()) }
    }

    /// Where the server of the living other process is reached that owns a journal, if there is such a process and it told
    /// so. The default is `None`.
    fn address_of(
        &self,
        journal: JournalId,
    ) -> impl Future<Output = Result<Option<String>, StoreError>> + Send {
        let _ = journal;
        async { Ok(None) }
    }

    /// The first entries of several journals, at most `limit` of each. An unreadable journal does not hinder the
    /// others.
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

    /// At most `limit` entries of one journal, from this sequence number on. An unknown journal has none.
    fn read(
        &self,
        journal: JournalId,
        from: u64,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<StoredLine>, StoreError>> + Send;

    /// At most `limit` entries of a root run and all runs below it, after this position, in the order of their
    /// commits.
    fn read_tree(
        &self,
        root: RunId,
        after: u64,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<TreeLine>, StoreError>> + Send;

    /// What the index knows of a run.
    fn run(&self, run: RunId) -> impl Future<Output = Result<Option<RunRow>, StoreError>> + Send;

    /// Runs, the one that began last at the front.
    fn runs(
        &self,
        filter: RunFilter,
    ) -> impl Future<Output = Result<Vec<RunRow>, StoreError>> + Send;

    /// Sessions that have entries, the one with the latest entry at the front. Sessions with entries of the same time
    /// are ordered by name.
    fn sessions(
        &self,
        filter: SessionFilter,
    ) -> impl Future<Output = Result<Vec<SessionRow>, StoreError>> + Send;

    /// A value of shared state and the number of its changes, deletions included.
    fn state(
        &self,
        scope: String,
        key: String,
    ) -> impl Future<Output = Result<StateSlot, StoreError>> + Send;

    /// All values of a scope that are not deleted, by key.
    fn scope(
        &self,
        scope: String,
    ) -> impl Future<Output = Result<Vec<(String, StateValue)>, StoreError>> + Send;

    /// A blob by its content hash.
    fn blob(
        &self,
        digest: Digest,
    ) -> impl Future<Output = Result<Option<Arc<[u8]>>, StoreError>> + Send;

    /// Puts an item into a run's mailbox, durably. Any process may do so. Returns `false` when an item with this id was
    /// posted before, whether or not it was taken since.
    fn post(
        &self,
        run: RunId,
        item: MailboxItem,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// The items of a run's mailbox that were posted after this mark and that no commit has taken, oldest first, each
    /// with its own mark. The marks of a run's items grow in the order in which the items become readable. A run asks
    /// only for what is new, so the number of items before the mark must not affect the cost.
    fn mailbox_after(
        &self,
        run: RunId,
        after: u64,
    ) -> impl Future<Output = Result<Vec<(u64, MailboxItem)>, StoreError>> + Send;

    /// The items of a run's mailbox that no commit has taken, oldest first.
    fn mailbox(
        &self,
        run: RunId,
    ) -> impl Future<Output = Result<Vec<MailboxItem>, StoreError>> + Send {
        let items = self.mailbox_after(run, 0);
        async { Ok(items.await?.into_iter().map(|(_, item)| item).collect()) }
    }

    /// The runs whose mailboxes got an item after this mark, and the new mark. A System calls this some forty times a
    /// second, so it must be cheap when nothing is new.
    fn posted(
        &self,
        after: u64,
    ) -> impl Future<Output = Result<(u64, Vec<RunId>), StoreError>> + Send;

    /// Waits for the next notice of this kind. Each one counts that is told after this call, also before the future is
    /// polled: a caller that asks for news before it looks misses nothing. `None` where none are told, as by default. A
    /// notice may be lost, so a System looks anyway, only less often: once a second. See [`News`](super::News).
    fn news(&self, of: Notice) -> Option<BoxFuture<'static, ()>> {
        let _ = of;
        None
    }

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

    /// The roots of trees whose runs have all ended, the tree that ended first at the front. By default there are
    /// none, so nothing is ever deleted.
    fn expired(
        &self,
        expiry: Expiry,
    ) -> impl Future<Output = Result<Vec<RunRow>, StoreError>> + Send {
        let _ = expiry;
        async { Ok(Vec::new()) }
    }

    /// Deletes a tree whose runs have all ended: index, journals, mailboxes and working memory. From the first call on
    /// none of its journals can be read. One call deletes at most `limit` rows; call it until nothing is left. The
    /// next call for any tree finishes a deletion that a crash interrupted. A tree with a run that has not ended is
    /// refused as [`StoreError::Open`].
    fn delete_tree(
        &self,
        root: RunId,
        at: Timestamp,
        limit: usize,
    ) -> impl Future<Output = Result<Deleted, StoreError>> + Send {
        let _ = (root, at, limit);
        async { Ok(Deleted::default()) }
    }

    /// Deletes a session: its journal, its checkpoint, and the state and artifacts of its scope. Its runs stay;
    /// [`delete_tree`](Self::delete_tree) deletes those. From the first call on nothing of the session can be read.
    /// One call deletes at most `limit` rows; call it until nothing is left. It is refused as [`StoreError::Owned`]
    /// where another living process owns the session, and as [`StoreError::Open`] where one of its runs has not
    /// ended. The default refuses.
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

    /// Deletes the blobs to which nothing refers any more, and returns their number.
    fn drop_blobs(&self) -> impl Future<Output = Result<u64, StoreError>> + Send {
        async { Ok(0) }
    }

    /// The names of everything in the store at one moment, for [`copy_store`](super::copy_store). By default a store
    /// refuses and cannot be copied.
    fn inventory(&self) -> impl Future<Output = Result<Inventory, StoreError>> + Send {
        let place = self.description();
        async move {
            let reason = "a store of this kind does not tell what it holds".to_owned();
            Err(StoreError::Io { place, reason })
        }
    }

    /// Releases everything that this process owns. Nothing can be committed afterwards.
    fn close(&self) -> impl Future<Output = Result<(), StoreError>> + Send {
        async { Ok(()) }
    }

    /// The store's name for people, such as its file.
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
    /// Blobs, kept by their content hash. A blob that the store already has stays as it is.
    pub blobs: Vec<(Digest, Arc<[u8]>)>,
    /// Mailbox items that these entries process.
    pub taken: Vec<(RunId, String)>,
    /// Items for mailboxes, which are put there as [`Store::post`] does.
    pub posts: Vec<(RunId, MailboxItem)>,
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
    /// [`StoreError::Newer`] for an entry of a later program, [`StoreError::Damaged`] for one that cannot be read.
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

/// A team that a process carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarriedTeam {
    /// Its name.
    pub team: String,
    /// The version of its code: see [`TeamSpec::version`](crate::definition::TeamSpec::version).
    pub version: u32,
}
