//! Plain data that every part of the engine shares: messages, tools, model requests and
//! responses, events, usage, identifiers and errors.
//!
//! Architecture invariant: nothing here does I/O, waits, or knows an actor. Every type goes
//! through JSON and, where a checkpoint holds it, through `bincode`; therefore enums are
//! externally tagged and no field is skipped.

mod artifact;
mod budget;
mod changed;
mod entry;
mod error;
mod event;
mod event_text;
mod id;
mod message;
mod message_parts;
mod model;
mod outcome;
mod prices;
mod scope;
mod time;
mod tool;
mod transcript;
mod usage;

pub use artifact::{Artifact, ArtifactInfo};
pub(crate) use budget::charge;
pub use budget::{Amounts, Budget, Resource, Spent};
pub use changed::Changed;
pub use entry::{
    Begun, CallDigest, Entry, Forked, ParentPolicy, RunEnd, RunStart, SessionTurn, TurnEnd,
};
pub use error::{AgentError, ErrorKind, OperationError};
pub use event::{
    Event, EventId, EventRecord, Preview, Question, QuestionKind, RunResult, UnknownEvent,
};
pub(crate) use id::OperationMap;
pub use id::{IdError, JournalId, OperationId, RunId, SessionId};
pub use message::{
    Arguments, Data, DataSource, Message, Part, Reasoning, Role, ToolCall, ToolResult, ToolStatus,
};
pub use message_parts::UnknownPart;
pub use model::{
    Delta, FinishReason, ModelRequest, ModelResponse, ModelSettings, OutputSchema, ToolChoice,
    ToolSet,
};
pub use outcome::{Answer, Outcome, StopReason, Transfer};
pub use prices::Prices;
pub use scope::Scope;
pub use time::Timestamp;
pub(crate) use tool::schema_of;
pub use tool::{Approval, Effect, InDoubt, ToolDefinition};
pub use transcript::Transcript;
pub use usage::Usage;

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
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
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

id::serde_as_text!(Digest);
