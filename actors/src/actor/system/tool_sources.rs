//! From which toolsets the agents of a team have had their tools, over restarts.
//!
//! A server that cannot be reached at a start names no tools, and what it had before may have been approved and trusted. So
//! a store keeps who had each name first, in whichever process, and no other server takes it.

use std::{sync::Arc, time::Duration};

use crate::{
    actor::shared::Shared,
    assembly::{Registry, ToolSources},
    contract::{Batch, Expected, StateWrite, StoreError, StoreHandle},
    definition::TeamSpec,
};

/// The scope of shared state in which they are kept; the keys are teams.
const SCOPE: &str = "tool_sources";
/// The pause before a record that could not be written is written again.
const AGAIN: Duration = Duration::from_secs(5);

/// The code of a team, which knows from where its agents had their tools before.
pub(super) async fn knowing(
    store: &StoreHandle,
    team: &str,
    registry: Registry,
) -> Result<Registry, StoreError> {
    if registry.toolsets().next().is_none() {
        return Ok(registry);
    }
    Ok(registry.knowing(recorded(store, team).await?.0))
}

/// The record of a team in a store, with its version.
///
/// # Errors
/// Failures of the store, and a record that this version cannot read: it is not written over.
async fn recorded(store: &StoreHandle, team: &str) -> Result<(ToolSources, u64), StoreError> {
    let found = store.state(SCOPE.to_owned(), team.to_owned()).await?;
    let read = found.value.map(serde_json::from_value).transpose();
    let read = read.map_err(|error| StoreError::Damaged {
        place: format!("the value {SCOPE}/{team}"),
        reason: error.to_string(),
    })?;
    Ok((read.unwrap_or_default(), found.version))
}

/// Records from where the tools of a team are, beside what other processes have recorded.
pub(super) async fn record(
    store: &StoreHandle,
    registry: &Registry,
    team: &TeamSpec,
) -> Result<(), StoreError> {
    if registry.toolsets().next().is_none() {
        return Ok(());
    }
    loop {
        let (before, version) = recorded(store, &team.name).await?;
        let sources = registry.tool_sources_beside(before.clone(), team);
        if sources == before {
            return Ok(());
        }
        let mut batch = Batch::default();
        batch.writes.push(StateWrite {
            scope: SCOPE.to_owned(),
            key: team.name.clone(),
            value: serde_json::value::to_raw_value(&sources).ok(),
            expected: Expected::Version(version),
        });
        match store.commit_one(batch).await {
            // Another process was first, and has written what it had.
            Err(StoreError::Conflict { .. }) => {}
            written => return written.map(drop),
        }
    }
}

impl Shared {
    /// Records from where the tools of all teams are, where that has changed.
    pub(super) async fn record_tool_sources(&self) -> Result<(), StoreError> {
        let teams: Vec<_> = self.teams.read().values().cloned().collect();
        for team in teams {
            record(&self.services.store, &team.registry, &team.spec).await?;
        }
        Ok(())
    }
}

/// Records it each time that a team has other tools.
pub(super) async fn keep_tool_sources(shared: Arc<Shared>) {
    loop {
        shared.other_tools.notified().await;
        while let Err(error) = shared.record_tool_sources().await {
            tracing::warn!(%error, "the toolsets that a team's tools come from are not recorded yet");
            shared.services.clock.sleep(AGAIN).await;
        }
    }
}
