//! The code behind the names of a definition.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{
    Intercept,
    makers::{MakeBehavior, MakeModel, MakePolicy, MakeTool},
    members::Members,
    names::{Named, Places},
};
use crate::{
    contract::{Model, ModelHandle, ToolHandle, ToolsetHandle},
    definition::AgentSpec,
    run::{Behavior, BehaviorHandle, PolicyHandle},
};

/// The code behind the names that definitions use: models and their providers, tools and their
/// kinds, behaviors, policies and interceptors. Builder and team file fill one; the command takes
/// the user's own.
///
/// A name belongs to the place that gives it. Code that an [`Agent`](super::Agent) is given is for it
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

    /// The same names with other code behind them: what a simulation puts around each.
    pub(crate) fn around(
        mut self,
        model: impl Fn(ModelHandle) -> ModelHandle,
        tool: impl Fn(ToolHandle) -> ToolHandle,
    ) -> Self {
        let Places { all, agents, .. } = &mut self.places;
        for names in std::iter::once(all).chain(agents.values_mut()) {
            names
                .models
                .values_mut()
                .for_each(|of| *of = model(of.clone()));
            names
                .tools
                .values_mut()
                .for_each(|of| *of = tool(of.clone()));
        }
        self
    }

    /// All models with what people may call the places that have them.
    pub(crate) fn models_by_place(&self) -> Vec<(String, &ModelHandle)> {
        let all = self.places.all.models.iter();
        let all = all.map(|(name, model)| (format!("model {name}"), model));
        let agents = self.places.agents.iter();
        let own = agents.flat_map(|(agent, names)| {
            let own = names.models.iter();
            own.map(move |(name, model)| (format!("agent {agent} model {name}"), model))
        });
        all.chain(own).collect()
    }
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
