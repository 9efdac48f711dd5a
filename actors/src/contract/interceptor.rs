//! Interceptors wrap real attempts.

use std::{fmt, sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::{
    BoxFuture, Callee, Clock, Entropy, ModelContext, ModelError, Origin, ToolContext, ToolError,
    ToolOutput,
};
use crate::vocabulary::{
    Arguments, CallReport, Effect, ModelRequest, ModelResponse, OperationId, RunId, Timestamp,
    ToolDefinition, ToolResult,
};

/// Wraps the calls to models and tools: it may change a request, answer by itself, ask again, wait, refuse, or only
/// observe.
///
/// Interceptors run in the gateway and the executor, outside of the replayed function. They run when a call is really
/// made and never in replay; the recorded result includes what they changed. The interceptor that is installed first
/// is the outermost. Their own state lives as long as the process.
///
/// A tool whose effect is `once` is called at most once, whatever an interceptor does: a second
/// [`NextTool::call`] is refused, and a call whose end was not heard of stays in doubt.
///
/// ```
/// use ghostlight_actors::contract::{Interceptor, ModelContext, ModelError, NextModel};
/// use ghostlight_actors::vocabulary::{ModelRequest, ModelResponse};
///
/// /// Tells every model what day it is.
/// struct Dated(String);
///
/// impl Interceptor for Dated {
///     async fn model(
///         &self,
///         mut request: ModelRequest,
///         cx: ModelContext,
///         next: NextModel<'_>,
///     ) -> Result<ModelResponse, ModelError> {
///         request.instructions = format!("{}\nToday is {}.", request.instructions, self.0).into();
///         next.respond(request, cx).await
///     }
/// }
/// ```
pub trait Interceptor: Send + Sync + 'static {
    /// Wraps an attempt at a model call.
    fn model(
        &self,
        request: ModelRequest,
        cx: ModelContext,
        next: NextModel<'_>,
    ) -> impl Future<Output = Result<ModelResponse, ModelError>> + Send {
        async move { next.respond(request, cx).await }
    }

    /// Wraps an attempt at a tool call.
    fn tool(
        &self,
        arguments: Arguments,
        cx: ToolContext,
        next: NextTool<'_>,
    ) -> impl Future<Output = Result<ToolOutput, ToolError>> + Send {
        async move { next.call(arguments, cx).await }
    }

    /// Called for a tool call that got its result without an attempt: a policy answered it, a
    /// person or an approver refused it, its agent may not call it now, or there is no such tool.
    /// It is called before the result is recorded, and not in replay; after a crash in between it
    /// is called again.
    fn unattempted(&self, call: &Unattempted<'_>) {
        let _ = call;
    }

    /// Whether it sets what the calls of models cost, for a model that does not say it.
    fn prices_models(&self) -> bool {
        false
    }
}

/// A tool call that got its result without an attempt.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Unattempted<'a> {
    /// When the result was given.
    pub at: Timestamp,
    /// The run.
    pub run: RunId,
    /// The place of the answer in the run's journal.
    pub operation: OperationId,
    /// On whose behalf the call would have been made.
    pub origin: &'a Origin,
    /// The text that the model reads.
    pub result: &'a ToolResult,
    /// The person or rule that answered, and the arguments after all changes.
    pub call: &'a CallReport,
}

/// An interceptor of any kind. Cloning shares it.
#[derive(Clone)]
pub struct InterceptorHandle(Arc<dyn ErasedInterceptor>);

impl InterceptorHandle {
    /// Whether it sets what the calls of models cost. See [`Interceptor::prices_models`].
    pub fn prices_models(&self) -> bool {
        self.0.prices_models()
    }

    /// Keeps an interceptor.
    pub fn new(interceptor: impl Interceptor) -> Self {
        Self(Arc::new(interceptor))
    }

    /// Tells the interceptor of a call that got its result without an attempt.
    pub(crate) fn unattempted(&self, call: &Unattempted<'_>) {
        self.0.unattempted(call);
    }

