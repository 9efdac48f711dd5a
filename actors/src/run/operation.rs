//! The kinds of operations.

use std::{any::Any, borrow::Cow, marker::PhantomData, sync::Arc};

use futures_util::{FutureExt, TryFutureExt};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};
use tokio_util::sync::CancellationToken;

use super::{
    InputDigest, Kept, Leg, Ports,
    command::ChildResult,
    completed::{Made, Make},
    gate::{Gate, Ungated, ungated},
    journal::Durable,
    ledger::Allowance,
    ports::ChildStart,
    recorded_result::read_result,
};
use crate::{
    contract::{BoxFuture, MailboxItem, StateWrite, StoreHandle},
    vocabulary::{
        Begun, Cause, Digest, Entry, ErrorKind, Message, ModelResponse, OperationError,
        OperationId, Question, Resource, Retry, RunId, RunStart, Spent, Timestamp,
    },
};

/// One thing done through a [`RunContext`](super::RunContext): the only way in which an agent's
/// function touches the world.
///
/// Its result is recorded. When the function is run again, a recorded operation returns its
/// recorded result, and `begin` is not called. So any crate can add an operation that the engine
/// does not know.
///
/// ```
/// use ghostlight_actors::run::{Begin, Operation, OperationContext};
/// use ghostlight_actors::vocabulary::Digest;
///
/// /// Asks how many processors the machine has.
/// struct Processors;
///
/// impl Operation for Processors {
///     type Output = usize;
///     fn kind(&self) -> &'static str { "processors" }
///     fn digest(&self) -> Digest { Digest::of(b"") }
///     fn begin(self, _cx: OperationContext) -> Begin<usize> {
///         Begin::Ready(Ok(std::thread::available_parallelism().map_or(1, usize::from)))
///     }
/// }
/// ```
pub trait Operation: Send + 'static {
    /// The type of its result.
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// Its kind, such as `tool`: one word, never changed once journals hold it. The engine treats a
    /// kind of a [`Family`](crate::vocabulary::Family), such as `tool/remote`, like its own
    /// operation of that family.
    fn kind(&self) -> &'static str;

    /// Its name inside the kind, such as the tool's.
    fn name(&self) -> &str {
        ""
    }

    /// The digest of its input.
    fn digest(&self) -> Digest;

    /// The digest of its input, for an operation that puts off hashing until the digest is compared or written: where
    /// nothing is recorded and nobody reads the journal, it never is.
    #[doc(hidden)]
    fn input(&self) -> InputDigest {
        self.digest().into()
    }

    /// The resource that it consumes. The budget is checked before it begins.
    fn resource(&self) -> Option<Resource> {
        None
    }

    /// Whether an input that differs from the recorded one counts as drift and not as divergence.
    /// After drift the function continues with the recorded result; divergence parks the run.
    fn drifts(&self) -> bool {
        false
    }

    /// The call of a model for which it is performed, recorded with it; see [`ToolCall::cause`](crate::vocabulary::ToolCall::cause).
    fn cause(&self) -> Cause {
        Cause::default()
    }

    /// The operation's consumption of the run's budget, recorded with the result. The engine itself
    /// charges the consumption of child runs.
    fn spent(_output: &Self::Output) -> Spent {
        Spent::default()
    }

    /// A copy of the result, for one that costs less to copy than to encode as JSON: the journal keeps the copy, of which
    /// JSON is made when somebody reads it. By default the result is encoded at once.
    #[doc(hidden)]
    fn kept(_output: &Self::Output) -> Option<Kept> {
        None
    }

    /// Begins it for real.
    fn begin(self, cx: OperationContext) -> Begin<Self::Output>;
}

/// How an operation goes on: once it has begun, and after an act.
pub enum Begin<T> {
    /// It is done, with this result.
    Ready(Result<T, OperationError>),
    /// It is done when its end is recorded.
    Deferred(Deferred<T>),
    /// An act outside the process does it.
    Act(Act<T>),
    /// Its result comes from outside.
    Wait(Wait<T>),
    /// It changes shared state: each attempt reads, decides, and returns the writes, which are
    /// committed together with the result. After a conflict there is another attempt.
    Write(Write<T>),
    /// A child run does it.
    Child(Child<T>),
}

