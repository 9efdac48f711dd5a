//! The requests of a run to the world. Actors answer them, or tests.

use std::sync::Arc;

use super::{
    Carried, RunSender,
    calls::{Called, ModelAnswer, ModelCall, ToolEnd, ToolInvocation, ToolSlot},
    command::ChildResult,
};
use crate::{
    contract::{
        Batch, BoxFuture, Committed, Credential, Entropy, PreviewSink, StateSlot, StoreError,
        Surroundings,
    },
    definition::Pinned,
    vocabulary::{
        Budget, Cause, Message, OperationError, OperationId, ParentPolicy, Retry, RunId, RunStart,
        ToolCall,
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
