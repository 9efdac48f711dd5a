//! Policies, which watch over an agent from inside its function.

mod erased;
mod goals;
mod hook_points;
mod installed;
mod own_tool;
mod watch;

use std::{
    collections::HashSet,
    marker::PhantomData,
    ops::Deref,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use parking_lot::Mutex;
use serde_json::Value;

pub use self::{
    erased::PolicyHandle,
    goals::{GoalEnd, GoalStatus},
    installed::Judgement,
    own_tool::OwnTool,
};
pub(crate) use self::{
    installed::{Asking, Decided},
    watch::Watch,
};
use super::{RunContext, decision::Decision};
use crate::vocabulary::{
    AgentError, Arguments, Digest, Message, ModelRequest, ModelResponse, OperationError, Outcome,
    Question, StopReason, ToolCall, ToolResult, ToolStatus, Transcript, as_text,
};

/// Watches over an agent: it may change requests to the model, hold back or answer tool calls,
/// replace their results, reject answers, and stop the run.
///
/// A policy lives inside the function that is replayed. It is made afresh when a leg of a run
/// begins, keeps its state in plain fields, sees only what the context delivered and in that
/// order, and does effects through the context; so it is right again after a crash without
/// saving anything. What must outlast the run belongs into [`RunContext::state`].
///
/// ```
/// use ghostlight_actors::run::{BeforeTool, Policy, PolicyContext};
/// use ghostlight_actors::vocabulary::{AgentError, ToolCall};
///
/// /// Allows this many calls of one tool.
/// struct AtMost {
///     tool: &'static str,
///     left: u32,
/// }
///
/// impl Policy for AtMost {
///     async fn before_tool(
///         &mut self,
///         _cx: &PolicyContext<'_>,
///         call: &ToolCall,
///     ) -> Result<BeforeTool, AgentError> {
///         if call.name != self.tool {
///             return Ok(BeforeTool::Go);
///         }
///         let Some(left) = self.left.checked_sub(1) else {
///             return Ok(BeforeTool::blocked(call, "Enough of that: continue without it."));
///         };
///         self.left = left;
///         Ok(BeforeTool::Go)
///     }
/// }
/// ```
///
/// # Order
///
/// Policies are asked in the order in which the agent names them.
///
/// - *Before* something the first that answers in its place wins, and the rest is not asked.
/// - *After* a call of a tool and after the function, also after what was answered in their place, each is asked and gets
///   what those before it made of it. After a call of a model the first that gives another answer wins, and the rest is
///   not asked. [`after_tools`](Self::after_tools) only observes: every policy is told what the conversation keeps.
/// - An answer is judged by all, and their reasons reach the model as one message.
/// - An error of a hook ends the run as failed. What only must not happen is
///   [`BeforeTool::Result`], [`Verdict::Reject`] or [`PolicyContext::stop`].
///
/// They stand at the hook points of the context, so they watch over every function: one that is made of
/// loops (`ghostlight::behaviors::AgentLoop`), a workflow with its tool steps, and one of a user's own.
/// [`RunContext::model`] and [`RunContext::tools`] ask them, and what the function returns is
/// judged unless it was before. A function that is not made of loops is told what its policies say
/// with its next request ([`defer`](PolicyContext::defer)), and an answer to which they object is
/// flagged, since it cannot be written again. They are not asked about what a function does by itself:
/// [`RunContext::tool_unasked`], [`RunContext::delegate`], [`RunContext::step`].
#[expect(unused_variables, reason = "by default a policy looks at nothing")]
pub trait Policy: Send + 'static {
    /// Before the agent's function runs. An outcome takes its place.
    fn before_run(
        &mut self,
        cx: &PolicyContext<'_>,
    ) -> impl Future<Output = Result<Option<Outcome>, AgentError>> + Send {
        Unchanged::new()
    }

    /// After the agent's function ended well, or something took its place.
    fn after_run(
        &mut self,
        cx: &PolicyContext<'_>,
        outcome: &Outcome,
    ) -> impl Future<Output = Result<Option<Outcome>, AgentError>> + Send {
        Unchanged::new()
    }

    /// When the agent's function failed. The run ends with this error whatever the policy does; what it does through the
    /// context is recorded before that.
    fn after_failure(
        &mut self,
        cx: &PolicyContext<'_>,
        error: &AgentError,
    ) -> impl Future<Output = Result<(), AgentError>> + Send {
        Unchanged::new()
    }

    /// Before the model is asked. What is changed in the request is for this call only: the
    /// conversation stays as it is. Its tools are those that the model may call in this turn; a
    /// policy may take some away, and add ones that it answers itself
    /// ([`before_tool`](Self::before_tool)). A response takes the call's place.
    fn before_model(
        &mut self,
        cx: &PolicyContext<'_>,
        request: &mut ModelRequest,
    ) -> impl Future<Output = Result<Option<ModelResponse>, AgentError>> + Send {
        Unchanged::new()
    }

    /// Before the request goes to the model, as it goes there: after all that policies and the
    /// behavior changed in it. What is changed here is for this call only too. It is not asked
    /// where a response takes the call's place; an error of an operation is as if the call had
    /// failed with it.
    fn before_sending(
        &mut self,
        cx: &PolicyContext<'_>,
        request: &mut ModelRequest,
    ) -> impl Future<Output = Result<(), AgentError>> + Send {
        Unchanged::new()
    }

    /// After the model answered, or something answered in its place.
    fn after_model(
        &mut self,
        cx: &PolicyContext<'_>,
        response: &ModelResponse,
    ) -> impl Future<Output = Result<Option<ModelResponse>, AgentError>> + Send {
        Unchanged::new()
    }

    /// When the model call failed for good. A response takes the failure's place.
    fn on_model_error(
        &mut self,
        cx: &PolicyContext<'_>,
        error: &OperationError,
    ) -> impl Future<Output = Result<Option<ModelResponse>, AgentError>> + Send {
        Unchanged::new()
    }

    /// Before a call of a tool. All calls of a step are decided in their order before the first
    /// of them runs. To wait for the world outside, return [`BeforeTool::Ask`]: the other calls go
    /// on meanwhile. Waiting inside of the hook (`cx.ask(..).await`) holds up the whole batch.
    ///
    /// An answer may come days after its question, when the policy would decide otherwise. So this hook is
    /// [asked again](PolicyContext::is_asked_again) about a call that was approved, or for which a credential was given,
    /// before it is made; and about one for which a later policy asked. Then only [`BeforeTool::Result`] counts: what was
    /// allowed is made as it is or not at all.
    fn before_tool(
        &mut self,
        cx: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> impl Future<Output = Result<BeforeTool, AgentError>> + Send {
        Unchanged::new()
    }

    /// When the question that [`before_tool`](Self::before_tool) asked is answered. Left as it is,
    /// the answer is a [`Decision`]: the call runs, runs with other arguments, or is denied.
    fn answered(
        &mut self,
        cx: &PolicyContext<'_>,
        call: &ToolCall,
        answer: Value,
    ) -> impl Future<Output = Result<BeforeTool, AgentError>> + Send {
        std::future::ready(Ok(BeforeTool::decided(call, Decision::from(answer))))
    }

    /// After a call, whatever it came to and whoever answered it. It is called in the order of the
    /// calls when all of them have ended.
    fn after_tool(
        &mut self,
        cx: &PolicyContext<'_>,
        call: &ToolCall,
        result: &ToolResult,
    ) -> impl Future<Output = Result<Option<ToolResult>, AgentError>> + Send {
        Unchanged::new()
    }

    /// After all calls of a step, with the results that the conversation keeps, in the order of
    /// the calls.
    fn after_tools(
        &mut self,
        cx: &PolicyContext<'_>,
        calls: &[ToolCall],
        results: &[ToolResult],
    ) -> impl Future<Output = Result<(), AgentError>> + Send {
        Unchanged::new()
    }

    /// The names of the tools that it offers and answers itself ([`OwnTool`]). An agent that has another tool of
    /// such a name is refused, since a call could reach only one of them.
    fn tools(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether the next text of the model is a reflection that this policy asked for, and no
    /// answer.
    fn wants_reflection(&self) -> bool {
        false
    }

    /// Whether it watches over agents that the agent's model makes too (`create_agent`), each with
    /// a policy of its own. One that says what the agent itself is told, or what becomes of its
    /// answer, does not.
    fn is_inherited(&self) -> bool {
        true
    }

    /// Takes the reflection that it wanted, and says what the model is to do next.
    fn reflected(
        &mut self,
        cx: &PolicyContext<'_>,
        text: &str,
    ) -> impl Future<Output = Result<String, AgentError>> + Send {
        Unchanged::new()
    }

    /// Before work on a goal that the agent's function set itself begins: a sub-goal of a tree, a step of
    /// a plan. What it gives is told to whoever works on the goal, such as what came of goals like it.
    fn before_goal(
        &mut self,
        cx: &PolicyContext<'_>,
        goal: &str,
    ) -> impl Future<Output = Result<Option<String>, AgentError>> + Send {
        Unchanged::new()
    }

    /// After work on such a goal. The [transcript](PolicyContext::transcript) is that of this work alone.
    fn after_goal(
        &mut self,
        cx: &PolicyContext<'_>,
        ended: &GoalEnd,
    ) -> impl Future<Output = Result<(), AgentError>> + Send {
        Unchanged::new()
    }

    /// Judges a final answer before the run ends with it.
    fn before_answer(
        &mut self,
        cx: &PolicyContext<'_>,
        draft: &str,
    ) -> impl Future<Output = Result<Verdict, AgentError>> + Send {
        Unchanged::new()
    }
}

/// A hook that leaves everything as it is. It has no size, so that boxing it takes no memory.
struct Unchanged<T>(PhantomData<fn() -> T>);

impl<T> Unchanged<T> {
    fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T: Default> Future for Unchanged<T> {
    type Output = Result<T, AgentError>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(Ok(T::default()))
    }
}

/// The decision of a policy about a tool call.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum BeforeTool {
    /// It runs, if no later policy objects.
    #[default]
    Go,
    /// It runs with these arguments. The conversation keeps those that the model wrote.
    GoWith(Arguments),
    /// It does not run: this is its result.
    Result(ToolResult),
    /// The world outside is asked first, and [`Policy::answered`] decides. The rest of the batch
    /// goes on meanwhile; a question that expires without a default denies the call.
    Ask(Box<Question>),
}

impl BeforeTool {
    /// The call is held back, and the model reads why.
    pub fn blocked(call: &ToolCall, why: impl Into<String>) -> Self {
        Self::Result(ToolResult::new(call, ToolStatus::Blocked, why))
    }

    /// The policy itself carried out the call.
    pub fn done(call: &ToolCall, text: impl Into<String>) -> Self {
        Self::Result(ToolResult::new(call, ToolStatus::Success, text))
    }

    /// The call is wrong, and the model reads how.
    pub fn failed(call: &ToolCall, why: impl Into<String>) -> Self {
        Self::Result(ToolResult::new(call, ToolStatus::Error, why))
    }

    /// Somebody is asked first.
    pub fn ask(question: impl Into<Question>) -> Self {
        Self::Ask(Box::new(question.into()))
    }

    /// The decision of a person about a call.
    pub fn decided(call: &ToolCall, decision: Decision) -> Self {
        if !decision.approved {
            return Self::Result(decision.refusal(call));
        }
        if let Err(why) = decision.is_for(call) {
            return Self::blocked(call, why);
        }
        if let Some(value) = &decision.value {
            return Self::done(call, ghostlight_safety::sanitize(&as_text(value)));
        }
        decision.meant(call, &[]).map_or(Self::Go, Self::GoWith)
    }
}

/// The judgement of a policy about an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// No judgement: the policy does not judge answers.
    #[default]
    Pass,
    /// It is good.
    Accept,
    /// It passes, with this flag for readers of the outcome.
    Flag(String),
    /// It is not good, and the model reads why.
    Reject(String),
}

