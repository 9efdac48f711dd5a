//! The access of a tool's call to its team's state and artifacts.

use std::{fmt, sync::Arc};

use serde_json::Value;

use super::{BoxFuture, StateValue};
use crate::vocabulary::{Artifact, ArtifactInfo, OperationError, Scope, is_reserved_key};

/// A change of a value or an artifact by a tool call. It is committed with the call's result: both
/// are recorded, or neither.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// A value of shared state.
    State {
        /// The scope.
        scope: Scope,
        /// The key.
        key: String,
        /// The new value; `None` deletes it.
        value: Option<Value>,
    },
    /// The next version of an artifact.
    Artifact {
        /// The scope.
        scope: Scope,
        /// Its name.
        name: String,
        /// Its MIME type.
        media_type: String,
        /// Its content.
        content: Arc<[u8]>,
    },
}

impl Change {
    /// The changed key, where it is reserved, so that tools may not write it as state.
    pub(crate) fn key_of_engine(&self) -> Option<&str> {
        match self {
            Self::State { key, .. } if is_reserved_key(key) => Some(key),
            _ => None,
        }
    }
}

/// The state and artifacts that a call may read. Reads are not recorded; the call's result is.
pub(crate) trait ToolState: fmt::Debug + Send + Sync {
    /// The owner of the session of the run that calls.
    fn owner(&self) -> Option<&str>;

    /// A value of shared state.
    fn state(
        &self,
        scope: &Scope,
        key: &str,
    ) -> BoxFuture<'static, Result<Option<StateValue>, OperationError>>;

    /// An artifact: its latest version, or one of them.
    fn artifact(
        &self,
        scope: &Scope,
        name: &str,
        version: Option<u64>,
    ) -> BoxFuture<'static, Result<Option<Artifact>, OperationError>>;

    /// The descriptions of the latest versions of all artifacts, by name.
    fn artifacts(
        &self,
        scope: &Scope,
    ) -> BoxFuture<'static, Result<Vec<ArtifactInfo>, OperationError>>;
}
