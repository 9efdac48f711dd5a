//! The code behind the names of a definition.

use std::{collections::BTreeMap, fmt, sync::Arc};

use futures_util::FutureExt;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{
    AgentFunction, Behavior, BehaviorHandle, Intercept, Leg, PolicyHandle, RunContext,
    names::{Named, Places},
    policy,
    toolsets::Members,
};
use crate::{
    contract::{InterceptorHandle, Model, ModelHandle, ToolHandle, ToolsetHandle},
    definition::{
        AgentSpec, ContextSpec, DefinitionError, Pinned, PinnedAgent, PolicySpec, TeamSpec,
        ToolSpec,
    },
    vocabulary::{AgentError, listed},
};

/// The registered name of the policy that keeps the requests of agents with a `context` in bounds.
const CONTEXT: &str = "context";

/// The registered name of the policy that serves the memory of agents that have one.
const MEMORY: &str = "memory";

/// Makes a behavior from its settings; the error says what is wrong with them.
pub(super) type MakeBehavior = Arc<dyn Fn(&Value) -> Result<BehaviorHandle, String> + Send + Sync>;
/// Makes a policy from its settings; the error says what is wrong with them.
pub(super) type MakePolicy = Arc<dyn Fn(&Value) -> Result<PolicyHandle, String> + Send + Sync>;
/// Makes a model from its settings; the error says what is wrong with them.
pub(super) type MakeModel =
    Arc<dyn Fn(&Map<String, Value>) -> Result<ModelHandle, String> + Send + Sync>;
/// Makes a tool of this name from its settings; the error says what is wrong with them.
pub(super) type MakeTool =
    Arc<dyn Fn(&str, &Map<String, Value>) -> Result<ToolHandle, String> + Send + Sync>;
/// Makes a toolset of this name from its settings; the error says what is wrong with them.
pub(super) type MakeToolset =
    Arc<dyn Fn(&str, &Map<String, Value>) -> Result<ToolsetHandle, String> + Send + Sync>;

/// The code behind the names that definitions use: models and their providers, tools and their
/// kinds, behaviors, policies and interceptors. Builder and team file fill one; the command takes
/// the user's own.
///
/// A name belongs to the place that gives it. What an [`Agent`](super::Agent) is given is for it
/// and the agents below it, what a [`Team`](super::Team) is given for all its agents, and what the
/// System is given for all its teams; the nearest place wins, and what a team's definition makes
/// is nearer than what the team is given in code. Two different things under one name in one place
/// are an error when the System starts.
#[derive(Clone, Default)]
pub struct Registry {
    pub(super) places: Places,
    /// The interceptors given in code, from the outermost on.
    pub(super) intercepts: Vec<Intercept>,
    /// The interceptors of each team's definition, inside of those given in code.
    pub(super) defined_intercepts: BTreeMap<String, Vec<Intercept>>,
    /// The tools that the agents of the resolved team have from toolsets.
    pub(super) members: Members,
}

/// A model, and the interceptors around its calls.
#[derive(Clone, Debug)]
pub(crate) struct ModelCode {
    /// The model.
    pub(crate) model: ModelHandle,
    /// The interceptors around each attempt, from the outermost on.
    pub(crate) chain: Arc<[InterceptorHandle]>,
}

/// A tool, and the interceptors around its calls.
#[derive(Clone, Debug)]
pub(crate) struct ToolCode {
    /// The tool.
    pub(crate) tool: ToolHandle,
    /// The interceptors around each call, from the outermost on.
    pub(crate) chain: Arc<[InterceptorHandle]>,
}

impl Registry {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a model under a name; `default` serves agents that name none.
    #[must_use]
    pub fn model(self, name: impl Into<String>, model: ModelHandle) -> Self {
        self.given(name, model)
    }

    pub(super) fn given<T: Named>(mut self, name: impl Into<String>, thing: T) -> Self {
        self.places.all.give(name.into(), thing);
        self
    }

    /// Registers a provider: what makes a model from the settings of a team file.
    #[must_use]
    pub fn provider<F>(self, name: impl Into<String>, make: F) -> Self
    where
        F: Fn(&Map<String, Value>) -> Result<ModelHandle, String> + Send + Sync + 'static,
    {
        self.given::<MakeModel>(name, Arc::new(make))
    }

