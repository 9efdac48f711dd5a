//! Patience with a function that does not ask for the recorded operation but can go on by itself.

use std::{task::Poll, time::Duration};

use super::{Driver, LegEnd, WakeReason, rings, waker::FunctionWaker};
use crate::run::leg::Leg;

/// How long the driver waits for a function that waits for something else than its operations. The
/// runtime lets such a function go on as soon as other tasks had their turn. An event outside of
/// the engine may take longer, or never come in this process.
const PATIENCE: Duration = Duration::from_secs(10);

/// Describes a function that does not ask for the recorded operation.
pub(in crate::run) fn not_asked(may_go_on: bool) -> &'static str {
    match may_go_on {
        true => "a function that waits there for something outside of its context",
        false => "a function that does not ask for it there",
    }
}

impl Driver {
    /// Waits for a function that does not ask for the recorded operation, if it can go on by
    /// itself: it woke itself, or something other than an operation may wake it. Commands to the
    /// run are handled meanwhile. An error when the leg ends, for example because the function
    /// diverged.
    pub(super) async fn bear_with(
        &mut self,
        leg: &Leg,
        waker: &FunctionWaker,
        may_go_on: bool,
    ) -> Result<(), LegEnd> {
        self.overdue(leg)?;
        let clock = self.ports.clock();
        let mut patience = match may_go_on || waker.is_woken() {
            true => Some(clock.sleep_until(clock.now().after(PATIENCE))),
            false => return self.diverged(leg, may_go_on),
        };
        loop {
            let turn = std::future::poll_fn(|cx| match self.poll_wake(cx, waker) {
                Poll::Ready(turn) => Poll::Ready(Some(turn)),
                Poll::Pending if waker.is_woken() => Poll::Ready(Some(WakeReason::Woken)),
                Poll::Pending if rings(&mut patience, cx) => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            });
            match turn.await {
                Some(WakeReason::Woken) => return Ok(()),
                None => return self.diverged(leg, may_go_on),
                Some(turn) => self.handle_wake(leg, turn).await?,
            }
        }
    }

    fn diverged(&self, leg: &Leg, may_go_on: bool) -> Result<(), LegEnd> {
        let missed = leg.machine().missed(not_asked(may_go_on));
        missed.map_or(Ok(()), |error| Err(LegEnd::Diverged(error)))
    }
}
