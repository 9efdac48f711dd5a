//! The store of teams whose durability is `memory`.

use std::{collections::BTreeSet, sync::Arc};

use super::retention::{Retention, deletion};
use crate::{
    contract::{
        self, Append, Batch, BoxFuture, Claim, Committed, Deleted, Deletion, DynDeletion, Expiry,
        InMemoryStore, Index, Journals, MailboxItem, Mailboxes, Notice, RunFilter, RunRow,
        SessionFilter, SessionRow, State, StateSlot, StateValue, Store, StoreError, StoreHandle,
        StoreWrapper, StoredLine, TreeLine, artifact_scopes,
    },
    vocabulary::{Digest, JournalId, RunId, SessionId, Timestamp},
};

/// How many bits of a mark count the posts to runs in memory; the other bits count the posts to
/// durable runs.
const MEMORY_BITS: u32 = 24;
const MEMORY_MASK: u64 = (1 << MEMORY_BITS) - 1;

/// A store that keeps everything of some teams in memory. All data of a team is in one place, so a
/// batch, which belongs to one tree and its session, is in one place too.
#[derive(Clone)]
pub(super) struct VolatileTeams {
    durable: StoreHandle,
    memory: InMemoryStore,
    teams: Arc<BTreeSet<String>>,
}

impl VolatileTeams {
    /// If a retention of runs is set, it also decides which runs in memory are deleted.
    pub(super) fn new(
        durable: StoreHandle,
        teams: Arc<BTreeSet<String>>,
        retention: Retention,
    ) -> Self {
        let memory = InMemoryStore::new();
        let memory = match retention.deletes_runs() {
            true => memory.keeping(usize::MAX),
            false => memory,
        };
        Self {
            durable,
            memory,
            teams,
        }
    }

    /// Whether a run of such a team is on disk, from a time when the team's durability was another
    /// one. Its session cannot be seen now.
    pub(super) async fn leaves_out(&self, row: &RunRow) -> Result<bool, StoreError> {
        Ok(self.teams.contains(&row.team) && !self.has(row.run).await?)
    }

    async fn has(&self, run: RunId) -> Result<bool, StoreError> {
        Ok(self.memory.run(run).await?.is_some())
    }

    async fn holds(&self, journal: &JournalId) -> Result<bool, StoreError> {
        match journal {
            JournalId::Session(session) => Ok(self.teams.contains(&*session.team)),
            JournalId::Run(run) => self.has(*run).await,
        }
    }

    /// Whether a mailbox is of such a team. A run continues with its first journal's, which may be deleted.
    async fn holds_mailbox(&self, mailbox: &JournalId) -> Result<bool, StoreError> {
        Ok(self.memory.has_mailbox(mailbox) || self.holds(mailbox).await?)
    }