    /// Registers a provider whose settings are the fields of its model's type.
    #[must_use]
    pub fn provider_type<M: Model + DeserializeOwned>(self, name: impl Into<String>) -> Self {
        self.provider(name, |settings| {
            let settings = Value::Object(settings.clone());
            let model = M::deserialize(settings).map_err(|error| error.to_string())?;
            Ok(ModelHandle::new(model))
        })
    }

    /// Registers a tool under the name of its definition.
    #[must_use]
    pub fn tool(self, tool: impl Into<ToolHandle>) -> Self {
        let tool = tool.into();
        self.given(tool.definition().name.clone(), tool)
    }

    /// Registers a kind of tool: what makes a tool of a name from the settings of a team file.
    /// The tool's definition must carry that name.
    #[must_use]
    pub fn tool_kind<F>(self, name: impl Into<String>, make: F) -> Self
    where
        F: Fn(&str, &Map<String, Value>) -> Result<ToolHandle, String> + Send + Sync + 'static,
    {
        self.given::<MakeTool>(name, Arc::new(make))
    }

    /// Registers a behavior that is made from settings.
    #[must_use]
    pub fn behavior<F>(self, name: impl Into<String>, make: F) -> Self
    where
        F: Fn(&Value) -> Result<BehaviorHandle, String> + Send + Sync + 'static,
    {
        self.given::<MakeBehavior>(name, Arc::new(make))
    }

    /// Registers a policy that is made from settings.
    #[must_use]
    pub fn policy<F>(self, name: impl Into<String>, make: F) -> Self
    where
        F: Fn(&Value) -> Result<PolicyHandle, String> + Send + Sync + 'static,
    {
        self.given::<MakePolicy>(name, Arc::new(make))
    }

    /// Registers a behavior whose settings are the fields of its type.
    #[must_use]
    pub fn behavior_type<B: Behavior + DeserializeOwned>(self, name: impl Into<String>) -> Self {
        self.behavior(name, |settings| {
            let behavior = B::deserialize(settings).map_err(|error| error.to_string())?;
            Ok(BehaviorHandle::new(behavior))
        })
    }

    /// Adds all of another registry; what both have, the other wins, so that this is the way to
    /// put something of one's own instead of what is built in.
    #[must_use]
    pub fn with(mut self, other: Registry) -> Self {
        self.places.extend(other.places);
        self.defined_intercepts.extend(other.defined_intercepts);
        for intercept in other.intercepts {
            self.add_intercept(intercept);
        }
        self
    }

    /// The same, for this agent and those below it alone.
    pub(super) fn of_agent(mut self, agent: &str) -> Self {
        self.places.narrow_to(agent);
        self
    }

    /// The meaning of a name where no agent is meant.
    fn named<T: Named>(&self, name: &str) -> Option<&T> {
        self.places.look_up(&[], name).ok().flatten()
    }

    /// The model of this name, unless two agents have different ones.
    pub fn model_named(&self, name: &str) -> Option<&ModelHandle> {
        self.named(name)
    }

    /// All models by name. A name that several places give is there several times.
    pub fn models(&self) -> impl Iterator<Item = (&str, &ModelHandle)> {
        self.places.each()
    }

    /// The tool of this name, unless two agents have different ones.
    pub fn tool_named(&self, name: &str) -> Option<&ToolHandle> {
        self.named(name)
    }

    /// The toolset of this name, unless two agents have different ones.
    pub(crate) fn toolset_named(&self, name: &str) -> Option<&ToolsetHandle> {
        self.named(name)
    }

    /// All tools by name. A name that several places give is there several times.
    pub fn tools(&self) -> impl Iterator<Item = (&str, &ToolHandle)> {
        self.places.each()
    }

    /// The names of all behaviors.
    pub fn behavior_names(&self) -> Vec<&str> {
        self.places.names_of::<MakeBehavior>()
    }

    /// The names of all policies.
    pub fn policy_names(&self) -> Vec<&str> {
        self.places.names_of::<MakePolicy>()
    }

    /// The names of all providers.
    pub fn provider_names(&self) -> Vec<&str> {
        self.places.names_of::<MakeModel>()
    }

    /// The names of all kinds of tools.
    pub fn tool_kind_names(&self) -> Vec<&str> {
        self.places.names_of::<MakeTool>()
    }

    /// The model that an agent calls so; the error says which there are.
    pub(crate) fn model_of(&self, agent: &PinnedAgent, name: &str) -> Result<ModelCode, String> {
        let found = self.places.look_up::<ModelHandle>(&agent.places, name);
        let Some(model) = found.map_err(|agents| several(name, &agents))? else {
            let known = self.places.known::<ModelHandle>();
            return Err(format!("there is no model {name:?}; there are: {known}"));
        };
        let (model, chain) = (model.clone(), self.model_chain(name));
        Ok(ModelCode { model, chain })
    }

