//! Calls of models and tools, and their ends.

use std::{
    any::Any,
    sync::{Arc, Weak},
};

use tokio_util::sync::CancellationToken;

use super::InputDigest;
use crate::{
    contract::{
        AttemptedCall, Attempts, Change, Credential, Emission, InterceptorHandle, ModelHandle,
        ModelHost, Origin, PreviewSink, SuspendableCall, ToolHandle, ToolState,
    },
    vocabulary::{
        Continuation, Continued, ModelRequest, ModelResponse, ModelTicket, OperationError,
        OperationId, Retry, RunId, Timestamp, ToolCall, ToolDefinition, ToolResult, Usage,
    },
};

/// A model, and the interceptors around its calls.
#[derive(Clone, Debug)]
pub(crate) struct ModelCode {
    /// The model.
    pub(crate) model: ModelHandle,
    /// The interceptors around each attempt, from the outermost on.
    pub(crate) chain: Arc<[InterceptorHandle]>,
}

/// A tool, and the interceptors around its calls.
#[derive(Clone, Debug)]
pub(crate) struct ToolCode {
    /// The tool.
    pub(crate) tool: ToolHandle,
    /// The interceptors around each call, from the outermost on.
    pub(crate) chain: Arc<[InterceptorHandle]>,
}

/// Takes note of what failed attempts at a model call consumed.
pub(crate) trait NotesLoss: Send + Sync {
    /// Notes the consumption of failed attempts at this call, which may get no answer.
    fn lost(&self, operation: OperationId, usage: Usage);
}

/// The right of a tool call to run. It passes to the next call when all clones are dropped.
pub(crate) type ToolSlot = Arc<dyn Any + Send + Sync>;

/// A model call of a run.
pub(crate) struct ModelCall {
    /// The run.
    pub run: RunId,
    /// The root of its tree, for fairness.
    pub root: RunId,
    /// The operation.
    pub operation: OperationId,
    /// The digest of the operation's input.
    pub digest: InputDigest,
    /// On whose behalf the call is made.
    pub origin: Arc<Origin>,
    /// Where its previews go.
    pub previews: PreviewSink,
    /// The request, with its model's name filled in.
    pub request: ModelRequest,
    /// The model that the agent's name for it stands for.
    pub code: ModelCode,
    /// Fires when the answer is not wanted any more.
    pub cancelled: CancellationToken,
    /// The System, for a model that suspends the call.
    pub host: ModelHost,
    /// The digest of the request that waits for answers; `None` where the call may not be suspended.
    pub awaited: Option<InputDigest>,
    /// The books of the leg that asks, unless it is gone.
    pub books: Weak<dyn NotesLoss>,
    /// The state of its attempts.
    pub attempts: Attempts,
}

impl ModelCall {
    /// The same call anew, for which these answers came.
    pub(crate) fn again(&self, answers: Vec<String>, before: Option<&Retry>) -> Self {
        Self {
            attempts: Attempts::of(answers, before),
            digest: self.digest.clone(),
            origin: self.origin.clone(),
            previews: self.previews.clone(),
            request: self.request.clone(),
            code: self.code.clone(),
            cancelled: self.cancelled.clone(),
            host: self.host.clone(),
            awaited: self.awaited.clone(),
            books: self.books.clone(),
            ..*self
        }
    }

    /// Adds the consumption of a failed attempt, which is charged even if the call is cancelled before the next. Returns
    /// that of all of them.
    pub(crate) fn loses(&self, usage: Usage) -> Usage {
        let lost = self.attempts.lose(usage);
        if let Some(books) = self.books.upgrade() {
            books.lost(self.operation, lost);
        }
        lost
    }
}

impl AttemptedCall for ModelCall {
    fn attempts(&self) -> &Attempts {
        &self.attempts
    }

    fn suspendable(self: Arc<Self>) -> Option<Arc<dyn SuspendableCall>> {
        self.awaited.is_some().then_some(self)
    }
}

impl SuspendableCall for ModelCall {
    fn host(&self) -> &ModelHost {
        &self.host
    }

    fn ticket(&self, number: u32) -> ModelTicket {
        let request = self.awaited.as_ref().unwrap_or(&self.digest);
        ModelTicket {
            run: self.run,
            operation: self.operation,
            number,
            request: request.get().0 >> 24,
        }
    }
}

/// A tool call of a run.
#[derive(Clone)]
pub(crate) struct ToolInvocation {
    /// The run.
    pub run: RunId,
    /// The root of its tree, for fairness.
    pub root: RunId,
    /// The operation.
    pub operation: OperationId,
    /// The agent that calls.
    pub agent: Arc<str>,
    /// On whose behalf the call is made, and who approved it.
    pub origin: Arc<Origin>,
    /// Where its previews go.
    pub previews: PreviewSink,
    /// The call.
    pub call: Arc<ToolCall>,
    /// The pinned definition.
    pub definition: Arc<ToolDefinition>,
    /// The tool that the agent's name for it stands for, or why there is none.
    pub code: Result<ToolCode, String>,
    /// The time by which the call must have ended.
    pub deadline: Option<Timestamp>,
    /// The credential that a person gave for this call.
    pub credential: Option<Credential>,
    /// The team's state and artifacts that the call may read.
    pub kept: Arc<dyn ToolState>,
    /// The continuation with which an unfinished call goes on.
    pub continued: Option<Arc<Continued>>,
    /// The right to run, if the call has it already. Otherwise the call waits for it.
    pub slot: Option<ToolSlot>,
    /// Fires when the result is not wanted any more. A call that has not begun does not begin then.
    pub cancelled: CancellationToken,
}

/// The end of a call, with the emissions of interceptors about it.
#[derive(Clone, Debug)]
pub(crate) struct Called<T> {
    /// The end.
    pub end: T,
    /// The emissions, to be recorded with the end.
    pub told: Vec<Emission>,
    /// How many real attempts were made, and how long they took together, with the pauses.
    pub tries: Tries,
}

/// The end of a model call.
pub(crate) type ModelAnswer = Called<ModelEnd>;

/// The end of a model call, as far as the gateway knows it.
#[derive(Clone, Debug)]
pub(crate) enum ModelEnd {
    /// It has an answer.
    Over(ModelResponse),
    /// It failed, after this consumption.
    Failed(OperationError, Usage),
    /// Its answer comes through its ticket.
    Suspended,
    /// It failed, and is to be made again at a time for which its run need not stay awake.
    Paused(Box<Retry>),
}

/// How many real attempts at a call were made, and how long they took together, with the pauses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tries {
    /// How many.
    pub attempts: u32,
    /// How long, in milliseconds.
    pub took_ms: u64,
}

impl<T> From<T> for Called<T> {
    fn from(end: T) -> Self {
        let (told, tries) = (Vec::new(), Tries::default());
        Self { end, told, tries }
    }
}

/// The end of a call, as far as the executor knows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ToolEnd {
    /// A known end.
    Result(ToolResult),
    /// A known end that changes something that the team keeps.
    Changing(ToolResult, Vec<Change>),
    /// No result yet. It comes through the call's ticket.
    Later,
    /// The call has not ended and continues with this.
    Continues(Box<Continuation>),
    /// The end is not known, for this reason.
    InDoubt(String),
    /// It is known not to have happened (only an answer to a reconciliation).
    DidNotHappen,
    /// An aborted call was told to stop, but its code blocks: it runs on until it returns.
    StillRunning,
}

impl ToolEnd {
    /// The end of a call that was begun and whose end nobody knows.
    pub(crate) fn unknown() -> Self {
        Self::InDoubt("its start is recorded, and its outcome is unknown".to_owned())
    }
}
