//! What an operation is, besides its place.

use std::{borrow::Cow, fmt};

use crate::vocabulary::{AgentError, AskedBy, Begun, CallDigest, Entry, OperationId};

/// The identity of a call besides its id.
#[derive(Clone, Debug)]
pub(crate) struct CallIdentity {
    pub(crate) kind: Cow<'static, str>,
    pub(crate) name: String,
    pub(crate) digest: CallDigest,
    /// The call of a model for which it is made. It identifies nothing.
    pub(crate) asked_by: Option<AskedBy>,
}

impl CallIdentity {
    /// Whether both are calls of one thing, whatever their inputs are.
    pub(super) fn is_call_of(&self, other: &Self) -> bool {
        self.kind == other.kind && self.name == other.name
    }

    /// A divergence: the journal has this call, and the code asks for the other one.
    pub(super) fn diverged(&self, at: OperationId, found: &Self) -> AgentError {
        if !self.is_call_of(found) {
            return AgentError::diverged(at, self, found);
        }
        let in_words = |call: &Self| format!("{call} with input {}", call.digest);
        AgentError::diverged(at, in_words(self), in_words(found))
    }

    /// The entry of the call's beginning.
    pub(crate) fn started(self, op: OperationId, begun: Begun) -> Entry {
        let Self {
            kind,
            name,
            digest,
            asked_by,
        } = self;
        Entry::Started {
            op,
            kind,
            name,
            digest,
            begun,
            asked_by,
        }
    }
}

impl fmt::Display for CallIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.kind, self.name)
    }
}
