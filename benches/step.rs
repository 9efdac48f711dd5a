//! One step in process: a model call and a tool call, over the in-memory store, through the
//! actors. The floor is what the actors alone cost: four calls of a ractor actor and two
//! spawned tasks.
//!
//! For tools that count, such as valgrind: `-- ours 2000` does 2,000 steps on one thread and
//! nothing else, `-- floor 2000` so many of the floor. The difference of two lengths is free of
//! the start and the stop.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod shared;

use futures_util::future::join_all;
use ghostlight_actors::{actor::System, session::Turn, testing::InMemoryStore};
use mimalloc::MiMalloc;
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use shared::{Round, alternately, round, stepping};
use tokio::runtime::{Builder, Runtime};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// So many runs at once, each of so many steps, in a System of their own.
fn ours(runtime: &Runtime, runs: u32, each: u32) -> Round {
    let system = runtime.block_on(async {
        let builder =
            System::builder(InMemoryStore::new()).model("default", stepping::Caller::default());
        let builder = builder.team(stepping::agent("stepper", each).into_team().unwrap());
        builder.start().await.unwrap()
    });
    let took = round(runs * each, || {
        runtime.block_on(async {
            let begun = (0..runs).map(|run| {
                let session = system.session("stepper", format!("s{run}"));
                async move { session.send(Turn::text("go")).await.unwrap() }
            });
            let runs = join_all(begun).await;
            for ended in join_all(runs.iter().map(|run| run.outcome())).await {
                assert_eq!(ended.unwrap().text(), "done");
            }
        });
    });
    runtime.block_on(system.stop()).unwrap();
    took
}

/// An actor that answers.
struct Echo;

impl Actor for Echo {
    type Msg = RpcReplyPort<u64>;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Self::Msg>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        reply: RpcReplyPort<u64>,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        reply.send(1)?;
        Ok(())
    }
}

fn floor(runtime: &Runtime, runs: u32, each: u32) -> Round {
    let (echo, handle) = runtime
        .block_on(Actor::spawn(None, Echo, ()))
        .expect("the actor starts");
    let took = round(runs * each, || {
        let walkers = (0..runs).map(|_| {
            let echo = echo.clone();
            runtime.spawn(async move {
                for _ in 0..each {
                    for half in 0..2 {
                        echo.call(|reply| reply, None).await.unwrap().unwrap();
                        tokio::spawn(async move { half }).await.unwrap();
                        echo.call(|reply| reply, None).await.unwrap().unwrap();
                    }
                }
            })
        });
        let walkers: Vec<_> = walkers.collect();
        runtime.block_on(async {
            for walker in join_all(walkers).await {
                walker.unwrap();
            }
        });
    });
    echo.stop(None);
    runtime.block_on(handle).unwrap();
    took
}

fn main() {
    let one_thread = Builder::new_current_thread().enable_all().build().unwrap();
    let asked: Vec<String> = std::env::args().collect();
    if let [_, side, steps, ..] = asked.as_slice()
        && let Ok(steps) = steps.parse()
    {
        match side.as_str() {
            "ours" => ours(&one_thread, 1, steps),
            _ => floor(&one_thread, 1, steps),
        };
        return;
    }
    let two_threads = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    for (name, runtime) in [("one thread", &one_thread), ("two threads", &two_threads)] {
        for (runs, each, rounds) in [(1, 200, 51), (1, 2_000, 11), (100, 50, 11)] {
            let compared = alternately(
                rounds,
                || floor(runtime, runs, each),
                || ours(runtime, runs, each),
            );
            compared.print(&format!("step, {name}, {runs} at once, {each} steps a run"));
        }
    }
}
