//! Tools, which the models of agents call.

use std::{fmt, sync::Arc};

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{BoxFuture, Callee, Change, Credential, Origin, PreviewSink, ToolPace, ToolState};
use crate::vocabulary::{
    Arguments, Continuation, Continued, Data, OperationId, Preview, RunId, Timestamp, ToolCall,
    ToolDefinition,
};

/// Something that an agent's model can call.
///
/// Before a call, the executor has checked the arguments against the schema. It bounds the call's time and
/// concurrency, contains a panic and cuts the output. The tool must state its true
/// [`Effect`](crate::vocabulary::Effect); `once` is assumed.
pub trait Tool: Send + Sync + 'static {
    /// The tool's definition. Called once, when the tool is registered.
    fn definition(&self) -> ToolDefinition;

    /// Makes the call.
    fn call(
        &self,
        arguments: Arguments,
        cx: ToolContext,
    ) -> impl Future<Output = Result<ToolOutput, ToolError>> + Send;

    /// Whether a call could read these arguments, which fit the schema: a tool whose type of arguments is stricter than
    /// its schema says it here, so that no person is asked about a call that is refused afterwards. It has no effect.
    ///
    /// # Errors
    /// The text that the call would say.
    fn reads(&self, arguments: &Arguments) -> Result<(), ToolError> {
        let _ = arguments;
        Ok(())
    }

    /// Finds out whether a `once` call in doubt happened. It must not have an effect itself. It is asked only when no
    /// process that carried the run before can begin the call any more; a request that such a process had sent may still
    /// be under way, and where its service cannot exclude that, the answer is [`Reconciled::Unknown`].
    fn reconcile(
        &self,
        call: &ToolCall,
        cx: ToolContext,
    ) -> impl Future<Output = Reconciled> + Send {
        let _ = (call, cx);
        async { Reconciled::Unknown }
    }

    /// The secrets that a call sends, such as the values of headers, which the other side may repeat. They are taken out
    /// of results and errors before anybody reads them.
    fn secrets(&self) -> Vec<Credential> {
        Vec::new()
    }
}

/// A function that makes a tool is itself that tool, so that `#[tool]` can turn a function into a value of the same
/// name. A unit struct would not do: no `let` in its module could bind that name any more.
impl<F, T> Tool for F
where
    F: Fn() -> T + Send + Sync + 'static,
    T: Tool,
{
    fn definition(&self) -> ToolDefinition {
        self().definition()
    }

    fn call(
        &self,
        arguments: Arguments,
        cx: ToolContext,
    ) -> impl Future<Output = Result<ToolOutput, ToolError>> + Send {
        let tool = self();
        async move { tool.call(arguments, cx).await }
    }

    fn reads(&self, arguments: &Arguments) -> Result<(), ToolError> {
        self().reads(arguments)
    }

    fn reconcile(
        &self,
        call: &ToolCall,
        cx: ToolContext,
    ) -> impl Future<Output = Reconciled> + Send {
        let tool = self();
        async move { tool.reconcile(call, cx).await }
    }

    fn secrets(&self) -> Vec<Credential> {
        self().secrets()
    }
}

/// A tool of any kind with its definition. Cloning shares it.
#[derive(Clone)]
pub struct ToolHandle {
    definition: Arc<ToolDefinition>,
    tool: Arc<dyn ErasedTool>,
    pace: Arc<ToolPace>,
}

impl ToolHandle {
    /// Keeps a tool.
    pub fn new(tool: impl Tool) -> Self {
        Self {
            definition: Arc::new(tool.definition()),
            tool: Arc::new(tool),
            pace: Arc::default(),
        }
    }

    /// The same tool, with one state, under another definition: another name or other limits.
    #[must_use]
    pub fn defined(mut self, definition: ToolDefinition) -> Self {
        self.definition = Arc::new(definition);
        self
    }

    /// How quickly the tool's code gives its thread back.
    pub(crate) fn pace(&self) -> &Arc<ToolPace> {
        &self.pace
    }

    /// The tool's definition.
    pub fn definition(&self) -> &Arc<ToolDefinition> {
        &self.definition
    }

    /// Whether both are the same tool, with one state.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.tool, &other.tool)
    }

    /// The identity by which interceptors tell it from other tools.
    pub fn callee(&self) -> Callee {
        Callee::of(&self.tool)
    }

    /// Identifies it among all tools that exist at the same time.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.tool).addr()
    }

    /// Makes the call. See [`Tool::call`].
    pub fn call(
        &self,
        arguments: Arguments,
        cx: ToolContext,
    ) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        self.tool.call(arguments, cx)
    }

    /// Whether a call could read these arguments. See [`Tool::reads`].
    ///
    /// # Errors
    /// The text that the call would say.
    pub fn reads(&self, arguments: &Arguments) -> Result<(), ToolError> {
        self.tool.reads(arguments)
    }

    /// Finds out whether a call in doubt happened. See [`Tool::reconcile`].
    pub fn reconcile<'a>(
        &'a self,
        call: &'a ToolCall,
        cx: ToolContext,
    ) -> BoxFuture<'a, Reconciled> {
        self.tool.reconcile(call, cx)
    }

    /// The secrets that a call sends. See [`Tool::secrets`].
    pub fn secrets(&self) -> Vec<Credential> {
        self.tool.secrets()
    }
}

