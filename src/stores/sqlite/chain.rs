//! Hashes: a journal's chain, the chain of commits, and the check of a row.
//!
//! All are BLAKE3, cut to 16 bytes: they find damage and accidents. Against somebody who can
//! write the file they prove nothing, since such a person can hash as well.

/// A hash as it stands in the file.
pub(super) type Hash = [u8; 16];

/// The hash before a journal's first entry. It covers the journal's key, so that entries cannot be
/// moved to another journal.
pub(super) fn genesis(key: &str) -> Hash {
    Check::of("journal").text(key).done()
}

/// The hash of an entry, given that of the entry before it.
pub(super) fn link(before: &Hash, position: u64, sequence: u64, at: i64, body: &str) -> Hash {
    // One piece of memory: BLAKE3's incremental hasher costs more than copying a short entry.
    let mut bytes = Vec::with_capacity(40 + body.len());
    bytes.extend_from_slice(before);
    bytes.extend_from_slice(&position.to_le_bytes());
    bytes.extend_from_slice(&sequence.to_le_bytes());
    bytes.extend_from_slice(&at.to_le_bytes());
    bytes.extend_from_slice(body.as_bytes());
    cut(blake3::hash(&bytes))
}

/// The digest of a commit over the one before it, its number and the entries that it brought.
pub(super) struct CommitDigest(blake3::Hasher);

impl CommitDigest {
    pub(super) fn after(before: &Hash, number: u64) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(before);
        hasher.update(&number.to_le_bytes());
        Self(hasher)
    }

    pub(super) fn entry(&mut self, hash: &Hash) {
        self.0.update(hash);
    }

    pub(super) fn done(&self) -> Hash {
        cut(self.0.finalize())
    }
}

/// The check of a row that is in no chain because it may change: a hash of its columns.
pub(super) struct Check(blake3::Hasher);

impl Check {
    /// The check of a row of this table, with no columns added yet.
    pub(super) fn of(table: &str) -> Self {
        Self(blake3::Hasher::new()).text(table)
    }

    pub(super) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.update(&[1]);
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    pub(super) fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    pub(super) fn optional(mut self, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.text(text),
            None => {
                self.0.update(&[0]);
                self
            }
        }
    }

    pub(super) fn number(mut self, number: Option<i64>) -> Self {
        match number {
            Some(number) => self.bytes(&number.to_le_bytes()),
            None => {
                self.0.update(&[0]);
                self
            }
        }
    }

    pub(super) fn done(self) -> Hash {
        cut(self.0.finalize())
    }
}

fn cut(whole: blake3::Hash) -> Hash {
    let mut hash = [0; 16];
    hash.copy_from_slice(&whole.as_bytes()[..16]);
    hash
}

/// A hash in hexadecimal.
pub(super) fn hex(hash: &Hash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
