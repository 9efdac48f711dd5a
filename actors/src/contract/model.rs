//! Models, and the errors of their attempts.

use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use super::{
    AttemptedCall, Attempts, BoxFuture, Callee, ModelHost, Origin, PreviewSink, Suspension,
};
use crate::vocabulary::{
    Delta, ErrorKind, ModelRequest, ModelResponse, OperationError, OperationId, Preview, RunId,
    Usage,
};

/// A language model, or a substitute for one.
///
/// One call is one attempt: retries, limits and the breaker belong to the gateway. An implementation bounds its own
/// time. It returns exactly one complete answer, even if it has streamed pieces through [`ModelContext::delta`]
/// before.
pub trait Model: Send + Sync + 'static {
    /// Answers a request.
    fn respond(
        &self,
        request: ModelRequest,
        cx: ModelContext,
    ) -> impl Future<Output = Result<ModelResponse, ModelError>> + Send;

    /// The name for people, such as `offline` or `openai gpt-5 at api.example.com`.
    fn description(&self) -> String {
        String::from("a model")
    }

    /// Checks, without a request, that it can be asked: that its settings fit and its key is there. A System that starts
    /// tells the fault as a warning, long before somebody asks the first question.
    ///
    /// # Errors
    /// The error that every request would meet.
    fn ready(&self) -> Result<(), ModelError> {
        Ok(())
    }

    /// Whether its answers say what they cost, or it costs nothing. Where it does not, a budget in money over it would never
    /// be used up, so a team with both is refused.
    fn is_priced(&self) -> bool {
        true
    }

    /// Begins the work that the model does beside its calls: a System calls it when it starts, and waits for its end. A model that [suspends](Suspension) its calls looks here for answers to those of earlier
    /// processes.
    fn attend(&self, _host: &ModelHost) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// A model of any kind. Cloning shares it.
#[derive(Clone)]
pub struct ModelHandle(Arc<dyn ErasedModel>);

impl ModelHandle {
    /// Keeps a model.
    pub fn new(model: impl Model) -> Self {
        Self(Arc::new(model))
    }

    /// Makes one attempt. See [`Model::respond`].
    pub fn respond(
        &self,
        request: ModelRequest,
        cx: ModelContext,
    ) -> BoxFuture<'_, Result<ModelResponse, ModelError>> {
        self.0.respond(request, cx)
    }

    /// The model's name for people.
    pub fn description(&self) -> String {
        self.0.description()
    }

    /// Checks, without a request, that it can be asked. See [`Model::ready`].
    ///
    /// # Errors
    /// The error that every request would meet.
    pub fn ready(&self) -> Result<(), ModelError> {
        self.0.ready()
    }

    /// Whether its answers say what they cost. See [`Model::is_priced`].
    pub fn is_priced(&self) -> bool {
        self.0.is_priced()
    }

    /// Begins the work that the model does beside its calls. See [`Model::attend`].
    pub fn attend<'a>(&'a self, host: &'a ModelHost) -> BoxFuture<'a, ()> {
        self.0.attend(host)
    }

    /// Whether both are the same model, with one state.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The identity by which interceptors tell it from other models.
    pub fn callee(&self) -> Callee {
        Callee::of(&self.0)
    }

    /// Identifies it among all models that exist at the same time.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }
}

impl<M: Model> From<M> for ModelHandle {
    fn from(model: M) -> Self {
        Self::new(model)
    }
}

impl fmt::Debug for ModelHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ModelHandle({})", self.description())
    }
}

trait ErasedModel: Send + Sync {
    fn respond(
        &self,
        request: ModelRequest,
        cx: ModelContext,
    ) -> BoxFuture<'_, Result<ModelResponse, ModelError>>;
    fn ready(&self) -> Result<(), ModelError>;
    fn description(&self) -> String;
    fn is_priced(&self) -> bool;
    fn attend<'a>(&'a self, host: &'a ModelHost) -> BoxFuture<'a, ()>;
}

