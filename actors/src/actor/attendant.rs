//! The one who looks after what sleeps.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::{agent::AgentMessage, system::Shared};
use crate::{
    run::Command,
    vocabulary::{RunId, SessionId, Timestamp},
};

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
    /// Tell this agent then that so much had happened when it had nothing to do.
    Idle(Timestamp, ActorRef<AgentMessage>, u64),
    /// This session has nothing to do.
    Passivate(SessionId),
}

pub(crate) struct AttendantArguments {
    pub(crate) shared: Arc<Shared>,
    pub(crate) book: Arc<tokio::sync::Mutex<ErrandBook>>,
}

/// What is to be done, and how far inboxes were looked at. It outlives the lives of the
/// attendant: a sleeping run whose alarm is forgotten would sleep for ever.
pub(crate) struct ErrandBook {
    errands: mpsc::UnboundedReceiver<Errand>,
    alarms: BTreeSet<(Timestamp, RunId)>,
    /// Agents without anything to do, the first that is due first. All are due after the same
    /// time, so one line of them stands for a timer each.
    idle: VecDeque<(Timestamp, ActorRef<AgentMessage>, u64)>,
    mark: u64,
}

impl ErrandBook {
    pub(crate) fn new(errands: mpsc::UnboundedReceiver<Errand>) -> Self {
        Self {
            errands,
            alarms: BTreeSet::new(),
            idle: VecDeque::new(),
            mark: 0,
        }
    }
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
            let AttendantArguments { shared, book } = arguments;
            let mut book = book.lock().await;
            attend(&shared, &mut book).await;
            myself.stop(None);
        })))
    }
}

async fn attend(shared: &Arc<Shared>, book: &mut ErrandBook) {
    let clock = shared.doors.clock.clone();
    let ErrandBook {
        errands,
        alarms,
        idle,
        mark,
    } = book;
    let mut look = clock.now();
    loop {
        let alarm = alarms.first().map(|(at, _)| *at);
        let rested = idle.front().map(|(due, ..)| *due);
        let next = alarm.into_iter().chain(rested).fold(look, Timestamp::min);
        tokio::select! {
            biased;
            errand = errands.recv() => match errand {
                Some(Errand::WakeAt(at, run)) => {
                    alarms.insert((at, run));
                }
                Some(Errand::Idle(due, agent, stirred)) => idle.push_back((due, agent, stirred)),
                // One that has something to do asks again when it has had nothing for long enough.
                Some(Errand::Passivate(session)) => drop(shared.end_agent(&session).await),
                None => return,
            },
            () = clock.sleep_until(next) => {}
        }
        let now = clock.now();
        while let Some((at, run)) = alarms.first().copied().filter(|(at, _)| *at <= now) {
            shared.wake(run).await;
            alarms.remove(&(at, run));
        }
        while let Some((_, agent, stirred)) = idle.pop_front_if(|(due, ..)| *due <= now) {
            // One that ended meanwhile has nothing to do for good.
            let _ = agent.cast(AgentMessage::Passivate(stirred));
        }
        if now < look {
            continue;
        }
        look = now.after(shared.limits.look);
        match shared.doors.store.posted(*mark).await {
            Ok((seen, runs)) => {
                for run in runs {
                    if !shared.doors.previewer.routes.tell(run, Command::Inbox) {
                        shared.wake(run).await;
                    }
                }
                *mark = seen;
            }
            Err(error) => tracing::warn!(%error, "inboxes cannot be looked at"),
        }
    }
}
