//! The kinds of operations, apart from their places.

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, OnceLock},
};

use crate::vocabulary::{AgentError, AskedBy, Begun, CallDigest, Digest, Entry, OperationId};

/// The digest of an operation's input, which may not be computed before it is compared or written.
#[derive(Clone)]
pub struct InputDigest(Input);

#[derive(Clone)]
enum Input {
    Known(CallDigest),
    Later(Arc<Later<dyn Fn() -> Digest + Send + Sync>>),
}

struct Later<F: ?Sized> {
    digest: OnceLock<CallDigest>,
    of_input: F,
}

impl InputDigest {
    /// The digest that this returns. It is called once at most.
    pub fn later(of_input: impl Fn() -> Digest + Send + Sync + 'static) -> Self {
        let digest = OnceLock::new();
        Self(Input::Later(Arc::new(Later { digest, of_input })))
    }

    /// The digest.
    pub fn get(&self) -> CallDigest {
        match &self.0 {
            Input::Known(digest) => *digest,
            Input::Later(later) => *later.digest.get_or_init(|| (later.of_input)().into()),
        }
    }
}

impl From<CallDigest> for InputDigest {
    fn from(digest: CallDigest) -> Self {
        Self(Input::Known(digest))
    }
}

impl From<Digest> for InputDigest {
    fn from(digest: Digest) -> Self {
        CallDigest::from(digest).into()
    }
}

impl PartialEq for InputDigest {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl fmt::Debug for InputDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.get(), f)
    }
}

/// The identity of a call besides its id.
#[derive(Clone, Debug)]
pub(crate) struct CallIdentity {
    pub(crate) kind: Cow<'static, str>,
    pub(crate) name: String,
    pub(crate) digest: InputDigest,
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
        let in_words = |call: &Self| format!("{call} with input {}", call.digest.get());
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
            digest: digest.get(),
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
