//! Deleting sessions.

use std::collections::BTreeSet;

use super::Sessions;
use crate::{
    actor::{Pruned, SystemError, acting::Use, retention},
    contract::{RunFilter, StoreError},
    vocabulary::{RunId, SessionId},
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
        let filter = RunFilter {
            session: Some(session.clone()),
            ..RunFilter::default()
        };
        match self.journal(session, Use::Act).await {
            Ok(journal) => journal.check_rest(session)?,
            // A crash may have left a deletion unfinished.
            Err(SystemError::UnknownSession { .. })
                if !self.store.runs(filter.clone()).await?.is_empty() => {}
            Err(error) => return Err(error),
        }
        self.end_agent(session).await?;
        let runs = self.store.runs(filter).await?;
        if let Some(open) = runs.iter().find(|row| !row.status.is_ended()) {
            return Err(StoreError::Open { run: open.run }.into());
        }
        let mut deleted = Pruned::default();
        loop {
            let step = self.store.delete_session(session.clone(), retention::STEP);
            let step = step.await?;
            deleted.entries += step.entries;
            if !step.more {
                break;
            }
        }
        let roots: BTreeSet<RunId> = runs.iter().map(|row| row.root).collect();
        for root in roots {
            retention::delete_tree(&self.store, root, self.clock.now(), &mut deleted).await?;
        }
        deleted.blobs = self.store.drop_blobs().await?;
        Ok(deleted)
    }
}
