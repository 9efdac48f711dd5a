//! Errors that the journal records unchanged, and errors that end a function.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Continuation, OperationId, Outcome, Resource, StopReason};

/// The kind of a failure. Code matches on it; people read the message.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// The model's server refused or failed.
    Model,
    /// The request does not fit the model's context.
    ContextOverflow,
    /// The server refused the key.
    Authentication,
    /// The server asks to slow down.
    RateLimited,
    /// A tool failed.
    Tool,
    /// A delegated task failed.
    Delegation,
    /// The store failed.
    Store,
    /// It took too long.
    Timeout,
    /// A budget is used up.
    Budget(Resource),
    /// New work was refused because there is too much of it.
    Overloaded,
    /// Somebody else changed the value first.
    Conflict,
    /// The input does not fit.
    InvalidInput,
    /// The value, or a model's answer, has more bytes than may be kept.
    TooLarge,
    /// No such agent, tool, model or key.
    NotFound,
    /// A person or a policy said no.
    Denied,
    /// It was cancelled.
    Cancelled,
    /// It was cancelled, but its code blocks and could not be stopped: it may still do something.
    StillRunning,
    /// Nobody answered in time.
    Expired,
    /// Nobody knows whether the call happened.
    InDoubt,
    /// It panicked.
    Panicked,
    /// A model's answer could not be read.
    Malformed,
    /// A model made no plan that can be carried out.
    Plan,
    /// The call is unfinished: the tool goes on as the [`continuation`](OperationError::continuation) says.
    Continues,
    /// Anything else.
    Other,
}

/// A failed operation, as plain data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub struct OperationError {
    /// The kind of failure.
    pub kind: ErrorKind,
    /// The failure, the thing that it hit, and the way out.
    pub message: String,
    /// Whether trying again can help.
    pub retryable: bool,
    /// The HTTP status, where there was one.
    pub status: Option<u16>,
    /// How long a server asked to wait before another try, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The agents that passed the error on, the outermost first.
    pub path: Vec<String>,
    /// The error of the last agent of the path, when a delegated task failed. It lets a caller tell a crash from a
    /// refusal by type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Box<AgentError>>,
    /// How an unfinished call continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continuation: Option<Box<Continuation>>,
}

impl OperationError {
    /// A terminal failure of this kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            retryable: false,
            status: None,
            retry_after_ms: None,
            path: Vec::new(),
            cause: None,
            continuation: None,
        }
    }

    /// The same failure, worth another try.
    #[must_use]
    pub fn retryable(mut self) -> Self {
        self.retryable = true;
        self
    }

    /// The same failure, with an HTTP status.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }
}

impl fmt::Display for OperationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path.join("/"))?;
        }
        f.write_str(&self.message)
    }
}

/// The error of an operation or of an agent's function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AgentError {
    /// An operation failed; its failure is recorded.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// The function asked for something else than the journal has. The run is parked: retry it with the code that
    /// recorded it, fork it before this operation, or cancel it.
    #[error(
        "operation {at} is recorded as {recorded}, but the code now asks for {found}: the code or \
         its input changed while the run was under way; run the recorded code, fork the run \
         before {at}, or cancel it"
    )]
    Diverged {
        /// The operation.
        at: OperationId,
        /// The operation that the journal has at this place.
        recorded: String,
        /// The operation that the code asks for.
        found: String,
    },
    /// The run has ended, or another process has taken it over.
    #[error("the run has ended or moved: this context can do nothing more")]
    Ended,
    /// The function panicked or was killed again and again, and is not run any more. A delegated run fails with this
    /// error, so that the agent above can handle it. A run that nobody delegated is parked, and its session goes on.
    #[error(
        "the agent's function crashed {times} times, the last time: {reason}; mend what its input \
         does to it and retry the run, or cancel it"
    )]
    Crashed {
        /// How often it happened, without progress or within the restart period.
        times: u32,
        /// The failure of the last time.
        reason: String,
    },
    /// The function ends early, with this outcome. This is no failure: `?` carries the outcome past the rest of the
    /// function, and each function on the way can add its partial results.
    #[error("the agent's function ends early")]
    Early(Box<Outcome>),
    /// The function itself failed.
    #[error("{0}")]
    Failed(String),
}

impl AgentError {
    /// An error of the function itself.
    pub fn failed(cause: impl fmt::Display) -> Self {
        Self::Failed(cause.to_string())
    }

    /// The code asks for something else than the journal has at this operation.
    pub(crate) fn diverged(
        at: OperationId,
        recorded: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Self {
        let (recorded, found) = (recorded.to_string(), found.to_string());
        Self::Diverged {
            at,
            recorded,
            found,
        }
    }

    /// An early end of the function, with this outcome.
    pub fn early(outcome: Outcome) -> Self {
        Self::Early(Box::new(outcome))
    }

    /// Why the function ends early, where this is an early end.
    pub fn early_stop(&self) -> Option<&StopReason> {
        match self {
            Self::Early(outcome) => outcome.stop_reason(),
            _ => None,
        }
    }

    /// The same error; an early end gets another outcome.
    #[must_use]
    pub fn map_early(self, change: impl FnOnce(Outcome) -> Outcome) -> Self {
        match self {
            Self::Early(outcome) => Self::early(change(*outcome)),
            error => error,
        }
    }

    /// The outcome of a function that returned this error.
    ///
    /// # Errors
    /// The error itself, where it is not an early end.
    pub(crate) fn or_early(self) -> Result<Outcome, Self> {
        match self {
            Self::Early(outcome) => Ok(*outcome),
            error => Err(error),
        }
    }

    /// Whether the function failed, by itself or by an operation, and was not cancelled.
    pub(crate) fn is_failure(&self) -> bool {
        match self {
            Self::Operation(error) => error.kind != ErrorKind::Cancelled,
            Self::Failed(_) => true,
            _ => false,
        }
    }

    /// The failed operation, when it is one.
    pub fn operation(&self) -> Option<&OperationError> {
        match self {
            Self::Operation(error) => Some(error),
            _ => None,
        }
    }

    /// The kind of the failed operation, when it is one.
    pub fn kind(&self) -> Option<&ErrorKind> {
        self.operation().map(|error| &error.kind)
    }
}
