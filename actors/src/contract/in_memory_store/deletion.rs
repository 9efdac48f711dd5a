//! How the in-memory store deletes ended trees.

use std::collections::HashSet;

use super::{
    ended::KEPT,
    memory::{Memory, visible},
};
use crate::{
    contract::{Deleted, Expiry, RunRow, StoreError, artifact_scopes},
    vocabulary::{Digest, JournalId, RunId, SessionId, Timestamp},
};

impl Memory {
    /// Sets how many of the trees that ended last are kept.
    pub(super) fn keep(&mut self, trees: usize) {
        self.ended.keep = trees;
        self.keep_within_bound();
    }

    /// Notes when the root of a tree ended.
    pub(super) fn root_ended(&mut self, root: RunId, at: Timestamp) {
        self.ended.at = at;
        self.ended.roots.push_back(root);
    }

    /// Deletes the trees that ended first, where there are more than are kept.
    pub(super) fn keep_within_bound(&mut self) {
        let at = self.ended.at;
        // Each tree is tried once: a tree with an open run goes to the end of the queue.
        for _ in 0..self.ended.roots.len().saturating_sub(self.ended.keep) {
            let Some(root) = self.ended.roots.pop_front() else {
                return;
            };
            match self.delete_tree(root, at) {
                Ok(_) => self.ended.gone += 1,
                Err(_) => self.ended.roots.push_back(root),
            }
        }
        // Finding unused blobs reads every journal, so it is done once for many deleted trees.
        if self.ended.gone > self.ended.keep.max(KEPT) {
            self.ended.gone = 0;
            self.drop_blobs();
        }
    }

    fn open_run_of(&self, root: RunId) -> Option<RunId> {
        let runs = self.trees.get(&root).into_iter().flatten();
        let mut rows = runs.filter_map(|run| self.runs.get(run));
        let open = rows.find(|indexed| !indexed.row.status.is_ended());
        open.map(|indexed| indexed.row.run)
    }

    pub(super) fn expired(&self, expiry: Expiry) -> Vec<RunRow> {
        let ended = self.runs.values().map(|indexed| &*indexed.row);
        let mut ended: Vec<&RunRow> = ended
            .filter(|row| row.root == row.run && self.open_run_of(row.root).is_none())
            .collect();
        ended.sort_unstable_by_key(|row| (row.updated_at, row.run));
        ended.truncate(ended.len().saturating_sub(expiry.keep));
        let early = |row: &&RunRow| expiry.ended_before.is_none_or(|at| row.updated_at < at);
        let limit = match expiry.limit {
            0 => usize::MAX,
            limit => limit,
        };
        ended
            .into_iter()
            .filter(early)
            .take(limit)
            .cloned()
            .collect()
    }

    pub(super) fn delete_tree(
        &mut self,
        root: RunId,
        at: Timestamp,
    ) -> Result<Deleted, StoreError> {
        if let Some(run) = self.open_run_of(root) {
            return Err(StoreError::Open { run });
        }
        let mut deleted = Deleted::default();
        for run in self.trees.remove(&root).unwrap_or_default() {
            let id = JournalId::Run(run);
            let journal = self.journals.remove(&id);
            deleted.entries += journal.map_or(0, |journal| journal.lines.len() as u64);
            deleted.runs += 1;
            if let Some(indexed) = self.runs.remove(&run) {
                let row = indexed.row;
                row.mailboxes_deleted()
                    .for_each(|mailbox| self.mailbox.delete(&mailbox));
                if let Some((mailbox, before)) = row.mailbox_left() {
                    self.mailbox.forget(&mailbox, before);
                }
            }
            self.deletions.add(run, at);
        }
        for scope in artifact_scopes::of_tree(root) {
            self.scopes.remove(&scope);
        }
        Ok(deleted)
    }

    pub(super) fn delete_session(
        &mut self,
        process: u64,
        session: &SessionId,
    ) -> Result<Deleted, StoreError> {
        let id = JournalId::Session(session.clone());
        self.check_owner(process, &id)?;
        let mut rows = self.runs.values().map(|indexed| &*indexed.row);
        let is_open =
            |row: &&RunRow| !row.status.is_ended() && row.session.as_ref() == Some(session);
        if let Some(open) = rows.find(is_open) {
            return Err(StoreError::Open { run: open.run });
        }
        let mut deleted = Deleted::default();
        self.mailbox.delete(&id);
        let journal = self.journals.remove(&id);
        deleted.entries = journal.map_or(0, |journal| journal.lines.len() as u64);
        self.checkpoints.remove(session);
        for scope in artifact_scopes::of_session(session) {
            self.scopes.remove(&scope);
        }
        Ok(deleted)
    }

    pub(super) fn drop_blobs(&mut self) -> u64 {
        let first = self
            .journals
            .values()
            .filter_map(|journal| journal.lines.first());
        let used: Result<Vec<Option<Digest>>, _> = first.map(|stored| stored.line.blob()).collect();
        // An unreadable entry of a later version may refer to any blob.
        let Ok(used) = used else { return 0 };
        let mut used: HashSet<Digest> = used.into_iter().flatten().collect();
        let referring = self.scopes.range(artifact_scopes::REFERRING.to_owned()..);
        let referring =
            referring.take_while(|(scope, _)| scope.starts_with(artifact_scopes::REFERRING));
        for (scope, keys) in referring {
            for (key, slot) in keys {
                let Ok(value) = visible(scope, key, slot) else {
                    return 0;
                };
                match value
                    .present()
                    .map(|found| artifact_scopes::referred(&found.value))
                {
                    Some(Ok(digest)) => used.insert(digest),
                    // An unreadable value of a later version may refer to any blob.
                    Some(Err(_)) => return 0,
                    None => continue,
                };
            }
        }
        let before = self.blobs.len();
        self.blobs.retain(|digest, _| used.contains(digest));
        (before - self.blobs.len()) as u64
    }
}
