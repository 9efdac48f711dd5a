//! The format of journals.

/// The format of journals that this program writes, and the latest that it reads.
///
/// It is raised when an older program would not read a journal, or would read it differently: with
/// a new entry, a new field of an entry, or another meaning of one. A run says it with its start
/// and with each process that takes it up, a session with each turn. What has a later format, or
/// holds something unknown, is left alone:
/// [`StoreError::Newer`](crate::contract::StoreError::Newer).
pub const FORMAT: u32 = 5;

/// The format from which on each call of a step has an entry that says how it was answered.
pub(crate) const TELLS_OF_CALLS: u32 = 3;

/// The format from which on no call of an approver names its run in its arguments: they are compared
/// in replay, and a fork is another run.
pub(crate) const APPROVERS_HAVE_RUN_IN_CONTEXT: u32 = 4;

/// The format from which on a transfer is held to the schema that its model was shown.
pub(crate) const TRANSFERS_FIT_THEIR_SCHEMA: u32 = 5;

/// The format from which on what agents came to that a model made is kept in the working memory.
pub(crate) const MADE_AGENTS_ARE_KEPT: u32 = 5;

/// The format of entries that say none.
pub(super) fn first() -> u32 {
    1
}

/// Whether an entry need not say its format.
pub(super) fn is_first(format: &u32) -> bool {
    *format == first()
}
