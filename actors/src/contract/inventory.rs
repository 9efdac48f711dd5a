//! The contents of a store, by name.

use crate::vocabulary::{Digest, JournalId};

/// The names of everything that a store holds, including what its other listings leave out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inventory {
    /// Each journal that was ever claimed, and the epoch of its latest claim, by the journal's text.
    pub journals: Vec<(JournalId, u64)>,
    /// The scope, key and version of each value of shared state, deleted ones included.
    pub values: Vec<(String, String, u64)>,
    /// The id of each mailbox item in the order of posting, taken ones included.
    pub items: Vec<(JournalId, String)>,
    /// The hashes of the blobs, in their order.
    pub blobs: Vec<Digest>,
}

impl Inventory {
    /// Whether the store holds nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
