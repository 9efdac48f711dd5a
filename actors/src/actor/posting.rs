//! What is posted to a run reaches it in whatever journal it goes on.

use super::services::Services;
use crate::{
    contract::{Batch, InboxItem, RunRow, RunStatus, StoreError},
    run::{Command, operations::outlasts_journal},
    vocabulary::RunId,
};

/// What is known of the journal of a run.
enum Journal {
    /// The run goes on in it, or ended in it.
    Last(Box<RunRow>),
    /// The run went on in the next one, or it was deleted.
    Closed,
}

impl Services {
    /// The row of the run in whose journal this one goes on now; its own where it does not. `None`
    /// when nothing is known of it.
    ///
    /// Ids of later journals follow from this one, so the last is found with some forty readings
    /// among a million: by steps that double until there is none, and by halves from there.
    pub(crate) async fn current(&self, run: RunId) -> Result<Option<RunRow>, StoreError> {
        let mut last = match self.journal_of(run).await? {
            Some(Journal::Last(row)) => return Ok(Some(*row)),
            Some(Journal::Closed) => run,
            None => return Ok(None),
        };
        loop {
            // What is known to be there, what is not known yet, and what is known not to be.
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
                // All journals in which it went on were deleted.
                return Ok(None);
            }
            // It went on while it was looked for.
            last = later[there];
        }
    }

    async fn journal_of(&self, run: RunId) -> Result<Option<Journal>, StoreError> {
        match self.store.run(run).await? {
            Some(row) if row.status == RunStatus::Continued => Ok(Some(Journal::Closed)),
            Some(row) => Ok(Some(Journal::Last(Box::new(row)))),
            // Of an endless run the journals that were closed may be gone.
            None => Ok(self.store.deleted(run).await?.map(|_| Journal::Closed)),
        }
    }

    /// Posts an item to a run, and tells it so. It is for the run, in whatever journal it goes on,
    /// unless it is for an operation of this one. The run that took it, and whether it is new there;
    /// `None` when there is none any more to take it.
    pub(crate) async fn post_to(
        &self,
        run: RunId,
        item: InboxItem,
    ) -> Result<Option<(RunId, bool)>, StoreError> {
        let row = match outlasts_journal(&item.body) {
            true => self.current(run).await?,
            false => self.store.run(run).await?,
        };
        let Some(row) = row.filter(|row| !row.status.is_ended()) else {
            return Ok(None);
        };
        // Sent again after the run went on it is known where it came first.
        let went_on = row.run != run;
        let first = match went_on && self.store.deleted(run).await?.is_some() {
            true => row.run,
            false => run,
        };
        let fresh = self.store.post(first, item).await?;
        if first != row.run || !self.previewer.live.tell(first, Command::Inbox) {
            // It went on, perhaps just now.
            self.pass_on(first).await?;
        }
        Ok(Some((row.run, fresh)))
    }

    /// Puts what came for a run that went on into the inbox of the one that goes on now.
    pub(crate) async fn pass_on(&self, run: RunId) -> Result<(), StoreError> {
        // Most runs never go on: those who post to them do not wait for each other.
        if !matches!(self.journal_of(run).await?, Some(Journal::Closed)) {
            return Ok(());
        }
        let _alone = self.passing_on.lock().await;
        let Some(current) = self.current(run).await?.filter(|row| row.run != run) else {
            return Ok(());
        };
        // What came for the journal before while that went on came earlier.
        let journals = std::iter::successors(Some(run), |run| Some(run.next()));
        let before = journals.take_while(|run| *run != current.run).last();
        let mut batch = Batch::default();
        for run in before
            .into_iter()
            .filter(|before| *before != run)
            .chain([run])
        {
            let inbox = self.store.inbox(run).await?.into_iter();
            for item in inbox.filter(|item| outlasts_journal(&item.body)) {
                batch.taken.push((run, item.id.clone()));
                batch.posts.push((current.run, item));
            }
        }
        if batch.posts.is_empty() || current.status.is_ended() {
            return Ok(());
        }
        let committed = self.store.commit(vec![batch]).await?.into_iter();
        committed.collect::<Result<Vec<_>, _>>()?;
        self.previewer.live.tell(current.run, Command::Inbox);
        Ok(())
    }
}
