//! Operations that need no type of their own.

use std::borrow::Cow;

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    run::{Begin, Operation, OperationContext},
    vocabulary::{Cause, Digest},
};

/// An [`Operation`] that is made of its kind, its name, the digest of its input, and what it does.
#[must_use = "an operation starts when it is performed"]
pub struct PlainOperation<T> {
    kind: &'static str,
    name: Cow<'static, str>,
    digest: Digest,
    cause: Cause,
    begin: Box<dyn FnOnce(OperationContext) -> Begin<T> + Send>,
}

opaque!(PlainOperation<T>);

impl<T> PlainOperation<T> {
    /// An operation of this kind and name, with an input of this digest, which begins so.
    pub fn new(
        kind: &'static str,
        name: impl Into<Cow<'static, str>>,
        digest: Digest,
        begin: impl FnOnce(OperationContext) -> Begin<T> + Send + 'static,
    ) -> Self {
        Self {
            kind,
            name: name.into(),
            digest,
            cause: Cause::default(),
            begin: Box::new(begin),
        }
    }

    /// The same, performed for a call of a model.
    pub(super) fn caused(mut self, cause: Cause) -> Self {
        self.cause = cause;
        self
    }
}

impl<T: Serialize + DeserializeOwned + Send + 'static> Operation for PlainOperation<T> {
    type Output = T;

    fn kind(&self) -> &'static str {
        self.kind
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn digest(&self) -> Digest {
        self.digest
    }

    fn cause(&self) -> Cause {
        self.cause
    }

    fn begin(self, cx: OperationContext) -> Begin<T> {
        (self.begin)(cx)
    }
}
