//! Another definition of a team whose code is registered already.

use std::collections::HashSet;

use super::{
    Registry,
    registry::{MakeBehavior, path_of},
};
use crate::{
    contract::ModelHandle,
    definition::{DefinitionError, Pinned, TeamSpec, model_of},
};

impl Registry {
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