/// The state of a loop when a hook is called.
#[derive(Clone, Copy, Debug)]
pub struct HookContext<'a> {
    /// The conversation as it stands.
    pub transcript: &'a Transcript,
    /// How many model calls were made.
    pub steps: u32,
}

/// The context of a hook. It is a [`RunContext`] with a lane of the policy's own, so its
/// operations do not move those of the agent's function or of other policies.
#[derive(Debug)]
pub struct PolicyContext<'a> {
    run: &'a RunContext,
    moment: HookContext<'a>,
    notes: &'a Mutex<Notes>,
    asked_again: bool,
}

/// Requests of policies to the loop.
#[derive(Debug, Default)]
struct Notes {
    deferred: Vec<String>,
    reminders: Vec<String>,
    stop: Option<StopReason>,
    /// The texts that were judged as answers.
    judged: HashSet<Digest>,
}

impl Notes {
    fn defer(&mut self, text: String) {
        if !text.trim().is_empty() && !self.deferred.contains(&text) {
            self.deferred.push(text);
        }
    }
}

impl PolicyContext<'_> {
    /// The name under which the agent knows the policy.
    pub fn name(&self) -> &str {
        self.run.lane_name()
    }

    /// The conversation as it stands. While calls are under way it ends with them.
    pub fn transcript(&self) -> &Transcript {
        self.moment.transcript
    }

    /// Whether [`before_tool`](Policy::before_tool) is asked a second time about this call, since a person or a tool has
    /// allowed it meanwhile. A policy that counts calls has counted it.
    pub fn is_asked_again(&self) -> bool {
        self.asked_again
    }

    /// How many model calls the loop has made.
    pub fn steps(&self) -> u32 {
        self.moment.steps
    }

    /// The messages that say what the current turn asks for, in their order: the turn itself, what
    /// people said to the run since ([`Run::steer`](crate::actor::Run::steer)), as far as its loops
    /// have read it, and the request to the agent that took over. Code that shortens requests must
    /// keep them.
    pub fn asked(&self) -> Vec<Arc<Message>> {
        self.run.leg().requests()
    }

    /// Adds a message for the model in the user's role, as soon as one may stand there: after the
    /// results of the calls under way and before the model is asked again. Messages keep their
    /// order. Of equal ones that wait together one is kept, and blank ones are dropped.
    pub fn defer(&self, text: impl Into<String>) {
        self.notes.lock().defer(text.into());
    }

    /// Adds a text to the end of the next request only, for facts of the moment, such as a list of
    /// open tasks or memories that were found. The conversation does not grow by it, and the
    /// beginning of the request, which providers cache, stays as it is. Blank texts are dropped.
    pub fn remind(&self, text: impl Into<String>) {
        let text = text.into();
        if !text.trim().is_empty() {
            self.notes.lock().reminders.push(text);
        }
    }

    /// The texts for the end of the next request, in their order.
    pub fn reminders(&self) -> Vec<String> {
        self.notes.lock().reminders.clone()
    }

    /// Ends the function once the calls under way have their results: without another model call,
    /// and without another step of tools. The first reason counts.
    pub fn stop(&self, reason: StopReason) {
        self.notes.lock().stop.get_or_insert(reason);
    }
}

impl Deref for PolicyContext<'_> {
    type Target = RunContext;

    fn deref(&self) -> &RunContext {
        self.run
    }
}
