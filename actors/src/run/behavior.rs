//! How an agent works.

use std::sync::Arc;

use super::RunContext;
use crate::{
    contract::BoxFuture,
    definition::AgentSpec,
    vocabulary::{AgentError, Outcome},
};

/// How an agent works: an ordinary async function that touches the world only through its
/// context. Function calling, ReAct, a workflow, your own.
///
/// ```
/// use ghostlight_actors::run::{Behavior, RunContext};
/// use ghostlight_actors::vocabulary::{AgentError, Outcome};
///
/// struct Echo;
///
/// impl Behavior for Echo {
///     async fn run(&self, cx: RunContext) -> Result<Outcome, AgentError> {
///         Ok(Outcome::answer(cx.input().content()))
///     }
/// }
/// ```
///
/// Fields are for settings; what a run learns belongs into local variables, which replay makes
/// afresh.
#[expect(unused_variables, reason = "by default every agent will do")]
pub trait Behavior: Send + Sync + 'static {
    /// Carries one leg of a run to its outcome.
    fn run(&self, cx: RunContext) -> impl Future<Output = Result<Outcome, AgentError>> + Send;

    /// Checks, when a team is set up, that this behavior can carry this agent: that the agents
    /// and tools that its settings name are there.
    ///
    /// # Errors
    /// The fault, and the names that are there instead.
    fn check(&self, agent: &AgentSpec) -> Result<(), String> {
        Ok(())
    }

    /// The names of the tools that it gives to its agent's model itself. An agent that has another tool of such
    /// a name is refused, since a call could reach only one of them.
    fn tools(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether it asks its agent's model in every run. A System whose agent has none then tells it when it starts, and not
    /// at the first question.
    fn asks_model(&self) -> bool {
        false
    }

    /// Whether it may [receive](RunContext::receive) messages of any name. Where it does not, as when this is left out, a
    /// message that its agent is not said to receive ([`Agent::receives`](super::Agent::receives)) is refused to whoever
    /// tells it, since nobody would read it. A function may.
    fn receives_any(&self) -> bool {
        false
    }
}

/// A behavior of any kind. Cloning shares it.
#[derive(Clone)]
pub struct BehaviorHandle(Arc<dyn ErasedBehavior>);

impl BehaviorHandle {
    /// Keeps a behavior.
    pub fn new(behavior: impl Behavior) -> Self {
        Self(Arc::new(behavior))
    }

    /// Keeps a function as a behavior.
    pub fn from_fn<F, Fut>(function: F) -> Self
    where
        F: Fn(RunContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Outcome, AgentError>> + Send + 'static,
    {
        Self::new(FromFn(function))
    }

    /// Carries one leg of a run. See [`Behavior::run`].
    pub fn run(&self, cx: RunContext) -> BoxFuture<'static, Result<Outcome, AgentError>> {
        self.0.clone().run(cx)
    }

    /// Checks that it can carry this agent. See [`Behavior::check`].
    ///
    /// # Errors
    /// The fault, and the names that are there instead.
    pub fn check(&self, agent: &AgentSpec) -> Result<(), String> {
        self.0.check(agent)
    }

    /// The names of the tools that it gives to its agent's model itself. See [`Behavior::tools`].
    pub fn tools(&self) -> Vec<String> {
        self.0.tools()
    }

    /// Whether it asks its agent's model in every run. See [`Behavior::asks_model`].
    pub fn asks_model(&self) -> bool {
        self.0.asks_model()
    }

    /// Whether it may receive messages of any name. See [`Behavior::receives_any`].
    pub fn receives_any(&self) -> bool {
        self.0.receives_any()
    }
}

opaque!(BehaviorHandle);

trait ErasedBehavior: Send + Sync {
    fn run(self: Arc<Self>, cx: RunContext) -> BoxFuture<'static, Result<Outcome, AgentError>>;
    fn check(&self, agent: &AgentSpec) -> Result<(), String>;
    fn tools(&self) -> Vec<String>;
    fn asks_model(&self) -> bool;
    fn receives_any(&self) -> bool;
}

impl<B: Behavior> ErasedBehavior for B {
    fn run(self: Arc<Self>, cx: RunContext) -> BoxFuture<'static, Result<Outcome, AgentError>> {
        Box::pin(async move { Behavior::run(&*self, cx).await })
    }

    fn check(&self, agent: &AgentSpec) -> Result<(), String> {
        Behavior::check(self, agent)
    }

    fn tools(&self) -> Vec<String> {
        Behavior::tools(self)
    }

    fn asks_model(&self) -> bool {
        Behavior::asks_model(self)
    }

    fn receives_any(&self) -> bool {
        Behavior::receives_any(self)
    }
}

struct FromFn<F>(F);

impl<F, Fut> Behavior for FromFn<F>
where
    F: Fn(RunContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Outcome, AgentError>> + Send + 'static,
{
    fn run(&self, cx: RunContext) -> impl Future<Output = Result<Outcome, AgentError>> + Send {
        (self.0)(cx)
    }

    fn receives_any(&self) -> bool {
        true
    }
}
