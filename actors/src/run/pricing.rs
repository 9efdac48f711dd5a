//! Budgets in money need prices.

use super::Registry;
use crate::{
    contract::ModelHandle,
    definition::{ContextSpec, DefinitionError, TeamSpec, model_of},
};

impl Registry {
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
            let path = super::registry::path_of(&lineage);
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
