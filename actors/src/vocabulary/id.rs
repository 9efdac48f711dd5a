//! Identifiers. All are plain text in JSON, so that a person can read a journal.

use std::{
    fmt,
    hash::{BuildHasherDefault, Hasher},
    str::FromStr,
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::id_error::{IdError, serde_as_text};

/// Names one run. A root run's id is computed from its session and its turn, a child's from its parent and the
/// operation that began it, so that creating a run twice creates it once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunId(Uuid);

impl RunId {
    /// An id from 128 bits of a caller's randomness.
    pub fn from_random(bits: u128) -> Self {
        Self(uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid())
    }

    /// The id of the run that answers this turn of this session.
    pub fn of_turn(session: &SessionId, turn: &str) -> Self {
        Self::derived(&[
            b"turn",
            session.team.as_bytes(),
            session.key.as_bytes(),
            turn.as_bytes(),
        ])
    }

    /// The id of the child run that this operation begins.
    pub fn child(&self, operation: OperationId) -> Self {
        let number = operation.to_string();
        Self::derived(&[b"child", self.0.as_bytes(), number.as_bytes()])
    }

    /// The id of the run that continues this one in a fresh journal.
    pub fn next(&self) -> Self {
        Self::derived(&[b"next", self.0.as_bytes()])
    }

    fn derived(parts: &[&[u8]]) -> Self {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&super::Digest::of_parts(parts).0[..16]);
        Self(uuid::Builder::from_custom_bytes(bytes).into_uuid())
    }

    /// The beginning of an id as it is written, from hexadecimal digits with or without hyphens; `None` when no id begins
    /// so.
    pub fn prefix(digits: &str) -> Option<String> {
        let digits: Vec<char> = digits.chars().filter(|c| *c != '-').collect();
        if digits.len() > 32 || !digits.iter().all(char::is_ascii_hexdigit) {
            return None;
        }
        let mut written = String::new();
        for (place, digit) in digits.into_iter().enumerate() {
            if matches!(place, 8 | 12 | 16 | 20) {
                written.push('-');
            }
            written.push(digit.to_ascii_lowercase());
        }
        Some(written)
    }

    /// The first eight hexadecimal digits, for people.
    pub fn short(&self) -> String {
        self.0.simple().to_string()[..8].to_owned()
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunId({self})")
    }
}

impl FromStr for RunId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        Uuid::parse_str(text)
            .map(Self)
            .map_err(|_| IdError::new("a run id (a UUID)", text))
    }
}

serde_as_text!(RunId);

/// Names one operation of a run: the leg, the lane in it, and the place in that lane. All three are counted in
/// the order in which the agent's function asks, which is the same in every execution.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperationId {
    /// The leg, from 0.
    pub leg: u32,
    /// The lane of the leg, from 0, which is the leg's own context.
    pub lane: u32,
    /// The place in the lane, from 0.
    pub number: u32,
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.leg, self.lane, self.number)
    }
}

impl fmt::Debug for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OperationId({self})")
    }
}

impl FromStr for OperationId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let wrong = || IdError::new("an operation id such as 0.0.3", text);
        let mut numbers = text.split('.').map(u32::from_str);
        let mut next = || numbers.next().and_then(Result::ok).ok_or_else(wrong);
        let id = Self {
            leg: next()?,
            lane: next()?,
            number: next()?,
        };
        if numbers.next().is_some() {
            Err(wrong())
        } else {
            Ok(id)
        }
    }
}

serde_as_text!(OperationId);

/// Operations by their ids. The engine counts the ids, so nobody can choose colliding ones, and a hash of a few
/// instructions is enough.
pub(crate) type OperationMap<V> =
    std::collections::HashMap<OperationId, V, BuildHasherDefault<CountedHasher>>;

/// Hashes a few small numbers from a counter, by multiplication and folding, as Fibonacci hashing does (Knuth, The
/// Art of Computer Programming, volume 3, 6.4).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CountedHasher(u64);

impl Hasher for CountedHasher {
    fn write_u32(&mut self, number: u32) {
        let mixed = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32((*byte).into()));
    }

    fn finish(&self) -> u64 {
        // The table takes its bucket from the lowest bits and its tag from the highest.
        self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// Names one lasting conversation: the team that holds it, and the caller's key. Cloning shares both.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SessionId {
    /// The team's name.
    pub team: Arc<str>,
    /// The key that the caller chose, such as a customer's number.
    pub key: Arc<str>,
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.team, self.key)
    }
}

/// Names one journal: a run's or a session's.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum JournalId {
    /// The journal of a run.
    Run(RunId),
    /// The journal of a session.
    Session(SessionId),
}

impl fmt::Display for JournalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(run) => run.fmt(f),
            Self::Session(session) => write!(f, "session:{session}"),
        }
    }
}

impl FromStr for JournalId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        match text.strip_prefix("session:") {
            // A team's name has no slash (the definition's check refuses it); a key may have one.
            Some(session) => match session.split_once('/') {
                Some((team, key)) => Ok(Self::Session(SessionId {
                    team: team.into(),
                    key: key.into(),
                })),
                None => Err(IdError::new("a session id such as desk/customer-42", text)),
            },
            None => text.parse().map(Self::Run),
        }
    }
}

serde_as_text!(JournalId);

impl From<RunId> for JournalId {
    fn from(run: RunId) -> Self {
        Self::Run(run)
    }
}

impl From<SessionId> for JournalId {
    fn from(session: SessionId) -> Self {
        Self::Session(session)
    }
}
