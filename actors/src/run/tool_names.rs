//! The names of the tools that an agent's model is offered, each of which stands for one tool.

use std::collections::BTreeMap;

use super::{Registry, registry::MakeBehavior};
use crate::definition::{AgentSpec, DefinitionError, TeamSpec, engine_tools};

impl Registry {
    /// Refuses an agent of a team that has two tools of one name: its own, or what it is given.
    pub(super) fn refuse_two_tools(
        &self,
        team: &TeamSpec,
        agent: &AgentSpec,
        path: &[String],
    ) -> Result<(), DefinitionError> {
        let given = self.given_tools(team, agent, path)?;
        let mut own = self.own_tools_of(agent);
        match own.find_map(|tool| given.get_key_value(tool)) {
            Some((tool, source)) => Err(two_tools(agent, tool, "its own tools", source)),
            None => Ok(()),
        }
    }

    /// The names of the tools that an agent has without naming them, each with its source in words.
    ///
    /// # Errors
    /// When its behavior or one of its policies cannot be made, or two of them give it tools of one name.
    pub(super) fn given_tools(
        &self,
        team: &TeamSpec,
        agent: &AgentSpec,
        path: &[String],
    ) -> Result<BTreeMap<String, String>, DefinitionError> {
        let mut given: BTreeMap<String, String> = BTreeMap::new();
        let mut give = |tools: Vec<String>, source: String| {
            for tool in tools {
                if let Some(other) = given.get(&tool) {
                    return Err(two_tools(agent, &tool, other, &source));
                }
                given.insert(tool, source.clone());
            }
            Ok(())
        };
        let wanted_by = || format!("agent {:?}", agent.name);
        let of_team = team.policies.iter().map(|policy| {
            let root = std::slice::from_ref(&team.agent.name);
            self.make_policy(policy, root, || format!("team {:?}", team.name))
        });
        let of_team = of_team.collect::<Result<Vec<_>, _>>()?;
        for (name, policy) in of_team.into_iter().chain(self.make_policies(agent, path)?) {
            give(policy.tools(), format!("policy {name:?}"))?;
        }
        let behavior = &agent.behavior.name;
        let make: &MakeBehavior = self.places.wanted(path, behavior, wanted_by)?;
        if let Ok(made) = make(&agent.behavior.settings) {
            give(made.tools(), format!("behavior {behavior:?}"))?;
        }
        let lineage = team.agent.lineage(&agent.name).unwrap_or_default();
        give(engine_tools(&lineage), "the engine".to_owned())?;
        Ok(given)
    }
}

fn two_tools(agent: &AgentSpec, tool: &str, one: &str, other: &str) -> DefinitionError {
    DefinitionError::ToolCollision {
        agent: agent.name.clone(),
        tool: tool.to_owned(),
        source_of_one: one.to_owned(),
        source_of_other: other.to_owned(),
    }
}