impl<T: Serialize + Send + 'static> Begin<T> {
    /// An operation that fails at once.
    pub fn failed(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::Ready(Err(OperationError::new(kind, message)))
    }

    /// An operation that is done when its end is recorded, by this function. The function is not called if the result is
    /// not wanted any more.
    pub fn deferred(make: impl FnOnce() -> Result<T, OperationError> + Send + 'static) -> Self {
        let make = Box::new(move || make().map(Made::unreckoned));
        let output = PhantomData;
        Self::Deferred(Deferred { make, output })
    }

    /// An act that may be done again after a crash, so that its start is not recorded.
    pub fn act(
        gate: Gate,
        act: impl Future<Output = Result<T, OperationError>> + Send + 'static,
    ) -> Self {
        Self::act_then(gate, act.map(Self::Ready))
    }

    /// Such an act, which returns how the operation goes on after it.
    pub fn act_then(gate: Gate, act: impl Future<Output = Self> + Send + 'static) -> Self {
        Self::Act(Act::new(gate, act))
    }
}

/// A change of shared state.
pub struct Write<T> {
    /// The scope and the key of the value. Changes of one value queue up inside a process, so that
    /// none starves.
    pub place: (String, String),
    /// Makes one attempt.
    pub attempt: Attempt<T>,
    /// Makes the result without the change, for an operation that has already done something else.
    pub(crate) unsaved: Option<Unsaved<T>>,
}

impl<T> Write<T> {
    /// A change without any other effect of its operation.
    pub fn new(place: (String, String), attempt: Attempt<T>) -> Self {
        Self {
            place,
            attempt,
            unsaved: None,
        }
    }
}

/// The end of an operation whose change was not made, for this reason.
pub(crate) type Unsaved<T> = Arc<dyn Fn(&OperationError) -> T + Send + Sync>;

/// One attempt to change shared state.
pub type Attempt<T> =
    Arc<dyn Fn() -> BoxFuture<'static, Result<(T, Changes), OperationError>> + Send + Sync>;

/// The changes that are committed together with an operation's result.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Changes {
    /// Changes of shared state.
    pub writes: Vec<StateWrite>,
    /// Contents to which the writes refer, stored under their hash.
    pub blobs: Vec<(Digest, Arc<[u8]>)>,
    /// Messages about the writes to the mailboxes of other runs.
    pub posts: Vec<(RunId, MailboxItem)>,
    /// Entries about the writes, which stand before the result.
    pub(crate) entries: Vec<Entry>,
}

impl Changes {
    /// No changes.
    pub fn none() -> Self {
        Self::default()
    }
}

/// An act outside the process.
pub struct Act<T> {
    /// Whether its start is durably recorded before it runs, because it must not happen twice.
    pub record_start: bool,
    /// When it may run and when its result counts.
    pub gate: Gate,
    /// The act, and how the operation goes on after it.
    pub(crate) future: Box<dyn Ungated<Begin<Made>>>,
    output: PhantomData<fn() -> T>,
}

impl<T: Serialize + Send + 'static> Act<T> {
    /// An act whose start is not recorded, and which returns how the operation goes on after it.
    pub fn new(gate: Gate, act: impl Future<Output = Begin<T>> + Send + 'static) -> Self {
        Self {
            record_start: false,
            gate,
            future: ungated(act.map(|begin| begin.map(Made::unreckoned))),
            output: PhantomData,
        }
    }

    /// The same, whose start is durably recorded before it runs, if it must not happen twice.
    #[must_use]
    pub fn recorded(mut self, record_start: bool) -> Self {
        self.record_start = record_start;
        self
    }
}

/// The end of an operation that is made when it is recorded.
pub struct Deferred<T> {
    pub(crate) make: Make,
    output: PhantomData<fn() -> T>,
}

/// Says why a message does not have the form that is waited for.
pub(crate) type Reads = fn(&Value) -> Result<(), String>;

/// A wait for something from outside.
pub struct Wait<T> {
    /// The awaited thing.
    pub wait_for: WaitFor,
    /// What the operation does with the arrival.
    pub(crate) finish: Finish<T>,
    /// For a message: whether it has the form that is waited for, or else why not. One that has not is set aside, and
    /// the operation waits on.
    pub(crate) reads: Option<Reads>,
}