impl<M: Model> ErasedModel for M {
    fn respond(
        &self,
        request: ModelRequest,
        cx: ModelContext,
    ) -> BoxFuture<'_, Result<ModelResponse, ModelError>> {
        Box::pin(Model::respond(self, request, cx))
    }

    fn ready(&self) -> Result<(), ModelError> {
        Model::ready(self)
    }

    fn description(&self) -> String {
        Model::description(self)
    }

    fn is_priced(&self) -> bool {
        Model::is_priced(self)
    }

    fn attend<'a>(&'a self, host: &'a ModelHost) -> BoxFuture<'a, ()> {
        Box::pin(Model::attend(self, host))
    }
}

/// The context of one attempt.
#[derive(Clone)]
pub struct ModelContext {
    run: RunId,
    operation: OperationId,
    attempt: u32,
    /// The call, with the state that all its attempts share.
    call: Arc<dyn AttemptedCall>,
    cancelled: CancellationToken,
    origin: Option<Arc<Origin>>,
    previews: Option<PreviewSink>,
    slot: Option<Weak<dyn Slot>>,
}

/// The right of an attempt to run, which it may give back before its end.
pub(crate) trait Slot: Send + Sync {
    fn free(&self);
}

impl ModelContext {
    /// The context of one attempt.
    pub fn new(
        run: RunId,
        operation: OperationId,
        attempt: u32,
        cancelled: CancellationToken,
    ) -> Self {
        let attempts = Arc::new(Attempts::after(attempt));
        Self::of_call((run, operation), attempts, cancelled).with_attempt(attempt)
    }

    /// A context for a call outside of any run, such as in a test of a model.
    pub fn detached() -> Self {
        Self::new(
            RunId::from_random(0),
            OperationId::default(),
            1,
            CancellationToken::new(),
        )
    }

    /// Sets which attempt this is, from 1.
    #[must_use]
    pub fn with_attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    /// The context of the next attempt of this call.
    pub(crate) fn of_call(
        (run, operation): (RunId, OperationId),
        call: Arc<dyn AttemptedCall>,
        cancelled: CancellationToken,
    ) -> Self {
        Self {
            run,
            operation,
            attempt: call.attempts().begun() + 1,
            call,
            cancelled,
            origin: None,
            previews: None,
            slot: None,
        }
    }

    /// Begins the next attempt of this call. An interceptor may have made the context.
    #[must_use]
    pub(crate) fn beginning(self, call: Arc<dyn AttemptedCall>) -> Self {
        Self {
            attempt: call.attempts().begin(),
            call,
            ..self
        }
    }

    /// Holds this slot.
    #[must_use]
    pub(crate) fn in_slot(mut self, slot: &Arc<dyn Slot>) -> Self {
        self.slot = Some(Arc::downgrade(slot));
        self
    }

    /// The call's means to wait for hours; `None` outside of a run, and in a run that is kept in memory: it ends with its
    /// process, and another process may come by the answer.
    pub fn suspension(&self) -> Option<Suspension> {
        Suspension::of(&self.call)
    }

    /// Gives back the attempt's place among the calls that run at once, for an attempt that does nothing but wait.
    pub fn free_slot(&self) {
        if let Some(slot) = self.slot.as_ref().and_then(Weak::upgrade) {
            slot.free();
        }
    }

    /// Begins another attempt of the call, by a model that asks another in its place: what this attempt has shown is
    /// void. The model's name is the one that observers are shown.
    #[must_use]
    pub fn next_attempt(&self, model: impl Into<String>) -> Self {
        let attempt = self.call.attempts().begin();
        if let Some(previews) = &self.previews {
            previews(Preview::ModelStarted {
                operation: self.operation,
                attempt,
                model: model.into(),
            });
        }
        self.clone().with_attempt(attempt)
    }

    /// Sets on whose behalf the call is made.
    #[must_use]
    pub fn with_origin(mut self, origin: Arc<Origin>) -> Self {
        self.origin = Some(origin);
        self
    }

