//! The code behind the names of a definition.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Behavior, BehaviorHandle, Intercept, PolicyHandle, interception::MakeInterceptor};
use crate::{
    contract::{ModelHandle, ToolHandle},
    definition::{
        AgentSpec, ContextSpec, DefinitionError, Pinned, PinnedAgent, PolicySpec, TeamSpec,
        ToolSpec,
    },
};

/// The registered name of the policy that keeps the requests of agents with a `context` in bounds.
const CONTEXT: &str = "context";

/// Makes a behavior from its settings; the error says what is wrong with them.
type MakeBehavior = Arc<dyn Fn(&Value) -> Result<BehaviorHandle, String> + Send + Sync>;
/// Makes a policy from its settings; the error says what is wrong with them.
type MakePolicy = Arc<dyn Fn(&Value) -> Result<PolicyHandle, String> + Send + Sync>;
/// Makes a model from its settings; the error says what is wrong with them.
type MakeModel =
    Arc<dyn Fn(&serde_json::Map<String, Value>) -> Result<ModelHandle, String> + Send + Sync>;
/// Makes a tool of this name from its settings; the error says what is wrong with them.
type MakeTool =
    Arc<dyn Fn(&str, &serde_json::Map<String, Value>) -> Result<ToolHandle, String> + Send + Sync>;

/// The code behind the names that definitions use: models and their providers, tools and their
/// kinds, behaviors, policies and interceptors. Builder and team file fill one; the command takes
/// the user's own.
#[derive(Clone, Default)]
pub struct Registry {
    pub(super) models: BTreeMap<String, ModelHandle>,
    providers: BTreeMap<String, MakeModel>,
    pub(super) tools: BTreeMap<String, ToolHandle>,
    tool_kinds: BTreeMap<String, MakeTool>,
    behaviors: BTreeMap<String, MakeBehavior>,
    policies: BTreeMap<String, MakePolicy>,
    pub(super) interceptor_kinds: BTreeMap<String, MakeInterceptor>,
    /// Those of code, from the outermost on.
    pub(super) intercepts: Vec<Intercept>,
    /// Those of each team's definition, inside of those of code.
    pub(super) defined_intercepts: BTreeMap<String, Vec<Intercept>>,
}

impl Registry {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a model under a name; `default` serves agents that name none.
    #[must_use]
    pub fn model(mut self, name: impl Into<String>, model: ModelHandle) -> Self {
        self.models.insert(name.into(), model);
        self
    }

    /// Registers a provider: what makes a model from the settings of a team file.
    #[must_use]
    pub fn provider<F>(mut self, name: impl Into<String>, make: F) -> Self
    where
        F: Fn(&serde_json::Map<String, Value>) -> Result<ModelHandle, String>
            + Send
            + Sync
            + 'static,
    {
        self.providers.insert(name.into(), Arc::new(make));
        self
    }

    /// Registers a tool under the name of its definition.
    #[must_use]
    pub fn tool(mut self, tool: impl Into<ToolHandle>) -> Self {
        let tool = tool.into();
        self.tools.insert(tool.definition().name.clone(), tool);
        self
    }

    /// Registers a kind of tool: what makes a tool of a name from the settings of a team file.
    /// The tool's definition must carry that name.
    #[must_use]
    pub fn tool_kind<F>(mut self, name: impl Into<String>, make: F) -> Self
    where
        F: Fn(&str, &serde_json::Map<String, Value>) -> Result<ToolHandle, String>
            + Send
            + Sync
            + 'static,
    {
        self.tool_kinds.insert(name.into(), Arc::new(make));
        self
    }

    /// Registers a behavior that is made from settings.
    #[must_use]
    pub fn behavior<F>(mut self, name: impl Into<String>, make: F) -> Self
    where
        F: Fn(&Value) -> Result<BehaviorHandle, String> + Send + Sync + 'static,
    {
        self.behaviors.insert(name.into(), Arc::new(make));
        self
    }

    /// Registers a policy that is made from settings.
    #[must_use]
    pub fn policy<F>(mut self, name: impl Into<String>, make: F) -> Self
    where
        F: Fn(&Value) -> Result<PolicyHandle, String> + Send + Sync + 'static,
    {
        self.policies.insert(name.into(), Arc::new(make));
        self
    }

    /// Registers a behavior whose settings are the fields of its type.
    #[must_use]
    pub fn behavior_type<B: Behavior + DeserializeOwned>(self, name: impl Into<String>) -> Self {
        self.behavior(name, |settings| {
            let behavior = B::deserialize(settings).map_err(|error| error.to_string())?;
            Ok(BehaviorHandle::new(behavior))
        })
    }

    /// Adds all of another registry; what both have, the other wins.
    #[must_use]
    pub fn with(mut self, other: Registry) -> Self {
        self.models.extend(other.models);
        self.providers.extend(other.providers);
        self.tools.extend(other.tools);
        self.tool_kinds.extend(other.tool_kinds);
        self.behaviors.extend(other.behaviors);
        self.policies.extend(other.policies);
        self.interceptor_kinds.extend(other.interceptor_kinds);
        self.defined_intercepts.extend(other.defined_intercepts);
        for intercept in other.intercepts {
            self.add_intercept(intercept);
        }
        self
    }

