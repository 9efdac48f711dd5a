//! The promises of every [`Store`], as checks that anyone can run against an implementation.
//!
//! ```
//! use ghostlight_actors::{
//!     contract::StoreError,
//!     testing::{InMemoryStore, store_conformance::{self, Place}},
//! };
//!
//! struct Memory(InMemoryStore);
//!
//! impl Place for Memory {
//!     type Store = InMemoryStore;
//!
//!     async fn open(&self) -> Result<InMemoryStore, StoreError> {
//!         Ok(self.0.another_process())
//!     }
//!
//!     async fn crash(&self, store: InMemoryStore) {
//!         store.crash();
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! store_conformance::check(async || Memory(InMemoryStore::new())).await.unwrap();
//! # });
//! ```

mod deletion;
mod entries;
mod files;
mod index;
mod inventory;
mod mailbox;
#[cfg(test)]
mod mutants;
mod ownership;
mod state;

use crate::{
    contract::{
        Append, Batch, Claim, Committed, DynDeletion, ItemBody, Line, MailboxItem, RunRow, Store,
        StoreError, StoredLine,
    },
    vocabulary::{JournalId, RunId, SessionId, Timestamp},
};

/// Where one store lives, such as a file. Each check gets a fresh one.
pub trait Place {
    /// The store that is checked.
    type Store: Store;

    /// Opens the store at this place, as a process of its own: what one opened store owns is not owned by another,
    /// though both may be open at once.
    fn open(&self) -> impl Future<Output = Result<Self::Store, StoreError>>;

    /// Ends the process that this store stands for, without [`Store::close`]. The default drops
    /// the store.
    fn crash(&self, store: Self::Store) -> impl Future<Output = ()> {
        async move { drop(store) }
    }
}

/// A promise that the store does not keep.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the store breaks the promise that {promise}: {found}")]
pub struct Breach {
    /// The promise, in words.
    pub promise: &'static str,
    /// The action of the store.
    pub found: String,
}

/// The result of a check. The list below turns a `String` into a [`Breach`].
type Checked = Result<(), Found>;

#[derive(Debug)]
enum Found {
    Breach(String),
    /// The store has no such part, so it promises nothing of it.
    NoSuchPart,
}

impl From<StoreError> for Found {
    fn from(error: StoreError) -> Self {
        Self::Breach(format!("an unexpected error ({error})"))
    }
}

impl From<String> for Found {
    fn from(text: String) -> Self {
        Self::Breach(text)
    }
}

/// Goes on when this holds; otherwise the check ends with this finding.
macro_rules! ensure {
    ($holds:expr, $($found:tt)+) => {
        if !$holds {
            return Err($crate::testing::store_conformance::Found::Breach(format!($($found)+)));
        }
    };
}

/// Goes on when both are equal; otherwise the check ends with both.
macro_rules! same {
    ($found:expr, $wanted:expr, $what:expr) => {{
        let (found, wanted) = (&$found, &$wanted);
        ensure!(
            found == wanted,
            "{}: {found:?} instead of {wanted:?}",
            $what
        );
    }};
}

/// Goes on when this is refused with an error of this shape.
macro_rules! refused {
    ($result:expr, $shape:pat $(if $condition:expr)?, $what:expr) => {{
        let result = $result;
        ensure!(
            matches!(&result, Err($shape) $(if $condition)?),
            "{}: {result:?}",
            $what
        );
    }};
}

use {ensure, refused, same};

macro_rules! promises {
    ($($promise:literal => $check:path;)*) => {
        /// Every promise, in the words of a [`Breach`].
        pub const PROMISES: &[&str] = &[$($promise),*];

        /// Runs every check, each against a fresh place. What a store deletes is left out where it has no
        /// [`Deletion`](crate::contract::Deletion).
        ///
        /// # Errors
        /// The first promise that the store does not keep.
        pub async fn check<P: Place>(fresh: impl AsyncFn() -> P) -> Result<(), Breach> {
            $(
                let place = fresh().await;
                let checked: Checked = $check(&place).await;
                if let Err(Found::Breach(found)) = checked {
                    return Err(Breach { promise: $promise, found });
                }
            )*
            Ok(())
        }
    };
}

