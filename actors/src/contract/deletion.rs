//! Deletion of ended trees and of sessions.

use super::{RunRow, StoreError};
use crate::vocabulary::{RunId, SessionId, Timestamp};

/// How many of the most recently deleted runs a store remembers.
pub const DELETIONS_KNOWN: u64 = 10_000;

/// Deletes ended trees, sessions and what nothing refers to any more. A store that deletes nothing says so with
/// [`Store::deletion`](super::Store::deletion).
pub trait Deletion: Send + Sync + 'static {
    /// The roots of trees whose runs have all ended, the tree that ended first at the front.
    fn expired(
        &self,
        expiry: Expiry,
    ) -> impl Future<Output = Result<Vec<RunRow>, StoreError>> + Send;

    /// Deletes a tree whose runs have all ended: index, journals, mailboxes and working memory. From the first call on
    /// none of its runs can be read. One call deletes at most `limit` entries; call it until nothing is left. The
    /// next call for any tree finishes a deletion that a crash interrupted. A tree with a run that has not ended is
    /// refused as [`StoreError::Open`].
    fn delete_tree(
        &self,
        root: RunId,
        at: Timestamp,
        limit: usize,
    ) -> impl Future<Output = Result<Deleted, StoreError>> + Send;

    /// Deletes a session: its journal, its mailbox, its checkpoint, and the state and artifacts of its scope. Its runs stay;
    /// [`delete_tree`](Self::delete_tree) deletes those. From the first call on nothing of the session can be read.
    /// One call deletes at most `limit` rows; call it until nothing is left. It is refused as [`StoreError::Owned`]
    /// where another living process owns the session, and as [`StoreError::Open`] where one of its runs has not
    /// ended.
    fn delete_session(
        &self,
        session: SessionId,
        limit: usize,
    ) -> impl Future<Output = Result<Deleted, StoreError>> + Send;

    /// When a run was deleted, if it is one of the last
    /// [`DELETIONS_KNOWN`] that were.
    fn deleted(
        &self,
        run: RunId,
    ) -> impl Future<Output = Result<Option<Timestamp>, StoreError>> + Send;

    /// Deletes the blobs to which nothing refers any more, and returns their number. The first entry of a run refers to one
    /// ([`Line::blob`](super::Line::blob)), and so does each value of the scopes that begin with
    /// [`artifact_scopes::REFERRING`](super::artifact_scopes::REFERRING).
    fn drop_blobs(&self) -> impl Future<Output = Result<u64, StoreError>> + Send;
}

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

/// The result of a call of [`Deletion::delete_tree`] or
/// [`Deletion::delete_session`] deleted.
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
