//! What a run asks of the world. The actors answer; tests may.

use std::{any::Any, fmt, sync::Arc};

use tokio_util::sync::CancellationToken;

use super::{ModelCode, RunSender, ToolCode};
use crate::{
    contract::{
        Append, Batch, BoxFuture, Change, Clock, Committed, Credential, Emission, Entropy,
        InboxItem, Origin, StateSlot, StateValue, StoreError, StoredLine, ToolState,
    },
    definition::Pinned,
    vocabulary::{
        AgentError, Budget, Continuation, Continued, Digest, Message, ModelRequest, ModelResponse,
        OperationError, OperationId, Outcome, ParentPolicy, RunId, RunStart, Spent, Timestamp,
        ToolCall, ToolDefinition, ToolResult,
    },
};

/// What happens with a commit's result. It is called in the order of commits.
pub(crate) type Acknowledge = Box<dyn FnOnce(Result<Committed, StoreError>) + Send>;

/// The doors through which a run reaches models, tools, other runs and the journal.
///
/// Everything here returns at once; what takes time is a future that does not borrow.
pub(crate) trait Ports: fmt::Debug + Send + Sync + 'static {
    /// Commits changes and tells when they are durable.
    fn commit(&self, batch: Batch, acknowledge: Acknowledge);

    /// Asks a model, through its gateway.
    fn model(
        &self,
        call: ModelCall,
    ) -> BoxFuture<'static, Called<Result<ModelResponse, OperationError>>>;

    /// Waits until a tool call may run: so many run at once, of its tool and of all. A call of which
    /// a start is recorded has its slot before.
    fn slot(&self, call: &ToolInvocation) -> BoxFuture<'static, ToolSlot>;

    /// Calls a tool, through its executor. A call that is under way already under this operation
    /// is joined, not repeated.
    fn tool(&self, call: ToolInvocation) -> BoxFuture<'static, Called<ToolEnd>>;

    /// Asks the tool whether a call whose end was never heard of happened.
    fn reconcile(&self, call: ToolInvocation) -> BoxFuture<'static, Called<ToolEnd>>;

    /// Ends a call that nobody wants any more, once its own future is dropped; a `once` tool has
    /// a grace period. The future ends when the call can do nothing more, with its result if it
    /// gave one.
    fn abort_tool(&self, run: RunId, operation: OperationId)
    -> BoxFuture<'static, Option<ToolEnd>>;

    /// Ends the tool calls that earlier lives of this run left behind and that it did not take over:
    /// it is about to end, and no tool may begin for it afterwards.
    fn forget_calls(&self, run: RunId) -> BoxFuture<'static, ()>;

    /// Takes the credential that was given in this process as the answer to a question.
    fn credential(&self, run: RunId, question: OperationId) -> Option<Credential> {
        let _ = (run, question);
        None
    }

    /// Starts a child run whose first entry is recorded, or takes it up again.
    fn child(&self, child: ChildStart);

    /// Starts a child run of this parent that outlives it, unless it has begun.
    fn tree(&self, parent: RunId, run: RunId);

    /// Tells a child run of this parent to be cancelled. It reaches also a child that was started
    /// just before.
    fn cancel_child(&self, parent: RunId, run: RunId, reason: String);

    /// Waits for the end of a run that is no child of who asks, live or not.
    fn outcome(&self, run: RunId) -> BoxFuture<'static, Result<ChildResult, OperationError>>;

    /// A value of shared state, also how often it was changed where there is none.
    fn state(
        &self,
        scope: String,
        key: String,
    ) -> BoxFuture<'static, Result<StateSlot, OperationError>>;

    /// All values of a scope of shared state, by key.
    fn scope(
        &self,
        scope: String,
    ) -> BoxFuture<'static, Result<Vec<(String, StateValue)>, OperationError>>;

    /// What is kept under this content hash.
    fn blob(&self, digest: Digest) -> BoxFuture<'static, Result<Option<Arc<[u8]>>, StoreError>>;

    /// Waits until nobody else in this process changes this value.
    fn state_turn(&self, scope: String, key: String) -> BoxFuture<'static, StateTurn>;

    /// Tells the memory that these values changed, once they are durable.
    fn state_changed(&self, keys: Vec<(String, String)>);

    /// Tells the memory that anything of this scope may have changed unseen.
    fn forget_state(&self, scope: String);

    /// Puts something into a run's inbox.
    fn post(&self, run: RunId, item: InboxItem) -> BoxFuture<'static, Result<(), OperationError>>;

    /// Tells runs that a commit put something into their inboxes.
    fn posted(&self, runs: Vec<RunId>);

    /// Which of these runs have ended, or are not there any more. One that goes on in another journal
    /// has not ended.
    fn ended(&self, runs: Vec<RunId>) -> BoxFuture<'static, Result<Vec<RunId>, OperationError>>;

    /// What is recorded of this run.
    fn journal(&self, run: RunId) -> BoxFuture<'static, Result<Vec<StoredLine>, StoreError>>;

    /// What is in this run's inbox after this mark, each item with its own.
    fn inbox(
        &self,
        run: RunId,
        after: u64,
    ) -> BoxFuture<'static, Result<Vec<(u64, InboxItem)>, StoreError>>;

    /// Tells observers that the journal has more, up to this position.
    fn published(&self, root: RunId, position: u64);

    /// What keeps the actors that packages add.
    fn companions(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        None
    }

    /// The clock.
    fn clock(&self) -> &Arc<dyn Clock>;

    /// Chance.
    fn entropy(&self) -> &Arc<dyn Entropy>;
}

