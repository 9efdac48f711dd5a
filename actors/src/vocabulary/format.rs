//! The format of journals.

/// The format of journals that this program writes, and the latest that it reads.
///
/// The number grows when an older program could not read a journal, or would read it differently: with a new entry, a
/// new field of an entry, or a new meaning of one. A run records it at its start and with each process that takes it
/// over, a session with each turn. A journal of a later format, or with something unknown in it, is left alone:
/// [`StoreError::Newer`](crate::contract::StoreError::Newer).
///
/// In format 9 a run may record what a run below it heard ([`Entry::HEARD_BELOW`](super::Entry::HEARD_BELOW), and an item of
/// the mailbox as the turn of [`TurnHeard`](super::Entry::TurnHeard)), and a model call may wait for its answer as a tool
/// does ([`Begun::Ticket`](super::Begun::Ticket)), or for its provider ([`Begun::Retry`](super::Begun::Retry)).
pub const FORMAT: u32 = 9;

/// The first format of which runs are read. Earlier ones were never promised to be.
pub(crate) const OLDEST: u32 = 6;

/// From this format on, what people said to a run is heard before its next model request.
pub(crate) const WORDS_COME_FIRST: u32 = 7;

/// From this format on, operations and answers to calls name the call of the model that asked for them.
pub(crate) const CAUSES_ARE_RECORDED: u32 = 8;

/// The format of entries that name none.
pub(super) fn first() -> u32 {
    1
}

/// Whether an entry need not name its format.
pub(super) fn is_first(format: &u32) -> bool {
    *format == first()
}
