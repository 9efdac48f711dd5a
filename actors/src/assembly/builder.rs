//! Agents and teams, built in code.

use std::time::Duration;

use schemars::JsonSchema;
use serde_json::Value;

use super::{Intercept, Registry};
use crate::{
    contract::{Model, ModelHandle, ToolHandle, ToolsetHandle},
    definition::{
        AgentSpec, ApprovalRule, BehaviorSpec, ClarifySpec, ContextSpec, CreateAgentSpec,
        DefinitionError, Durability, MemorySpec, ModelSpec, OWN_BEHAVIOR, OnHandoff, PolicySpec,
        Reach, Schedule, TeamSpec, TransferRules,
    },
    run::{Behavior, BehaviorHandle, Policy, PolicyHandle, RunContext, operations::AgentMessage},
    vocabulary::{AgentError, Budget, ModelSettings, Outcome, schema_of},
};

/// An agent, built in code: its definition, and the code behind the names in it.
#[derive(Clone, Debug)]
#[must_use = "an agent works in a team"]
pub struct Agent {
    spec: AgentSpec,
    registry: Registry,
}

/// A team: its definition, and the code behind the names in it.
#[derive(Clone, Debug, Default)]
pub struct Team {
    /// The definition.
    pub spec: TeamSpec,
    /// The code.
    pub registry: Registry,
}

/// The model of an agent, as [`Agent::model`] takes it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AgentModel {
    /// The registered name of a model.
    Named(String),
    /// A model.
    Given(ModelHandle),
}

impl From<&str> for AgentModel {
    fn from(name: &str) -> Self {
        Self::Named(name.to_owned())
    }
}

impl From<String> for AgentModel {
    fn from(name: String) -> Self {
        Self::Named(name)
    }
}

impl From<&String> for AgentModel {
    fn from(name: &String) -> Self {
        Self::Named(name.clone())
    }
}

impl From<ModelHandle> for AgentModel {
    fn from(model: ModelHandle) -> Self {
        Self::Given(model)
    }
}

impl<M: Model> From<M> for AgentModel {
    fn from(model: M) -> Self {
        Self::Given(ModelHandle::new(model))
    }
}

/// How an agent works: see [`Agent::behavior`].
#[derive(Debug)]
#[non_exhaustive]
pub enum AgentBehavior {
    /// The registered behavior of this name, with its settings.
    Registered(BehaviorSpec),
    /// Code of the caller's own.
    Own(BehaviorHandle),
}

impl From<BehaviorSpec> for AgentBehavior {
    fn from(spec: BehaviorSpec) -> Self {
        Self::Registered(spec)
    }
}

impl<B: Behavior> From<B> for AgentBehavior {
    fn from(behavior: B) -> Self {
        Self::Own(BehaviorHandle::new(behavior))
    }
}

/// What a policy is made by: see [`Agent::policy`].
#[derive(Debug)]
#[non_exhaustive]
pub enum AgentPolicy {
    /// The registered policy of the name that stands beside it, with these settings.
    Registered(Value),
    /// Code of the caller's own.
    Own(PolicyHandle),
}

impl From<Value> for AgentPolicy {
    fn from(settings: Value) -> Self {
        Self::Registered(settings)
    }
}

impl<F, P> From<F> for AgentPolicy
where
    F: Fn() -> P + Send + Sync + 'static,
    P: Policy,
{
    fn from(make: F) -> Self {
        Self::Own(PolicyHandle::new(make))
    }
}

impl AgentPolicy {
    /// The policy's entry in a definition, and the code behind its name. Code gets a name that nothing else has, which
    /// begins with its place.
    fn named(self, place: &str, name: String) -> (PolicySpec, Registry) {
        match self {
            Self::Registered(settings) => {
                (PolicySpec::new(name).settings(settings), Registry::new())
            }
            Self::Own(policy) => {
                let name = format!("{place}:{name}");
                let own = Registry::new().policy(name.clone(), move |_| Ok(policy.clone()));
                (PolicySpec::new(name), own)
            }
        }
    }
}