impl<T: Tool> From<T> for ToolHandle {
    fn from(tool: T) -> Self {
        Self::new(tool)
    }
}

impl fmt::Debug for ToolHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ToolHandle({})", self.definition.name)
    }
}

trait ErasedTool: Send + Sync {
    fn call(
        &self,
        arguments: Arguments,
        cx: ToolContext,
    ) -> BoxFuture<'_, Result<ToolOutput, ToolError>>;
    fn reads(&self, arguments: &Arguments) -> Result<(), ToolError>;
    fn reconcile<'a>(&'a self, call: &'a ToolCall, cx: ToolContext) -> BoxFuture<'a, Reconciled>;
    fn secrets(&self) -> Vec<Credential>;
}

impl<T: Tool> ErasedTool for T {
    fn call(
        &self,
        arguments: Arguments,
        cx: ToolContext,
    ) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(Tool::call(self, arguments, cx))
    }

    fn reads(&self, arguments: &Arguments) -> Result<(), ToolError> {
        Tool::reads(self, arguments)
    }

    fn reconcile<'a>(&'a self, call: &'a ToolCall, cx: ToolContext) -> BoxFuture<'a, Reconciled> {
        Box::pin(Tool::reconcile(self, call, cx))
    }

    fn secrets(&self) -> Vec<Credential> {
        Tool::secrets(self)
    }
}

/// The context of one call.
#[derive(Clone)]
pub struct ToolContext {
    run: RunId,
    operation: OperationId,
    agent: Arc<str>,
    deadline: Option<Timestamp>,
    cancelled: CancellationToken,
    origin: Option<Arc<Origin>>,
    previews: Option<PreviewSink>,
    credential: Option<Credential>,
    continued: Option<Arc<Continued>>,
    pub(super) kept: Option<Arc<dyn ToolState>>,
}

impl ToolContext {
    /// The context of one call.
    pub fn new(
        run: RunId,
        operation: OperationId,
        agent: impl Into<Arc<str>>,
        cancelled: CancellationToken,
    ) -> Self {
        Self {
            run,
            operation,
            agent: agent.into(),
            deadline: None,
            cancelled,
            origin: None,
            previews: None,
            credential: None,
            continued: None,
            kept: None,
        }
    }

    /// A context for a call outside of any run, such as in a test of a tool.
    pub fn detached() -> Self {
        let run = RunId::from_random(0);
        Self::new(
            run,
            OperationId::default(),
            "nobody",
            CancellationToken::new(),
        )
    }

    /// Sets when the call must have ended.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Option<Timestamp>) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets the credential that a person gave for this call.
    #[must_use]
    pub fn with_credential(mut self, credential: Option<Credential>) -> Self {
        self.credential = credential;
        self
    }

    /// Sets the state and answer with which an unfinished call continues.
    #[must_use]
    pub fn with_continued(mut self, continued: Option<Arc<Continued>>) -> Self {
        self.continued = continued;
        self
    }

    /// Gives the call access to the state and artifacts of its team.
    #[must_use]
    pub(crate) fn with_state(mut self, kept: Arc<dyn ToolState>) -> Self {
        self.kept = Some(kept);
        self
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

    /// Passes each preview of the call through this function, which changes or drops it: for interceptors that guard
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

    /// The run that calls.
    pub fn run(&self) -> RunId {
        self.run
    }

    /// The operation that calls.
    pub fn operation(&self) -> OperationId {
        self.operation
    }

    /// The agent that calls. A rule by names looks at [`agents`](Self::agents).
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// The names by which rules hold for the call: the calling agent's own, and those of the agents that made it. See
    /// [`Origin::agents`].
    pub fn agents(&self) -> impl Iterator<Item = &str> + Clone {
        let makers = self.origin.iter().flat_map(|origin| &origin.makers);
        std::iter::once(&*self.agent).chain(makers.map(String::as_str))
    }

    /// The key under which an `idempotent` effect may be repeated: the same for every attempt
    /// of this call, and for no other call.
    pub fn idempotency_key(&self) -> String {
        format!("{}/{}", self.run, self.operation)
    }

    /// When the call must have ended.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.deadline
    }

    /// The password, code or key that a person gave for this call, where its definition asks
    /// for one.
    pub fn credential(&self) -> Option<&Credential> {
        self.credential.as_ref()
    }

    /// The state and answer with which an unfinished call continues: see [`ToolOutput::goes_on`].
    pub fn continued(&self) -> Option<&Continued> {
        self.continued.as_deref()
    }