promises! {
    "what was never written is empty, and no error" => entries::unknown_is_empty;
    "entries are read as they were committed, from any place on" => entries::read_as_committed;
    "entries hold any text of any length" => entries::any_text;
    "a batch is all or nothing over several journals" => entries::batch_is_atomic;
    "an append with a wrong sequence number is refused and changes nothing"
        => entries::wrong_sequence;
    "a refused batch does not hinder others in the same commit" => entries::refusal_is_contained;
    "positions follow one by one in the order of batches" => entries::positions;
    "a tree is read in the order of its commits" => entries::tree_order;
    "journals that are read together are each as if read alone" => entries::read_together;
    "a batch may be large" => entries::large_batch;
    "commits from many tasks at once all happen" => entries::concurrent_commits;
    "everything outlives the process" => entries::outlives_the_process;
    "a claim makes the journal and each later one raises its epoch" => ownership::claims;
    "a stale epoch is refused and changes nothing" => ownership::stale_epoch;
    "a journal that nobody claimed or made takes no entries" => ownership::unclaimed;
    "a journal whose owner lives is refused" => ownership::living_owner;
    "taking over fences the former owner" => ownership::take_over;
    "a process that asks is told whether a journal is still its own" => ownership::confirmed;
    "what a dead process owned is free at once" => ownership::dead_owner;
    "a run is made once, and owned by who made it" => ownership::made_once;
    "a session's journal is made once, and owned by who made it" => ownership::session_made_once;
    "a closed store refuses work and owns nothing" => ownership::closing;
    "claims that are made together are each as if made alone" => ownership::claims_together;
    "which journals a claim would be refused is told without claiming" => ownership::held_elsewhere;
    "a run's row is the latest that was committed" => index::rows;
    "runs are filtered, the latest begun first" => index::filters;
    "runs that go on by themselves are told from those that wait" => index::awake;
    "sessions are listed with filters and by pages, the latest at the front" => index::sessions;
    "values carry versions that never come again" => state::versions;
    "a write that expects something else is refused with its whole batch" => state::conflicts;
    "writes of one batch see each other" => state::staged_writes;
    "a copied value keeps its version" => state::copies;
    "a scope lists its values by key" => state::scopes;
    "blobs are kept by their hash" => state::blobs;
    "a journal that goes with another is claimed with its epoch" => ownership::below;
    "checkpoints are replaced and deleted" => state::checkpoints;
    "a mailbox item counts once, also after it was taken" => mailbox::counted_once;
    "items are taken with the batch that deals with them" => mailbox::taken_with_batch;
    "items are posted with the batch that tells of them" => mailbox::posted_with_batch;
    "a mailbox keeps the order in which it was filled" => mailbox::order;
    "marks tell which mailboxes have news" => mailbox::marks;
    "a mailbox is read on from after a mark" => mailbox::read_on;
    "an ended tree is deleted as a whole, and nothing else is" => deletion::whole_trees;
    "a deletion gives no mark a second time" => deletion::marks;
    "the mailbox of a run that goes on in another journal stays until that run has ended" => deletion::going_on;
    "a tree with a run that has not ended is not deleted" => deletion::open_trees;
    "trees that may go are told, the one that ended first at the front" => deletion::expired;
    "blobs go with the last run that is pinned to them" => deletion::blobs;
    "the contents of artifacts stay as long as a version refers to them" => deletion::artifacts;
    "a session is deleted with its state and artifacts, and nothing else is" => deletion::sessions;
    "a session that another process owns or in which a run is carried is not deleted" => deletion::open_sessions;
    "the files in entries stay as long as a session or a tree has them" => files::kept;
    "all that is held is listed by name, what was taken or deleted too" => inventory::names;
    "anyone may post while another process owns the run" => mailbox::from_outside;
}