impl Agent {
    /// An agent that works by function calling, until something else is said.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            spec: AgentSpec::new(name),
            registry: Registry::new(),
        }
    }

    /// An agent whose behavior is this function.
    pub fn from_fn<F, Fut>(name: impl Into<String>, function: F) -> Self
    where
        F: Fn(RunContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Outcome, AgentError>> + Send + 'static,
    {
        Self::new(name).behavior(AgentBehavior::Own(BehaviorHandle::from_fn(function)))
    }

    /// Sets what people are shown instead of its name: one line of 1 to 80 characters.
    pub fn display_name(self, name: impl Into<String>) -> Self {
        self.define(|spec| spec.display_name = Some(name.into()))
    }

    /// Sets what it is good for, in words for other agents' models.
    pub fn description(self, text: impl Into<String>) -> Self {
        self.define(|spec| spec.description = text.into())
    }

    /// Sets what it is to do and how, in words for its own model.
    pub fn instructions(self, text: impl Into<String>) -> Self {
        self.define(|spec| spec.instructions = text.into())
    }

    /// Sets its model: the registered name of one, or the model itself, which the agents below it
    /// that name none use too.
    ///
    /// ```
    /// use ghostlight_actors::{run::Agent, testing::ScriptedModel};
    ///
    /// let by_name = Agent::new("desk").model("default");
    /// let by_itself = Agent::new("desk").model(ScriptedModel::replies(["Good morning."]));
    /// # let _ = (by_name, by_itself);
    /// ```
    pub fn model(mut self, model: impl Into<AgentModel>) -> Self {
        let name = match model.into() {
            AgentModel::Named(name) => name,
            AgentModel::Given(model) => {
                let name = format!("agent:{}", self.spec.name);
                // It takes the place of one that was set before.
                let own = Registry::new().model(name.clone(), model);
                self.registry = self.registry.with(own);
                name
            }
        };
        self.spec.model = Some(name);
        self
    }

    /// Sets sampling and limits of its model calls.
    pub fn settings(self, settings: ModelSettings) -> Self {
        self.define(|spec| spec.settings = settings)
    }

    /// Makes its model calls stream.
    pub fn streaming(self) -> Self {
        self.define(|spec| spec.stream = true)
    }

    /// Gives it a tool, which agents below it may name too. Another agent may have a different one
    /// of the same name.
    pub fn tool(mut self, tool: impl Into<ToolHandle>) -> Self {
        let tool = tool.into();
        self.spec.tools.push(tool.definition().name.clone());
        self.registry = self.registry.tool(tool);
        self
    }

    /// Gives it the tools of a toolset, which agents below it may name too, by this name.
    pub fn toolset(mut self, name: impl Into<String>, toolset: impl Into<ToolsetHandle>) -> Self {
        let name = name.into();
        self.spec.tools.push(name.clone());
        self.registry = self.registry.toolset(name, toolset);
        self
    }

    /// Gives it a tool or toolset that is registered elsewhere.
    pub fn tool_named(self, name: impl Into<String>) -> Self {
        self.define(|spec| spec.tools.push(name.into()))
    }

    /// Sets whether and how somebody is asked before it calls this tool; `*` is all that are not named.
    pub fn approval(self, tool: impl Into<String>, rule: ApprovalRule) -> Self {
        self.define(|spec| drop(spec.approval.insert(tool.into(), rule)))
    }

    /// Lets its model ask people, with the tool `clarify`.
    pub fn clarify(self, clarify: ClarifySpec) -> Self {
        self.define(|spec| spec.clarify = Some(clarify))
    }

    /// Sets how many tool calls of one step run at once.
    pub fn parallel_tools(self, calls: u32) -> Self {
        self.define(|spec| spec.parallel_tools = Some(calls))
    }

    /// Sets how many tool calls of one answer are run; 1,000 when left out.
    pub fn max_calls(self, calls: u32) -> Self {
        self.define(|spec| spec.max_calls = Some(calls))
    }

    /// Sets how it works: a behavior of the caller's own, or a registered one by its [`BehaviorSpec`].
    pub fn behavior(mut self, behavior: impl Into<AgentBehavior>) -> Self {
        match behavior.into() {
            AgentBehavior::Registered(spec) => self.spec.behavior = spec,
            AgentBehavior::Own(behavior) => {
                let name = format!("{OWN_BEHAVIOR}{}", self.spec.name);
                self.spec.behavior = BehaviorSpec::new(name.clone());
                // It takes the place of one that was set before.
                let own = Registry::new().behavior(name, move |_| Ok(behavior.clone()));
                self.registry = self.registry.with(own);
            }
        }
        self
    }

    /// Adds a policy after those that were named before: the caller's own, which is made afresh for
    /// each leg of a run and has this name in events, or the registered one of this name, with
    /// these settings.
    pub fn policy(mut self, name: impl Into<String>, policy: impl Into<AgentPolicy>) -> Self {
        // Agents of a team share a registry, and may call different policies by one name.
        let place = format!("agent:{}:{}", self.spec.name, self.spec.policies.len());
        let (spec, own) = policy.into().named(&place, name.into());
        self.spec.policies.push(spec);
        self.registry = self.registry.with(own);
        self
    }

    /// Keeps its requests in bounds, by the registered policy `context`.
    pub fn context(self, context: ContextSpec) -> Self {
        self.define(|spec| spec.context = Some(context))
    }

    /// Lets it remember from one run to the next, by the registered policy `memory`.
    pub fn memory(self, memory: MemorySpec) -> Self {
        self.define(|spec| spec.memory = Some(memory))
    }

    /// Puts an agent below it that its model gives tasks to: a call that returns with the result,
    /// while this agent keeps the conversation. In a team file it is `reach: delegate`.
    ///
    /// ```
    /// use ghostlight_actors::run::Agent;
    ///
    /// let clerk = Agent::new("clerk").description("Calculates prices.");
    /// let shipping = Agent::new("shipping").description("Knows where parcels are.");
    /// let desk = Agent::new("desk").delegate_to(clerk).hand_off_to(shipping);
    /// # let _ = desk;
    /// ```
    pub fn delegate_to(self, agent: Agent) -> Self {
        self.agent(agent.reach(Reach::Delegate))
    }

    /// Puts an agent below it that its model hands the conversation to: that agent answers, and goes
    /// on answering in later turns. In a team file it is `reach: transfer`.
    pub fn hand_off_to(self, agent: Agent) -> Self {
        self.agent(agent.reach(Reach::Transfer))
    }

    /// Puts an agent below it, which is reached as [`reach`](Self::reach) says: the way for the
    /// members of a workflow and for agents that only code reaches. Where a model is to reach it,
    /// [`delegate_to`](Self::delegate_to) and [`hand_off_to`](Self::hand_off_to) say how.
    pub fn agent(mut self, agent: Agent) -> Self {
        let own = agent.registry.of_agent(&agent.spec.name);
        self.spec.agents.push(agent.spec);
        self.registry = self.registry.with(own);
        self
    }

    /// Sets how its parent's model reaches it.
    pub fn reach(self, reach: Reach) -> Self {
        self.define(|spec| spec.reach = reach)
    }

    /// Makes its answer to a delegated task the answer of the agent whose model delegated it,
    /// without another model call to sum it up.
    pub fn ends_step(self) -> Self {
        self.define(|spec| spec.ends_step = true)
    }

    /// Sets where it may hand the conversation, beside the agents below it.
    pub fn transfers(self, rules: TransferRules) -> Self {
        self.define(|spec| spec.transfers = rules)
    }

    /// Sets how it takes over a conversation that is handed to it.
    pub fn on_handoff(self, rule: OnHandoff) -> Self {
        self.define(|spec| spec.on_handoff = rule)
    }

    /// Sets the most steps of a leg.
    pub fn max_steps(self, steps: u32) -> Self {
        self.define(|spec| spec.max_steps = Some(steps))
    }

    /// Sets how many answers its policies may reject before the best one is given, flagged.
    pub fn max_rejections(self, answers: u32) -> Self {
        self.define(|spec| spec.max_rejections = Some(answers))
    }

    /// Sets the bounds of its child runs.
    pub fn budget(self, budget: Budget) -> Self {
        self.define(|spec| spec.budget = budget)
    }

    /// Lets its model make agents, with the tool `create_agent`.
    pub fn create_agent(self, create: CreateAgentSpec) -> Self {
        self.define(|spec| spec.create_agent = Some(create))
    }

    /// Lets its model publish on these topics, with the tool `publish`.
    pub fn publishes<T: Into<String>>(self, topics: impl IntoIterator<Item = T>) -> Self {
        self.define(|spec| spec.publishes = topics.into_iter().map(Into::into).collect())
    }

    /// Says that its function receives messages of this type. Once it says so of one, a message of a name that it does not
    /// receive is refused to whoever tells it.
    pub fn receives<M: AgentMessage>(self) -> Self {
        self.define(|spec| spec.receives.push(M::NAME.to_owned()))
    }

    /// Starts it for each event of these topics; the event is its task.
    pub fn starts_on<T: Into<String>>(self, topics: impl IntoIterator<Item = T>) -> Self {
        self.define(|spec| spec.starts_on = topics.into_iter().map(Into::into).collect())
    }

    /// Makes the tasks that are delegated to it values of this type, as JSON: a model that gives
    /// it one is shown the schema, and a task that does not fit begins nothing. Its function reads
    /// them by [`input_as`](RunContext::input_as).
    pub fn input<T: JsonSchema>(self) -> Self {
        self.define(|spec| spec.input = Some(schema_of::<T>()))
    }

    /// Makes its answer a value of this type, as JSON.
    pub fn output<T: JsonSchema>(self) -> Self {
        self.define(|spec| spec.output = Some(schemars::schema_for!(T).to_value()))
    }

    /// Changes the definition itself, for what has no method here.
    pub fn define(mut self, change: impl FnOnce(&mut AgentSpec)) -> Self {
        change(&mut self.spec);
        self
    }

    /// Adds the entries of a registry, for this agent and those below it.
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = self.registry.with(registry);
        self
    }

    /// The definition.
    pub fn spec(&self) -> &AgentSpec {
        &self.spec
    }

    /// A team of this agent and all below it. Names and the tree are checked here; what they
    /// stand for is checked when the System starts, with all that is registered there.
    ///
    /// # Errors
    /// The first fault of the tree.
    pub fn into_team(self) -> Result<Team, DefinitionError> {
        let registry = self.registry.of_agent(&self.spec.name);
        let spec = TeamSpec::new(self.spec);
        spec.check()?;
        Ok(Team { spec, registry })
    }
}

