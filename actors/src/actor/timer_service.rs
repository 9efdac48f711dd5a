//! The actor that wakes sleeping runs.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Arc,
};

use ractor::ActorRef;
use tokio::{sync::mpsc, task::JoinSet};

use super::{
    agent_message::AgentMessage,
    shared::{LEAST_IDLENESS, Shared, TimerRequest},
};
use crate::{
    contract::{WallWatch, pause_until},
    run::Command,
    vocabulary::{RunId, Timestamp},
};

/// The service's work, and how far inboxes were read. It outlives the lives of the service: a
/// sleeping run whose alarm is forgotten would sleep for ever.
pub(crate) struct TimerBook {
    requests: mpsc::UnboundedReceiver<TimerRequest>,
    alarms: Alarms,
    /// Agents without anything to do, and since when, the first at the front. All may rest equally long, so one queue
    /// replaces a timer for each.
    idle: VecDeque<(Timestamp, ActorRef<AgentMessage>, u64)>,
    mark: u64,
    /// Turns that other processes posted, on their way into their sessions.
    turns: JoinSet<()>,
}

impl TimerBook {
    pub(crate) fn new(requests: mpsc::UnboundedReceiver<TimerRequest>) -> Self {
        Self {
            requests,
            alarms: Alarms::default(),
            idle: VecDeque::new(),
            mark: 0,
            turns: JoinSet::new(),
        }
    }
}

/// The times at which runs are to be woken: one for each run, the earliest that was asked for. A
/// run that is woken before its time registers its time again.
#[derive(Default)]
struct Alarms {
    by_time: BTreeSet<(Timestamp, RunId)>,
    by_run: HashMap<RunId, Timestamp>,
}

impl Alarms {
    fn set(&mut self, at: Timestamp, run: RunId) {
        if self.by_run.get(&run).is_some_and(|set| *set <= at) {
            return;
        }
        self.clear(run);
        self.by_run.insert(run, at);
        self.by_time.insert((at, run));
    }

    fn clear(&mut self, run: RunId) {
        if let Some(at) = self.by_run.remove(&run) {
            self.by_time.remove(&(at, run));
        }
    }

    fn first(&self) -> Option<(Timestamp, RunId)> {
        self.by_time.first().copied()
    }
}

/// Wakes sleeping runs when their time has come or when an item was posted to them, and ends agents
/// that have nothing to do.
pub(crate) async fn attend(shared: &Arc<Shared>, book: &mut TimerBook) {
    let clock = shared.services.clock.clone();
    let TimerBook {
        requests,
        alarms,
        idle,
        mark,
        turns,
    } = book;
    let rest = shared.limits.passivate_after.max(LEAST_IDLENESS);
    let mut look = clock.monotonic();
    let mut wall = WallWatch::new(&*clock);
    loop {
        let alarm = alarms.first().map(|(at, _)| pause_until(&*clock, at));
        let alarm = alarm.unwrap_or_else(|| Box::pin(std::future::pending()));
        let rested = idle.front().map(|(since, ..)| since.after(rest));
        let next = rested.into_iter().fold(look, Timestamp::min);
        tokio::select! {
            biased;
            request = requests.recv() => match request {
                Some(TimerRequest::WakeAt(at, run)) => {
                    // A run that wakes early, since the wall clock was set back, finds nothing to
                    // do.
                    let left = at.since(clock.now());
                    alarms.set(clock.forward().after(left), run);
                }
                Some(TimerRequest::Awake(run)) => alarms.clear(run),
                Some(TimerRequest::Idle(since, agent, stirred)) => idle.push_back((since, agent, stirred)),
                // An agent that has something to do asks again when it has had nothing to do for
                // long enough.
                Some(TimerRequest::Passivate(session)) => drop(shared.end_agent(&session).await),
                None => return,
            },
            () = clock.sleep(next.since(clock.monotonic())) => {}
            () = alarm => {}
        }
        if let Some(jump) = wall.jumped(&*clock) {
            shared.clock_jumped(jump);
        }
        let forward = clock.forward();
        while let Some((_, run)) = alarms.first().filter(|(at, _)| *at <= forward) {
            shared.wake(run).await;
            alarms.clear(run);
        }
        let now = clock.monotonic();
        loop {
            let least = match idle.len() > shared.limits.idle_sessions {
                true => LEAST_IDLENESS,
                false => rest,
            };
            let Some((_, agent, stirred)) =
                idle.pop_front_if(|(since, ..)| since.after(least) <= now)
            else {
                break;
            };
            // An agent that ended meanwhile needs no message.
            let _ = agent.cast(AgentMessage::Passivate(stirred));
        }
        if now < look {
            continue;
        }
        look = now.after(shared.limits.look);
        match shared.services.store.posted(*mark).await {
            Ok((seen, runs)) => {
                for run in runs {
                    let is_live = shared.services.previewer.live.tell(run, Command::Inbox);
                    if !is_live && !shared.wake(run).await {
                        turns.spawn(shared.clone().begin_posted(run));
                    }
                }
                while turns.try_join_next().is_some() {}
                *mark = seen;
            }
            Err(error) => tracing::warn!(%error, "inboxes cannot be looked at"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_falls_asleep_again_and_again_has_one_alarm() {
        let mut alarms = Alarms::default();
        let run = RunId::from_random(1 << 100);
        for cycle in 0..10_000 {
            alarms.set(Timestamp(1_000_000 + cycle), run);
            alarms.set(Timestamp(2_000_000 - cycle), run);
        }
        assert_eq!((alarms.by_time.len(), alarms.by_run.len()), (1, 1));
        assert_eq!(alarms.first(), Some((Timestamp(1_000_000), run)));
        alarms.clear(run);
        assert_eq!((alarms.by_time.len(), alarms.by_run.len()), (0, 0));
    }
}
