//! The format of journals.

/// The format of journals that this program writes, and the latest that it reads.
///
/// The number grows when an older program could not read a journal, or would read it differently: with a new entry, a
/// new field of an entry, or a new meaning of one. A run records it at its start and with each process that takes it
/// over, a session with each turn. A journal of a later format, or with something unknown in it, is left alone:
/// [`StoreError::Newer`](crate::contract::StoreError::Newer).
pub const FORMAT: u32 = 7;

/// From this format on, each call of a step has an entry that says how it was answered.
pub(crate) const TELLS_OF_CALLS: u32 = 3;

/// From this format on, no call of an approver names its run in its arguments: replay compares arguments, and a fork
/// is another run.
pub(crate) const APPROVERS_HAVE_RUN_IN_CONTEXT: u32 = 4;

/// From this format on, a transfer must fit the schema that its model was shown.
pub(crate) const TRANSFERS_FIT_THEIR_SCHEMA: u32 = 5;

/// From this format on, the results of agents that a model made are kept in the working memory.
pub(crate) const MADE_AGENTS_ARE_KEPT: u32 = 5;

/// From this format on, what people said to a run is heard before its next model request.
pub(crate) const WORDS_COME_FIRST: u32 = 7;

/// The format of entries that name none.
pub(super) fn first() -> u32 {
    1
}

/// Whether an entry need not name its format.
pub(super) fn is_first(format: &u32) -> bool {
    *format == first()
}
