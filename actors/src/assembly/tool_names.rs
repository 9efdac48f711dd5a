//! The names of the tools that an agent's model is offered, each of which stands for one tool.

use std::collections::BTreeMap;

use super::{Registry, makers::MakeBehavior};
use crate::definition::{AgentSpec, DefinitionError, TeamSpec, is_engine_tool};

/// The source of the tools that reach other agents, and of the engine's others, in words.
const ENGINE: &str = "the engine";

/// The tools that an agent has without naming them.
pub(super) struct Given<'t> {
    lineage: &'t [&'t AgentSpec],
    /// Those of its policies and its behavior by name, each with its source in words.
    named: BTreeMap<String, String>,
}

impl Given<'_> {
    /// The source of the tool of this name, if the agent has one.
    pub(super) fn source_of(&self, tool: &str) -> Option<&str> {
        let named = self.named.get(tool).map(String::as_str);
        named.or_else(|| is_engine_tool(self.lineage, tool).then_some(ENGINE))
    }
}

impl Registry {
    /// Refuses an agent of a team that has two tools of one name: its own, or what it is given.
    pub(super) fn refuse_two_tools(
        &self,
        team: &TeamSpec,
        lineage: &[&AgentSpec],
        path: &[String],
    ) -> Result<(), DefinitionError> {
        let given = self.given_tools(team, lineage, path)?;
        let Some(agent) = lineage.last() else {
            return Ok(());
        };
        let mut own = self.own_tools_of(agent);
        match own.find_map(|tool| Some((tool, given.source_of(tool)?))) {
            Some((tool, source)) => Err(two_tools(agent, tool, "its own tools", source)),
            None => Ok(()),
        }
    }

    /// The tools that the last agent of a lineage has without naming them.
    ///
    /// # Errors
    /// When its behavior or one of its policies cannot be made, or two of them give it tools of one name.
    pub(super) fn given_tools<'t>(
        &self,
        team: &TeamSpec,
        lineage: &'t [&'t AgentSpec],
        path: &[String],
    ) -> Result<Given<'t>, DefinitionError> {
        let named = BTreeMap::new();
        let mut given = Given { lineage, named };
        let Some(agent) = lineage.last() else {
            return Ok(given);
        };
        let mut give = |tools: Vec<String>, source: String| {
            for tool in tools {
                if let Some(other) = given.named.get(&tool) {
                    return Err(two_tools(agent, &tool, other, &source));
                }
                if is_engine_tool(lineage, &tool) {
                    return Err(two_tools(agent, &tool, &source, ENGINE));
                }
                given.named.insert(tool, source.clone());
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