    /// The tool that an agent calls so; the error says which there are.
    pub(crate) fn tool_of(&self, agent: &PinnedAgent, name: &str) -> Result<ToolCode, String> {
        let found = self.places.look_up::<ToolHandle>(&agent.places, name);
        let Some(tool) = found.map_err(|agents| several(name, &agents))? else {
            let known = self.places.known::<ToolHandle>();
            return Err(format!(
                "There is no tool {name:?} in this program. There are: {known}."
            ));
        };
        let (tool, chain) = (tool.clone(), self.tool_chain(name));
        Ok(ToolCode { tool, chain })
    }

    /// The function of a leg's agent, with the policies around it, made from the agent's settings. The error says what is
    /// missing.
    pub(crate) fn function_of(&self, leg: &Arc<Leg>) -> Result<AgentFunction, String> {
        let agent = &leg.agent;
        let behavior = &agent.spec.behavior;
        let make = self.places.look_up(&agent.places, &behavior.name);
        let make: Option<&MakeBehavior> = make.ok().flatten();
        let make = make.ok_or_else(|| {
            let (wanted, known) = (&behavior.name, self.places.known::<MakeBehavior>());
            format!("the code of its behavior {wanted:?}; there are: {known}")
        })?;
        let behavior = make(&behavior.settings)
            .map_err(|reason| format!("a behavior that works ({reason})"))?;
        let policies = self
            .make_policies(&agent.spec, &agent.places)
            .map_err(|reason| format!("policies that work ({reason})"))?;
        let cx = RunContext::watched(leg.clone(), &policies);
        let Some(watch) = cx.watch().cloned() else {
            let ended = behavior.run(cx);
            return Ok(Box::pin(ended.map(|end| end.or_else(AgentError::or_early))));
        };
        Ok(Box::pin(async move {
            policy::around(&behavior, cx, &watch).await
        }))
    }

    pub(super) fn make_policies(
        &self,
        agent: &AgentSpec,
        path: &[String],
    ) -> Result<Vec<(String, PolicyHandle)>, DefinitionError> {
        // The policy that bounds requests comes last.
        let context = agent.context.as_ref().map(|context| {
            let settings = serde_json::to_value(context).unwrap_or_default();
            PolicySpec::new(CONTEXT).settings(settings)
        });
        let memory = agent.memory.as_ref().map(|memory| {
            let settings = serde_json::to_value(memory).unwrap_or_default();
            PolicySpec::new(MEMORY).settings(settings)
        });
        let policies = agent.policies.iter().chain(&memory).chain(&context);
        policies
            .map(|policy| self.make_policy(policy, path, || format!("agent {:?}", agent.name)))
            .collect()
    }

    pub(super) fn make_policy(
        &self,
        policy: &PolicySpec,
        path: &[String],
        wanted_by: impl Fn() -> String,
    ) -> Result<(String, PolicyHandle), DefinitionError> {
        let name = policy.name.clone();
        let make: &MakePolicy = self.places.wanted(path, &name, &wanted_by)?;
        let made = make(&policy.settings);
        let made = made.map_err(DefinitionError::refuses(wanted_by(), "policy", &name))?;
        Ok((name, made))
    }

    /// Makes the models and tools that a team defines, and checks that every name of it stands for
    /// something.
    ///
    /// # Errors
    /// The first fault, with who names what and which names exist.
    pub fn resolve(self, team: &TeamSpec) -> Result<Self, DefinitionError> {
        self.define(team)?.settle(team)
    }

    /// Makes the models and tools that a team defines.
    pub(crate) fn define(self, team: &TeamSpec) -> Result<Self, DefinitionError> {
        team.check()?;
        self.refuse_twice(&format!("team {:?}", team.name))?;
        let root = std::slice::from_ref(&team.agent.name);
        let mut defined = Self::new();
        for (name, spec) in &team.models {
            let wanted_by = || format!("model {name:?}");
            let make: &MakeModel = self.places.wanted(root, &spec.provider, wanted_by)?;
            let refused = DefinitionError::refuses(wanted_by(), "provider", &spec.provider);
            defined = defined.model(name, make(&spec.settings).map_err(refused)?);
        }
        for (name, spec) in &team.tools {
            defined = match self.make_toolset(name, spec, root)? {
                Some(toolset) => defined.toolset(name, toolset),
                None => defined.tool(self.make_tool(name, spec, root)?),
            };
        }
        Ok(self.with(defined))
    }

