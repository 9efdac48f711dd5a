//! Deletion of trees, sessions and blobs inside one transaction.

use ghostlight_actors::{
    contract::{Deleted, StoreError},
    vocabulary::{Digest, JournalId, RunId, SessionId, Timestamp},
};

use super::{Writer, answer};
use crate::stores::sqlite::{deletion, fault::Fault};

impl Writer {
    /// Deletes at most this many rows of this tree and of earlier deletions that are unfinished.
    pub(in crate::stores::sqlite) fn delete_tree(
        &mut self,
        root: RunId,
        at: Timestamp,
        limit: usize,
    ) -> Result<Result<Deleted, StoreError>, Fault> {
        if let Some(run) = deletion::open_run(&self.connection, root)? {
            return Ok(Err(StoreError::Open { run }));
        }
        self.delete(at, limit, |step| step.take(root)).map(Ok)
    }

    /// Deletes at most this many rows of this session and of earlier deletions that are unfinished.
    pub(in crate::stores::sqlite) fn delete_session(
        &mut self,
        session: &SessionId,
        limit: usize,
    ) -> Result<Result<Deleted, StoreError>, Fault> {
        let id = JournalId::Session(session.clone());
        let checked = match self.head(&id) {
            Ok(Some(head)) => self.check_owner(&id, &head),
            Ok(None) => Ok(()),
            Err(fault) => Err(self.unreadable(fault)),
        };
        if let Err(refused) = answer(checked)? {
            return Ok(Err(refused));
        }
        if let Some(run) = deletion::open_run_in(&self.connection, session)? {
            return Ok(Err(StoreError::Open { run }));
        }
        let take = |step: &mut deletion::Step<'_>| step.take_session(session);
        self.delete(Timestamp::default(), limit, take).map(Ok)
    }

    fn delete(
        &mut self,
        at: Timestamp,
        limit: usize,
        take: impl FnOnce(&mut deletion::Step<'_>) -> Result<(), Fault>,
    ) -> Result<Deleted, Fault> {
        let mut step = deletion::Step {
            connection: &self.connection,
            at,
            left: limit.max(1),
            anchored: self.anchored,
            deleted: Deleted::default(),
            doomed: Vec::new(),
        };
        take(&mut step)?;
        let deletion::Step {
            deleted, doomed, ..
        } = step;
        self.changed |= deleted != Deleted::default() || !doomed.is_empty();
        for id in doomed {
            self.heads.remove(&id);
        }
        Ok(deleted)
    }

    pub(in crate::stores::sqlite) fn delete_blobs(
        &mut self,
        after: deletion::Looked,
        unused: Vec<Digest>,
    ) -> Result<u64, Fault> {
        let deleted = deletion::delete_blobs(&self.connection, after, unused)?;
        self.changed |= deleted > 0;
        Ok(deleted)
    }
}
