//! What an agent costs: the time to start one and the heap that it holds, idle and at work,
//! beside a bare ractor actor.
//!
//! Time stands still here but for timers (tokio's paused clock), so that agents passivate when
//! the figure wants it: what the heap loses then is what they held.
//!
//! For tools that count, such as valgrind: `-- 1 1000` sends one turn to each of 1,000 new sessions
//! and nothing else, `-- 2 1000` two. The difference of two numbers of sessions is free of the start
//! and the stop; that of one turn and two tells what the start of an agent takes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod shared;

use std::{
    alloc::System as Allocator,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream};
use ghostlight_actors::{
    actor::{Run, System, SystemOptions},
    contract::RunStatus,
    run::Agent,
    session::Turn,
    testing::InMemoryStore,
    vocabulary::{Message, Outcome},
};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use shared::Quartiles;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<Allocator> = &INSTRUMENTED_SYSTEM;

const AGENTS: usize = 10_000;
const ROUNDS: usize = 5;
const LINGER: Duration = Duration::from_secs(10);
const PASSIVATE_AFTER: Duration = Duration::from_secs(50);

/// Bytes on the heap that are in use.
fn live() -> f64 {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated as f64 - stats.bytes_deallocated as f64 + stats.bytes_reallocated as f64
}

struct Bare;

impl Actor for Bare {
    type Msg = String;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Self::Msg>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

/// Microseconds and bytes for each.
struct Cost {
    time: f64,
    bytes: f64,
}

fn per_agent(began: Instant, before: f64) -> Cost {
    let time = began.elapsed().as_secs_f64() * 1e6 / AGENTS as f64;
    let bytes = (live() - before) / AGENTS as f64;
    Cost { time, bytes }
}

async fn bare() -> Cost {
    let (above, _) = Actor::spawn(None, Bare, ()).await.unwrap();
    let mut actors = Vec::with_capacity(AGENTS);
    let (before, began) = (live(), Instant::now());
    for _ in 0..AGENTS {
        let (actor, _) = Actor::spawn_linked(None, Bare, (), above.get_cell())
            .await
            .unwrap();
        actors.push(actor);
    }
    let cost = per_agent(began, before);
    above.stop_children_and_wait(None, None).await;
    above.stop_and_wait(None, None).await.unwrap();
    cost
}

async fn system(agent: Agent) -> System {
    let mut limits = SystemOptions::default();
    (limits.linger, limits.passivate_after) = (LINGER, PASSIVATE_AFTER);
    limits.max_idle_sessions = usize::MAX;
    let builder = System::builder(InMemoryStore::new().keeping(usize::MAX)).options(limits);
    builder
        .team(agent.into_team().unwrap())
        .start()
        .await
        .unwrap()
}

/// One turn in each session, one after the other up to their admission.
async fn turns(system: &System, team: &str, agents: usize) -> Vec<Run> {
    stream::iter(0..agents)
        .map(|key| async move {
            let session = system.session(team, key.to_string());
            session.send(Turn::text("go")).await.unwrap()
        })
        .buffered(1)
        .collect()
        .await
}

/// A turn that ends at once in each of so many sessions.
async fn answered(system: &System, agents: usize) {
    for run in turns(system, "desk", agents).await {
        run.outcome().await.unwrap();
    }
}

fn desk() -> Agent {
    Agent::from_fn("desk", |_| async { Ok(Outcome::answer("done")) })
}

/// The time to start an agent, and what it holds when it has nothing to do.
async fn idle() -> Cost {
    let system = system(desk()).await;
    let took = async || {
        let began = Instant::now();
        answered(&system, AGENTS).await;
        began.elapsed().as_secs_f64() * 1e6 / AGENTS as f64
    };
    let (first, second) = (took().await, took().await);
    let held = live();
    tokio::time::sleep(PASSIVATE_AFTER * 4).await;
    let bytes = (held - live()) / AGENTS as f64;
    system.stop().await.unwrap();
    Cost {
        time: first - second,
        bytes,
    }
}

/// What an agent and its run hold while the run waits for a message.
async fn at_work() -> f64 {
    let agent = Agent::from_fn("desk", |cx| async move {
        let said = cx.receive::<Message>().await?;
        Ok(Outcome::answer(said.content()))
    });
    let system = system(agent).await;
    let runs = turns(&system, "desk", AGENTS).await;
    for run in &runs {
        assert_eq!(run.wait().await.unwrap().status, RunStatus::Waiting);
    }
    let held = live();
    tokio::time::sleep(PASSIVATE_AFTER * 4).await;
    let bytes = (held - live()) / AGENTS as f64;
    system.stop().await.unwrap();
    bytes
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let asked: Vec<usize> = std::env::args()
        .filter_map(|word| word.parse().ok())
        .collect();
    if let [turns, agents] = asked[..] {
        runtime.block_on(async {
            let system = system(desk()).await;
            for _ in 0..turns {
                answered(&system, agents).await;
            }
            system.stop().await.unwrap();
        });
        return;
    }
    let (mut bare_costs, mut idle_costs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare_costs.push(runtime.block_on(bare()));
        idle_costs.push(runtime.block_on(idle()));
    }
    let of = |costs: &[Cost], what: fn(&Cost) -> f64| Quartiles::of(costs.iter().map(what));
    for (what, unit, read) in [
        ("start", "µs", (|cost| cost.time) as fn(&Cost) -> f64),
        ("heap when idle", "bytes", |cost| cost.bytes),
    ] {
        let (floor, ours) = (of(&bare_costs, read), of(&idle_costs, read));
        println!(
            "agent_size, {what}: bare actor {floor} {unit}, agent {ours} {unit}, over it {:.1}, \
             ratio {:.2}",
            ours.1 - floor.1,
            ours.1 / floor.1
        );
    }
    let at_work = runtime.block_on(at_work());
    let two = 2.0 * of(&bare_costs, |cost| cost.bytes).1;
    println!(
        "agent_size, heap at work: two bare actors {two:.0} bytes, agent and run {at_work:.0} \
         bytes, over it {:.0}",
        at_work - two
    );
}