/// What an operation does with the thing for which it waited.
pub(crate) enum Finish<T> {
    /// It ends with the result that this makes.
    Ends(Box<dyn FnOnce(Arrival) -> Result<T, OperationError> + Send>),
    /// It goes on as this says. The arrival stays in the mailbox until the operation ends.
    GoesOn(Box<dyn FnOnce(Arrival) -> Begin<T> + Send>),
}

impl<T> Wait<T> {
    /// An operation that waits for this, and makes its result of what comes.
    pub fn new(
        wait_for: WaitFor,
        finish: impl FnOnce(Arrival) -> Result<T, OperationError> + Send + 'static,
    ) -> Self {
        Self {
            wait_for,
            finish: Finish::Ends(Box::new(finish)),
            reads: None,
        }
    }

    /// An operation that waits for this, and then goes on as this function says. Until it ends, a later incarnation of
    /// the run waits anew and is given the same arrivals again.
    pub(crate) fn going_on(
        wait_for: WaitFor,
        go_on: impl FnOnce(Arrival) -> Begin<T> + Send + 'static,
    ) -> Self {
        Self {
            wait_for,
            finish: Finish::GoesOn(Box::new(go_on)),
            reads: None,
        }
    }

    /// How the operation goes on after this arrival.
    pub(crate) fn arrived(self, arrival: Arrival) -> Begin<T> {
        match self.finish {
            Finish::Ends(finish) => Begin::Ready(finish(arrival)),
            Finish::GoesOn(go_on) => go_on(arrival),
        }
    }

    /// Sets aside messages that this function cannot read.
    pub(crate) fn reading(mut self, reads: Reads) -> Self {
        self.reads = Some(reads);
        self
    }
}

/// Something that can come from outside.
#[derive(Clone, Debug, PartialEq)]
pub enum WaitFor {
    /// An answer to this question.
    Answer(Box<Question>),
    /// The result of a call that gave a ticket.
    Result,
    /// A message of this name.
    Message(Cow<'static, str>),
    /// A point in time.
    Timer(Timestamp),
    /// The time at which a model is asked again.
    Retry(Box<Retry>),
    /// The end of a child run that works beside the function, in whatever journal it ends.
    Child {
        /// The operation that began it.
        begun_by: OperationId,
        /// The child.
        run: RunId,
    },
}

/// Something that came from outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrival {
    /// An answer.
    Answer(Value),
    /// The result of a call that gave a ticket, or why it failed.
    Result(Result<String, String>),
    /// A message.
    Message(Value),
    /// The point in time has come.
    Timer,
    /// The child run ended.
    Child(Box<ChildResult>),
}

impl Arrival {
    /// The error of an operation that waited for something else.
    pub(super) fn unexpected(&self) -> OperationError {
        OperationError::new(ErrorKind::Other, format!("unexpected arrival: {self:?}"))
    }
}

/// A child run that does an operation.
pub struct Child<T> {
    /// The child.
    pub start: ChildStart,
    /// Whether the operation ends with the child, or as soon as the child is recorded.
    pub awaited: bool,
    /// The child's share of the run's own bounds, in percent, at most what is left. The default is
    /// an equal part of what is left.
    pub share: Option<u8>,
    /// Makes the result from the child's end.
    pub finish: FinishChild<T>,
}

/// Makes an operation's result from the end of its child.
pub(crate) type FinishChild<T> =
    Box<dyn FnOnce(RunId, Option<ChildResult>) -> Result<T, OperationError> + Send>;

opaque!(Begin<T>, Deferred<T>, Act<T>, Wait<T>, Write<T>, Child<T>);

/// The context of an operation that begins.
#[derive(Clone)]
pub struct OperationContext {
    /// Its id.
    pub id: OperationId,
    /// The run.
    pub run: RunId,
    /// The digest of its input.
    pub(crate) digest: InputDigest,
    /// The ports to the world.
    pub(crate) ports: Arc<dyn Ports>,
    /// Fires when the result is not wanted any more.
    pub cancelled: CancellationToken,
    /// The start of the operation, if an earlier incarnation of this run recorded it.
    pub started: Option<Begun>,
    /// The run's bounds and its consumption.
    pub allowance: Allowance,
    pub(crate) durable: Arc<Durable>,
    pub(crate) leg: Arc<Leg>,
}

impl OperationContext {
    /// How the run began.
    pub fn start(&self) -> &Arc<RunStart> {
        &self.leg.start
    }