    /// Checks that every name of a team stands for something, where what it defines is made.
    pub(crate) fn settle(mut self, team: &TeamSpec) -> Result<Self, DefinitionError> {
        self.ask_toolsets(team, false)?;
        self.check_names(team)?;
        self.define_interceptors(team)?;
        self.check_prices(team)?;
        Ok(self)
    }

    fn make_tool(
        &self,
        name: &str,
        spec: &ToolSpec,
        path: &[String],
    ) -> Result<ToolHandle, DefinitionError> {
        let wanted_by = || format!("tool {name:?}");
        let make: &MakeTool = self
            .places
            .wanted(path, &spec.kind, wanted_by)
            .map_err(|error| self.with_toolset_kinds(error))?;
        let made = make(name, &spec.settings).and_then(|tool| {
            let called = &tool.definition().name;
            if spec.only.is_some() || spec.prefix.is_some() {
                Err(
                    "it is one tool: `only` and `prefix` are for kinds that make several"
                        .to_owned(),
                )
            } else if called == name {
                let limits = spec.limits.get("*").or_else(|| spec.limits.get(name));
                Ok(match limits {
                    Some(limits) => {
                        let definition = limits.applied((**tool.definition()).clone());
                        tool.defined(definition)
                    }
                    None => tool,
                })
            } else {
                Err(format!("it made a tool that is called {called:?}"))
            }
        });
        made.map_err(DefinitionError::refuses(
            wanted_by(),
            "kind of tool",
            &spec.kind,
        ))
    }

    /// A team file names a kind of toolset as it names a kind of tool, so the error lists both.
    fn with_toolset_kinds(&self, mut error: DefinitionError) -> DefinitionError {
        if let DefinitionError::Unknown { known, .. } = &mut error {
            let mut kinds = self.places.names_of::<MakeTool>();
            kinds.extend(self.places.names_of::<MakeToolset>());
            kinds.sort_unstable();
            *known = listed(kinds);
        }
        error
    }

    /// Checks that the last agent of a lineage can be made, and that each of its names stands for something.
    pub(super) fn check_agent(
        &self,
        team: &TeamSpec,
        lineage: &[&AgentSpec],
        path: &[String],
    ) -> Result<(), DefinitionError> {
        let Some(agent) = lineage.last() else {
            return Ok(());
        };
        let wanted_by = || format!("agent {:?}", agent.name);
        let schemas = [("output", &agent.output), ("input", &agent.input)];
        for (name, schema) in schemas {
            let Some(schema) = schema else { continue };
            let compiled = jsonschema::validator_for(schema).map(drop);
            let mut checked = compiled.map_err(|fault| fault.to_string());
            if name == "input" && schema.get("type") != Some(&Value::from("object")) {
                checked = Err("its `type` must be `object`".to_owned());
            }
            checked.map_err(DefinitionError::refuses(wanted_by(), "schema", name))?;
        }
        let of_context = agent.context.iter().flat_map(ContextSpec::models);
        for model in agent.model.as_deref().into_iter().chain(of_context) {
            let _: &ModelHandle = self.places.wanted(path, model, wanted_by)?;
        }
        for tool in tools_of(agent) {
            if let Ok(Some(_)) = self.places.look_up::<ToolsetHandle>(path, tool) {
                continue;
            }
            let _: &ToolHandle = self.places.wanted(path, tool, wanted_by)?;
        }
        self.refuse_two_tools(team, lineage, path)?;
        let behavior = &agent.behavior;
        let make: &MakeBehavior = self.places.wanted(path, &behavior.name, wanted_by)?;
        make(&behavior.settings)
            .and_then(|behavior| behavior.check(agent))
            .map_err(DefinitionError::refuses(
                wanted_by(),
                "behavior",
                &behavior.name,
            ))
    }

    /// A team with the definitions of the tools that it names, as a run keeps it.
    pub fn pin(&self, team: &TeamSpec) -> Pinned {
        self.pin_in(team, None)
    }

