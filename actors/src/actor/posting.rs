//! Posts to runs, which reach a run in whatever journal it goes on.

use super::services::Services;
use crate::{
    contract::{Batch, Expected, MailboxItem, RunRow, RunStatus, StateWrite, StoreError},
    run::{
        Command,
        operations::{outlasts_journal, run_scope},
    },
    vocabulary::{PASSED_ON, RunId},
};

/// The known state of a run's journal.
enum Journal {
    /// The run goes on in it, or ended in it.
    Last(Box<RunRow>),
    /// The run went on in the next journal, or this one was deleted.
    Closed,
}

impl Services {
    /// The row of the run in whose journal this one goes on now; its own row if it did not go on.
    /// `None` when nothing is known of the run.
    ///
    /// The ids of later journals follow from this one, so some forty reads find the last among a
    /// million: steps double until no journal is there, and a binary search finds the last one.
    pub(crate) async fn current(&self, run: RunId) -> Result<Option<RunRow>, StoreError> {
        let mut last = match self.journal_of(run).await? {
            Some(Journal::Last(row)) => return Ok(Some(*row)),
            Some(Journal::Closed) => run,
            None => return Ok(None),
        };
        loop {
            // Journals that are known to exist, that are unknown, and that are known not to exist.
            let mut later = vec![last];
            let (mut there, mut beyond) = (0_usize, None);
            loop {
                let place = match beyond {
                    None => 2 * there + 1,
                    Some(beyond) if beyond - there > 1 => there.midpoint(beyond),
                    Some(_) => break,
                };
                while later.len() <= place {
                    later.push(later[later.len() - 1].next());
                }
                match self.journal_of(later[place]).await? {
                    Some(Journal::Last(row)) => return Ok(Some(*row)),
                    Some(Journal::Closed) => there = place,
                    None => beyond = Some(place),
                }
            }
            if there == 0 {
                // All journals in which the run went on were deleted.
                return Ok(None);
            }
            // The run went on during the search.
            last = later[there];
        }
    }

    async fn journal_of(&self, run: RunId) -> Result<Option<Journal>, StoreError> {
        match self.store.run(run).await? {
            Some(row) if row.status == RunStatus::Continued => Ok(Some(Journal::Closed)),
            Some(row) => Ok(Some(Journal::Last(Box::new(row)))),
            // The closed journals of an endless run may be deleted.
            None => Ok(self.store.deleted(run).await?.map(|_| Journal::Closed)),
        }
    }

    /// Posts an item to a run, and wakes it. The item is for the run in whatever journal it goes
    /// on, unless it is for an operation of this journal. Returns the run that took the item, and
    /// whether the item was new there; `None` when no run is left to take it.
    pub(crate) async fn post_to(
        &self,
        run: RunId,
        item: MailboxItem,
    ) -> Result<Option<(RunId, bool)>, StoreError> {
        let row = match outlasts_journal(&item.body) {
            true => self.current(run).await?,
            false => self.store.run(run).await?,
        };
        let Some(row) = row.filter(|row| !row.status.is_ended()) else {
            return Ok(None);
        };
        // An item that is sent again after the run went on is known in the mailbox that it reached
        // first.
        let went_on = row.run != run;
        let first = match went_on && self.store.deleted(run).await?.is_some() {
            true => row.run,
            false => run,
        };
        let fresh = self.store.post(first, item).await?;
        if !self.previewer.live.tell(first, Command::Mailbox) {
            // The run went on, perhaps just now.
            self.pass_on(first).await?;
        }
        Ok(Some((row.run, fresh)))
    }

    /// Moves the items that came for a run that went on into the mailbox of the run in whose journal
    /// it goes on now.
    pub(crate) async fn pass_on(&self, run: RunId) -> Result<(), StoreError> {
        // Most runs never go on: posts to them do not wait for each other.
        if !matches!(self.journal_of(run).await?, Some(Journal::Closed)) {
            return Ok(());
        }
        let _alone = self.passing_on.lock().await;
        let mut from = run;
        while let Some(current) = self.current(from).await?.filter(|row| row.run != from)
            && !current.status.is_ended()
        {
            // Items that came for the journal before the current one, while the run went on from it,
            // are older.
            let journals = std::iter::successors(Some(from), |run| Some(run.next()));
            let before = journals.take_while(|run| *run != current.run).last();
            let before = before.filter(|before| *before != from);
            let mut batch = Batch::default();
            for run in before.into_iter().chain([from]) {
                self.take_from(run, current.run, &mut batch).await?;
            }
            if batch.posts.is_empty() {
                break;
            }
            match self.store.commit_one(batch).await {
                // Another process has moved items of this tree meanwhile, perhaps these.
                Err(StoreError::Conflict { .. }) => continue,
                moved => drop(moved?),
            }
            self.previewer.live.tell(current.run, Command::Mailbox);
            // It may have gone on from there before these items came.
            from = current.run;
        }
        Ok(())
    }

    /// Adds the items that are to go from one journal to another. Of two processes that move the
    /// items of one tree at once, one is refused: they might give the same item to two journals.
    async fn take_from(&self, from: RunId, to: RunId, batch: &mut Batch) -> Result<(), StoreError> {
        let Some(row) = self.store.run(from).await? else {
            return Ok(());
        };
        let (scope, key) = (run_scope(row.root), PASSED_ON.to_owned());
        let before = self.store.state(scope.clone(), key.clone()).await?.version;
        let mailbox = self.store.mailbox(from).await?.into_iter();
        for item in mailbox.filter(|item| outlasts_journal(&item.body)) {
            batch.taken.push((from, item.id.clone()));
            batch.posts.push((to, item));
        }
        if !batch.posts.is_empty() && batch.writes.iter().all(|write| write.scope != scope) {
            batch.writes.push(StateWrite {
                scope,
                key,
                value: None,
                expected: Expected::Version(before),
            });
        }
        Ok(())
    }
}
