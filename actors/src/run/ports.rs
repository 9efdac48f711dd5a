//! The requests of a run to the world. Actors answer them, or tests.

use std::{
    any::Any,
    sync::{Arc, Weak},
};

use tokio_util::sync::CancellationToken;

use super::{Carried, InputDigest, ModelCode, RunSender, ToolCode, leg::Leg};
use crate::{
    contract::{
        Append, AttemptedCall, Attempts, Batch, BoxFuture, Change, Committed, Credential, Emission,
        Entropy, ModelHost, Origin, PreviewSink, StateSlot, StoreError, Surroundings,
        SuspendableCall, ToolState,
    },
    definition::Pinned,
    vocabulary::{
        AgentError, Budget, Cause, Continuation, Continued, Message, ModelRequest, ModelResponse,
        ModelTicket, OperationError, OperationId, Outcome, ParentPolicy, Retry, RunId, RunStart,
        Spent, Timestamp, ToolCall, ToolDefinition, ToolResult, Usage,
    },
};

/// Receives a commit's result, once: a journal that is lost before it answers is closed. Results come in the order of
/// commits.
pub(crate) struct OnCommitted(Option<Box<Receive>>);

type Receive = dyn FnOnce(Result<Committed, StoreError>) + Send;

impl OnCommitted {
    pub(crate) fn new(
        receive: impl FnOnce(Result<Committed, StoreError>) + Send + 'static,
    ) -> Self {
        Self(Some(Box::new(receive)))
    }

    pub(crate) fn give(&mut self, result: Result<Committed, StoreError>) {
        if let Some(receive) = self.0.take() {
            receive(result);
        }
    }
}

impl Drop for OnCommitted {
    fn drop(&mut self) {
        self.give(Err(StoreError::Closed));
    }
}

/// The interface through which a run reaches models, tools, other runs and the journal.
///
/// Every method returns at once. Slow ones return a future that does not borrow.
pub(crate) trait Ports: Surroundings {
    /// Commits changes and tells when they are durable.
    fn commit(&self, batch: Batch, on_committed: OnCommitted);

    /// Asks a model, through its gateway. `before` is what was spent on the call when it was paused last.
    fn model(&self, call: Arc<ModelCall>, before: Option<Retry>) -> Carried<ModelAnswer>;

    /// Waits until a tool call may run. The numbers of calls at once are bounded, for its tool and
    /// for all tools. A call gets its slot before its start is recorded.
    fn slot(&self, call: &ToolInvocation) -> BoxFuture<'static, ToolSlot>;

    /// Calls a tool, through its executor. A call that is under way already under this operation
    /// is joined, not repeated.
    fn tool(&self, call: Arc<ToolInvocation>) -> Carried<Called<ToolEnd>>;

    /// Asks the tool whether a call whose outcome is unknown happened.
    fn reconcile(&self, call: Arc<ToolInvocation>) -> Carried<Called<ToolEnd>>;

    /// Ends a call whose result is not wanted any more, once its own future is dropped. A `once`
    /// tool has a grace period. The future ends when the call can do nothing more, with the call's
    /// result if there is one.
    fn abort_tool(&self, run: RunId, operation: OperationId)
    -> BoxFuture<'static, Option<ToolEnd>>;

    /// Ends the tool calls that earlier lives of this run left behind and that it did not take
    /// over, if there may be any. The run is about to end, and no tool may begin for it afterwards.
    fn forget_calls(&self, run: RunId) -> Option<BoxFuture<'static, ()>>;

    /// The sink for the previews of a run's calls.
    fn previews(&self, run: RunId) -> PreviewSink;

    /// The text of an answer that the run's model has not ended, as far as it was streamed.
    fn saying(&self, _run: RunId) -> Option<String> {
        None
    }

    /// Takes the credential that was given in this process as the answer to a question.
    fn credential(&self, run: RunId, question: OperationId) -> Option<Credential>;

    /// Starts a child run whose first entry is recorded, or takes it up again.
    fn child(&self, child: ChildStart);

