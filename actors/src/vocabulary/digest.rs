//! Hashes of contents and inputs.

use super::id_error::{IdError, serde_as_text};

const HEXADECIMAL: &[u8; 16] = b"0123456789abcdef";

/// A 256-bit content hash (BLAKE3), printed as hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The hash of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// The hash of several parts, each preceded by its length, so that moving a byte from one
    /// part to the next changes the result.
    pub fn of_parts(parts: &[&[u8]]) -> Self {
        // One pass over few bytes costs less than keeping a hasher's state between them.
        let mut bytes = Vec::with_capacity(parts.iter().map(|part| part.len() + 8).sum());
        for part in parts {
            bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
            bytes.extend_from_slice(part);
        }
        Self::of(&bytes)
    }

    /// The first eight bytes as a number: enough to tell inputs apart inside one run.
    pub fn short(&self) -> u64 {
        let mut first = [0; 8];
        first.copy_from_slice(&self.0[..8]);
        u64::from_le_bytes(first)
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut digits = [0; 64];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(self.0) {
            pair.copy_from_slice(&[
                HEXADECIMAL[usize::from(byte >> 4)],
                HEXADECIMAL[usize::from(byte & 0xf)],
            ]);
        }
        // Several entries of each run hold a digest: one write costs a tenth of 32 formatted ones.
        f.write_str(std::str::from_utf8(&digits).map_err(|_| std::fmt::Error)?)
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl std::str::FromStr for Digest {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let bytes = text.as_bytes();
        let mut digest = [0; 32];
        if bytes.len() != 64 {
            return Err(IdError::new("a digest of 64 hexadecimal digits", text));
        }
        for (index, pair) in bytes.chunks_exact(2).enumerate() {
            let digit = |byte: u8| (byte as char).to_digit(16);
            match (digit(pair[0]), digit(pair[1])) {
                (Some(high), Some(low)) => digest[index] = (high * 16 + low) as u8,
                _ => return Err(IdError::new("a digest of 64 hexadecimal digits", text)),
            }
        }
        Ok(Self(digest))
    }
}

serde_as_text!(Digest);

/// Eight bytes of a digest of an operation's input, printed as hexadecimal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CallDigest(pub u64);

impl CallDigest {
    /// Its sixteen digits.
    pub(crate) fn hexadecimal(self) -> [u8; 16] {
        std::array::from_fn(|place| HEXADECIMAL[(self.0 >> (60 - 4 * place)) as usize & 0xf])
    }
}

impl From<Digest> for CallDigest {
    fn from(digest: Digest) -> Self {
        Self(digest.short())
    }
}

impl std::fmt::Display for CallDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl std::str::FromStr for CallDigest {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u64::from_str_radix(text, 16)
            .map(Self)
            .map_err(|_| IdError::new("16 hexadecimal digits", text))
    }
}

serde_as_text!(CallDigest);
