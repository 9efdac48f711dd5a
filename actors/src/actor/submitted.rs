//! A turn that may wait behind others.

use std::{fmt, sync::Arc};

use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::{Run, Session, SystemError, event_stream::Beginning, poll_interval::PollInterval};
use crate::{
    session::Turn,
    vocabulary::{Outcome, RunId, SessionId},
};

/// A turn that was said to a session and may wait behind others: see [`Session::submit`].
///
/// A turn that still waits is taken back when this handle is dropped, so that nothing begins for a
/// client that has left. A turn that has begun goes on.
#[must_use = "a turn that waits is taken back when this is dropped"]
pub struct Submitted {
    run: Run,
    turn: Arc<(SessionId, String)>,
    sent: AbortOnDropHandle<Result<Run, SystemError>>,
}

impl Session {
    /// Sends a turn to the session and returns at once, with the id of the turn's run, even if the
    /// turn waits behind others. [`Session::send`] waits until the turn is recorded.
    ///
    /// ```
    /// # use ghostlight_actors::{actor::{Session, SystemError}, session::Turn};
    /// # async fn serve(session: Session) -> Result<(), SystemError> {
    /// let submitted = session.submit("And one more thing.")?;
    /// println!("run {} ({})", submitted.id(), if submitted.is_queued() { "queued" } else { "begun" });
    /// let outcome = submitted.outcome().await?; // once the turns before it have ended
    /// # drop(outcome); Ok(())
    /// # }
    /// ```
    ///
    /// It must be called inside a tokio runtime.
    ///
    /// # Errors
    /// [`SystemError::EmptyTurn`]. The handle returns the other errors of [`send`](Self::send) when
    /// it is asked for the turn's outcome.
    pub fn submit(&self, turn: impl Into<Turn>) -> Result<Submitted, SystemError> {
        let turn = self.with_id(turn.into())?;
        let id = turn.id.clone().unwrap_or_default();
        let mut run = self.system.run(RunId::of_turn(&self.id, &id));
        let submitted = Arc::new((self.id.clone(), id));
        let (begins, begun) = watch::channel(None);
        run.beginning = Some(Beginning {
            run: begun,
            turn: submitted.clone(),
        });
        let session = self.clone();
        let sent = tokio::spawn(async move {
            let run = session.send(turn).await?;
            begins.send_replace(Some(run.id));
            Ok(run)
        });
        Ok(Submitted {
            run,
            turn: submitted,
            sent: AbortOnDropHandle::new(sent),
        })
    }
}

impl Submitted {
    /// The id of the turn's run. A turn that is said to the run under way
    /// ([`WhileBusy::Steer`](crate::definition::WhileBusy::Steer)) has one only where no other run hears it;
    /// [`begun`](Self::begun) gives the run to which it was said.
    pub fn id(&self) -> RunId {
        self.run.id()
    }

    /// A handle to the turn's run, whose events can be followed before it begins. Where the turn is said to the run under
    /// way, its events are those of that run, and go on as those of the handle that [`Session::send`] gives. Where the turn
    /// is refused or taken back, there are none.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Whether the turn is not recorded yet: it waits behind others, or is being recorded.
    pub fn is_queued(&self) -> bool {
        !self.sent.is_finished()
    }

    /// Waits until the turn is recorded, which is when the turns before it have ended.
    ///
    /// # Errors
    /// The errors of [`Session::send`].
    pub async fn begun(self) -> Result<Run, SystemError> {
        match self.sent.await {
            Ok(run) => run,
            // The task ends early only with the runtime.
            Err(_) => Err(SystemError::Stopped),
        }
    }

    /// Waits for the outcome of the turn's run.
    ///
    /// # Errors
    /// The errors of [`Session::send`] and [`Run::outcome`].
    pub async fn outcome(self) -> Result<Outcome, SystemError> {
        self.begun().await?.outcome().await
    }

    /// Takes the turn back if it waits, and cancels its run if it has begun. A turn that was said to a run under way is
    /// cancelled as by [`Run::cancel`] of its handle.
    ///
    /// # Errors
    /// The errors of [`Run::cancel`].
    pub async fn cancel(self, reason: impl Into<String>) -> Result<(), SystemError> {
        let Self { run, turn, sent } = self;
        let waited = !sent.is_finished();
        drop(sent);
        let reason = reason.into();
        if !run.cancel_turn(&turn, reason.clone()).await? && waited {
            // The turn may have begun just now, and not be recorded yet.
            let clock = &run.system.shared().services.clock;
            clock.sleep(PollInterval::new().pause()).await;
            run.cancel_turn(&turn, reason).await?;
        }
        Ok(())
    }
}

impl fmt::Debug for Submitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submitted")
            .field("run", &self.run.id())
            .field("is_queued", &self.is_queued())
            .finish()
    }
}
