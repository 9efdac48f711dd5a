//! Simulated weeks of agents that live long: what they cost in memory and in the store.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    missing_docs
)]

use std::{alloc::System as Heap, time::Duration};

use ghostlight_actors::{
    actor::{System, SystemOptions},
    contract::{DynStore, RunFilter, SystemClock},
    definition::Schedule,
    run::{Agent, RunContext, Team, operations::Scope},
    session::Turn,
    testing::InMemoryStore,
    vocabulary::{JournalId, Outcome, SessionId, Timestamp},
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static HEAP: &StatsAlloc<Heap> = &INSTRUMENTED_SYSTEM;

const HOUR: Duration = Duration::from_secs(3600);
/// A week, and a little more, so that weeks do not end at a beat.
const WEEK: Duration = Duration::from_secs(171 * 3600);
const WEEKS: usize = 6;

/// Is woken every three hours, and counts.
fn pulse() -> Team {
    let agent = Agent::from_fn("pulse", |cx: RunContext| async move {
        let state = cx.state(Scope::App);
        let beats: u32 = state.get("beats").await?.unwrap_or(0);
        cx.sleep(Duration::from_secs(90)).await?;
        state.set("beats", &(beats + 1)).await?;
        Ok(Outcome::answer((beats + 1).to_string()))
    });
    let schedule = Schedule::every("beat", 3 * HOUR, "beat");
    agent.into_team().unwrap().schedule(schedule)
}

/// Never ends: sleeps, and goes on in a fresh journal.
fn tide() -> Team {
    let agent = Agent::from_fn("tide", |cx: RunContext| async move {
        let tides: u32 = cx.input().content().parse().unwrap_or(0);
        cx.sleep(6 * HOUR).await?;
        Ok(cx.continue_as((tides + 1).to_string()))
    });
    agent.into_team().unwrap()
}

/// What there is at the end of a week.
#[derive(Clone, Copy, Debug)]
struct Week {
    heap: usize,
    runs: usize,
    entries: usize,
    bytes: usize,
}

impl Week {
    async fn of(store: &InMemoryStore, heap: usize) -> Self {
        let rows = store.runs(RunFilter::default()).await.unwrap();
        let runs = rows.len();
        let mut journals: Vec<JournalId> = rows.iter().map(|r| JournalId::Run(r.run)).collect();
        for (team, key) in [("pulse", "beat"), ("tide", "s")] {
            let (team, key) = (team.into(), key.into());
            journals.push(JournalId::Session(SessionId { team, key }));
        }
        let (mut entries, mut bytes) = (0, 0);
        for journal in journals {
            let lines = store.read(journal, 0, usize::MAX).await.unwrap();
            entries += lines.len();
            bytes += lines.iter().map(|s| s.line.text.len()).sum::<usize>();
        }
        Self {
            heap,
            runs,
            entries,
            bytes,
        }
    }

    fn since(&self, earlier: &Self) -> Self {
        Self {
            heap: self.heap.saturating_sub(earlier.heap),
            runs: self.runs - earlier.runs,
            entries: self.entries - earlier.entries,
            bytes: self.bytes - earlier.bytes,
        }
    }
}

async fn start(store: &InMemoryStore, clock: &SystemClock) -> System {
    let mut limits = SystemOptions::default();
    limits.poll_interval = Duration::from_secs(600);
    let builder = System::builder(store.clone()).options(limits);
    let builder = builder.clock(clock.clone()).team(pulse()).team(tide());
    builder.start().await.unwrap()
}

/// How many sessions are in memory.
async fn awake(system: &System) -> usize {
    use ghostlight_actors::actor::supervisor::Supervisor;
    let teams = system.supervisor().unwrap().find_child("teams").await;
    let teams = Supervisor::from_actor(teams.unwrap().unwrap()).unwrap();
    teams.which_children().await.unwrap().len()
}

#[tokio::test(start_paused = true)]
async fn weeks_of_sleeping_waking_and_going_on_cost_the_same_each_week() {
    let region = Region::new(HEAP);
    let clock = SystemClock::starting_at(Timestamp(1_743_249_600_000));
    let mut store = InMemoryStore::new();
    let mut system = start(&store, &clock).await;
    let turn = Turn::text("0").id("tide");
    let tide = system.session("tide", "s").send(turn).await.unwrap().id();
    tokio::time::sleep(HOUR + HOUR / 2).await;
    let mut weeks = Vec::new();
    for week in 0..=WEEKS {
        if week % 2 == 1 {
            // Every other week the process dies.
            store.crash();
            system.supervisor().unwrap().actor().kill();
            store = store.another_process();
            system = start(&store, &clock).await;
        }
        tokio::time::sleep(WEEK).await;
        // Long after the last beat nobody is in memory.
        assert_eq!(awake(&system).await, 0, "week {week}");
        let change = region.change();
        let heap = change
            .bytes_allocated
            .saturating_sub(change.bytes_deallocated);
        weeks.push(Week::of(&store, heap).await);
    }
    let grown: Vec<Week> = weeks.windows(2).map(|two| two[1].since(&two[0])).collect();
    println!("at the end: {:?}; each week: {grown:?}", weeks[WEEKS]);
    for week in &grown {
        // 57 beats and 28 tides in 171 hours, each a run; give or take one at the edges.
        assert!((83..=88).contains(&week.runs), "{week:?}");
        assert!(week.entries <= week.runs * 12, "{week:?}");
        assert!(week.bytes <= week.entries * 600, "{week:?}");
    }
    // What the process holds grows with what its store, which is in memory, holds, and no faster.
    let (first, last) = (grown[0], grown[WEEKS - 1]);
    assert!(last.bytes <= first.bytes + first.bytes / 4, "{grown:?}");
    let heap: usize = grown.iter().map(|week| week.heap).sum();
    let bytes: usize = grown.iter().map(|week| week.bytes).sum();
    assert!(
        2 * heap <= 7 * bytes,
        "{heap} bytes of heap for {bytes} of entries"
    );
    // No beat was lost or made twice, and the endless run is one turn still.
    let transcript = system.session("pulse", "beat").transcript().await.unwrap();
    let beats = transcript.messages().len() / 2;
    let last = transcript.messages().last().unwrap().content();
    assert_eq!(last, beats.to_string());
    assert_eq!(beats, (WEEKS + 1) * 171 / 3);
    let again = Turn::text("0").id("tide");
    let again = system.session("tide", "s").send(again).await.unwrap();
    assert_eq!(again.id(), tide);
}