    /// On whose behalf the call is made, and who approved it; `None` outside of a run.
    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_deref()
    }

    /// Sends previews there.
    #[must_use]
    pub fn previews(mut self, sink: Arc<dyn Fn(Preview) + Send + Sync>) -> Self {
        self.previews = Some(sink);
        self
    }

    /// Passes each preview of the attempt through this function, which changes or drops it: for interceptors that guard
    /// what observers see.
    #[must_use]
    pub fn previews_through<F>(mut self, change: F) -> Self
    where
        F: Fn(Preview) -> Option<Preview> + Send + Sync + 'static,
    {
        self.previews = super::through(self.previews, change);
        self
    }

    /// Whether anybody watches the previews.
    pub fn is_watched(&self) -> bool {
        self.previews.is_some()
    }

    /// The run that asks.
    pub fn run(&self) -> RunId {
        self.run
    }

    /// The operation that asks.
    pub fn operation(&self) -> OperationId {
        self.operation
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Fires when nobody wants the answer any more. The future is dropped as well, so only an
    /// implementation that hands work to others needs it.
    pub fn cancelled(&self) -> &CancellationToken {
        &self.cancelled
    }

    /// Shows that another attempt follows after a pause, and why.
    pub fn retrying(&self, error: impl Into<String>, pause: Duration) {
        if let Some(previews) = &self.previews {
            previews(Preview::ModelRetry {
                operation: self.operation,
                attempt: self.attempt,
                error: error.into(),
                pause_ms: u64::try_from(pause.as_millis()).unwrap_or(u64::MAX),
            });
        }
    }

    /// Shows a piece of the answer while it is made.
    pub fn delta(&self, delta: Delta) {
        if let Some(previews) = &self.previews {
            let (operation, attempt) = (self.operation, self.attempt);
            previews(Preview::Delta {
                operation,
                attempt,
                delta,
            });
        }
    }
}

impl fmt::Debug for ModelContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelContext")
            .field("run", &self.run)
            .field("operation", &self.operation)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

/// Why an attempt failed. The gateway acts on the kind. The message is for people and holds neither keys nor prompts.
#[derive(Clone, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct ModelError {
    /// The kind of failure.
    pub kind: ErrorKind,
    /// The failure, and the way out.
    pub message: String,
    /// Whether another attempt can help.
    pub retryable: bool,
    /// The HTTP status, where there was one.
    pub status: Option<u16>,
    /// How long the server asks to wait before another attempt.
    pub retry_after: Option<Duration>,
    /// Whether an inner retry has used up its attempts. Another attempt can help later, but no outer retry makes one
    /// at once.
    pub exhausted: bool,
    /// The attempt's consumption before it failed, as far as it is known. It counts with the answer of a later attempt.
    pub usage: Usage,
}

/// The message: it is what a program prints whose `main` returns the error.
impl fmt::Debug for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl ModelError {
    /// A terminal failure of this kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            kind,
            message,
            retryable: false,
            status: None,
            retry_after: None,
            exhausted: false,
            usage: Usage::default(),
        }
    }

    /// The same failure, with what the attempt consumed.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// The same failure, worth another attempt.
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

    /// The same failure, with the pause that the server asks for.
    #[must_use]
    pub fn retry_after(mut self, pause: Duration) -> Self {
        self.retry_after = Some(pause);
        self
    }

    /// The same failure, after the last attempt of a retry.
    #[must_use]
    pub fn exhausted(mut self) -> Self {
        self.exhausted = true;
        self
    }
}

impl From<ModelError> for OperationError {
    fn from(error: ModelError) -> Self {
        let mut operation = OperationError::new(error.kind, error.message);
        operation.retryable = error.retryable;
        operation.status = error.status;
        let asked = error.retry_after.map(|asked| asked.as_millis());
        operation.retry_after_ms = asked.map(|asked| u64::try_from(asked).unwrap_or(u64::MAX));
        operation
    }
}
