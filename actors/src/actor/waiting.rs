//! Waiting until a run comes to rest.

use std::time::Duration;

use super::{Run, SystemError, open_questions::is_stalled, poll_interval::PollInterval};
use crate::contract::{ItemBody, MailboxItem, Notice, RunFilter, RunRow, RunStatus};

/// After this time a run that waits does not receive a message that stands in its mailbox: its owner looks many times a
/// second.
const RECEIVED_WITHIN: Duration = Duration::from_secs(1);

impl Run {
    /// Waits until the run has ended, is parked, or waits for something outside, and returns its
    /// row. A message that it was [told](Self::tell) is waited for until the run has dealt with it, or for a second where
    /// it does not receive it.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn wait(&self) -> Result<RunRow, SystemError> {
        let mut interval = PollInterval::new();
        loop {
            let run = self.current().await?;
            let row = run.rest(|status| !status.is_under_way()).await?;
            let goes_on = row.status == RunStatus::Continued;
            if !goes_on && (row.status != RunStatus::Waiting || !run.has_news(&row).await?) {
                return Ok(row);
            }
            let services = &self.system.shared().services;
            services.clock.sleep(interval.pause()).await;
        }
    }

    /// Whether the run is open and cannot go on by itself: all runs of its tree are parked, or wait for a person, a message,
    /// a result or a time. Where one of them is at work, or waits for its model's provider or for the answer to a suspended
    /// model call, such as one in a batch, the run goes on by itself. This reads the journals of the runs that wait.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn is_stalled(&self) -> Result<bool, SystemError> {
        let row = self.current().await?.status().await?;
        Ok(is_stalled(self.system.store(), &row).await?)
    }

    /// Whether an item came for a waiting tree that the tree has not dealt with yet.
    async fn has_news(&self, row: &RunRow) -> Result<bool, SystemError> {
        let store = self.system.store();
        let mut filter = RunFilter::open();
        filter.root = Some(row.root);
        let now = self.system.shared().services.clock.now();
        let stays = |item: &MailboxItem| match &item.body {
            ItemBody::Message { .. } => now.since(item.at) >= RECEIVED_WITHIN,
            ItemBody::ForwardedTurn(_) | ItemBody::ForwardedTurnEnded { .. } => true,
            ItemBody::Steer(_) | ItemBody::SteeringTurn(_) => true,
            _ => false,
        };
        for row in store.runs(filter).await? {
            for mailbox in row.mailboxes() {
                if !store.mailbox(mailbox).await?.iter().all(stays) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Waits until the run has one of these statuses.
    pub(super) async fn rest(
        &self,
        wanted: impl Fn(RunStatus) -> bool,
    ) -> Result<RunRow, SystemError> {
        let services = &self.system.shared().services;
        let live = &services.previewer.live;
        let (mut watch, mut interval) = (live.watch(self.id), PollInterval::new());
        loop {
            watch.mark();
            let told = services.store.news(Notice::Rested(self.id));
            let row = self.status().await?;
            if wanted(row.status) {
                return Ok(row);
            }
            if self.system.shared().is_stopped() {
                return Err(SystemError::Stopped);
            }
            if let Some(error) = live.failure(self.id) {
                return Err(SystemError::Store(error));
            }
            // The watch rings when an incarnation of the run in this process ends. That the run begins to
            // wait, and what another process does, is told by the store or found by looking.
            if live.is_live(self.id) {
                interval.restart();
            }
            tokio::select! {
                biased;
                () = watch.rung() => {}
                () = interval.next(&*services.clock, told) => {}
            }
        }
    }
}
