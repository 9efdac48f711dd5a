//! The kinds of operations, apart from their places.

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, OnceLock},
};

use crate::vocabulary::{AgentError, AskedBy, Begun, CallDigest, Digest, Entry, OperationId};

/// The input of an operation, kept until its digest is compared or written.
pub trait OperationInput: Send + Sync + 'static {
    /// The [name](super::Operation::name) of the operation.
    fn name(&self) -> &str;

    /// The digest, for which is asked once at most.
    fn digest(&self) -> Digest;
}

/// The digest of an operation's input, which may not be computed before it is compared or written.
#[derive(Clone)]
pub struct InputDigest(Input);

#[derive(Clone)]
enum Input {
    Known(CallDigest),
    Later(Arc<Later<dyn OperationInput>>),
}

struct Later<I: ?Sized> {
    digest: OnceLock<CallDigest>,
    input: I,
}

impl InputDigest {
    /// The digest of this input.
    pub fn later(input: impl OperationInput) -> Self {
        let digest = OnceLock::new();
        Self(Input::Later(Arc::new(Later { digest, input })))
    }

    /// The digest.
    pub fn get(&self) -> CallDigest {
        match &self.0 {
            Input::Known(digest) => *digest,
            Input::Later(later) => *later.digest.get_or_init(|| later.input.digest().into()),
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
    /// The name, where the input does not have it.
    name: Option<String>,
    pub(crate) digest: InputDigest,
    /// The call of a model for which it is made. It identifies nothing.
    pub(crate) asked_by: Option<AskedBy>,
}

impl CallIdentity {
    pub(crate) fn new(
        kind: impl Into<Cow<'static, str>>,
        name: impl Into<String>,
        digest: impl Into<InputDigest>,
        asked_by: Option<AskedBy>,
    ) -> Self {
        let digest = digest.into();
        Self {
            kind: kind.into(),
            name: matches!(digest.0, Input::Known(_)).then(|| name.into()),
            digest,
            asked_by,
        }
    }

    /// Its name inside its kind.
    pub(crate) fn name(&self) -> &str {
        match &self.digest.0 {
            Input::Later(later) => later.input.name(),
            Input::Known(_) => self.name.as_deref().unwrap_or_default(),
        }
    }

    /// Whether both are calls of one thing, whatever their inputs are.
    pub(super) fn is_call_of(&self, other: &Self) -> bool {
        self.kind == other.kind && self.name() == other.name()
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
        Entry::Started {
            op,
            name: self.name().to_owned(),
            kind: self.kind,
            digest: self.digest.get(),
            begun,
            asked_by: self.asked_by,
        }
    }
}

impl fmt::Display for CallIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.kind, self.name())
    }
}