    /// The same, where all its agents are in one place.
    fn pin_in(&self, team: &TeamSpec, place: Option<&[String]>) -> Pinned {
        let team = self.with_members(team);
        let mut pinned = Pinned::new(team.clone(), BTreeMap::new());
        for lineage in team.agent.lineages() {
            let Some(agent) = lineage.last() else {
                continue;
            };
            let path = place.map_or_else(|| path_of(&lineage), <[String]>::to_vec);
            for name in tools_of(agent) {
                if let Ok(Some(tool)) = self.places.look_up::<ToolHandle>(&path, name) {
                    pinned.keep_tool(&agent.name, tool.definition());
                }
            }
        }
        pinned
    }

    /// Gives an agent that is made, and all below it, the rules of its maker: the policies that are inherited, before its
    /// own, and, where it has none itself, the approval of each tool and the bounds on calls and rejections. A policy that
    /// cannot be made is kept too: it is refused with the agent.
    pub(crate) fn inherit(&self, agent: &mut AgentSpec, (pinned, maker): (&Pinned, &PinnedAgent)) {
        // The team's own policies apply to the agent anyway, as it belongs to the same team.
        let policies = maker.spec.policies.iter().skip(pinned.team.policies.len());
        let inherited = |policy: &&PolicySpec| {
            let made = self.make_policy(policy, &maker.places, String::new);
            made.map_or(true, |(_, policy)| policy.is_inherited())
        };
        let inherited: Vec<PolicySpec> = policies.filter(inherited).cloned().collect();
        let mut open = vec![agent];
        while let Some(agent) = open.pop() {
            agent.policies.splice(..0, inherited.iter().cloned());
            agent.max_calls = agent.max_calls.or(maker.spec.max_calls);
            agent.max_rejections = agent.max_rejections.or(maker.spec.max_rejections);
            for (tool, rule) in &maker.spec.approval {
                let own = agent.approval.entry(tool.clone());
                own.or_insert_with(|| rule.clone());
            }
            open.extend(agent.agents.iter_mut());
        }
    }

    /// An agent that a run of a pinned team makes, as a team of its own: what the team says for
    /// all, and the tools as they are pinned there. Its name and all that it names is checked.
    ///
    /// # Errors
    /// The first fault.
    pub(crate) fn pin_made(
        &self,
        agent: AgentSpec,
        creator: (&Pinned, &PinnedAgent),
    ) -> Result<Pinned, DefinitionError> {
        let (pinned, creator) = creator;
        let team = TeamSpec {
            agent: AgentSpec {
                model: agent.model.or_else(|| Some(creator.model.to_string())),
                ..agent
            },
            schedules: Vec::new(),
            webhooks: Vec::new(),
            notifications: Vec::new(),
            messengers: Vec::new(),
            ..pinned.team.clone()
        };
        team.check()?;
        for lineage in team.agent.lineages() {
            self.check_agent(&team, &lineage, &creator.places)?;
        }
        let mut made = self.pin_in(&team, Some(&creator.places));
        made.made_by = Some(creator.spec.name.clone());
        made.places.clone_from(&creator.places);
        made.makers.clone_from(&creator.makers);
        made.makers.push(creator.spec.name.clone());
        for (name, tool) in &mut made.tools {
            if let Some(pinned) = pinned.tool(&creator.spec.name, name) {
                tool.clone_from(pinned);
            }
        }
        Ok(made)
    }
}

/// Why a name is not known although other agents have it.
fn several(name: &str, agents: &str) -> String {
    format!("{name:?} stands for different things at the agents {agents}, and for nothing here.")
}

/// The names of a lineage.
pub(super) fn path_of(lineage: &[&AgentSpec]) -> Vec<String> {
    lineage.iter().map(|agent| agent.name.clone()).collect()
}

/// All tools that an agent names: its own, those that approve, and those that it may give to agents
/// which it makes.
pub(super) fn tools_of(agent: &AgentSpec) -> impl Iterator<Item = &String> {
    let approvers = agent.approval.values().filter_map(|rule| rule.by.as_ref());
    let given = agent.create_agent.as_ref();
    let given = given.and_then(|create| create.tools.as_ref());
    agent
        .tools
        .iter()
        .chain(approvers)
        .chain(given.into_iter().flatten())
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("models", &self.places.names_of::<ModelHandle>())
            .field("providers", &self.provider_names())
            .field("tools", &self.places.names_of::<ToolHandle>())
            .field("tool_kinds", &self.tool_kind_names())
            .field("toolset_kinds", &self.toolset_kind_names())
            .field("behaviors", &self.behavior_names())
            .field("policies", &self.policy_names())
            .field("interceptor_kinds", &self.interceptor_kind_names())
            .finish_non_exhaustive()
    }
}