    /// The store, for an operation that reads what is recorded there; its result is recorded. Writes go through
    /// [`Changes`], since a replay would not know of a write past the journal.
    pub fn store(&self) -> &StoreHandle {
        self.ports.store()
    }

    /// The agent whose function performs the operation.
    pub fn agent(&self) -> &crate::definition::PinnedAgent {
        &self.leg.agent
    }
}

opaque!(OperationContext { id, run });

impl Made {
    /// Adds what this operation consumed, and what the journal keeps of its output, unless it is there.
    pub(crate) fn reckon<O: Operation>(&mut self) {
        if std::mem::replace(&mut self.is_reckoned, true) {
            return;
        }
        if let Some(output) = self.output.as_any().downcast_mut::<O::Output>() {
            (self.spent, self.kept) = (O::spent(output), O::kept(output));
        }
    }

    /// The output of this operation, with what the operation consumed.
    pub(crate) fn by<O: Operation>(output: O::Output) -> Self {
        let (spent, kept) = (O::spent(&output), O::kept(&output));
        Self {
            kept,
            ..Self::new(output, spent)
        }
    }
}

/// A result on its way to the function.
pub(crate) enum Delivery {
    /// The output of an operation that this incarnation did, as its type.
    Live(Result<Box<dyn Any + Send>, OperationError>),
    /// The JSON of such a result, as an earlier incarnation recorded it.
    Recorded(Box<RawValue>),
}

impl Delivery {
    /// The messages of people that came with an answer of a model.
    pub(super) fn words(self) -> Vec<Message> {
        let response: Option<ModelResponse> = match self {
            Self::Live(Ok(output)) => output.downcast().ok().map(|response| *response),
            Self::Recorded(json) if json.get().contains("\"steering\":[{") => read_result(&json),
            _ => None,
        };
        response.map_or_else(Vec::new, |response| response.steering)
    }
}

/// Adds what an operation consumed to its output, and what the journal keeps of it.
pub(crate) type Reckon = fn(&mut Made);

/// An operation that has been polled and not yet begun.
pub(crate) struct ErasedOperation {
    pub(crate) begin: Box<dyn FnOnce(OperationContext) -> Begin<Made> + Send>,
    pub(crate) reckon: Reckon,
}

pub(crate) fn erase<O: Operation>(operation: O) -> ErasedOperation {
    ErasedOperation {
        begin: Box::new(move |cx| operation.begin(cx).map(Made::unreckoned)),
        reckon: Made::reckon::<O>,
    }
}

impl<T: 'static> Begin<T> {
    /// The same beginning with its output erased. Outputs of acts and of deferred ends were erased when those were made.
    fn map(self, to: fn(T) -> Made) -> Begin<Made> {
        match self {
            Self::Ready(result) => Begin::Ready(result.map(to)),
            Self::Deferred(deferred) => Begin::Deferred(Deferred {
                make: deferred.make,
                output: PhantomData,
            }),
            Self::Act(act) => Begin::Act(Act {
                record_start: act.record_start,
                gate: act.gate,
                future: act.future,
                output: PhantomData,
            }),
            Self::Wait(wait) => Begin::Wait(Wait {
                wait_for: wait.wait_for,
                finish: match wait.finish {
                    Finish::Ends(finish) => {
                        Finish::Ends(Box::new(move |arrival| finish(arrival).map(to)))
                    }
                    Finish::GoesOn(go_on) => {
                        Finish::GoesOn(Box::new(move |arrival| go_on(arrival).map(to)))
                    }
                },
                reads: wait.reads,
            }),
            Self::Write(write) => Begin::Write(write.map(to)),
            Self::Child(child) => Begin::Child(Child {
                start: child.start,
                awaited: child.awaited,
                share: child.share,
                finish: Box::new(move |run, end| (child.finish)(run, end).map(to)),
            }),
        }
    }
}

impl<T: 'static> Write<T> {
    pub(crate) fn map<U: 'static>(self, to: fn(T) -> U) -> Write<U> {
        let (attempt, unsaved) = (self.attempt, self.unsaved);
        let unsaved = unsaved.map(|made| Arc::new(move |error: &_| to(made(error))) as Unsaved<U>);
        Write {
            place: self.place,
            attempt: Arc::new(move || {
                Box::pin(attempt().map_ok(move |(output, changes)| (to(output), changes)))
            }),
            unsaved,
        }
    }
}