    /// Starts a child run of this parent that outlives it, unless it has begun.
    fn tree(&self, parent: RunId, run: RunId);

    /// Cancels a child run of this parent, even one that was started just before.
    fn cancel_child(&self, parent: RunId, run: RunId, reason: String);

    /// Waits for the end of a run that is no child of the caller, live or not.
    fn outcome(&self, run: RunId) -> BoxFuture<'static, Result<ChildResult, OperationError>>;

    /// A value of shared state, and how often it was changed, even if there is no value.
    fn state(
        &self,
        scope: String,
        key: String,
    ) -> BoxFuture<'static, Result<StateSlot, OperationError>>;

    /// Waits until nobody else in this process changes this value.
    fn lock_state(&self, scope: String, key: String) -> BoxFuture<'static, StateLock>;

    /// Tells the cache of shared state that these values changed, once they are durable.
    fn state_changed(&self, keys: Vec<(String, String)>);

    /// Tells the cache of shared state that any value of this scope may have changed unseen.
    fn forget_state(&self, scope: String);

    /// Tells runs that a commit put items into their mailboxes.
    fn posted(&self, runs: Vec<RunId>);

    /// Those of the given runs that have ended or do not exist any more. A run that goes on in
    /// another journal has not ended.
    fn ended(&self, runs: Vec<RunId>) -> BoxFuture<'static, Result<Vec<RunId>, OperationError>>;

    /// Tells observers that the journal has more, up to this position.
    fn published(&self, root: RunId, position: u64);

    /// The source of randomness.
    fn entropy(&self) -> &Arc<dyn Entropy>;
}