/// A run id for a check; runs of different numbers differ in their first digits.
fn run(number: u8) -> RunId {
    RunId::from_random(u128::from(number) << 120 | 0x0123_4567_89ab_cdef)
}

fn session(key: &str) -> SessionId {
    SessionId {
        team: "team".into(),
        key: key.into(),
    }
}

/// Entries; a store takes their texts as they are.
fn lines(texts: &[&str]) -> Vec<Line> {
    let line = |(number, text): (usize, &&str)| Line {
        at: Timestamp(1_000 + number as u64),
        text: serde_json::Value::from(*text).to_string().into(),
    };
    texts.iter().enumerate().map(line).collect()
}

fn row(number: u8) -> RunRow {
    let mut row = RunRow::new(run(number), "team", "agent");
    row.started_at = Timestamp(1_000 + u64::from(number));
    row.updated_at = row.started_at;
    row
}

/// The batch that makes a run with these entries.
fn making(row: RunRow, texts: &[&str]) -> Batch {
    Batch::of(Append::new(row.run, 0, 1, lines(texts)).row(row))
}

/// Entries for a run that this process made and nobody has claimed since.
fn appending(number: u8, expected: u64, texts: &[&str]) -> Batch {
    Batch::of(Append::new(run(number), expected, 1, lines(texts)))
}

/// An item for a mailbox.
fn item(id: &str, at: u64) -> MailboxItem {
    let body = ItemBody::Message {
        name: "note".to_owned(),
        value: serde_json::json!({ "id": id }),
    };
    MailboxItem::new(id, Timestamp(at), body)
}

/// Commits one batch.
async fn commit(store: &impl Store, batch: Batch) -> Result<Committed, StoreError> {
    let told = store.commit(vec![batch]).await?;
    told.into_iter().next().unwrap_or(Err(StoreError::Io {
        place: store.description(),
        reason: "commit told nothing of its batch".to_owned(),
    }))
}

/// The part of a store that deletes.
fn deletion(store: &impl Store) -> Result<&dyn DynDeletion, Found> {
    store.deletion().ok_or(Found::NoSuchPart)
}

async fn claim(store: &impl Store, journal: impl Into<JournalId>) -> Result<Claim, StoreError> {
    store.claim(journal.into(), false).await
}

/// All entries of a journal; their sequence numbers are checked on the way.
async fn read(store: &impl Store, journal: impl Into<JournalId>) -> Result<Vec<StoredLine>, Found> {
    let found = store.read(journal.into(), 0, usize::MAX).await?;
    let numbers: Vec<u64> = found.iter().map(|line| line.sequence).collect();
    let wanted: Vec<u64> = (0..found.len() as u64).collect();
    same!(numbers, wanted, "sequence numbers");
    let rising = found.is_sorted_by(|a, b| a.position < b.position);
    ensure!(rising, "positions do not rise: {found:?}");
    Ok(found)
}

/// The texts of a journal's entries.
async fn texts(store: &impl Store, journal: impl Into<JournalId>) -> Result<Vec<String>, Found> {
    let found = read(store, journal).await?;
    found.iter().map(|stored| decoded(&stored.line)).collect()
}

fn decoded(line: &Line) -> Result<String, Found> {
    serde_json::from_str(&line.text)
        .map_err(|error| Found::Breach(format!("{:?}: {error}", line.text)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::testing::InMemoryStore;

    struct Memory(InMemoryStore);

    impl Place for Memory {
        type Store = InMemoryStore;

        async fn open(&self) -> Result<InMemoryStore, StoreError> {
            Ok(self.0.another_process())
        }

        async fn crash(&self, store: InMemoryStore) {
            store.crash();
        }
    }

    #[tokio::test]
    async fn the_store_in_memory_keeps_every_promise() {
        check(async || Memory(InMemoryStore::new())).await.unwrap();
    }
}
