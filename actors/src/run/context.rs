//! The context through which an agent's function touches the world.

use std::{
    fmt,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll},
};

use futures_util::FutureExt;
use serde::de::DeserializeOwned;

use super::{PolicyHandle, leg::Leg, operation::Operation, policy::Watch};
use crate::{
    definition::{AgentSpec, PinnedAgent},
    vocabulary::{
        AgentError, Entry, ErrorKind, Message, ModelRequest, OperationError, OperationId, RunId,
        RunStart, SessionId, ToolCall, ToolDefinition, ToolSet, Transcript, typed_text,
    },
};

/// Everything that an agent's function may do. Each act is an [`Operation`]: it takes its id
/// when the method is called, starts when its future is first polled, and its result is
/// recorded before anything outside rests on it.
///
/// A context is owned by its function and is not `Clone`; [`lane`](Self::lane) is the only
/// way to a second one. When the run has ended or moved to another process, every operation
/// answers [`AgentError::Ended`].
///
/// A function must not do any of the following, because it would not be the same when it is run again: read the
/// clock (use [`now`](Self::now)), draw random numbers ([`random`](Self::random)), iterate a
/// hash map into a request (use an ordered map), spawn tasks by hand (use `join!` over
/// operations), or touch the world by itself ([`step`](Self::step)).
pub struct RunContext {
    leg: Arc<Leg>,
    lane: Arc<OperationLane>,
    /// The policies of the function. A policy's own context has none.
    watch: Option<Watch>,
}

/// The counter of a context's operations.
struct OperationLane {
    number: u32,
    name: Arc<str>,
    next: AtomicU32,
    /// How often it listened to what people say to the run.
    listened: AtomicU32,
}

impl OperationLane {
    fn new(number: u32, name: Arc<str>) -> Arc<Self> {
        Arc::new(Self {
            number,
            name,
            next: AtomicU32::new(0),
            listened: AtomicU32::new(0),
        })
    }
}

impl RunContext {
    pub(crate) fn new(leg: Arc<Leg>) -> Self {
        Self {
            leg,
            lane: OperationLane::new(0, Arc::default()),
            watch: None,
        }
    }

    /// The context of a function that these policies watch over, made afresh.
    pub(crate) fn watched(leg: Arc<Leg>, policies: &[(String, PolicyHandle)]) -> Self {
        let mut cx = Self::new(leg);
        cx.watch = Watch::install(&cx, policies);
        cx
    }

    /// A second handle on the same lane, for an operation that is made of several.
    pub(crate) fn handle(&self) -> Self {
        Self {
            leg: self.leg.clone(),
            lane: self.lane.clone(),
            watch: self.watch.clone(),
        }
    }

    /// Performs an operation. Everything that an agent's function does goes through this method.
    pub fn perform<O: Operation>(&self, operation: O) -> Performing<O> {
        self.perform_as(self.allocate(), operation)
    }

    pub(crate) fn allocate(&self) -> OperationId {
        self.id(self.lane.next.fetch_add(1, Ordering::Relaxed))
    }

    fn id(&self, number: u32) -> OperationId {
        OperationId {
            leg: self.leg.number,
            lane: self.lane.number,
            number,
        }
    }

    /// The id of the operation that is asked for next.
    pub(crate) fn next_id(&self) -> OperationId {
        self.id(self.lane.next.load(Ordering::Relaxed))
    }

    pub(crate) fn perform_as<O: Operation>(&self, id: OperationId, operation: O) -> Performing<O> {
        Performing {
            leg: self.leg.clone(),
            id,
            operation: Some(operation),
            waiting: false,
        }
    }

    /// A second context for a part of the function that runs beside the rest. Its operations
    /// count for themselves, so adding one to it does not move those of other lanes.
    #[must_use]
    pub fn lane(&self, name: impl Into<Arc<str>>) -> Self {
        let mut books = self.leg.books.lock();
        let number = books.lanes;
        books.lanes += 1;
        if books.words.deaf.contains(&self.lane.number) {
            books.words.deaf.insert(number);
        }
        Self {
            leg: self.leg.clone(),
            lane: OperationLane::new(number, name.into()),
            watch: self.watch.as_ref().map(Watch::beside),
        }
    }

    /// A lane for work that is not the function's own. It does not hear what people say to the run.
    pub(crate) fn aside(&self, name: impl Into<Arc<str>>) -> Self {
        let aside = self.lane(name);
        let mut books = self.leg.books.lock();
        books.words.deaf.insert(aside.lane.number);
        drop(books);
        aside
    }

    /// Takes what people have said to the run by now (`Run::steer`, and turns that come while it is
    /// at work, where the team lets them steer), in its order. It belongs at the end of the
    /// conversation, after all results of calls. Whoever builds a model request takes it first, so
    /// that the model reads it at once; behaviors do. What nobody takes this way comes with the next
    /// model answer ([`ModelResponse::steering`]).
    ///
    /// Each message that is taken is recorded. It is taken once, by the lane that asks first, and a
    /// policy's context takes none.
    ///
    /// [`ModelResponse::steering`]: crate::vocabulary::ModelResponse::steering
    pub fn hear(&self) -> Vec<Arc<Message>> {
        let place = self.lane.listened.fetch_add(1, Ordering::Relaxed);
        self.leg.hear(self.next_id(), place)
    }

    pub(crate) fn watch(&self) -> Option<&Watch> {
        self.watch.as_ref()
    }

    /// The name that this lane was given; empty for the function's own context.
    pub fn lane_name(&self) -> &str {
        &self.lane.name
    }

    /// The run.
    pub fn run(&self) -> RunId {
        self.leg.run
    }