    /// Fires when nobody wants the result any more. A `once` tool then has a grace period in which to come to a known
    /// end; the call of any other tool is dropped.
    pub fn cancelled(&self) -> &CancellationToken {
        &self.cancelled
    }

    /// Reports progress: the share that is done, from 0 to 1, when it is known, and what the call is doing.
    pub fn progress(&self, fraction: Option<f64>, message: impl Into<String>) {
        if let Some(previews) = &self.previews {
            let (operation, message) = (self.operation, message.into());
            previews(Preview::ToolProgress {
                operation,
                fraction,
                message,
            });
        }
    }

    /// Shows a piece of output while the call goes on. Only the result is recorded.
    pub fn output(&self, text: impl Into<String>) {
        if let Some(previews) = &self.previews {
            previews(Preview::ToolOutput {
                operation: self.operation,
                text: text.into(),
            });
        }
    }

    /// A ticket for a result that comes later, from outside: return
    /// [`ToolOutput::later`] now, and hand the ticket to whoever will know the result.
    pub fn ticket(&self) -> Ticket {
        Ticket {
            run: self.run,
            operation: self.operation,
        }
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("run", &self.run)
            .field("operation", &self.operation)
            .field("agent", &self.agent)
            .finish_non_exhaustive()
    }
}

/// The right to give a call's result later. It is plain data and may leave the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, serde::Deserialize)]
pub struct Ticket {
    /// The run that waits.
    pub run: RunId,
    /// The operation that waits.
    pub operation: OperationId,
}

/// The result of a call.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ToolOutput {
    /// The text that the model reads.
    pub text: String,
    /// Files and other data beside the text.
    pub attachments: Vec<Data>,
    /// Whether the result comes later, through the call's ticket.
    pub later: bool,
    /// The changes of the team's state and artifacts, in order.
    pub changes: Vec<Change>,
    /// How an unfinished call continues. Where this is set, all other fields are ignored.
    pub continuation: Option<Box<Continuation>>,
}

impl ToolOutput {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// Any value: a string as it is, everything else as JSON.
    ///
    /// # Errors
    /// When the value does not serialise.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, ToolError> {
        Ok(Self::text(match serde_json::to_value(value)? {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        }))
    }

    /// No result yet: it comes through the call's [`Ticket`].
    pub fn later() -> Self {
        Self {
            later: true,
            ..Self::default()
        }
    }

    /// No result yet: first a person or the agent's model is asked or some time passes, and then the tool is called again with this
    /// continuation ([`ToolContext::continued`]). The question and the continuation are recorded, so this may take
    /// days and survive restarts. It works for calls of a model; code that calls the tool itself by
    /// [`RunContext::tool_unasked`](crate::run::RunContext::tool_unasked) gets
    /// [`ErrorKind::Continues`](crate::vocabulary::ErrorKind::Continues).
    pub fn goes_on(continuation: Continuation) -> Self {
        Self {
            continuation: Some(Box::new(continuation)),
            ..Self::default()
        }
    }

    /// Adds a file or other data.
    #[must_use]
    pub fn attach(mut self, data: Data) -> Self {
        self.attachments.push(data);
        self
    }
}

/// The finding about a call in doubt.
#[derive(Clone, Debug, PartialEq)]
pub enum Reconciled {
    /// It happened, and this was its result.
    Happened(ToolOutput),
    /// It did not happen, so it may run now.
    DidNotHappen,
    /// Nobody knows.
    Unknown,
}

/// A failed call, as the model will read it. Any error converts into one, so `?` works.
///
/// It does not implement `std::error::Error`, because then that conversion could not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolError {
    /// The sort of failure.
    pub kind: ToolErrorKind,
    /// The failure, and another thing to try.
    pub message: String,
}

/// The sort of failure of a [`ToolError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ToolErrorKind {
    /// It failed, and it is known to have failed.
    Failed,
    /// It was refused.
    Denied,
    /// It may or may not have happened.
    InDoubt,
}

impl ToolError {
    /// A call that is known to have failed.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            kind: ToolErrorKind::Failed,
            message: message.into(),
        }
    }

    /// A call that was refused.
    pub fn denied(message: impl Into<String>) -> Self {
        Self {
            kind: ToolErrorKind::Denied,
            message: message.into(),
        }
    }

    /// A call in doubt: nobody knows whether it happened, as with a request whose answer was lost.
    pub fn in_doubt(message: impl Into<String>) -> Self {
        Self {
            kind: ToolErrorKind::InDoubt,
            message: message.into(),
        }
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<E: std::error::Error> From<E> for ToolError {
    fn from(error: E) -> Self {
        // The causes belong to the message: the model sees nothing else.
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            if !message.contains(&cause_text) {
                message = format!("{message}: {cause_text}");
            }
            source = cause.source();
        }
        Self::new(message)
    }
}
