//! Another definition of a team whose code is there.

use super::{Registry, registry::path_of};
use crate::definition::{DefinitionError, Pinned, TeamSpec};

impl Registry {
    /// Checks that every name of a team's agents and policies stands for something here.
    pub(super) fn check_names(&self, team: &TeamSpec) -> Result<(), DefinitionError> {
        let root = std::slice::from_ref(&team.agent.name);
        for policy in &team.policies {
            self.make_policy(policy, root, || format!("team {:?}", team.name))?;
        }
        for (above, agent) in team.agent.walk() {
            self.check_agent(agent, &path_of(&above, agent))?;
            // A rule that is misspelt would let its tool be called unasked.
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

    /// A definition of a team whose models and tools are made, as a run keeps it.
    ///
    /// # Errors
    /// The first fault.
    pub(crate) fn pin_checked(&self, team: &TeamSpec) -> Result<Pinned, DefinitionError> {
        team.check()?;
        self.check_names(team)?;
        Ok(self.pin(team))
    }
}
