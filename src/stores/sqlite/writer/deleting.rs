//! Deletion of trees, sessions and blobs inside one transaction.

use std::collections::HashSet;

use ghostlight_actors::{
    contract::{Deleted, StoreError},
    vocabulary::{Digest, JournalId, RunId, SessionId, Timestamp},
};

use super::{Stop, Writer, answer};
use crate::stores::sqlite::{blobs, deletion, fault::Fault};

impl Writer {
    /// Deletes at most this many rows of this tree and of earlier deletions that are unfinished.
    pub(in crate::stores::sqlite) fn delete_tree(
        &mut self,
        root: RunId,
        at: Timestamp,
        limit: usize,
    ) -> Result<Result<Deleted, StoreError>, Fault> {
        let open = deletion::open_run(&self.connection, root);
        let checked = self.check_ended(open);
        answer(checked.and_then(|()| self.delete(at, limit, |step| step.take(root))))
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
        let open = deletion::open_run_in(&self.connection, session);
        let checked = checked.and_then(|()| self.check_ended(open));
        let take = |step: &mut deletion::Step<'_>| step.take_session(session);
        answer(checked.and_then(|()| self.delete(Timestamp::default(), limit, take)))
    }

    /// Refuses where a run has not ended.
    fn check_ended(&self, open: Result<Option<RunId>, Fault>) -> Result<(), Stop> {
        match open.map_err(|fault| self.unreadable(fault))? {
            Some(run) => Err(Stop::Refused(StoreError::Open { run })),
            None => Ok(()),
        }
    }

    /// Starts a deletion, or leaves all as it is where that meets damage; then continues those that were started.
    fn delete(
        &mut self,
        at: Timestamp,
        limit: usize,
        take: impl FnOnce(&mut deletion::Step<'_>) -> Result<(), Fault>,
    ) -> Result<Deleted, Stop> {
        let mut step = deletion::Step {
            connection: &self.connection,
            at,
            left: limit.max(1),
            anchored: self.anchored,
            deleted: Deleted::default(),
            doomed: Vec::new(),
        };
        let started = step.as_one(take)?;
        started.map_err(|fault| self.unreadable(fault))?;
        step.go_on_with_all()?;
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
        after: blobs::Looked,
        unused: HashSet<Digest>,
    ) -> Result<u64, Fault> {
        let deleted = blobs::delete_blobs(&self.connection, after, unused)?;
        self.changed |= deleted > 0;
        Ok(deleted)
    }
}