    /// How the run began.
    pub fn start(&self) -> &RunStart {
        &self.leg.start
    }

    /// The session that the run belongs to; `None` for a delegated task.
    pub fn session(&self) -> Option<&SessionId> {
        self.leg.start.session.as_ref()
    }

    /// The agent whose function this is, as it was pinned when the run began.
    pub fn agent(&self) -> &PinnedAgent {
        &self.leg.agent
    }

    /// The agent's definition.
    pub fn spec(&self) -> &AgentSpec {
        &self.leg.agent.spec
    }

    /// The task or the user's turn.
    pub fn input(&self) -> &Message {
        &self.leg.start.input
    }

    /// The task as a value, for an agent whose [`input`](AgentSpec::input) says what it takes.
    ///
    /// # Errors
    /// [`ErrorKind::Malformed`] when it is none of this type.
    pub fn input_as<T: DeserializeOwned>(&self) -> Result<T, AgentError> {
        typed_text(&self.input().content()).map_err(|fault| {
            let message = format!("the task of {} cannot be read: {fault}", self.spec().name);
            OperationError::new(ErrorKind::Malformed, message).into()
        })
    }

    /// The request of the agent that transferred to this one.
    pub fn request(&self) -> Option<&str> {
        let is_given_back = self.leg.returned_by.is_some();
        self.leg.request.as_deref().filter(|_| !is_given_back)
    }

    /// The agent that gave the conversation back, where this one had handed it over [to
    /// return](crate::vocabulary::Transfer::returning).
    pub fn returned_by(&self) -> Option<&str> {
        self.leg.returned_by.as_deref()
    }

    /// The conversation so far: the session's history, the turn, and the messages of earlier legs.
    /// Of the messages from before this agent took over it has those that the agent
    /// [sees](AgentSpec::on_handoff).
    pub fn conversation(&self) -> Transcript {
        self.leg.conversation.clone()
    }

    /// A request to the agent's model with its instructions, tools and settings.
    pub fn model_request(&self, conversation: Transcript) -> ModelRequest {
        let agent = self.agent();
        let mut request = ModelRequest::new(conversation)
            .model(agent.model.clone())
            .instructions(agent.instructions.clone())
            .tools(self.tools_offered())
            .settings(agent.settings.clone());
        request.output.clone_from(&agent.output);
        request.stream = self.start().streaming.unwrap_or(agent.spec.stream);
        request
    }

    /// The agent's tools, those that reach other agents, and those of the turn's caller.
    pub fn tools_offered(&self) -> ToolSet {
        let own = &self.agent().offered;
        let given = &self.start().tools;
        if given.is_empty() {
            return own.clone();
        }
        let given = given.iter().filter(|tool| own.get(&tool.name).is_none());
        own.iter().chain(given).cloned().collect()
    }

    /// Emits an event for observers. It is recorded once, and not emitted again in replay.
    pub fn emit(&self, name: impl Into<String>, data: &impl serde::Serialize) {
        let op = self.allocate();
        let Ok(data) = serde_json::value::to_raw_value(data) else {
            return;
        };
        let name = name.into();
        self.leg.note(Entry::Emitted { op, name, data });
    }

    /// Registers a tool call that undoes what was done, if the run is cancelled from here on.
    /// Undo steps run in reverse order, as `once` effects, after all open calls have ended. A run
    /// that continues with [`continue_as`](Self::continue_as) keeps what it did: what is still to be
    /// undone is registered again.
    pub fn on_cancel(&self, call: ToolCall) {
        let op = self.allocate();
        self.leg.note(Entry::UndoRegistered { op, call });
    }

    pub(crate) fn leg(&self) -> &Arc<Leg> {
        &self.leg
    }

    pub(crate) fn tool_definition(&self, name: &str) -> Option<Arc<ToolDefinition>> {
        self.leg.agent.tools.get(name).cloned()
    }
}

impl fmt::Debug for RunContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunContext")
            .field("run", &self.leg.run)
            .field("agent", &self.leg.agent.name)
            .field("lane", &self.lane.name)
            .finish_non_exhaustive()
    }
}

/// An operation under way. It starts when it is first polled; dropping it after that cancels
/// this one call, and this is recorded.
#[must_use = "an operation starts when it is polled"]
pub struct Performing<O: Operation> {
    leg: Arc<Leg>,
    id: OperationId,
    operation: Option<O>,
    waiting: bool,
}

impl<O: Operation> Performing<O> {
    /// The operation's id.
    pub fn id(&self) -> OperationId {
        self.id
    }
}

// The future holds no reference into itself, whatever the operation is.
impl<O: Operation> Unpin for Performing<O> {}

impl<O: Operation> Future for Performing<O> {
    type Output = Result<O::Output, AgentError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(operation) = self.operation.take() {
            if let Err(error) = self.leg.begin(self.id, operation) {
                return Poll::Ready(Err(error));
            }
            self.waiting = true;
        }
        let polled = self.leg.poll::<O::Output>(self.id, cx);
        if polled.is_ready() {
            self.waiting = false;
        }
        polled
    }
}

impl<O: Operation> Drop for Performing<O> {
    fn drop(&mut self) {
        if self.waiting {
            self.leg.dropped(self.id);
        }
    }
}

impl<O: Operation> fmt::Debug for Performing<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Performing")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// Several operations that make one result. It starts when it is first polled.
#[must_use = "an operation starts when it is polled"]
pub struct Composed<T>(pub(crate) crate::contract::BoxFuture<'static, Result<T, AgentError>>);

impl<T> Future for Composed<T> {
    type Output = Result<T, AgentError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_unpin(cx)
    }
}

opaque!(Composed<T>);