    /// The same, with a team's own behaviors and policies in place of those that are called alike.
    pub(crate) fn of_team(&self, own: Registry) -> Self {
        let mut registry = self.clone();
        registry.behaviors.extend(own.behaviors);
        registry.policies.extend(own.policies);
        registry
    }

    /// The same names with other code behind them: what a simulation puts around each.
    pub(crate) fn around(
        mut self,
        model: impl Fn(ModelHandle) -> ModelHandle,
        tool: impl Fn(ToolHandle) -> ToolHandle,
    ) -> Self {
        let models = std::mem::take(&mut self.models).into_iter();
        self.models = models.map(|(name, of)| (name, model(of))).collect();
        let tools = std::mem::take(&mut self.tools).into_iter();
        self.tools = tools.map(|(name, of)| (name, tool(of))).collect();
        self
    }

    /// The model of this name.
    pub fn model_named(&self, name: &str) -> Option<&ModelHandle> {
        self.models.get(name)
    }

    /// All models by name.
    pub fn models(&self) -> impl Iterator<Item = (&str, &ModelHandle)> {
        self.models
            .iter()
            .map(|(name, model)| (name.as_str(), model))
    }

    /// The tool of this name.
    pub fn tool_named(&self, name: &str) -> Option<&ToolHandle> {
        self.tools.get(name)
    }

    /// All tools by name.
    pub fn tools(&self) -> impl Iterator<Item = (&str, &ToolHandle)> {
        self.tools.iter().map(|(name, tool)| (name.as_str(), tool))
    }

    /// The names of all behaviors.
    pub fn behavior_names(&self) -> Vec<&str> {
        self.behaviors.keys().map(String::as_str).collect()
    }

    /// The names of all policies.
    pub fn policy_names(&self) -> Vec<&str> {
        self.policies.keys().map(String::as_str).collect()
    }

    /// The names of all providers.
    pub fn provider_names(&self) -> Vec<&str> {
        self.providers.keys().map(String::as_str).collect()
    }

    /// The names of all kinds of tools.
    pub fn tool_kind_names(&self) -> Vec<&str> {
        self.tool_kinds.keys().map(String::as_str).collect()
    }

    /// The behavior of an agent, made from its settings. `None` when it is not registered.
    pub(crate) fn behavior_of(
        &self,
        agent: &PinnedAgent,
    ) -> Option<Result<BehaviorHandle, String>> {
        self.make_behavior(&agent.spec)
    }

    fn make_behavior(&self, agent: &AgentSpec) -> Option<Result<BehaviorHandle, String>> {
        let make = self.behaviors.get(&agent.behavior.name)?;
        Some(make(&agent.behavior.settings))
    }

    /// How the policies of an agent are made, each with its name. The error says which one is
    /// not registered or refuses its settings.
    pub(crate) fn policies_of(
        &self,
        agent: &PinnedAgent,
    ) -> Result<Vec<(String, PolicyHandle)>, String> {
        let made = self.make_policies(&agent.spec);
        made.map_err(|error| error.to_string())
    }

    fn make_policies(
        &self,
        agent: &AgentSpec,
    ) -> Result<Vec<(String, PolicyHandle)>, DefinitionError> {
        // What bounds a request looks at it last.
        let context = agent.context.as_ref().map(|context| {
            let settings = serde_json::to_value(context).unwrap_or_default();
            PolicySpec::new(CONTEXT).settings(settings)
        });
        let policies = agent.policies.iter().chain(&context);
        policies
            .map(|policy| self.make_policy(policy, format!("agent {:?}", agent.name)))
            .collect()
    }

    fn make_policy(
        &self,
        policy: &PolicySpec,
        wanted_by: String,
    ) -> Result<(String, PolicyHandle), DefinitionError> {
        let name = policy.name.clone();
        let Some(make) = self.policies.get(&policy.name) else {
            return Err(DefinitionError::Unknown {
                wanted_by,
                what: "policy",
                name,
                known: list(self.policies.keys()),
            });
        };
        let made = make(&policy.settings).map_err(|reason| DefinitionError::Settings {
            wanted_by,
            what: "policy",
            name: name.clone(),
            reason,
        })?;
        Ok((name, made))
    }

