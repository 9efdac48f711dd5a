//! Deleting sessions: when a person asks for it, and when nothing happened in them for long.

use std::collections::BTreeSet;

use super::Sessions;
use crate::{
    actor::{Pruned, Retention, SystemError, acting::Use, retention},
    contract::{RunFilter, RunRow, SessionRow, StoreError},
    vocabulary::{RunId, SessionId, Timestamp},
};

impl Sessions {
    /// Deletes a session for good: its conversation, the state, the artifacts and the memories of
    /// its scope, and its runs with all runs below them. Shared data stays: a user's and the team's
    /// state, other sessions that branched off this one, and runs that outlived a run of it in
    /// sessions of their own. The session's key is free afterwards. If a crash interrupts the
    /// deletion, nothing of the session can be read any more, and deleting it again deletes the
    /// rest.
    ///
    /// # Errors
    /// [`SystemError::UnknownSession`]; [`SystemError::UnderWay`] while a turn is under way;
    /// [`StoreError::Open`] where a run of the session is parked, and [`StoreError::Owned`] where
    /// another process holds the session; [`SystemError::Foreign`]; what else the store fails with.
    pub async fn delete(&self, session: &SessionId) -> Result<Pruned, SystemError> {
        let unknown = match self.journal(session, Use::Act).await {
            Ok(journal) => journal.check_rest(session).map(|()| None)?,
            // A crash may have left a deletion unfinished.
            Err(error @ SystemError::UnknownSession { .. }) => Some(error),
            Err(error) => return Err(error),
        };
        let _held = self.end_agent(session).await?;
        let runs = self.ended_runs(session).await?;
        let mut deleted = Pruned::default();
        self.delete_contents(session, &mut deleted).await?;
        self.delete_runs(&runs, self.clock.now(), &mut deleted)
            .await?;
        deleted.blobs = retention::deletion(&self.store)?.drop_blobs().await?;
        match unknown {
            Some(error) if deleted == Pruned::default() => Err(error),
            _ => Ok(deleted),
        }
    }

    /// Deletes the ended runs and the sessions of the store that `retention` does not keep. A System
    /// with [`SystemOptions::retention`](crate::actor::SystemOptions) does so by itself.
    ///
    /// A session goes as with [`delete`](Self::delete) if its last turn ended long enough ago. It
    /// stays while one of its runs is open, waits or is parked, and while another living process
    /// holds it: that process, with the same retention, deletes it. A turn for a session that is
    /// being deleted begins a new one. If a crash interrupts the deletion of a session, its
    /// conversation is still there without some of its runs, and the next call deletes it.
    ///
    /// # Errors
    /// A failure of the store. Runs and sessions that were deleted before it stay deleted. What cannot be read or deleted
    /// keeps nothing else: the first such error is returned at the end.
    pub async fn prune(&self, retention: Retention) -> Result<Pruned, SystemError> {
        let now = self.clock.now();
        let mut pruned = Pruned::default();
        let mut failed = match retention.prune_runs(&self.store, now, &mut pruned).await {
            Err(error) if !error.is_lasting() => return Err(error.into()),
            pruned => pruned.map_err(SystemError::from),
        };
        let mut last = None;
        loop {
            let page = retention.idle_sessions(&self.store, now, last).await?;
            for row in &page {
                match self.delete_idle(row, now, &mut pruned).await {
                    Ok(()) => {}
                    // A run of it is open, or began to be open, or it belongs to another process.
                    Err(
                        SystemError::UnderWay { .. }
                        | SystemError::Store(StoreError::Open { .. } | StoreError::Owned { .. }),
                    ) => {}
                    Err(SystemError::Store(error)) if error.is_lasting() => {
                        failed = failed.and(Err(error.into()));
                    }
                    Err(error) => return Err(error),
                }
            }
            last = page.into_iter().next_back();
            if last.is_none() {
                break;
            }
        }
        if pruned.trees > 0 || pruned.sessions > 0 {
            pruned.blobs = retention::deletion(&self.store)?.drop_blobs().await?;
        }
        failed.map(|()| pruned)
    }

    /// Deletes a session in which nothing happened since it was listed.
    async fn delete_idle(
        &self,
        row: &SessionRow,
        now: Timestamp,
        pruned: &mut Pruned,
    ) -> Result<(), SystemError> {
        let session = &row.session;
        let runs = self.ended_runs(session).await?;
        let _held = match &self.system {
            None => None,
            Some(system) => {
                let shared = system.shared();
                match shared.hold(session) {
                    Some(held) if shared.end_agent(session).await => Some(held),
                    // It is in use.
                    _ => return Ok(()),
                }
            }
        };
        // From here on no other process writes to the session, and this one waits. Without new
        // entries it has no runs but those that were listed.
        let claim = self.store.claim(session.clone().into(), false).await?;
        if claim.entries != row.entries {
            return Ok(());
        }
        // The session goes last: as long as it is there, the next call finds it.
        self.delete_runs(&runs, now, pruned).await?;
        self.delete_contents(session, pruned).await?;
        pruned.sessions += 1;
        Ok(())
    }

    async fn runs_of(&self, session: &SessionId) -> Result<Vec<RunRow>, StoreError> {
        let filter = RunFilter {
            session: Some(session.clone()),
            ..RunFilter::default()
        };
        self.store.runs(filter).await
    }

    /// The runs of a session, all of which must have ended.
    async fn ended_runs(&self, session: &SessionId) -> Result<Vec<RunRow>, StoreError> {
        let runs = self.runs_of(session).await?;
        match runs.iter().find(|row| !row.status.is_ended()) {
            Some(open) => Err(StoreError::Open { run: open.run }),
            None => Ok(runs),
        }
    }

    async fn delete_contents(
        &self,
        session: &SessionId,
        deleted: &mut Pruned,
    ) -> Result<(), StoreError> {
        loop {
            let deletion = retention::deletion(&self.store)?;
            let step = deletion
                .delete_session(session.clone(), retention::STEP)
                .await?;
            deleted.entries += step.entries;
            if !step.more {
                return Ok(());
            }
        }
    }

    async fn delete_runs(
        &self,
        runs: &[RunRow],
        now: Timestamp,
        deleted: &mut Pruned,
    ) -> Result<(), StoreError> {
        let roots: BTreeSet<RunId> = runs.iter().map(|row| row.root).collect();
        for root in roots {
            retention::delete_tree(&self.store, root, now, deleted).await?;
        }
        Ok(())
    }
}
