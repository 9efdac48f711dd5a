//! The checks of a team: that each of its names stands for something that works.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    Registry,
    makers::MakeBehavior,
    registry::{path_of, tools_of},
};
use crate::{
    contract::{ModelHandle, ToolHandle, ToolsetHandle},
    definition::{AgentSpec, ContextSpec, DefinitionError, TeamSpec, model_of},
};

impl Registry {
    /// Refuses two different things under one name in one place. `all` is the place of all agents.
    pub(crate) fn refuse_twice(&self, all: &str) -> Result<(), DefinitionError> {
        let agents = self.places.agents.iter();
        let of_agents = agents.map(|(agent, own)| (format!("agent {agent:?}"), own));
        let of_all = (all.to_owned(), &self.places.all);
        for (place, names) in std::iter::once(of_all).chain(of_agents) {
            if let Some((what, name)) = names.twice.first() {
                let name = name.clone();
                return Err(DefinitionError::Collision { place, what, name });
            }
        }
        Ok(())
    }

    /// Checks that every name that a team's agents and policies use is registered here.
    pub(super) fn check_names(&self, team: &TeamSpec) -> Result<(), DefinitionError> {
        let root = std::slice::from_ref(&team.agent.name);
        for policy in &team.policies {
            self.make_policy(policy, root, || format!("team {:?}", team.name))?;
        }
        for lineage in team.agent.lineages() {
            self.check_agent(team, &lineage, &path_of(&lineage))?;
            let Some(agent) = lineage.last() else {
                continue;
            };
            // A misspelt rule would let its tool be called without approval.
            let stray = |name: &&String| *name != "*" && !self.may_have(agent, name);
            if let Some(name) = agent.approval.keys().find(stray) {
                return Err(DefinitionError::Unknown {
                    wanted_by: format!("the approval of agent {:?}", agent.name),
                    what: "tool",
                    name: name.clone(),
                    known: self.known_to(agent),
                });
            }
        }
        Ok(())
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

    /// Checks that each agent whose behavior asks a model has one. A model that cannot be asked is a warning: its key may be
    /// set before the first question.
    pub(crate) fn check_models(&self, team: &TeamSpec) -> Result<(), DefinitionError> {
        let mut told = HashSet::new();
        for lineage in team.agent.lineages() {
            let Some(agent) = lineage.last() else {
                continue;
            };
            let (path, wanted_by) = (path_of(&lineage), || format!("agent {:?}", agent.name));
            let (behavior, settings) = (&agent.behavior.name, &agent.behavior.settings);
            let make: &MakeBehavior = self.places.wanted(&path, behavior, wanted_by)?;
            if make(settings).is_ok_and(|behavior| behavior.asks_model()) {
                let model = model_of(&lineage);
                let handle: &ModelHandle = self.places.wanted(&path, model, wanted_by)?;
                if told.insert(handle.address())
                    && let Err(error) = handle.ready()
                {
                    tracing::warn!(team = %team.name, model, %error, "the model cannot be asked");
                }
            }
        }
        Ok(())
    }

    /// Refuses a team with a budget in money over a model whose answers do not say what they cost.
    pub(super) fn check_prices(&self, team: &TeamSpec) -> Result<(), DefinitionError> {
        for lineage in team.agent.lineages() {
            let Some(agent) = lineage.last() else {
                continue;
            };
            let is_bounded = team.budget.cost_micros.is_some()
                || lineage
                    .iter()
                    .any(|above| above.budget.cost_micros.is_some());
            if !is_bounded {
                continue;
            }
            let path = path_of(&lineage);
            let names = std::iter::once(model_of(&lineage));
            let of_context = agent.context.iter().flat_map(ContextSpec::models);
            for name in names.chain(of_context) {
                let found = self.places.look_up::<ModelHandle>(&path, name);
                let Ok(Some(model)) = found else { continue };
                let is_priced = model.is_priced()
                    || self
                        .model_chain(name)
                        .iter()
                        .any(|around| around.prices_models());
                if !is_priced {
                    return Err(DefinitionError::Unpriced {
                        agent: agent.name.clone(),
                        model: name.to_owned(),
                        description: model.description(),
                    });
                }
            }
        }
        Ok(())
    }
}