/// The right to change a value of shared state; dropping it gives it to the next that waits.
/// Only fairness rests on it: what keeps a write from being lost is the version that it expects.
#[derive(Debug)]
pub(crate) struct StateTurn(#[allow(dead_code)] tokio::sync::OwnedMutexGuard<()>);

impl StateTurn {
    /// The turn of whoever holds this value's lock.
    pub(crate) fn new(held: tokio::sync::OwnedMutexGuard<()>) -> Self {
        Self(held)
    }
}

/// The right of a tool call to run; when all that share it have dropped it, it is the next one's.
#[derive(Clone)]
pub(crate) struct ToolSlot(#[allow(dead_code)] Arc<dyn Any + Send + Sync>);

impl ToolSlot {
    /// The right of whoever holds this.
    pub(crate) fn new(held: impl Send + Sync + 'static) -> Self {
        Self(Arc::new(held))
    }
}

impl fmt::Debug for ToolSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ToolSlot")
    }
}

/// A model call of a run.
#[derive(Clone, Debug)]
pub(crate) struct ModelCall {
    /// The run.
    pub run: RunId,
    /// The root of its tree, for fairness.
    pub root: RunId,
    /// The operation.
    pub operation: OperationId,
    /// For whom it is.
    pub origin: Arc<Origin>,
    /// What is asked; its model's name is filled in.
    pub request: ModelRequest,
    /// The model, as the agent that asks knows it.
    pub code: ModelCode,
    /// Fires when nobody wants the answer any more.
    pub cancelled: CancellationToken,
}

/// A tool call of a run.
#[derive(Clone, Debug)]
pub(crate) struct ToolInvocation {
    /// The run.
    pub run: RunId,
    /// The root of its tree, for fairness.
    pub root: RunId,
    /// The operation.
    pub operation: OperationId,
    /// The agent that calls.
    pub agent: Arc<str>,
    /// For whom it is, and who approved it.
    pub origin: Arc<Origin>,
    /// The call.
    pub call: ToolCall,
    /// The pinned definition.
    pub definition: Arc<ToolDefinition>,
    /// The tool, as the agent that calls knows it, or why there is none.
    pub code: Result<ToolCode, String>,
    /// When it must have ended.
    pub deadline: Option<Timestamp>,
    /// What a person gave for this call.
    pub credential: Option<Credential>,
    /// What the call may read of what its team keeps.
    pub kept: Arc<dyn ToolState>,
    /// What it goes on with, where it had not come to its end.
    pub continued: Option<Arc<Continued>>,
    /// The right to run, where it was given before; else it is waited for.
    pub slot: Option<ToolSlot>,
    /// Fires when nobody wants the result any more: a call that has not begun does not begin then.
    pub cancelled: CancellationToken,
}

