//! Commands of the host to a run.

use std::{sync::Arc, task::Poll};

use super::{Driver, LegEnd};
use crate::{
    run::{Command, leg::Leg},
    vocabulary::StopReason,
};

impl Driver {
    /// Waits for the command that cancels the run, which is on its way from above. The function is
    /// not run again from here on.
    pub(super) async fn hear_of_cancelling(&mut self, leg: &Arc<Leg>) -> LegEnd {
        self.journal.flush();
        loop {
            let heard = std::future::poll_fn(|cx| {
                if let Poll::Ready(error) = self.journal.durable.poll_failed(cx) {
                    return Poll::Ready(Err(error));
                }
                self.commands.poll_next(cx).map(Ok)
            });
            let end = match heard.await {
                Ok(command) => self.command(leg, command).await,
                Err(error) => Some(LegEnd::Store(error)),
            };
            if let Some(end) = end {
                return end;
            }
        }
    }

    pub(super) async fn command(
        &mut self,
        leg: &Arc<Leg>,
        command: Option<Command>,
    ) -> Option<LegEnd> {
        match command {
            None | Some(Command::LetGo) => Some(LegEnd::LetGo),
            Some(Command::Cancel { reason }) => Some(LegEnd::Cancel(StopReason::Cancelled(reason))),
            Some(Command::ChildFailed(error)) => Some(LegEnd::Store(error)),
            Some(Command::Inbox) => self.read_inbox().await.err(),
            Some(Command::Reattached) => {
                self.told_idle = None;
                None
            }
            Some(Command::Child { run, sender }) => {
                self.child_news(leg, run, sender);
                None
            }
        }
    }
}
