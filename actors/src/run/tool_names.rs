//! The names of the tools that an agent's model is offered, each of which stands for one tool.

use std::collections::BTreeMap;

use super::{Registry, registry::MakeBehavior};
use crate::definition::{AgentSpec, DefinitionError, TeamSpec, engine_tools};

impl Registry {
    /// Refuses an agent of a team that has a tool of its own under the name of a tool that it is given.
    pub(super) fn refuse_two_tools(
        &self,
        team: &TeamSpec,
        agent: &AgentSpec,
        path: &[String],
    ) -> Result<(), DefinitionError> {
        let given = self.given_tools(team, agent, path)?;
        for tool in self.own_tools_of(agent) {
            if let Some(source) = given.get(tool) {
                return Err(DefinitionError::ToolCollision {
                    agent: agent.name.clone(),
                    tool: tool.clone(),
                    source_of_other: source.clone(),
                });
            }
        }
        Ok(())
    }

    /// The names of the tools that an agent has without naming them, each with its source in words.
    ///
    /// # Errors
    /// When its behavior or one of its policies cannot be made.
    pub(super) fn given_tools(
        &self,
        team: &TeamSpec,
        agent: &AgentSpec,
        path: &[String],
    ) -> Result<BTreeMap<String, String>, DefinitionError> {
        let mut given = BTreeMap::new();
        let wanted_by = || format!("agent {:?}", agent.name);
        let of_team = team.policies.iter().map(|policy| {
            let root = std::slice::from_ref(&team.agent.name);
            self.make_policy(policy, root, || format!("team {:?}", team.name))
        });
        let of_team = of_team.collect::<Result<Vec<_>, _>>()?;
        for (name, policy) in of_team.into_iter().chain(self.make_policies(agent, path)?) {
            let source = format!("policy {name:?}");
            given.extend(
                policy
                    .tools()
                    .into_iter()
                    .map(|tool| (tool, source.clone())),
            );
        }
        let behavior = &agent.behavior.name;
        let make: &MakeBehavior = self.places.wanted(path, behavior, wanted_by)?;
        if let Ok(made) = make(&agent.behavior.settings) {
            let source = format!("behavior {behavior:?}");
            given.extend(made.tools().into_iter().map(|tool| (tool, source.clone())));
        }
        let lineage = team.agent.lineage(&agent.name).unwrap_or_default();
        let engine = engine_tools(&lineage).into_iter();
        given.extend(engine.map(|tool| (tool, "the engine".to_owned())));
        Ok(given)
    }
}
