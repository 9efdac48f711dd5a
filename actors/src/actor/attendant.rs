//! The one who looks after what sleeps.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::system::Shared;
use crate::{
    run::Command,
    vocabulary::{RunId, SessionId, Timestamp},
};

/// How often inboxes are looked at for what other processes posted.
const LOOK: Duration = Duration::from_millis(25);

/// Wakes sleeping runs when it is time or when something was posted to them, and puts agents to
/// sleep that have nothing to do.
pub(crate) struct Attendant;

/// The attendant takes no messages: errands reach it by their queue, which outlives it.
pub(crate) enum Nothing {}

/// What the attendant is asked.
#[derive(Debug)]
pub(crate) enum Errand {
    /// Wake this run then.
    WakeAt(Timestamp, RunId),
    /// This session has nothing to do.
    Passivate(SessionId),
}

pub(crate) struct AttendantArguments {
    pub(crate) shared: Arc<Shared>,
    pub(crate) errands: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<Errand>>>,
}

impl Actor for Attendant {
    type Msg = Nothing;
    type State = AbortOnDropHandle<()>;
    type Arguments = AttendantArguments;

    async fn pre_start(
        &self,
        myself: ActorRef<Nothing>,
        arguments: AttendantArguments,
    ) -> Result<AbortOnDropHandle<()>, ActorProcessingErr> {
        Ok(AbortOnDropHandle::new(tokio::spawn(async move {
            let AttendantArguments { shared, errands } = arguments;
            let mut errands = errands.lock().await;
            attend(&shared, &mut errands).await;
            myself.stop(None);
        })))
    }
}

async fn attend(shared: &Arc<Shared>, errands: &mut mpsc::UnboundedReceiver<Errand>) {
    let clock = shared.doors.clock.clone();
    let mut alarms: BTreeSet<(Timestamp, RunId)> = BTreeSet::new();
    let mut mark = 0;
    loop {
        let look = clock.now().after(LOOK);
        let next = alarms.first().map_or(look, |(at, _)| look.min(*at));
        tokio::select! {
            errand = errands.recv() => match errand {
                Some(Errand::WakeAt(at, run)) => {
                    alarms.insert((at, run));
                }
                Some(Errand::Passivate(session)) => shared.end_agent(&session).await,
                None => return,
            },
            () = clock.sleep_until(next) => {}
        }
        let now = clock.now();
        while let Some((at, run)) = alarms.first().copied().filter(|(at, _)| *at <= now) {
            alarms.remove(&(at, run));
            shared.wake(run).await;
        }
        match shared.doors.store.posted(mark).await {
            Ok((seen, runs)) => {
                mark = seen;
                for run in runs {
                    if !shared.doors.previewer.routes.tell(run, Command::Inbox) {
                        shared.wake(run).await;
                    }
                }
            }
            Err(error) => tracing::warn!(%error, "inboxes cannot be looked at"),
        }
    }
}
