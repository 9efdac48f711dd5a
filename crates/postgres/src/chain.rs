//! Hashes: a journal's chain, and the chain of commits.

use ghostlight_actors::vocabulary::Digest;

/// The hash before a journal's first entry. It is made from the journal's key, so that entries
/// cannot pass for those of another journal.
pub(crate) fn genesis(key: &str) -> Digest {
    Digest::of_parts(&[b"journal", key.as_bytes()])
}

/// The hash of an entry, from the hash of the entry before it.
pub(crate) fn link(before: &Digest, position: u64, sequence: u64, at: u64, body: &str) -> Digest {
    let numbers = [position, sequence, at].map(u64::to_le_bytes);
    Digest::of_parts(&[
        &before.0,
        &numbers[0],
        &numbers[1],
        &numbers[2],
        body.as_bytes(),
    ])
}

/// The digest of a commit, from the digest of the commit before it, its number, the node that made
/// it, and the hash of the last entry that it added to each journal.
pub(crate) fn commit<'d>(
    before: &Digest,
    number: u64,
    node: &str,
    heads: impl Iterator<Item = &'d Digest>,
) -> Digest {
    let number = number.to_le_bytes();
    let mut parts: Vec<&[u8]> = vec![&before.0, &number, node.as_bytes()];
    parts.extend(heads.map(|digest| digest.0.as_slice()));
    Digest::of_parts(&parts)
}
