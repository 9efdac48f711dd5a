//! A run that crashes again and again, or ends its process, is taken out of the way of the others.

use std::{pin::pin, time::Duration};

use futures_util::future::{Either, select};
use ghostlight_supervisor::Backoff;

use super::{Carrier, RunExit};
use crate::{
    run::Command,
    vocabulary::{AgentError, Entry},
};

/// How many interruptions in a row make a run suspect.
const SUSPECT: u32 = 2;

/// The pauses before suspect runs go on. Each is drawn from the whole range, so that those which were under way together
/// go on one after another: those before the one that ends the process get further, and those after it have not begun.
const PAUSES: Backoff = Backoff {
    base: Duration::from_secs(1),
    max: Duration::from_secs(60),
    jitter: 1.0,
    ..Backoff::IMMEDIATE
};

impl Carrier {
    /// How many processes in a row took the run over and ended with it under way while it recorded nothing. A run that
    /// waits, for something outside or for runs below it, is not what ended them.
    pub(super) fn interrupted(&self) -> u32 {
        let is_at_work = self.driver.journal.row.status.is_under_way();
        match self.recorded.taken_over {
            Some((process, before)) if is_at_work && self.recorded.children.is_empty() => {
                before.saturating_add(u32::from(process != self.incarnation.process))
            }
            _ => 0,
        }
    }

    /// Waits before it continues a run with which several processes ended, until somebody tells it something.
    pub(super) async fn pause_if_suspect(&mut self, interrupted: u32) -> Result<(), RunExit> {
        let suspected = interrupted.checked_sub(SUSPECT);
        let Some(suspected) = suspected.filter(|_| self.incarnation.fatal_after > 0) else {
            return Ok(());
        };
        let ports = self.driver.ports.clone();
        let pause = PAUSES.delay(suspected + 1, ports.entropy().fraction());
        let run = self.run;
        tracing::warn!(%run, interrupted, ?pause, "several processes ended with the run under way");
        let told = pin!(self.driver.commands.next());
        match select(ports.clock().sleep(pause), told).await {
            Either::Left(_) => {}
            Either::Right((None | Some(Command::LetGo), _)) => return Err(RunExit::LetGo),
            Either::Right((Some(Command::Cancel { reason }), _)) => {
                self.incarnation.cancel.get_or_insert(reason);
            }
            Either::Right(_) => self.incarnation.mailbox_is_empty = false,
        }
        Ok(())
    }

    /// If the function crashes on an input, or ends its process, again and again without getting any
    /// further, the input is set aside: the message that the function received last, or else the
    /// run.
    ///
    /// The journal keeps the counts, so they outlast processes.
    pub(super) fn isolate(&mut self, times: u32, bound: u32, reason: String) {
        if bound == 0 || times < bound || self.incarnation.give_up.is_some() {
            return;
        }
        let error = AgentError::Crashed { times, reason };
        match self.recorded.received.take() {
            Some(op) => {
                self.recorded.forget(op);
                let entry = Entry::Quarantined { op, reason: error };
                self.driver.journal.append(entry);
            }
            None => self.incarnation.give_up = Some(error),
        }
    }
}