    /// Makes the models and tools that a team defines, and checks that every name of it stands for
    /// something.
    ///
    /// # Errors
    /// The first fault, with who names what and which names exist.
    pub fn resolve(mut self, team: &TeamSpec) -> Result<Self, DefinitionError> {
        team.check()?;
        for (name, spec) in &team.models {
            let wanted_by = format!("model {name:?}");
            let Some(make) = self.providers.get(&spec.provider) else {
                return Err(DefinitionError::Unknown {
                    wanted_by,
                    what: "provider",
                    name: spec.provider.clone(),
                    known: list(self.providers.keys()),
                });
            };
            let model = make(&spec.settings).map_err(|reason| DefinitionError::Settings {
                wanted_by,
                what: "provider",
                name: spec.provider.clone(),
                reason,
            })?;
            self.models.insert(name.clone(), model);
        }
        for (name, spec) in &team.tools {
            let tool = self.make_tool(name, spec)?;
            self.tools.insert(name.clone(), tool);
        }
        for policy in &team.policies {
            self.make_policy(policy, format!("team {:?}", team.name))?;
        }
        for (_, agent) in team.agent.walk() {
            self.check_agent(agent)?;
            // A rule that is misspelt would let its tool be called unasked.
            let stray = |name: &&String| *name != "*" && !tools_of(agent).any(|tool| tool == *name);
            if let Some(name) = agent.approval.keys().find(stray) {
                return Err(DefinitionError::Unknown {
                    wanted_by: format!("the approval of agent {:?}", agent.name),
                    what: "tool",
                    name: name.clone(),
                    known: list(tools_of(agent)),
                });
            }
        }
        self.define_interceptors(team)?;
        Ok(self)
    }

    fn make_tool(&self, name: &str, spec: &ToolSpec) -> Result<ToolHandle, DefinitionError> {
        let wanted_by = format!("tool {name:?}");
        let Some(make) = self.tool_kinds.get(&spec.kind) else {
            return Err(DefinitionError::Unknown {
                wanted_by,
                what: "kind of tool",
                name: spec.kind.clone(),
                known: list(self.tool_kinds.keys()),
            });
        };
        let made = make(name, &spec.settings).and_then(|tool| {
            let called = &tool.definition().name;
            if called == name {
                Ok(tool)
            } else {
                Err(format!("it made a tool that is called {called:?}"))
            }
        });
        made.map_err(|reason| DefinitionError::Settings {
            wanted_by,
            what: "kind of tool",
            name: spec.kind.clone(),
            reason,
        })
    }

    fn check_agent(&self, agent: &AgentSpec) -> Result<(), DefinitionError> {
        let schemas = [("output", &agent.output), ("input", &agent.input)];
        for (name, schema) in schemas {
            let Some(schema) = schema else { continue };
            let compiled = jsonschema::validator_for(schema).map(drop);
            let mut checked = compiled.map_err(|fault| fault.to_string());
            if name == "input" && schema.get("type") != Some(&Value::from("object")) {
                checked = Err("its `type` must be `object`".to_owned());
            }
            checked.map_err(|reason| DefinitionError::Settings {
                wanted_by: format!("agent {:?}", agent.name),
                what: "schema",
                name: name.to_owned(),
                reason,
            })?;
        }
        let unknown = |what: &'static str, name: &str, known: String| DefinitionError::Unknown {
            wanted_by: format!("agent {:?}", agent.name),
            what,
            name: name.to_owned(),
            known,
        };
        let of_context = agent.context.iter().flat_map(ContextSpec::models);
        for model in agent.model.as_deref().into_iter().chain(of_context) {
            if !self.models.contains_key(model) {
                return Err(unknown("model", model, list(self.models.keys())));
            }
        }
        for tool in tools_of(agent) {
            if !self.tools.contains_key(tool) {
                return Err(unknown("tool", tool, list(self.tools.keys())));
            }
        }
        self.make_policies(agent)?;
        match self.make_behavior(agent) {
            None => Err(unknown(
                "behavior",
                &agent.behavior.name,
                list(self.behaviors.keys()),
            )),
            Some(made) => made
                .and_then(|behavior| behavior.check(agent))
                .map_err(|reason| DefinitionError::Settings {
                    wanted_by: format!("agent {:?}", agent.name),
                    what: "behavior",
                    name: agent.behavior.name.clone(),
                    reason,
                }),
        }
    }

    /// A team with the definitions of the tools that it names, as a run keeps it.
    pub fn pin(&self, team: &TeamSpec) -> Pinned {
        let agents = team.agent.walk().into_iter();
        let tools = agents.flat_map(|(_, agent)| tools_of(agent));
        let tools = tools.filter_map(|name| {
            self.tools
                .get(name)
                .map(|tool| (name.clone(), tool.definition().clone()))
        });
        Pinned::new(team.clone(), tools.collect())
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
                model: agent.model.or_else(|| Some(creator.model.clone())),
                ..agent
            },
            schedules: Vec::new(),
            ..pinned.team.clone()
        };
        team.check()?;
        for (_, agent) in team.agent.walk() {
            self.check_agent(agent)?;
        }
        let mut made = self.pin(&team);
        made.made_by = Some(creator.spec.name.clone());
        for (name, tool) in &mut made.tools {
            if let Some(pinned) = pinned.tools.get(name) {
                tool.clone_from(pinned);
            }
        }
        Ok(made)
    }
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

pub(super) fn list<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<&str> = names.map(String::as_str).collect();
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("models", &self.models.keys())
            .field("providers", &self.providers.keys())
            .field("tools", &self.tools.keys())
            .field("tool_kinds", &self.tool_kinds.keys())
            .field("behaviors", &self.behaviors.keys())
            .field("policies", &self.policies.keys())
            .field("interceptor_kinds", &self.interceptor_kinds.keys())
            .finish_non_exhaustive()
    }
}
