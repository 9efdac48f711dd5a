//! The promises of every [`Store`](crate::contract::Store), as checks that anyone can run against an implementation.
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

mod checking;
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

pub use checking::Place;
use checking::{Checked, Found};

/// A promise that the store does not keep.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the store breaks the promise that {promise}: {found}")]
pub struct Breach {
    /// The promise, in words.
    pub promise: &'static str,
    /// The action of the store.
    pub found: String,
}

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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::{contract::StoreError, testing::InMemoryStore};

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