    /// Whether both are the same interceptor, with one state.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<I: Interceptor> From<I> for InterceptorHandle {
    fn from(interceptor: I) -> Self {
        Self::new(interceptor)
    }
}

opaque!(InterceptorHandle);

trait ErasedInterceptor: Send + Sync {
    fn model<'a>(
        &'a self,
        request: ModelRequest,
        cx: ModelContext,
        next: NextModel<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>>;
    fn tool<'a>(
        &'a self,
        arguments: Arguments,
        cx: ToolContext,
        next: NextTool<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>>;
    fn unattempted(&self, call: &Unattempted<'_>);
    fn prices_models(&self) -> bool;
}

impl<I: Interceptor> ErasedInterceptor for I {
    fn model<'a>(
        &'a self,
        request: ModelRequest,
        cx: ModelContext,
        next: NextModel<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(Interceptor::model(self, request, cx, next))
    }

    fn tool<'a>(
        &'a self,
        arguments: Arguments,
        cx: ToolContext,
        next: NextTool<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(Interceptor::tool(self, arguments, cx, next))
    }

    fn unattempted(&self, call: &Unattempted<'_>) {
        Interceptor::unattempted(self, call);
    }

    fn prices_models(&self) -> bool {
        Interceptor::prices_models(self)
    }
}

/// An event that an interceptor emitted about a call.
#[derive(Clone, Debug)]
pub(crate) struct Emission {
    /// The event's name.
    pub(crate) name: String,
    /// Its content.
    pub(crate) data: Box<RawValue>,
}

/// Collects the events that the interceptors around one call emit, from its first attempt to its
/// end.
#[derive(Debug, Default)]
pub(crate) struct Telling(Mutex<Vec<Emission>>);

impl Telling {
    /// The events, in order.
    pub(crate) fn into_emissions(self) -> Vec<Emission> {
        self.0.into_inner()
    }

    fn tell(telling: Option<&Self>, name: &str, data: &impl Serialize) {
        if let (Some(telling), Ok(data)) = (telling, to_raw_value(data)) {
            let name = name.to_owned();
            telling.0.lock().push(Emission { name, data });
        }
    }
}

/// Makes the real attempt at a model call.
pub(crate) type RealModel<'a> = &'a (
        dyn Fn(ModelRequest, ModelContext) -> BoxFuture<'a, Result<ModelResponse, ModelError>>
            + Send
            + Sync
    );

/// Makes the real attempt at a tool call.
pub(crate) type RealTool<'a> = &'a (
        dyn Fn(Arguments, ToolContext) -> BoxFuture<'a, Result<ToolOutput, ToolError>> + Send + Sync
    );

/// The rest of the chain at a model call: the interceptors that follow, then the model.
#[derive(Clone, Copy)]
pub struct NextModel<'a> {
    rest: &'a [InterceptorHandle],
    real: RealModel<'a>,
    callee: &'a Callee,
    clock: &'a Arc<dyn Clock>,
    entropy: &'a Arc<dyn Entropy>,
    telling: Option<&'a Telling>,
}

impl<'a> NextModel<'a> {
    /// A chain of interceptors, the outermost first, and the call at its end.
    pub fn new(
        chain: &'a [InterceptorHandle],
        real: RealModel<'a>,
        callee: &'a Callee,
        clock: &'a Arc<dyn Clock>,
        entropy: &'a Arc<dyn Entropy>,
    ) -> Self {
        Self {
            rest: chain,
            real,
            callee,
            clock,
            entropy,
            telling: None,
        }
    }

    /// Collects what interceptors emit. Without it, events are lost.
    #[must_use]
    pub(crate) fn telling(mut self, telling: &'a Telling) -> Self {
        self.telling = Some(telling);
        self
    }

