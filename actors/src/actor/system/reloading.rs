//! Replacing a team's definition while its System lives.

use ractor::ActorStatus;

use super::{
    System,
    tool_sources::{knowing, record},
    tree::answers_of,
};
use crate::{
    actor::{SystemError, shared::TeamEntry},
    assembly::{Registry, Team},
    contract::StoreHandle,
    definition::{Durability, TeamSpec},
};

impl System {
    /// Replaces the definition of a team of this System. Runs that begin from now on have the new
    /// definition; open runs keep the one to which they are pinned, and sessions go on. A model
    /// whose definition is unchanged stays, with its limits and its calls under way, and so does
    /// what a toolset holds open. The schedules of the definition are replaced by those of the new
    /// one.
    ///
    /// If an error is returned, nothing has changed, except where the store fails: then the definition may be replaced, and
    /// its schedules or what other processes know of it may not. Reload it again.
    ///
    /// # Errors
    /// [`SystemError::UnknownTeam`]; [`SystemError::Definition`] with the first fault of the definition;
    /// [`SystemError::NotReloaded`] for settings that a System decides when it starts; what the
    /// store fails with.
    pub async fn reload(&self, team: impl Into<Team>) -> Result<(), SystemError> {
        let Team { spec, registry } = team.into();
        let shared = self.shared();
        let name = spec.name.clone();
        let before = shared.known_team(&name)?;
        let in_memory = |spec: &TeamSpec| spec.durability == Durability::Memory;
        if in_memory(&spec) != in_memory(&before.pinned.team) {
            let reason =
                "it keeps its runs elsewhere (`durability`), which takes a new start".to_owned();
            return Err(SystemError::NotReloaded { team: name, reason });
        }
        let registry = (*shared.services.registry).clone().with(registry);
        let entry = TeamEntry::new(
            resolve(registry, &spec, &before, &shared.services.store).await?,
            &spec,
        );
        let Some(root) = self.supervisor() else {
            return Err(SystemError::Stopped);
        };
        if root.actor().get_status() >= ActorStatus::Stopping {
            return Err(SystemError::Stopped);
        }
        record(&shared.services.store, &entry.registry, &entry.spec).await?;
        let gateways = &shared.services.gateways;
        let added = gateways
            .write()
            .add(&format!("team {name} "), &entry.registry);
        let gateways = added.iter().map(|(_, gateway)| gateway.clone());
        shared.attend(gateways.collect()).await;
        for (called, gateway) in added {
            if let Err(error) = root.start_child(answers_of(&called, &gateway)).await {
                tracing::warn!(%called, %error, "answers of a model whose runs are gone are not kept");
            }
        }
        let registry = entry.registry.clone();
        shared.teams.write().insert(name, entry);
        before.registry.close_toolsets(Some(&registry)).await;
        shared.announce().await?;
        if shared.recovers {
            shared.declare_schedules().await?;
        }
        Ok(())
    }
}

/// The code behind the names of a team, with the models and toolsets whose definitions are
/// unchanged.
async fn resolve(
    registry: Registry,
    spec: &TeamSpec,
    before: &TeamEntry,
    store: &StoreHandle,
) -> Result<Registry, SystemError> {
    let (mut changed, was) = (spec.clone(), &before.pinned.team);
    let mut same = Registry::new();
    changed.models.retain(|name, model| {
        let is_same = was.models.get(name) == Some(model);
        let kept = before.registry.model_named(name).filter(|_| is_same);
        if let Some(handle) = kept {
            same = std::mem::take(&mut same).model(name, handle.clone());
        }
        kept.is_none()
    });
    changed.tools.retain(|name, tool| {
        let is_same = was.tools.get(name) == Some(tool);
        let kept = before.registry.toolset_named(name).filter(|_| is_same);
        if let Some(handle) = kept {
            same = std::mem::take(&mut same).toolset(name, handle.clone());
        }
        kept.is_none()
    });
    let registry = registry.with(same).define(&changed)?;
    registry.open_toolsets().await;
    let sources = before.registry.tool_sources();
    let registry = knowing(store, &spec.name, registry.knowing(sources)).await?;
    let registry = registry.settle(&changed)?;
    registry.check_models(&changed)?;
    Ok(registry)
}
