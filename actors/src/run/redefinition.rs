//! Another definition of a team whose code is registered already.

use super::{Registry, registry::path_of};
use crate::definition::{DefinitionError, Pinned, TeamSpec};

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
