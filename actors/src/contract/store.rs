//! Where journals are kept: the parts of a store.

use std::sync::Arc;

use super::{
    Batch, BoxFuture, Claim, Committed, DynDeletion, DynMembership, Inventory, MailboxItem, Notice,
    RunFilter, RunRow, SessionFilter, SessionRow, StateSlot, StateValue, StoreError, StoredLine,
    TreeLine,
};
use crate::vocabulary::{Digest, JournalId, RunId, SessionId};

/// A durable store. Its parts are traits: what every store has is required ([`Journals`], [`State`], [`Mailboxes`],
/// [`Index`]), and what some cannot do is asked for ([`deletion`](Self::deletion), [`membership`](Self::membership)).
/// Each is implemented with plain `async fn`; [`StoreHandle`](super::StoreHandle) keeps a store of any type. A store
/// around another one is a [`StoreWrapper`](super::StoreWrapper).
///
/// The conformance suite in `ghostlight_actors::testing::store_conformance` holds every promise of a store as a test;
/// run it against your implementation. In short:
///
/// * A [`Batch`] is all or nothing, over several journals. A commit is durable when it returns.
/// * An append that does not carry the journal's next sequence number, or the epoch of its
///   latest claim, is refused and changes nothing.
/// * After a failed write or sync the store refuses all work until it is opened again.
/// * What cannot be read is an error, never an empty answer.
///
/// A method with a default is derived from others of its part, and promises nothing less than they do.
pub trait Store: Journals + State + Mailboxes + Index {
    /// Releases everything that this process owns. Nothing can be committed afterwards.
    fn close(&self) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The store's name for people, such as its file.
    fn description(&self) -> String;

    /// Deletes what nobody needs any more: `Some(self)` from a store that implements
    /// [`Deletion`](super::Deletion), `None` from one that keeps everything for ever. A store that is asked to delete and
    /// cannot is refused as [`StoreError::Unsupported`].
    fn deletion(&self) -> Option<&dyn DynDeletion>;

    /// Lists the processes that share the store: `Some(self)` from a store that implements
    /// [`Membership`](super::Membership), `None` from one whose processes cannot be told of each other.
    fn membership(&self) -> Option<&dyn DynMembership>;
}

/// The journals of a store, and who may write to them.
pub trait Journals: Send + Sync + 'static {
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
    /// take this journal back. Both journals are checked in one
    /// transaction.
    fn claim_below(
        &self,
        journal: JournalId,
        above: JournalId,
        epoch: u64,
    ) -> impl Future<Output = Result<Claim, StoreError>> + Send;

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
    /// asks before each effect. A store whose owners stay owners until they end has one term that never ends.
    fn term(&self) -> Option<u64>;

    /// Waits until a term has begun, and returns it if this process still owns the journal with this epoch. A run asks
    /// before an effect in another term than that of its last append. It is refused as [`StoreError::Stale`] when
    /// another process has claimed the journal.
    fn confirm(
        &self,
        journal: JournalId,
        epoch: u64,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// Tells for each journal of the list whether another living process owns it, so that a [`claim`](Self::claim)
    /// would be refused now. Nothing is claimed.
    fn held_elsewhere(
        &self,
        journals: Vec<JournalId>,
    ) -> impl Future<Output = Result<Vec<bool>, StoreError>> + Send;

    /// At most `limit` entries of one journal, from this sequence number on. An unknown journal has none.
    fn read(
        &self,
        journal: JournalId,
        from: u64,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<StoredLine>, StoreError>> + Send;

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

    /// At most `limit` entries of a root run and all runs below it, after this position, in the order of their
    /// commits.
    fn read_tree(
        &self,
        root: RunId,
        after: u64,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<TreeLine>, StoreError>> + Send;
}

/// The data that a store keeps beside its journals: shared values, blobs and checkpoints.
pub trait State: Send + Sync + 'static {
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
}

/// The items that come to runs from outside.
pub trait Mailboxes: Send + Sync + 'static {
    /// Puts an item into the mailbox of a run or a session, durably. Any process may do so, also before there is such a
    /// run or session. Returns `false` when an item with this id was posted there before, whether or not it was taken
    /// since.
    fn post(
        &self,
        mailbox: JournalId,
        item: MailboxItem,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// The items of a mailbox that were posted after this mark and that no commit has taken, oldest first, each with its
    /// own mark. The marks of a mailbox grow in the order in which its items become readable. A run asks only for what
    /// is new, so the number of items before the mark must not affect the cost.
    fn mailbox_after(
        &self,
        mailbox: JournalId,
        after: u64,
    ) -> impl Future<Output = Result<Vec<(u64, MailboxItem)>, StoreError>> + Send;

    /// The items of a mailbox that no commit has taken, oldest first.
    fn mailbox(
        &self,
        mailbox: JournalId,
    ) -> impl Future<Output = Result<Vec<MailboxItem>, StoreError>> + Send {
        let items = self.mailbox_after(mailbox, 0);
        async { Ok(items.await?.into_iter().map(|(_, item)| item).collect()) }
    }

    /// The mailboxes that got an item after this mark, and the new mark. A System calls this some forty times a
    /// second, so it must be cheap when nothing is new.
    fn posted(
        &self,
        after: u64,
    ) -> impl Future<Output = Result<(u64, Vec<JournalId>), StoreError>> + Send;

    /// Waits for the next notice of this kind. Each one counts that is told after this call, also before the future is
    /// polled: a caller that asks for news before it looks misses nothing. `None` where the store tells none. A
    /// notice may be lost, so a System looks anyway, only less often: once a second. See [`News`](super::News).
    fn news(&self, of: Notice) -> Option<BoxFuture<'static, ()>>;
}

/// The part of a store that is listed without reading its journals.
pub trait Index: Send + Sync + 'static {
    /// The index's knowledge of a run.
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

    /// The names of everything in the store at one moment, for [`copy_store`](super::copy_store).
    fn inventory(&self) -> impl Future<Output = Result<Inventory, StoreError>> + Send;
}