    /// Whether the durable store has all of these journals, and can deal with them together.
    async fn leaves(&self, journals: &[JournalId]) -> Result<bool, StoreError> {
        for journal in journals {
            if self.holds(journal).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn takes(&self, batch: &Batch) -> Result<bool, StoreError> {
        if batch.appends.is_empty() {
            return match (batch.taken.first(), batch.writes.first()) {
                (Some((mailbox, _)), _) => self.holds_mailbox(mailbox).await,
                (None, Some(write)) => self.holds_scope(&write.scope).await,
                (None, None) => Ok(false),
            };
        }
        for append in &batch.appends {
            if self.makes(append) || self.holds(&append.journal).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn makes(&self, append: &Append) -> bool {
        let row = append.row.as_ref().filter(|_| append.expected == 0);
        row.is_some_and(|row| self.teams.contains(&row.team))
    }

    /// Whether a scope is of such a team. Its name tells what it belongs to: a tree, a session, a
    /// user or a team.
    async fn holds_scope(&self, scope: &str) -> Result<bool, StoreError> {
        match artifact_scopes::of(scope).split_once(':') {
            Some(("run", root)) => match root.parse() {
                Ok(root) => self.has(root).await,
                Err(_) => Ok(false),
            },
            Some(("session" | "user" | "app", rest)) => {
                let team = rest.split_once('/').map_or(rest, |(team, _)| team);
                Ok(self.teams.contains(team))
            }
            _ => Ok(false),
        }
    }
}

/// Calls the method of the store that has the data.
macro_rules! ask {
    ($self:ident, $in_memory:expr, $method:ident($($argument:expr),*)) => {
        if $in_memory {
            $self.memory.$method($($argument),*).await
        } else {
            $self.durable.$method($($argument),*).await
        }
    };
}

/// Methods that are not written here go to the durable store: a store that is partly in memory is not copied, and only what is
/// on disk is listed. Runs and sessions in memory are deleted in any case, those on disk if the store there deletes anything.
impl StoreWrapper for VolatileTeams {
    fn inner(&self) -> &dyn contract::DynStore {
        &self.durable
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.memory.close().await?;
        self.durable.close().await
    }

    fn deletion(&self) -> Option<&dyn DynDeletion> {
        Some(self)
    }

    async fn commit(
        &self,
        batches: Vec<Batch>,
    ) -> Result<Vec<Result<Committed, StoreError>>, StoreError> {
        let mut places = Vec::with_capacity(batches.len());
        let (mut durable, mut volatile) = (Vec::new(), Vec::new());
        for batch in batches {
            // A child is made in the same batch in which its parent goes on, or in a later one.
            let in_memory = self.takes(&batch).await?;
            places.push(in_memory);
            if in_memory {
                volatile.extend(self.memory.commit(vec![batch]).await?);
            } else {
                durable.push(batch);
            }
        }
        // The batches in memory are done, whatever becomes of the others.
        let asked = durable.len();
        let durable = match durable.is_empty() {
            true => Vec::new(),
            false => match self.durable.commit(durable).await {
                Ok(answers) => answers,
                Err(error) => vec![Err(error); asked],
            },
        };
        let (mut durable, mut volatile) = (durable.into_iter(), volatile.into_iter());
        let next = |in_memory: bool| match in_memory {
            true => volatile.next(),
            false => durable.next(),
        };
        let answers = places.into_iter().map(next);
        Ok(answers
            .map(|answer| answer.unwrap_or(Err(StoreError::Closed)))
            .collect())
    }

    async fn claim(&self, journal: JournalId, take_over: bool) -> Result<Claim, StoreError> {
        ask!(self, self.holds(&journal).await?, claim(journal, take_over))
    }

    async fn claim_below(
        &self,
        journal: JournalId,
        above: JournalId,
        epoch: u64,
    ) -> Result<Claim, StoreError> {
        let held = self.holds(&journal).await?;
        ask!(self, held, claim_below(journal, above, epoch))
    }

    async fn claim_all(
        &self,
        journals: Vec<JournalId>,
    ) -> Result<Vec<Result<Claim, StoreError>>, StoreError> {
        if self.leaves(&journals).await? {
            return self.durable.claim_all(journals).await;
        }
        let mut claims = Vec::with_capacity(journals.len());
        for journal in journals {
            claims.push(StoreWrapper::claim(self, journal, false).await);
        }
        Ok(claims)
    }

    async fn confirm(&self, journal: JournalId, epoch: u64) -> Result<u64, StoreError> {
        // A journal in memory has no other owner.
        ask!(self, self.holds(&journal).await?, confirm(journal, epoch))
    }

    async fn held_elsewhere(&self, journals: Vec<JournalId>) -> Result<Vec<bool>, StoreError> {
        // The journals in memory are this process's own.
        let mut held = self.durable.held_elsewhere(journals.clone()).await?;
        for (held, journal) in held.iter_mut().zip(&journals) {
            *held &= !self.holds(journal).await?;
        }
        Ok(held)
    }

    async fn read_all(
        &self,
        journals: Vec<JournalId>,
        limit: usize,
    ) -> Result<Vec<Result<Vec<StoredLine>, StoreError>>, StoreError> {
        if self.leaves(&journals).await? {
            return self.durable.read_all(journals, limit).await;
        }
        let mut found = Vec::with_capacity(journals.len());
        for journal in journals {
            found.push(StoreWrapper::read(self, journal, 0, limit).await);
        }
        Ok(found)
    }

    async fn read(
        &self,
        journal: JournalId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<StoredLine>, StoreError> {
        ask!(
            self,
            self.holds(&journal).await?,
            read(journal, from, limit)
        )
    }

    async fn read_tree(
        &self,
        root: RunId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<TreeLine>, StoreError> {
        ask!(self, self.has(root).await?, read_tree(root, after, limit))
    }

    async fn state(&self, scope: String, key: String) -> Result<StateSlot, StoreError> {
        ask!(self, self.holds_scope(&scope).await?, state(scope, key))
    }

    async fn scope(&self, scope: String) -> Result<Vec<(String, StateValue)>, StoreError> {
        ask!(self, self.holds_scope(&scope).await?, scope(scope))
    }

    async fn blob(&self, digest: Digest) -> Result<Option<Arc<[u8]>>, StoreError> {
        match self.memory.blob(digest).await? {
            Some(bytes) => Ok(Some(bytes)),
            None => self.durable.blob(digest).await,
        }
    }

    async fn checkpoint(&self, session: SessionId) -> Result<Option<Vec<u8>>, StoreError> {
        let in_memory = self.teams.contains(&*session.team);
        ask!(self, in_memory, checkpoint(session))
    }

    async fn put_checkpoint(
        &self,
        session: SessionId,
        bytes: Option<Vec<u8>>,
    ) -> Result<(), StoreError> {
        let in_memory = self.teams.contains(&*session.team);
        ask!(self, in_memory, put_checkpoint(session, bytes))
    }

    async fn post(&self, mailbox: JournalId, item: MailboxItem) -> Result<bool, StoreError> {
        let held = self.holds_mailbox(&mailbox).await?;
        ask!(self, held, post(mailbox, item))
    }

    async fn mailbox_after(
        &self,
        mailbox: JournalId,
        after: u64,
    ) -> Result<Vec<(u64, MailboxItem)>, StoreError> {
        let held = self.holds_mailbox(&mailbox).await?;
        ask!(self, held, mailbox_after(mailbox, after))
    }

    async fn posted(&self, after: u64) -> Result<(u64, Vec<JournalId>), StoreError> {
        let (mark, mut mailboxes) = self.durable.posted(after >> MEMORY_BITS).await?;
        let (in_memory, more) = self.memory.posted(after & MEMORY_MASK).await?;
        mailboxes.extend(more);
        // Past the last mark for which there is room, posts are reported again.
        Ok((mark << MEMORY_BITS | in_memory.min(MEMORY_MASK), mailboxes))
    }

    fn news(&self, of: Notice) -> Option<BoxFuture<'static, ()>> {
        // The store in memory tells nothing. No other process can post to its runs, or take them up.
        match of {
            Notice::Rested(run) if self.memory.has(run) => None,
            of => self.durable.news(of),
        }
    }

    async fn run(&self, run: RunId) -> Result<Option<RunRow>, StoreError> {
        ask!(self, self.has(run).await?, run(run))
    }

    async fn runs(&self, filter: RunFilter) -> Result<Vec<RunRow>, StoreError> {
        let mut found = self.memory.runs(filter.clone()).await?;
        found.extend(self.durable.runs(filter.clone()).await?);
        found.sort_by_key(|row| std::cmp::Reverse(row.started_at));
        if filter.limit > 0 {
            found.truncate(filter.limit);
        }
        Ok(found)
    }

    async fn sessions(&self, filter: SessionFilter) -> Result<Vec<SessionRow>, StoreError> {
        let mut found = self.memory.sessions(filter.clone()).await?;
        // Runs that such a team left on disk are not shown, and must not make a page shorter.
        let (mut page, mut wanted) = (filter.clone(), filter.limit);
        loop {
            let rows = self.durable.sessions(page.clone()).await?;
            let is_last = page.limit == 0 || rows.len() < page.limit;
            page.after = rows.last().cloned();
            let seen = rows
                .into_iter()
                .filter(|row| !self.teams.contains(&*row.session.team));
            let before = found.len();
            found.extend(seen);
            wanted = wanted.saturating_sub(found.len() - before);
            if is_last || wanted == 0 {
                return Ok(filter.pick(found));
            }
        }
    }

    async fn expired(&self, expiry: Expiry) -> Result<Vec<RunRow>, StoreError> {
        let mut found = Deletion::expired(&self.memory, expiry).await?;
        if let Some(durable) = self.durable.deletion() {
            found.extend(durable.expired(expiry).await?);
        }
        Ok(found)
    }

    async fn delete_tree(
        &self,
        root: RunId,
        at: Timestamp,
        limit: usize,
    ) -> Result<Deleted, StoreError> {
        match self.has(root).await? {
            true => Deletion::delete_tree(&self.memory, root, at, limit).await,
            false => deletion(&self.durable)?.delete_tree(root, at, limit).await,
        }
    }

    async fn delete_session(
        &self,
        session: SessionId,
        limit: usize,
    ) -> Result<Deleted, StoreError> {
        match self.teams.contains(&*session.team) {
            true => Deletion::delete_session(&self.memory, session, limit).await,
            false => {
                deletion(&self.durable)?
                    .delete_session(session, limit)
                    .await
            }
        }
    }

    async fn deleted(&self, run: RunId) -> Result<Option<Timestamp>, StoreError> {
        match Deletion::deleted(&self.memory, run).await? {
            Some(at) => Ok(Some(at)),
            None => self.durable.deleted(run).await,
        }
    }

    async fn drop_blobs(&self) -> Result<u64, StoreError> {
        let dropped = Deletion::drop_blobs(&self.memory).await?;
        match self.durable.deletion() {
            Some(durable) => Ok(dropped + durable.drop_blobs().await?),
            None => Ok(dropped),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::contract::{Expected, StateWrite};

    #[tokio::test]
    async fn a_value_of_a_team_in_memory_is_not_written_to_the_disk() {
        let disk = InMemoryStore::new();
        let teams = Arc::new(BTreeSet::from(["quick".to_owned()]));
        let durable = StoreHandle::new(disk.clone());
        let store = VolatileTeams::new(durable, teams, Retention::default());
        for (scope, is_on_disk) in [("session:quick/ada", false), ("session:slow/ada", true)] {
            let mut batch = Batch::default();
            batch.writes.push(StateWrite {
                scope: scope.to_owned(),
                key: "file".to_owned(),
                value: serde_json::value::to_raw_value(&1).ok(),
                expected: Expected::Any,
            });
            let written = Journals::commit(&store, vec![batch]).await.unwrap();
            assert!(written[0].is_ok());
            let found = State::state(&store, scope.to_owned(), "file".to_owned()).await;
            assert!(found.unwrap().value.is_some());
            let found = State::state(&disk, scope.to_owned(), "file".to_owned()).await;
            assert_eq!(found.unwrap().value.is_some(), is_on_disk, "{scope}");
        }
    }
}