/// The right to change a value of shared state. Dropping it gives it to the next waiter. It serves
/// only fairness: the expected version keeps a write from being lost.
pub(crate) type StateLock = tokio::sync::OwnedMutexGuard<()>;

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
    /// The leg that asks, unless it is gone.
    pub leg: Weak<Leg>,
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
            leg: self.leg.clone(),
            ..*self
        }
    }

    /// Adds the consumption of a failed attempt, which is charged even if the call is cancelled before the next. Returns
    /// that of all of them.
    pub(crate) fn loses(&self, usage: Usage) -> Usage {
        let lost = self.attempts.lose(usage);
        if let Some(leg) = self.leg.upgrade() {
            leg.lost(self.operation, lost);
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

/// A child run to be started or recovered.
#[derive(Clone, Debug)]
pub struct ChildStart {
    /// The child run.
    pub run: RunId,
    /// The run that begins it.
    pub parent: RunId,
    /// The epoch in which this process carries the parent. The child is claimed with it, so a
    /// process that has lost the parent cannot take the child back.
    pub epoch: u64,
    /// The agent that is to carry it.
    pub agent: String,
    /// The start of the run. A recovered child has its start in its journal.
    pub start: Arc<RunStart>,
    /// The definition that it is pinned to.
    pub pinned: Arc<Pinned>,
    /// The stored form of that definition, if the commit that begins the child must store it.
    pub definition: Option<Arc<[u8]>>,
    /// Whether its first entry was just recorded by the parent, so that it need not be claimed.
    pub fresh: bool,
    /// The parent's operation that waits for it, if one does.
    pub operation: OperationId,
    /// Whether it is to be cancelled rather than run.
    pub cancel: Option<String>,
    /// Whether it hears what people say to the parent.
    pub hears: bool,
    /// The parent's channel, to which the child reports.
    pub sender: RunSender,
}

/// A task for another agent, and the terms on which it is done.
///
/// ```
/// use ghostlight_actors::{run::Task, vocabulary::{Budget, ParentPolicy}};
///
/// let third = Task::from("look it up").share(33);
/// let cheap = Task::from("look it up").budget(Budget { model_calls: Some(2), ..Budget::default() });
/// let apart = Task::from("tidy up").when_parent_ends(ParentPolicy::Adopt);
/// # let _ = (third, cheap, apart);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a task is done by the agent to which it is given"]
#[non_exhaustive]
pub struct Task {
    /// The task.
    pub message: Message,
    /// The bounds of the child run, beyond the agent's own and what its parent can give it.
    pub budget: Budget,
    /// The child's share of its parent's own bounds, in percent, at most what is left. By default
    /// the rest is divided equally among the children that begin together and, if it does not wait
    /// for them, the parent's function.
    pub share: Option<u8>,
    /// The fate of the child when its parent ends first.
    pub when_parent_ends: ParentPolicy,
    /// The call of a model that gives the task.
    pub(crate) cause: Cause,
    /// Whether the child hears what people say to its parent.
    pub(crate) hears: bool,
}

impl Task {
    /// Sets the bounds of the child run.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Sets how much of its parent's own bounds the child gets, in percent.
    pub fn share(mut self, percent: u8) -> Self {
        self.share = Some(percent.min(100));
        self
    }

    /// Lets the child hear what people say to its parent's run, whose function only waits: each message is in the next
    /// request that the child builds. All such children at work hear it; where none is at work, the one that begins next
    /// does. A child that begins after one has heard it and answered hears nothing of it.
    pub fn hears_parent(mut self) -> Self {
        self.hears = true;
        self
    }

    /// Makes it the task that this call of a model gives.
    pub(crate) fn asked_by(mut self, call: &ToolCall) -> Self {
        self.cause = call.cause();
        self
    }

    /// Sets what happens to the child when its parent ends first.
    pub fn when_parent_ends(mut self, policy: ParentPolicy) -> Self {
        self.when_parent_ends = policy;
        self
    }
}

impl<T: Into<String>> From<T> for Task {
    fn from(text: T) -> Self {
        Message::user(text).into()
    }
}

impl From<Message> for Task {
    fn from(message: Message) -> Self {
        Self {
            message,
            budget: Budget::default(),
            share: None,
            when_parent_ends: ParentPolicy::default(),
            cause: Cause::default(),
            hears: false,
        }
    }
}

/// A command to a run that is under way.
#[derive(Debug)]
#[non_exhaustive]
pub enum Command {
    /// There is something in its mailbox.
    Mailbox,
    /// The run is to be cancelled. The cancellation is recorded by an ancestor, or is to be
    /// recorded by this run.
    Cancel {
        /// Why.
        reason: String,
    },
    /// A report of a child run.
    Child {
        /// The child.
        run: RunId,
        /// The report.
        report: ChildReport,
    },
    /// The run's parent was restarted and wants a report.
    Reattached,
    /// The run's journal was claimed by another process, or the system stops. The run stops here at
    /// once, without an end.
    LetGo,
}

/// How long a run waits for the outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Idleness {
    /// When it must be woken.
    pub wake_at: Option<Timestamp>,
    /// Whether nothing is waited for but providers of models, by the run and by all runs below it.
    pub for_providers: bool,
}

/// The report of a child run to its parent.
#[derive(Debug)]
pub enum ChildReport {
    /// It waits only for the outside.
    Idle(Idleness),
    /// It is at work.
    Busy,
    /// It ended. The parent commits its last entries, together with its own.
    Ended {
        /// The child's last entries, unless they are recorded.
        append: Option<Box<Append>>,
        /// How it ended.
        result: Box<ChildResult>,
        /// The items that it has heard of the parent's mailboxes.
        heard: Vec<String>,
    },
    /// It cannot go on, because the store refuses it. A parent that is gone takes it up again, and finds out for itself.
    Failed(StoreError),
}

/// The result of a child run.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct ChildResult {
    /// The child.
    pub run: RunId,
    /// Its outcome.
    pub outcome: Result<Outcome, AgentError>,
    /// The consumption of the run and its children.
    pub spent: Spent,
}

impl ChildResult {
    /// The result of this run.
    pub fn new(run: RunId, outcome: Result<Outcome, AgentError>, spent: Spent) -> Self {
        Self {
            run,
            outcome,
            spent,
        }
    }
}
