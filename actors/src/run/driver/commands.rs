//! Commands of the host to a run.

use std::task::Poll;

use super::{Driver, LegEnd};
use crate::{
    run::{Command, ParentSender, leg::Leg},
    vocabulary::StopReason,
};

impl Driver {
    /// Waits for the command that cancels the run, which is on its way from above. The function is
    /// not run again from here on.
    pub(super) async fn hear_of_cancelling(&mut self, leg: &Leg) -> Result<LegEnd, LegEnd> {
        self.journal.flush();
        loop {
            let heard = std::future::poll_fn(|cx| {
                if let Poll::Ready(error) = self.journal.durable.poll_failed(cx) {
                    return Poll::Ready(Err(error));
                }
                self.commands.poll_next(cx).map(Ok)
            });
            let command = heard.await.map_err(LegEnd::Store)?;
            self.command(leg, command).await?;
        }
    }

    pub(super) async fn command(
        &mut self,
        leg: &Leg,
        command: Option<Command>,
    ) -> Result<(), LegEnd> {
        match command {
            None | Some(Command::LetGo) => return Err(LegEnd::LetGo),
            Some(Command::Cancel { reason }) => {
                return Err(LegEnd::Cancel(StopReason::Cancelled(reason)));
            }
            Some(Command::Mailbox) => self.read_mailbox(leg).await?,
            Some(Command::Reattached) => {
                self.told_idle = None;
                if let Some(above) = self.parent.as_ref().and_then(ParentSender::words) {
                    self.sender.words().hear_above(above, &[]);
                }
            }
            Some(Command::Child { run, report }) => self.child_news(leg, run, report)?,
        }
        Ok(())
    }
}
