//! Deletion of ended trees.

use crate::vocabulary::Timestamp;

/// How many of the most recently deleted runs a store remembers.
pub const DELETIONS_KNOWN: u64 = 10_000;

/// Which ended trees may be deleted: those that are not among the latest, and whose root ended
/// long enough ago.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Expiry {
    /// Only trees whose root ended before this; any, when left out.
    pub ended_before: Option<Timestamp>,
    /// How many of the trees that ended last are kept.
    pub keep: usize,
    /// The most trees that are returned; 0 means no bound.
    pub limit: usize,
}

/// What a call of [`Store::delete_tree`](super::Store::delete_tree) or
/// [`Store::delete_session`](super::Store::delete_session) deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deleted {
    /// How many runs.
    pub runs: u64,
    /// How many entries.
    pub entries: u64,
    /// Whether something is left to be deleted.
    pub more: bool,
}
