//! Cancelling a tree of ten thousand live runs, six deep: until the cancellation is recorded,
//! until every function has been let go, and until every end is written. The floor stops as many
//! bare ractor actors in a tree of the same shape.
//!
//! Each run is an actor of its own, below the agent that hosts it. The runs of the lowest row wait
//! for their model, all others for the runs below them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod shared;

use std::{sync::Arc, time::Instant};

use futures_util::future::join_all;
use ghostlight::stores::SqliteStore;
use ghostlight_actors::{
    actor::{System, SystemOptions},
    contract::{RunFilter, RunStatus, StoreHandle},
    run::{Agent, RunContext},
    session::Turn,
    testing::{InMemoryStore, Reply, ScriptedModel},
    vocabulary::{AgentError, Outcome},
};
use mimalloc::MiMalloc;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use shared::Quartiles;
use tokio::sync::watch;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// How many runs each run of a row has below it.
const BELOW: [usize; 5] = [5, 5, 7, 7, 7];
const DEPTH: usize = BELOW.len() + 1;

fn runs() -> usize {
    BELOW.iter().rev().fold(1, |below, each| 1 + each * below)
}

/// Counts a function that lives, until it is dropped.
struct Living(Arc<watch::Sender<usize>>);

impl Living {
    fn new(count: &Arc<watch::Sender<usize>>) -> Self {
        count.send_modify(|living| *living += 1);
        Self(count.clone())
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        self.0.send_modify(|living| *living -= 1);
    }
}

async fn work(
    cx: RunContext,
    row: usize,
    living: Arc<watch::Sender<usize>>,
) -> Result<Outcome, AgentError> {
    let _living = Living::new(&living);
    let Some(below) = BELOW.get(row) else {
        let answer = cx.model(cx.model_request(cx.conversation())).await?;
        return Ok(Outcome::answer(answer.content()));
    };
    let name = format!("row-{}", row + 1);
    join_all((0..*below).map(|_| cx.delegate(&name, "go"))).await;
    Ok(Outcome::answer("done"))
}

fn agent(row: usize, living: &Arc<watch::Sender<usize>>) -> Agent {
    let count = living.clone();
    let agent = Agent::from_fn(format!("row-{row}"), move |cx| work(cx, row, count.clone()));
    if row < BELOW.len() {
        agent.agent(self::agent(row + 1, living))
    } else {
        agent
    }
}

/// Milliseconds until it is recorded, until all is quiet, and until all ends are written.
struct Took {
    recorded: f64,
    quiet: f64,
    written: f64,
}

async fn ours(store: impl Into<StoreHandle>) -> Took {
    let living = Arc::new(watch::channel(0).0);
    let mut watched = living.subscribe();
    let mut limits = SystemOptions::default();
    limits.gateway.concurrency = 1_000_000;
    let (asked, mut asking) = watch::channel(0_usize);
    let model = ScriptedModel::from_reply_fn(move |_, _| {
        asked.send_modify(|asked| *asked += 1);
        Reply::Hang
    });
    let builder = System::builder(store)
        .options(limits)
        .model("default", model);
    let team = agent(0, &living).into_team().unwrap();
    let system = builder.team(team).start().await.unwrap();
    let session = system.session("row-0", "one");
    let run = session.send(Turn::text("go")).await.unwrap();
    let leaves = BELOW.iter().product::<usize>();
    asking.wait_for(|asked| *asked == leaves).await.unwrap();
    assert_eq!(*watched.borrow(), runs());

    let began = Instant::now();
    let ms = || began.elapsed().as_secs_f64() * 1e3;
    assert!(run.cancel("enough").await.unwrap());
    // What `cancel` put into the mailbox is durable; the run's own entry follows.
    while run.status().await.unwrap().status == RunStatus::Running {
        tokio::task::yield_now().await;
    }
    let recorded = ms();
    watched.wait_for(|living| *living == 0).await.unwrap();
    let quiet = ms();
    assert!(matches!(
        run.outcome().await.unwrap(),
        Outcome::Stopped { .. }
    ));
    let written = ms();
    let rows = system.runs(RunFilter::default()).await.unwrap();
    assert_eq!(rows.len(), runs());
    assert!(rows.iter().all(|row| row.status == RunStatus::Cancelled));
    assert_eq!(*asking.borrow(), leaves, "nothing new started");
    system.stop().await.unwrap();
    Took {
        recorded,
        quiet,
        written,
    }
}

struct Bare;

impl Actor for Bare {
    type Msg = String;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<String>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

/// Milliseconds until as many bare actors have been stopped, the lowest row first.
async fn bare() -> f64 {
    let (top, _) = Actor::spawn(None, Bare, ()).await.unwrap();
    let mut rows = vec![vec![top]];
    for below in BELOW {
        let mut row = Vec::new();
        for above in rows.last().unwrap() {
            for _ in 0..below {
                let spawned = Actor::spawn_linked(None, Bare, (), above.get_cell()).await;
                row.push(spawned.unwrap().0);
            }
        }
        rows.push(row);
    }
    let began = Instant::now();
    for row in rows.iter().rev() {
        row.iter().for_each(|actor| actor.stop(None));
        for actor in row {
            // It may have ended before it was waited for.
            let _ = actor.wait(None).await;
        }
    }
    began.elapsed().as_secs_f64() * 1e3
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let folder = std::env::temp_dir().join(format!("ghostlight-cancel-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (what, rounds) in [("in memory", 5), ("SQLite", 3)] {
        let (mut floor, mut took) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            floor.push(runtime.block_on(bare()));
            took.push(runtime.block_on(async {
                if what == "SQLite" {
                    ours(SqliteStore::open(folder.join(format!("{round}.db"))).unwrap()).await
                } else {
                    ours(InMemoryStore::new()).await
                }
            }));
        }
        let of = |part: fn(&Took) -> f64| Quartiles::of(took.iter().map(part));
        println!(
            "cancel, {} runs {DEPTH} deep, {what}: as many bare actors stopped {} ms; recorded {} \
             ms, all quiet {} ms, all ends written {} ms",
            runs(),
            Quartiles::of(floor),
            of(|took| took.recorded),
            of(|took| took.quiet),
            of(|took| took.written)
        );
    }
    // The folder is the bench's own.
    std::fs::remove_dir_all(folder).unwrap();
}