    /// The model that the call reaches. A request has only its name, and agents may have different models of one name.
    pub fn callee(&self) -> &'a Callee {
        self.callee
    }

    /// Passes this request on. Each call is another attempt.
    pub fn respond(
        &self,
        request: ModelRequest,
        cx: ModelContext,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        match self.rest.split_first() {
            Some((first, rest)) => first.0.model(request, cx, Self { rest, ..*self }),
            None => (self.real)(request, cx),
        }
    }

    /// Emits an event about this call, such as what a guard decided. It is recorded in the commit
    /// of the call's end, whatever that is, and not emitted again in replay. It is lost when the
    /// call is dropped.
    pub fn emit(&self, name: &str, data: &impl Serialize) {
        Telling::tell(self.telling, name, data);
    }

    /// The System's clock.
    pub fn clock(&self) -> &'a Arc<dyn Clock> {
        self.clock
    }

    /// The System's source of random numbers.
    pub fn entropy(&self) -> &'a Arc<dyn Entropy> {
        self.entropy
    }

    /// Waits this long by the System's clock.
    pub fn pause(&self, pause: Duration) -> BoxFuture<'static, ()> {
        self.clock.sleep(pause)
    }
}

/// The rest of the chain at a tool call: the interceptors that follow, then the tool.
#[derive(Clone, Copy)]
pub struct NextTool<'a> {
    rest: &'a [InterceptorHandle],
    real: RealTool<'a>,
    definition: &'a Arc<ToolDefinition>,
    callee: &'a Callee,
    clock: &'a Arc<dyn Clock>,
    entropy: &'a Arc<dyn Entropy>,
    telling: Option<&'a Telling>,
}

impl<'a> NextTool<'a> {
    /// A chain of interceptors, the outermost first, and the call at its end.
    pub fn new(
        chain: &'a [InterceptorHandle],
        real: RealTool<'a>,
        (definition, callee): (&'a Arc<ToolDefinition>, &'a Callee),
        clock: &'a Arc<dyn Clock>,
        entropy: &'a Arc<dyn Entropy>,
    ) -> Self {
        Self {
            rest: chain,
            real,
            definition,
            callee,
            clock,
            entropy,
            telling: None,
        }
    }

    /// Collects what interceptors emit. Without it, events are lost.
    #[must_use]
    pub(crate) fn telling(mut self, telling: &'a Telling) -> Self {
        self.telling = Some(telling);
        self
    }

    /// Passes these arguments on. Each call is another attempt, which a tool whose effect is `once`
    /// refuses after the first.
    pub fn call(
        &self,
        arguments: Arguments,
        cx: ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        match self.rest.split_first() {
            Some((first, rest)) => first.0.tool(arguments, cx, Self { rest, ..*self }),
            None => (self.real)(arguments, cx),
        }
    }

    /// The tool.
    pub fn definition(&self) -> &'a Arc<ToolDefinition> {
        self.definition
    }

    /// The tool that the call reaches. A definition has only its name, and agents may have different tools of one name.
    pub fn callee(&self) -> &'a Callee {
        self.callee
    }

    /// Whether the call may be made more than once.
    pub fn may_repeat(&self) -> bool {
        self.definition.effect != Effect::Once
    }

    /// Emits an event about this call, such as what a guard decided. It is recorded in the commit
    /// of the call's end, whatever that is, and not emitted again in replay. It is lost when the
    /// call is dropped.
    pub fn emit(&self, name: &str, data: &impl Serialize) {
        Telling::tell(self.telling, name, data);
    }

    /// The System's clock.
    pub fn clock(&self) -> &'a Arc<dyn Clock> {
        self.clock
    }

    /// The System's source of random numbers.
    pub fn entropy(&self) -> &'a Arc<dyn Entropy> {
        self.entropy
    }

    /// Waits this long by the System's clock.
    pub fn pause(&self, pause: Duration) -> BoxFuture<'static, ()> {
        self.clock.sleep(pause)
    }
}

impl fmt::Debug for NextModel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NextModel({} further)", self.rest.len())
    }
}

impl fmt::Debug for NextTool<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let further = self.rest.len();
        write!(f, "NextTool({further} further, {})", self.definition.name)
    }
}
