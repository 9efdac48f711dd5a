//! The actor that wakes sleeping runs.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use futures_util::future::OptionFuture;
use tokio::{sync::mpsc, task::JoinSet};

use super::{
    agent_command::Place,
    poll_interval::{NEXT_NOTICE, SELDOM},
    shared::{LEAST_IDLENESS, Shared},
    wake::TimerRequest,
};
use crate::{
    contract::{Notice, WallWatch, pause_until},
    run::Command,
    vocabulary::{JournalId, RunId, Timestamp},
};

/// How long runs whose time has come wait before they ask again whether a place is free.
const PLACES_AGAIN: Duration = Duration::from_millis(100);

/// How many posted items are on their way at once.
const AT_ONCE: usize = 1_024;

/// The service's work, and how far mailboxes were read. It outlives the incarnations of the service: a
/// sleeping run whose alarm is forgotten would sleep for ever.
pub(crate) struct TimerBook {
    requests: mpsc::UnboundedReceiver<TimerRequest>,
    alarms: Alarms,
    mark: u64,
    /// Runs that are being woken, and turns that other processes posted, on their way into their sessions.
    under_way: JoinSet<()>,
}

impl TimerBook {
    pub(crate) fn new(requests: mpsc::UnboundedReceiver<TimerRequest>) -> Self {
        Self {
            requests,
            alarms: Alarms::default(),
            mark: 0,
            under_way: JoinSet::new(),
        }
    }
}

impl TimerBook {
    /// Wakes a run beside the service: its agent may have to wait until it can start.
    fn wake(&mut self, shared: &Arc<Shared>, run: RunId, place: Option<Place>) {
        let shared = shared.clone();
        self.under_way
            .spawn(async move { shared.wake(run, place).await });
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
    let store = &shared.services.store;
    let mut look = clock.monotonic();
    let mut looked = None;
    let news = store.news(Notice::Posted);
    let every = match news.is_some() {
        true => SELDOM.max(shared.limits.poll_interval),
        false => shared.limits.poll_interval,
    };
    let mut news = OptionFuture::from(news);
    // All agents may rest equally long, so one queue replaces a timer for each.
    let mut look_for_idle = look;
    let mut wall = WallWatch::new(&*clock);
    // Whether runs whose time has come wait until fewer runs are live.
    let mut are_full = false;
    loop {
        let alarm = book.alarms.first().map(|(at, _)| match are_full {
            true => clock.sleep(PLACES_AGAIN),
            false => pause_until(&*clock, at),
        });
        let alarm = alarm.unwrap_or_else(|| Box::pin(std::future::pending()));
        let next = look.min(look_for_idle);
        tokio::select! {
            biased;
            request = book.requests.recv() => match request {
                Some(TimerRequest::WakeAt(at, run)) => {
                    // A run that wakes early, since the wall clock was set back, finds nothing to
                    // do.
                    let left = at.since(clock.now());
                    book.alarms.set(clock.forward().after(left), run);
                }
                Some(TimerRequest::Awake(run)) => book.alarms.clear(run),
                // Agents that have nothing to do soon after are told with this one.
                Some(TimerRequest::LookForIdle) => {
                    look_for_idle = look_for_idle.min(clock.monotonic().after(LEAST_IDLENESS));
                }
                None => return,
            },
            Some(()) = &mut news => {
                news = store.news(Notice::Posted).into();
                let soon = looked.map_or(look, |looked: Timestamp| looked.after(NEXT_NOTICE));
                look = look.min(soon);
            }
            () = clock.sleep(next.since(clock.monotonic())) => {}
            () = alarm => {}
        }
        if let Some(jump) = wall.jumped(&*clock) {
            shared.clock_jumped(jump);
        }
        let forward = clock.forward();
        are_full = false;
        while let Some((_, run)) = book.alarms.first().filter(|(at, _)| *at <= forward) {
            let Some(place) = shared.place_for_sleeper() else {
                are_full = true;
                break;
            };
            book.alarms.clear(run);
            book.wake(shared, run, Some(place));
        }
        let now = clock.monotonic();
        if now >= look_for_idle {
            look_for_idle = shared.tell_idle(now);
        }
        if now < look {
            continue;
        }
        looked = Some(now);
        look = now.after(every);
        match store.posted(book.mark).await {
            Ok((seen, mailboxes)) => {
                for mailbox in mailboxes {
                    match mailbox {
                        JournalId::Run(run) => {
                            let live = &shared.services.previewer.live;
                            if !live.tell(run, Command::Mailbox) {
                                book.wake(shared, run, None);
                            }
                        }
                        JournalId::Session(session) => {
                            book.under_way.spawn(shared.clone().read_mailbox(session));
                        }
                    }
                    while book.under_way.try_join_next().is_some() {}
                    if book.under_way.len() >= AT_ONCE {
                        book.under_way.join_next().await;
                    }
                }
                book.mark = seen;
            }
            Err(error) => tracing::warn!(%error, "mailboxes cannot be looked at"),
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
