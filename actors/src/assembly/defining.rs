//! Definitions: the models, tools and policies of a team are made, and it is pinned for its runs.

use std::collections::BTreeMap;

use super::{
    Registry,
    makers::{MakeModel, MakePolicy, MakeTool, MakeToolset},
    registry::{path_of, tools_of},
};
use crate::{
    contract::ToolHandle,
    definition::{AgentSpec, DefinitionError, Pinned, PolicySpec, TeamSpec, ToolSpec},
    run::PolicyHandle,
    vocabulary::listed,
};

/// The registered name of the policy that keeps the requests of agents with a `context` in bounds.
const CONTEXT: &str = "context";

/// The registered name of the policy that serves the memory of agents that have one.
const MEMORY: &str = "memory";

impl Registry {
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

    /// A team with the definitions of the tools that it names, as a run keeps it.
    pub fn pin(&self, team: &TeamSpec) -> Pinned {
        self.pin_in(team, None)
    }

    /// The same, where all its agents are in one place.
    pub(super) fn pin_in(&self, team: &TeamSpec, place: Option<&[String]>) -> Pinned {
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

    /// The definition of a team whose models and tools are made, in the form to which a run is
    /// pinned.
    ///
    /// # Errors
    /// The first fault.
    pub(crate) fn pin_checked(&self, team: &TeamSpec) -> Result<Pinned, DefinitionError> {
        team.check()?;
        self.check_names(team)?;
        Ok(self.pin(team))
    }
}
