//! Everything in this process: the root supervisor, the store, the gateways.

mod acting_for;
mod builder;
mod load;
mod open_runs;
mod pruning;
mod recovery;
mod reloading;
mod schedules;
mod tool_sources;
mod tree;

use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
};

pub use builder::SystemBuilder;
pub use load::Load;
pub use open_runs::OpenRuns;
pub use schedules::Scheduled;
#[cfg(feature = "cluster")]
pub(crate) use tree::Nothing;

use super::{
    SystemError,
    acting::{Acting, Use},
    agent_command::AgentCommand,
    relay::Relays,
    shared::Shared,
    supervisor::{ChildInfo, Supervisor},
};
use crate::{
    contract::{ClockJump, RunFilter, RunRow, StoreError, StoreHandle},
    definition::TeamSpec,
    vocabulary::RunId,
};

/// How many rows of the index are read at once by what reads all that are open.
const PAGE: usize = 512;

/// All of Ghostlight in this process: teams of agents below a root supervisor, over one store.
///
/// A System starts no runtime, installs no signal handler, panic hook or subscriber, and registers
/// no name in ractor's process-wide registry, so several Systems can live in one process. Cloning
/// shares it. Dropping it stops nothing; [`stop`](Self::stop) does.
#[derive(Clone)]
pub struct System(Arc<Shared>, Acting);

impl System {
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }

    /// The party for which its handles act.
    pub(super) fn acting(&self) -> &Acting {
        &self.1
    }

    pub(super) fn acting_as(&self, acting: Acting) -> Self {
        Self(self.0.clone(), acting)
    }

    /// The teams as new runs find them, by name.
    pub fn teams(&self) -> Vec<TeamSpec> {
        let teams = self.0.teams.read();
        let specs = teams.values().map(|entry| entry.pinned.team.clone());
        specs.collect()
    }

    /// The team of this name, as its next run will have it.
    pub fn team(&self, name: &str) -> Option<TeamSpec> {
        let teams = self.0.teams.read();
        teams.get(name).map(|entry| entry.pinned.team.clone())
    }

    /// Whether there is a team of this name.
    pub fn has_team(&self, name: &str) -> bool {
        self.0.teams.read().contains_key(name)
    }

    /// Runs of the store, the latest begun first. A System that [acts for an
    /// owner](Self::acting_for) leaves out the runs of other owners.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn runs(&self, filter: RunFilter) -> Result<Vec<RunRow>, SystemError> {
        self.visible(self.0.services.store.runs(filter).await?)
            .await
    }

    /// Those of these runs that the party for which this System acts may see.
    async fn visible(&self, rows: Vec<RunRow>) -> Result<Vec<RunRow>, SystemError> {
        let mut visible = Vec::with_capacity(rows.len());
        for row in rows {
            match self.check_run(row.run, Use::Look).await {
                Ok(()) => visible.push(row),
                Err(SystemError::Foreign { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(visible)
    }

    /// The next page of [`runs`](Self::runs) that this filter selects; `None` after the last. The
    /// filter is moved on.
    async fn next_page(&self, filter: &mut RunFilter) -> Result<Option<Vec<RunRow>>, SystemError> {
        match next_page(&self.0.services.store, filter).await? {
            Some(rows) => self.visible(rows).await.map(Some),
            None => Ok(None),
        }
    }

    /// The open roots of the store that a later program wrote, each with its error. This System
    /// leaves them alone; the later program takes them up.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn newer_runs(&self) -> Result<Vec<(RunRow, StoreError)>, SystemError> {
        let mut filter = RunFilter::open();
        filter.roots = true;
        let mut newer = Vec::new();
        while let Some(rows) = self.next_page(&mut filter).await? {
            newer.extend(super::newer_runs(&self.0.services.store, &rows).await?);
        }
        Ok(newer)
    }

    /// The latest jumps of the machine's clock while this System lived: forward when the machine
    /// had slept, either way when somebody corrected the clock.
    pub fn clock_jumps(&self) -> Vec<ClockJump> {
        self.0.clock_jumps.lock().iter().copied().collect()
    }

    /// Kills the task that carries a run here. `false` where there is none.
    pub(crate) fn kill_run(&self, run: RunId) -> bool {
        let live = &self.0.services.previewer.live;
        live.tell_host(run, AgentCommand::Kill(run));
        live.is_live(run)
    }

    /// The store.
    pub fn store(&self) -> &StoreHandle {
        &self.0.services.store
    }

    /// The trees that are followed here, whoever carries them, from now on; a later call takes the place of an earlier one.
    pub fn relays(&self) -> Relays {
        Relays::of(&self.0.services.previewer)
    }

    /// The supervision tree as it stands now.
    pub async fn tree(&self) -> Vec<ChildInfo> {
        match self.0.root.get() {
            Some(root) => root.which_children().await.unwrap_or_default(),
            None => Vec::new(),
        }
    }

    /// The root supervisor, to watch its children or to add your own below it.
    pub fn supervisor(&self) -> Option<&Supervisor> {
        self.0.root.get()
    }

    /// Stops the System. Its runs stop where they stand and go on when it is started again. The
    /// store is closed.
    ///
    /// # Errors
    /// The error of a closed store.
    pub async fn stop(&self) -> Result<(), SystemError> {
        self.0.stopped.store(true, Ordering::Release);
        self.0.services.previewer.live.let_go();
        if let Some(root) = self.0.root.get() {
            root.stop().await;
        }
        let teams: Vec<_> = self.0.teams.read().values().cloned().collect();
        for team in teams {
            team.registry.close_toolsets(None).await;
        }
        self.0.services.store.close().await?;
        drop(self.0.nudge.lock().take());
        Ok(())
    }
}

/// The next page of the rows that this filter selects; `None` after the last. The filter is moved
/// on.
async fn next_page(
    store: &StoreHandle,
    filter: &mut RunFilter,
) -> Result<Option<Vec<RunRow>>, StoreError> {
    filter.limit = PAGE;
    let rows = store.runs(filter.clone()).await?;
    filter.after = rows.last().cloned();
    Ok(filter.after.is_some().then_some(rows))
}

impl fmt::Debug for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("System")
            .field("store", &self.0.services.store)
            .finish_non_exhaustive()
    }
}
