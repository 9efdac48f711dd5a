//! Runs that go on in one journal after another, and posts to them.

use std::sync::Arc;

use super::{services::Services, shared::Shared};
use crate::{
    contract::{MailboxItem, RunRow, RunStatus, StoreError},
    run::{Command, operations::outlasts_journal},
    vocabulary::RunId,
};

/// The known state of a run's journal.
enum Place {
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
            Some(Place::Last(row)) => return Ok(Some(*row)),
            Some(Place::Closed) => run,
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
                    Some(Place::Last(row)) => return Ok(Some(*row)),
                    Some(Place::Closed) => there = place,
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

    async fn journal_of(&self, run: RunId) -> Result<Option<Place>, StoreError> {
        match self.store.run(run).await? {
            Some(row) if row.status == RunStatus::Continued => Ok(Some(Place::Closed)),
            Some(row) => Ok(Some(Place::Last(Box::new(row)))),
            // The closed journals of an endless run may be deleted.
            None => Ok(self.store.deleted(run).await?.map(|_| Place::Closed)),
        }
    }

    /// Posts an item to a run, and tells the run if it is live here. The item stands in the mailbox of the run as which it began, and is for the
    /// run in whatever journal it goes on, unless it is for an operation of this journal. Returns the run that reads the
    /// item, and whether the item was new there; `None` when no run is left to read it.
    pub(crate) async fn post_to(
        &self,
        run: RunId,
        item: MailboxItem,
    ) -> Result<Option<(RunId, bool)>, StoreError> {
        let outlasts = outlasts_journal(&item.body);
        let row = match outlasts {
            true => self.current(run).await?,
            false => self.store.run(run).await?,
        };
        let Some(row) = row.filter(|row| !row.status.is_ended()) else {
            return Ok(None);
        };
        let mailbox = if outlasts { row.begun_as() } else { run };
        let fresh = self.store.post(mailbox.into(), item).await?;
        self.previewer.live.tell(mailbox, Command::Mailbox);
        Ok(Some((row.run, fresh)))
    }
}

impl Shared {
    /// The same, and wakes a run that is not live. Returns whether the item was new.
    pub(crate) async fn post(
        self: &Arc<Self>,
        run: RunId,
        item: MailboxItem,
    ) -> Result<Option<bool>, StoreError> {
        let posted = self.services.post_to(run, item).await?;
        let Some((run, fresh)) = posted else {
            return Ok(None);
        };
        if !self.services.previewer.live.is_live(run) {
            self.wake(run, None).await;
        }
        Ok(Some(fresh))
    }
}
