//! Runs and sessions as read from their journals.

use std::{collections::HashMap, sync::Arc};

use super::SystemError;
use crate::{
    contract::{Claim, StoreError, StoreHandle},
    definition::{Pinned, TeamSpec},
    run::{Loaded, Recorded},
    session::{SessionFold, decode_checkpoint},
    vocabulary::{RunEnd, RunId, RunStart, SessionId},
};

/// A session as read from its journal.
#[derive(Debug)]
pub(crate) struct LoadedSession {
    pub(crate) fold: SessionFold,
    pub(crate) claim: Claim,
    /// How many entries the readable checkpoint covers; 0 without one.
    pub(crate) kept: u64,
}

/// The owner from whom a run is claimed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Claiming {
    /// No living process.
    Free,
    /// Any owner.
    TakeOver,
    /// Any owner, as long as the run's parent is carried here in this epoch.
    Below(RunId, u64),
}

impl Claiming {
    pub(crate) fn by(take_over: bool) -> Self {
        match take_over {
            true => Self::TakeOver,
            false => Self::Free,
        }
    }
}

/// A session whose open run was recovered together with others.
#[derive(Debug)]
pub(crate) struct RecoveredSession {
    pub(crate) session: LoadedSession,
    pub(crate) run: Loaded,
}

/// The fold that a session's checkpoint tells. A checkpoint is only a cache: one that cannot be read is rebuilt.
pub(crate) async fn from_checkpoint(
    store: &StoreHandle,
    session: &SessionId,
) -> Option<SessionFold> {
    let bytes = store.checkpoint(session.clone()).await.ok()??;
    let checkpoint = decode_checkpoint(&bytes)?;
    let mut contents = HashMap::new();
    for file in checkpoint.files() {
        contents.insert(file, store.blob(file).await.ok()??);
    }
    checkpoint.fold(&contents)
}

/// The start of a run; `None` when there is no such run.
pub(crate) async fn start_of(
    store: &StoreHandle,
    run: RunId,
) -> Result<Option<Arc<RunStart>>, StoreError> {
    let first = store.read(run.into(), 0, 1).await?;
    Ok(Recorded::fold(&first, run)?.start)
}

/// The end of a run. It is the journal's last entry, so the entries before it are not decoded,
/// however many they are.
pub(crate) async fn end_of(store: &StoreHandle, run: RunId) -> Result<Option<RunEnd>, StoreError> {
    for stored in store.journal(run.into(), 0).await?.iter().rev() {
        let recorded = Recorded::fold(std::slice::from_ref(stored), run)?;
        if recorded.end.is_some() {
            return Ok(recorded.end);
        }
    }
    Ok(None)
}

/// The definition of the team to which a run is pinned, read from the store: a run can be resumed
/// without the file from which its team came. It has the version of the code that has carried the
/// run.
///
/// # Errors
/// [`SystemError::UnknownRun`], [`SystemError::Pinned`], and what the store fails with.
pub async fn pinned_team(store: &StoreHandle, run: RunId) -> Result<TeamSpec, SystemError> {
    let start = start_of(store, run).await?;
    let start = start.ok_or(SystemError::UnknownRun(run))?;
    let missing = |reason: String| SystemError::Pinned { run, reason };
    let bytes = store.blob(start.definition).await?;
    let bytes = bytes.ok_or_else(|| missing(format!("no blob {}", start.definition)))?;
    let pinned = Pinned::decode(&bytes).map_err(|error| missing(error.to_string()))?;
    let mut team = pinned.team;
    if let Some(row) = store.run(run).await? {
        team.version = team.version.max(row.version);
    }
    Ok(team)
}
