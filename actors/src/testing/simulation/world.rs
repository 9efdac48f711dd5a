//! The state that outlives the processes of a simulation: randomness, time, the disk, and all that the world saw.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    time::Duration,
};

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Faults, chance::Chance};
use crate::{
    contract::{Clock, StoreHandle},
    testing::{InMemoryStore, SimulatedClock},
    vocabulary::{Begun, Effect, Entry, EventRecord, JournalId, OperationId, RunId, Timestamp},
};

/// Operations of this leg undo what a cancelled run did.
const UNDO_LEG: u32 = u32::MAX;
/// How long after a cancellation reached the disk a call may still begin: the run has to hear that the cancellation
/// is durable, and the executor that the call is not wanted.
const CANCEL_SETTLES: Duration = Duration::from_millis(100);
/// How much of a story is kept, in bytes.
const STORY_MAX: usize = 1 << 20;

/// One operation of one run.
pub(super) type CallKey = (RunId, OperationId);

/// A call of a tool that began.
pub(super) struct Begin {
    pub(super) process: u32,
    pub(super) call: CallKey,
    pub(super) name: String,
    pub(super) effect: Effect,
}

/// The requests that the world got, and its answers.
#[derive(Default)]
pub(super) struct Ledger {
    /// Turns whose sender heard that they are recorded, by session and number.
    pub(super) turns: BTreeMap<(String, usize), RunId>,
    /// Messages whose sender heard that they are recorded, by run and id.
    pub(super) messages: BTreeSet<(RunId, String)>,
    /// Questions and tickets whose answer was acknowledged.
    pub(super) answered: BTreeSet<CallKey>,
    /// Cancellations that were acknowledged, and when.
    pub(super) cancelled: BTreeMap<RunId, Timestamp>,
    /// The outcomes that were told, by root run.
    pub(super) outcomes: BTreeMap<RunId, String>,
    /// The events that readers saw live, by root run.
    pub(super) events: BTreeMap<RunId, Vec<EventRecord>>,
    /// The answers of models, as JSON of the message.
    pub(super) said: BTreeMap<CallKey, Vec<String>>,
    /// The tools' answers, and the results that were given for tickets.
    pub(super) given: BTreeMap<CallKey, Vec<String>>,
    /// The answers to questions, as JSON.
    pub(super) answers: BTreeMap<CallKey, Vec<String>>,
    pub(super) begun: Vec<Begin>,
    /// The kinds of faults that struck, and how often.
    pub(super) struck: BTreeMap<&'static str, u64>,
    pub(super) jumped: bool,
    pub(super) violations: Vec<String>,
    story: String,
}

/// The state that outlives the processes of a simulation.
pub(super) struct World {
    pub(super) chance: Chance,
    pub(super) clock: SimulatedClock,
    /// The disk, as seen from outside of every process.
    pub(super) disk: InMemoryStore,
    pub(super) faults: Faults,
    pub(super) ledger: Mutex<Ledger>,
    began: Instant,
}

impl World {
    pub(super) fn new(seed: u64, faults: &Faults) -> Self {
        let chance = Chance::new(seed);
        Self {
            faults: faults.draw(&chance),
            chance,
            clock: SimulatedClock::starting_at(Timestamp(1_700_000_000_000)),
            disk: InMemoryStore::new(),
            ledger: Mutex::default(),
            began: Instant::now(),
        }
    }

    /// The disk as the engine reads it: entries with their files.
    pub(super) fn journals(&self) -> StoreHandle {
        StoreHandle::new(self.disk.clone())
    }

    /// Adds a line to the story of this seed.
    pub(super) fn tell(&self, line: std::fmt::Arguments<'_>) {
        let mut ledger = self.ledger.lock();
        if ledger.story.len() < STORY_MAX {
            let at = self.began.elapsed().as_millis();
            // Writing to a string cannot fail.
            let _ = writeln!(ledger.story, "{at:>7} ms  {line}");
        }
    }

    pub(super) fn take_story(&self) -> String {
        std::mem::take(&mut self.ledger.lock().story)
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Notes that a fault strikes.
    pub(super) fn strike(&self, fault: &'static str) {
        *self.ledger.lock().struck.entry(fault).or_default() += 1;
        self.tell(format_args!("fault: {fault}"));
    }

    pub(super) fn violate(&self, violation: String) {
        self.tell(format_args!("VIOLATION: {violation}"));
        self.ledger.lock().violations.push(violation);
    }

    /// Gives way to other processes: ready tasks get a turn, or time passes.
    pub(super) async fn pause(&self, most_ms: u64) {
        match self.chance.below(8) {
            0..4 => {}
            turns @ 4..7 => {
                for _ in 3..turns {
                    tokio::task::yield_now().await;
                }
            }
            _ => tokio::time::sleep(self.chance.millis(most_ms)).await,
        }
    }

    /// The entries of a run that are on the disk, and when they were written.
    fn entries(&self, run: RunId) -> Vec<(Timestamp, Entry)> {
        let disk = self.journals();
        let read = disk.read(JournalId::Run(run), 0, usize::MAX);
        let lines = read.now_or_never().and_then(Result::ok).unwrap_or_default();
        let entries = lines
            .iter()
            .map(|stored| Some((stored.line.at, stored.line.decode().ok()?)));
        entries.flatten().collect()
    }

    /// Checks that nothing on the disk forbids a tool call that begins. A process that was frozen is excused: fencing
    /// protects only the record.
    pub(super) fn begins(&self, begin: Begin, fenced: bool) {
        let (run, op) = begin.call;
        let Begin { name, process, .. } = &begin;
        self.tell(format_args!("process {process} calls {name} {run}/{op}"));
        let once = begin.effect == Effect::Once;
        let mut started = !once;
        let (now, jumped) = (self.clock.now(), self.ledger.lock().jumped);
        for (at, entry) in self.entries(run) {
            match entry {
                Entry::Completed { op: done, .. } if done == op && !fenced => {
                    self.violate(format!(
                        "{name} {run}/{op} runs though its result is recorded"
                    ));
                }
                Entry::Started {
                    op: begun,
                    begun: Begun::Effect,
                    ..
                } => started |= begun == op,
                Entry::RunEnded(_) if !fenced => {
                    self.violate(format!("{name} {run}/{op} runs after the end of its run"));
                }
                Entry::CancelRequested { .. }
                    if op.leg != UNDO_LEG
                        && !fenced
                        && !jumped
                        && at.after(CANCEL_SETTLES) < now =>
                {
                    self.violate(format!("{name} {run}/{op} runs in a run that is cancelled"));
                }
                _ => {}
            }
        }
        if !started {
            self.violate(format!(
                "{name} {run}/{op} runs and its start is not recorded"
            ));
        }
        let mut ledger = self.ledger.lock();
        // A read begins while the answer that asks for it is still on its way to the disk. If that answer is lost,
        // another answer may ask for another call in its place.
        let is_same = |before: &Begin| before.call == begin.call && before.name == begin.name;
        let again = ledger.begun.iter().any(is_same);
        let again = (once && again).then(|| format!("the once call {name} {run}/{op} runs again"));
        ledger.begun.push(begin);
        drop(ledger);
        again.into_iter().for_each(|again| self.violate(again));
    }
}