impl Team {
    /// A team of this definition; the code is registered elsewhere.
    pub fn new(spec: TeamSpec) -> Self {
        Self {
            spec,
            registry: Registry::new(),
        }
    }

    /// Adds the entries of a registry, for all agents of the team and for no other team.
    #[must_use]
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = self.registry.with(registry);
        self
    }

    /// Puts an interceptor around the team's calls to models and tools, inside of those that are there.
    #[must_use]
    pub fn intercept(mut self, intercept: impl Into<Intercept>) -> Self {
        self.registry = self.registry.intercept(intercept);
        self
    }

    /// Adds a policy to every agent, after those of the team that were named before, and before
    /// those of each agent: see [`Agent::policy`].
    #[must_use]
    pub fn policy(mut self, name: impl Into<String>, policy: impl Into<AgentPolicy>) -> Self {
        let place = format!("team:{}:{}", self.spec.name, self.spec.policies.len());
        let (spec, own) = policy.into().named(&place, name.into());
        self.spec.policies.push(spec);
        self.registry = self.registry.with(own);
        self
    }

    /// Sets what every agent is told before its own instructions.
    #[must_use]
    pub fn instructions(self, text: impl Into<String>) -> Self {
        self.define(|spec| spec.instructions = text.into())
    }

    /// Adds a model by its provider and settings.
    #[must_use]
    pub fn model(mut self, name: impl Into<String>, spec: ModelSpec) -> Self {
        self.spec.models.insert(name.into(), spec);
        self
    }

    /// Sets the bounds of one run.
    #[must_use]
    pub fn budget(self, budget: Budget) -> Self {
        self.define(|spec| spec.budget = budget)
    }

    /// Sets when what its runs record is durable.
    #[must_use]
    pub fn durability(self, durability: Durability) -> Self {
        self.define(|spec| spec.durability = durability)
    }

    /// Adds a time at which the team is woken by itself.
    #[must_use]
    pub fn schedule(self, schedule: Schedule) -> Self {
        self.define(|spec| spec.schedules.push(schedule))
    }

    /// Lets another program wake it over HTTP, by a `ghostlight::server::Webhook`.
    #[must_use]
    pub fn webhook(self, webhook: impl Into<Value>) -> Self {
        self.define(|spec| spec.webhooks.push(webhook.into()))
    }

    /// Lets the people of a `ghostlight::server::Messenger` talk to it.
    #[must_use]
    pub fn messenger(self, messenger: impl Into<Value>) -> Self {
        self.define(|spec| spec.messengers.push(messenger.into()))
    }

    /// Posts what becomes of its runs to another program, by a `ghostlight::server::Notification`.
    #[must_use]
    pub fn notification(self, notification: impl Into<Value>) -> Self {
        self.define(|spec| spec.notifications.push(notification.into()))
    }

    /// Sets after how long a question expires that sets no time of its own
    /// ([`TeamSpec::questions_expire`]).
    #[must_use]
    pub fn questions_expire(self, time: Duration) -> Self {
        self.define(|spec| spec.questions_expire = Some(time))
    }

    /// Sets at which shares of a bound observers are warned, in percent from 1 to 100.
    #[must_use]
    pub fn budget_warnings(self, percent: impl IntoIterator<Item = u8>) -> Self {
        self.define(|spec| spec.budget_warnings = Some(percent.into_iter().collect()))
    }

    /// Changes the definition itself, for what has no method here.
    #[must_use]
    pub fn define(mut self, change: impl FnOnce(&mut TeamSpec)) -> Self {
        change(&mut self.spec);
        self
    }

    /// The definition as JSON, for people and for files.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(&self.spec).unwrap_or_default()
    }
}

impl From<TeamSpec> for Team {
    fn from(spec: TeamSpec) -> Self {
        Self::new(spec)
    }
}