/// The end of a call, with what interceptors told of it on the way.
#[derive(Clone, Debug)]
pub(crate) struct Called<T> {
    /// What it came to.
    pub end: T,
    /// What was told of it, to be recorded with its end.
    pub told: Vec<Emission>,
    /// How many real attempts were made, and how long they took together, with the pauses.
    pub tries: Tries,
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

/// What a call came to, as far as the executor knows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ToolEnd {
    /// A known end.
    Result(ToolResult),
    /// A known end that changes something that the team keeps.
    Changing(ToolResult, Vec<Change>),
    /// Nothing yet: the result comes through the call's ticket.
    Later,
    /// It has not come to its end, and goes on so.
    Continues(Box<Continuation>),
    /// The end was not heard of, for this reason.
    InDoubt(String),
    /// It is known not to have happened (only an answer to a reconciliation).
    DidNotHappen,
    /// It was told to stop, but its code blocks: it runs on until it returns (only of a call that
    /// was aborted).
    StillRunning,
}

/// A child run to be started or recovered.
#[derive(Clone, Debug)]
pub struct ChildStart {
    /// The child run.
    pub run: RunId,
    /// The run that begins it.
    pub parent: RunId,
    /// The epoch in which this process carries the parent: with it the child is claimed, so that
    /// a process that the parent was taken from cannot take the child back.
    pub epoch: u64,
    /// The agent that is to carry it.
    pub agent: String,
    /// How it begins; for one that is recovered, its journal says so.
    pub start: Arc<RunStart>,
    /// The definition that it is pinned to.
    pub pinned: Arc<Pinned>,
    /// That definition as it is stored, where the commit that begins the child must store it.
    pub definition: Option<Arc<[u8]>>,
    /// Whether its first entry was just recorded by the parent, so that it need not be claimed.
    pub fresh: bool,
    /// The parent's operation that waits for it, if one does.
    pub operation: OperationId,
    /// Whether it is to be cancelled rather than run.
    pub cancel: Option<String>,
    /// Where the child tells its parent how it stands.
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
#[non_exhaustive]
pub struct Task {
    /// What is to be done.
    pub message: Message,
    /// The bounds of the child run, beyond the agent's own and what its parent can give it.
    pub budget: Budget,
    /// How much of its parent's own bounds the child gets, in percent, at most what is left.
    /// Where it is left out, what is left is divided equally among the children that begin
    /// together and, where it does not wait for them, the parent's function.
    pub share: Option<u8>,
    /// What happens to the child when its parent ends first.
    pub when_parent_ends: ParentPolicy,
}

impl Task {
    /// Sets the bounds of the child run.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Sets how much of its parent's own bounds the child gets, in percent.
    #[must_use]
    pub fn share(mut self, percent: u8) -> Self {
        self.share = Some(percent.min(100));
        self
    }

    /// Sets what happens to the child when its parent ends first.
    #[must_use]
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
        }
    }
}

/// What a run is told while it is under way.
#[derive(Debug)]
#[non_exhaustive]
pub enum Command {
    /// There is something in its inbox.
    Inbox,
    /// It is to be cancelled; an ancestor's record says so, or this run's is to.
    Cancel {
        /// Why.
        reason: String,
    },
    /// A child run tells how it stands.
    Child {
        /// The child.
        run: RunId,
        /// How it stands.
        sender: ChildReport,
    },
    /// A child run cannot be gone on with: the store refuses it.
    ChildFailed(StoreError),
    /// Its parent was restarted and wants to know how it stands.
    Reattached,
    /// Its journal was claimed by somebody else, or the system stops: it lets go at once.
    LetGo,
}

/// How a child run stands.
#[derive(Debug)]
pub enum ChildReport {
    /// All that it waits for is outside.
    Idle {
        /// When it must be woken.
        wake_at: Option<Timestamp>,
    },
    /// It goes on.
    Busy,
    /// It ended. The parent commits its last entries, together with its own.
    Ended {
        /// The child's last entries, unless they are recorded.
        append: Option<Box<Append>>,
        /// How it ended.
        result: Box<ChildResult>,
    },
}

/// What a child run came to.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct ChildResult {
    /// The child.
    pub run: RunId,
    /// Its outcome.
    pub outcome: Result<Outcome, AgentError>,
    /// What it and its children consumed.
    pub spent: Spent,
}

impl ChildResult {
    /// What this run came to.
    pub fn new(run: RunId, outcome: Result<Outcome, AgentError>, spent: Spent) -> Self {
        Self {
            run,
            outcome,
            spent,
        }
    }
}
