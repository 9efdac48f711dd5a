//! The messages that a run receives.

use std::collections::BTreeSet;

use super::{
    Registry,
    registry::{MakeBehavior, path_of},
};
use crate::definition::TeamSpec;

impl Registry {
    /// The names of the messages that a run of this agent receives, itself or after it has handed its conversation on.
    /// `None` where it may be any: the agent does not say, and its code may receive messages. The conversation of a child
    /// run stays in the agent's part of the tree.
    pub(crate) fn received_by(
        &self,
        team: &TeamSpec,
        agent: &str,
        is_child: bool,
    ) -> Option<BTreeSet<String>> {
        let top = is_child.then_some(agent);
        if let Some(said) = team.received_by(agent) {
            return Some(said.into_iter().map(str::to_owned).collect());
        }
        let (mut open, mut seen) = (vec![agent], BTreeSet::from([agent]));
        let mut received = BTreeSet::new();
        while let Some(name) = open.pop() {
            let lineage = team.agent.lineage(name)?;
            let spec = lineage.last()?;
            let make = self.places.look_up(&path_of(&lineage), &spec.behavior.name);
            let make: &MakeBehavior = make.ok().flatten()?;
            let behavior = make(&spec.behavior.settings).ok()?;
            if spec.receives.is_empty() && behavior.receives_any() {
                return None;
            }
            received.extend(spec.receives.iter().cloned());
            let next = team.transfer_targets(name, top).into_iter();
            open.extend(
                next.map(|agent| agent.name.as_str())
                    .filter(|name| seen.insert(name)),
            );
        }
        Some(received)
    }
}
