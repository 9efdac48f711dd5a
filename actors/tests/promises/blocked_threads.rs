//! Code that blocks its thread holds up itself, and neither the time of everybody else nor its own run.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    time::Duration,
};

use ghostlight_actors::{
    actor::System,
    contract::{InMemoryStore, RunStatus, Tool, ToolContext, ToolError, ToolOutput},
    run::{Agent, RunContext},
    vocabulary::{Arguments, Effect, Event, Outcome, ToolDefinition},
};
use parking_lot::Mutex;

use crate::stage::{Stage, ask, call, pause, text};

const TIMES: u32 = 10;

#[test]
fn timers_fire_while_a_function_blocks_its_thread() {
    for _ in 0..TIMES {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let (release, released) = mpsc::channel::<()>();
        let released = Arc::new(Mutex::new(released));
        let blocks = Agent::from_fn("blocks", move |cx: RunContext| {
            let released = released.clone();
            async move {
                cx.sleep(Duration::from_millis(40)).await?;
                // The thread that waited for the timers of all is this one now.
                let _ = released.lock().recv();
                Ok(Outcome::answer("at last"))
            }
        });
        let sleeps = Agent::from_fn("sleeps", |cx: RunContext| async move {
            for _ in 0..10 {
                cx.sleep(Duration::from_millis(30)).await?;
            }
            Ok(Outcome::answer("rested"))
        });
        let (rested, has_rested) = mpsc::channel();
        let blocked = runtime.block_on(async {
            let system = System::builder(InMemoryStore::new())
                .team(blocks.into_team().unwrap())
                .team(sleeps.into_team().unwrap())
                .start()
                .await
                .unwrap();
            let sleeping = ask(&system, "sleeps", "go").await;
            tokio::spawn(async move { rested.send(text(&sleeping).await).unwrap() });
            ask(&system, "blocks", "go").await
        });
        // No timer of the runtime's would end a wait for what stands still.
        let heard = has_rested.recv_timeout(Duration::from_secs(300));
        drop(release);
        assert_ne!(heard, Err(RecvTimeoutError::Timeout), "time stood still");
        assert_eq!(heard.unwrap(), "rested");
        assert_eq!(runtime.block_on(text(&blocked)), "at last");
    }
}

/// Is quick ten times, then blocks its thread for a while, and then until it is told to end.
struct Slowing(Arc<AtomicU32>, Arc<AtomicBool>);

impl Tool for Slowing {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new("slowing", "begins to block").effect(Effect::Read)
    }

    async fn call(&self, _: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
        match self.0.fetch_add(1, Ordering::SeqCst) {
            0..10 => {}
            10 => std::thread::sleep(Duration::from_millis(150)),
            _ => {
                while !self.1.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
        Ok(ToolOutput::text("done"))
    }
}

/// Blocks its thread from its first call on, until it is told to end.
fn blocking() -> (Slowing, Arc<AtomicU32>, Arc<AtomicBool>) {
    let (called, released) = (
        Arc::new(AtomicU32::new(11)),
        Arc::new(AtomicBool::new(false)),
    );
    (Slowing(called.clone(), released.clone()), called, released)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn code_that_blocks_is_told_by_name_when_all_else_is_quiet() {
    let stage = Stage::new();
    let (tool, called, released) = blocking();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        cx.tools([call("1", "slowing"), call("2", "look")]).await?;
        Ok(Outcome::answer("never"))
    })
    .tool(stage.tool("look", Effect::Read, 900_000))
    .tool(tool);
    cancel_beside_blocking_code(agent, &stage, 0, (&called, &released)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_tool_that_was_quick_and_was_seen_to_block_keeps_no_run_from_being_cancelled() {
    let (called, released) = (
        Arc::new(AtomicU32::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        for _ in 0..12 {
            cx.tool_unasked(call("1", "slowing")).await?;
        }
        Ok(Outcome::answer("never"))
    })
    .tool(Slowing(called.clone(), released.clone()));
    cancel_beside_blocking_code(agent, &Stage::new(), 11, (&called, &released)).await;
}

/// Waits until a tool blocks a thread, checks that the run still records what ended before, and cancels the run.
async fn cancel_beside_blocking_code(
    agent: Agent,
    stage: &Stage,
    recorded: usize,
    (called, released): (&AtomicU32, &AtomicBool),
) {
    let mut limits = stage.limits;
    limits.executor.grace = Duration::from_secs(2);
    let team = agent.into_team().unwrap();
    let builder = System::builder(stage.store.clone());
    let system = builder.options(limits).team(team).start().await.unwrap();
    let run = ask(&system, "a", "go").await;
    while called.load(Ordering::SeqCst) < 12 {
        pause(1).await;
    }
    let quiet = tokio::time::timeout(Duration::from_secs(20), async {
        let ended = |event: &Event| {
            matches!(
                event,
                Event::OperationCompleted { .. } | Event::ToolCalled { .. }
            )
        };
        let (mut events, mut seen) = (run.events(), 0);
        while seen < recorded {
            seen += usize::from(ended(&events.next().await.unwrap().unwrap().event));
        }
        run.cancel("enough").await.unwrap();
        run.quiet().await.unwrap()
    })
    .await;
    released.store(true, Ordering::SeqCst);
    let quiet = quiet.expect("the run goes on, and hears of its cancelling");
    assert_eq!(quiet.status, RunStatus::Cancelled);
    let names = quiet.still_running.iter().map(|still| still.tool.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["slowing"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_commits_while_a_tool_blocks_a_thread_is_cancelled() {
    let stage = Stage::new();
    let (tool, called, released) = blocking();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        cx.sleep(Duration::from_millis(5)).await?;
        cx.tool_unasked(call("1", "slowing")).await?;
        Ok(Outcome::answer("never"))
    })
    .tool(tool);
    cancel_beside_blocking_code(agent, &stage, 1, (&called, &released)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_commits_beside_another_call_while_a_tool_blocks_a_thread_is_cancelled() {
    let stage = Stage::new();
    let (tool, called, released) = blocking();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let look = cx.tool_unasked(call("1", "look"));
        let slowing = async {
            cx.sleep(Duration::from_millis(20)).await?;
            cx.tool_unasked(call("2", "slowing")).await
        };
        futures_util::future::try_join(look, slowing).await?;
        Ok(Outcome::answer("never"))
    })
    .tool(stage.tool("look", Effect::Read, 900_000))
    .tool(tool);
    cancel_beside_blocking_code(agent, &stage, 1, (&called, &released)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_makes_way_while_a_tool_blocks_a_thread_is_cancelled() {
    let stage = Stage::new();
    let (tool, called, released) = blocking();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let slowing = cx.tool_unasked(call("1", "slowing"));
        let steps = async {
            for n in 0..200 {
                cx.step(n.to_string(), Effect::Read, async { Ok::<u32, String>(1) })
                    .await?;
            }
            Ok(())
        };
        futures_util::future::try_join(slowing, steps).await?;
        Ok(Outcome::answer("never"))
    })
    .tool(tool);
    cancel_beside_blocking_code(agent, &stage, 200, (&called, &released)).await;
}
