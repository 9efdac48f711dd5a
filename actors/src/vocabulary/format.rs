//! The format of journals.

/// The format of journals that this program writes, and the latest that it reads.
///
/// The number grows when an older program could not read a journal, or would read it differently: with a new entry, a
/// new field of an entry, or a new meaning of one. A run records it at its start and with each process that takes it
/// over, a session with each turn. A journal of a later format, or with something unknown in it, is left alone:
/// [`StoreError::Newer`](crate::contract::StoreError::Newer).
///
/// Format 10 is the first that is promised to be read from now on.
pub const FORMAT: u32 = 10;

/// The first format of which runs are read. Earlier ones were never promised to be.
pub(crate) const OLDEST: u32 = 10;
