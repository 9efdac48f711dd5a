//! Runs of thousands of steps are recovered, whatever their functions wait for inside of themselves.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use ghostlight_actors::{
    contract::RunStatus,
    run::{Agent, BeforeTool, Policy, PolicyContext, RunContext, replay},
    vocabulary::{AgentError, Effect, Message, Outcome, ToolCall},
};
use tokio::sync::{Mutex, Semaphore, mpsc};

use crate::{
    stage::{Stage, ask, call, outcome, pause, text},
    time_travel::recorded,
};

/// What a function does beside each of its steps.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Beside {
    Nothing,
    AsksPolicies,
    TakesPermits,
    LocksTwice,
    Yields,
    SelectsBiased,
    GoesThroughAChannel,
    YieldsInABranch,
}

impl Beside {
    const ALL: [Self; 8] = [
        Self::Nothing,
        Self::AsksPolicies,
        Self::TakesPermits,
        Self::LocksTwice,
        Self::Yields,
        Self::SelectsBiased,
        Self::GoesThroughAChannel,
        Self::YieldsInABranch,
    ];

    fn steps(self) -> u32 {
        match self {
            Self::Nothing | Self::AsksPolicies => 2000,
            _ => 200,
        }
    }
}

struct DoesNothing;

impl Policy for DoesNothing {
    async fn before_tool(
        &mut self,
        _cx: &PolicyContext<'_>,
        _call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        Ok(BeforeTool::Go)
    }
}

async fn step(cx: &RunContext, number: u32) -> Result<u32, AgentError> {
    let done = async move { Ok::<_, std::io::Error>(number) };
    cx.step("count", Effect::Read, done).await
}

/// Counts how often it came behind its last step, and sleeps there.
fn counting(beside: Beside, stage: &Stage, arrived: Arc<AtomicU32>) -> Agent {
    let agent = Agent::from_fn("a", move |cx: RunContext| {
        let arrived = arrived.clone();
        async move {
            let permits = Semaphore::new(1);
            let held = Mutex::new(0);
            let (sender, mut receiver) = mpsc::channel(1);
            let mut total = 0;
            for number in 0..beside.steps() {
                let counted = match beside {
                    Beside::AsksPolicies => {
                        cx.tool_unasked(call("1", "look")).await?;
                        number
                    }
                    Beside::TakesPermits => {
                        let _permit = permits.acquire().await.unwrap();
                        step(&cx, number).await?
                    }
                    Beside::LocksTwice => {
                        *held.lock().await += 1;
                        let counted = step(&cx, number).await?;
                        *held.lock().await -= 1;
                        counted
                    }
                    Beside::Yields => {
                        tokio::task::yield_now().await;
                        step(&cx, number).await?
                    }
                    Beside::SelectsBiased => tokio::select! {
                        biased;
                        counted = step(&cx, number) => counted?,
                        () = std::future::pending() => 0,
                    },
                    Beside::GoesThroughAChannel => {
                        sender.send(step(&cx, number).await?).await.unwrap();
                        receiver.recv().await.unwrap()
                    }
                    Beside::YieldsInABranch => {
                        let branch = cx.lane("beside");
                        let yields = async {
                            tokio::task::yield_now().await;
                            tokio::task::yield_now().await;
                            branch.now().await
                        };
                        let (counted, at) = tokio::join!(step(&cx, number), yields);
                        at?;
                        counted?
                    }
                    Beside::Nothing => step(&cx, number).await?,
                };
                total += counted;
            }
            arrived.fetch_add(1, SeqCst);
            cx.sleep(Duration::from_secs(1)).await?;
            Ok(Outcome::answer(total.to_string()))
        }
    });
    let agent = agent.tool(stage.tool("look", Effect::Read, 0));
    match beside {
        Beside::AsksPolicies => agent.policy("nothing", || DoesNothing),
        _ => agent,
    }
}

async fn is_recovered_and_replayed(beside: Beside) {
    let mut stage = Stage::new();
    let arrived = Arc::new(AtomicU32::new(0));
    let team = |stage: &Stage| counting(beside, stage, arrived.clone());
    let system = stage.start(team(&stage)).await;
    let run = ask(&system, "a", "go").await;
    while arrived.load(SeqCst) == 0 {
        pause(5).await;
    }
    pause(20).await;
    stage.crash(&system).await;
    let system = stage.start(team(&stage)).await;
    let run = system.run(run.id());
    let sum: u32 = (0..beside.steps()).sum();
    assert_eq!(text(&run).await, sum.to_string(), "{beside:?}");
    assert_eq!(arrived.load(SeqCst), 2, "{beside:?}: it was recovered");
    let recorded = recorded(&stage, run.id()).await;
    let registry = team(&stage).into_team().unwrap().registry;
    let replayed = replay(&recorded, &registry, None).unwrap();
    assert!(replayed.is_faithful(), "{beside:?}: {replayed}");
    assert_eq!(
        arrived.load(SeqCst),
        3,
        "{beside:?}: the replay came to the end"
    );
}

fn on_one_thread() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap()
}

fn on_several_threads() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

#[test]
fn a_run_of_thousands_of_steps_is_recovered_whatever_its_function_waits_for() {
    for beside in Beside::ALL {
        on_one_thread().block_on(is_recovered_and_replayed(beside));
    }
}

#[test]
fn a_run_of_thousands_of_steps_is_recovered_on_several_threads_too() {
    for beside in Beside::ALL {
        let runtime = on_several_threads();
        // In a task, so that workers drive it.
        let task = runtime.spawn(is_recovered_and_replayed(beside));
        runtime.block_on(task).unwrap();
    }
}

/// Without any crash: a run that waits for the outside falls asleep, and is run again from its top.
#[tokio::test(start_paused = true)]
async fn a_biased_select_goes_a_thousand_rounds() {
    let stage = Stage::alone();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let mut counted = 0;
        for round in 0..1000 {
            tokio::select! {
                biased;
                never = cx.receive::<Message>() => drop(never?),
                step = step(&cx, round) => counted += step?,
            }
            if round % 100 == 99 {
                tokio::select! {
                    biased;
                    never = cx.receive::<Message>() => drop(never?),
                    slept = cx.sleep(Duration::from_secs(60)) => slept?,
                }
            }
        }
        Ok(Outcome::answer(counted.to_string()))
    });
    let system = stage.start(agent).await;
    let run = ask(&system, "a", "go").await;
    let answer = tokio::time::timeout(Duration::from_secs(100_000), run.outcome()).await;
    assert_eq!(answer.unwrap().unwrap().text(), "499500");
}

/// It wakes itself whenever it is polled.
async fn spin() {
    std::future::poll_fn(|cx| {
        cx.waker().wake_by_ref();
        std::task::Poll::<()>::Pending
    })
    .await;
}

/// In real time: a paused clock stands still while anything is awake.
#[tokio::test]
async fn a_function_that_wakes_itself_for_ever_gives_way_and_is_cancelled() {
    for spins_at_once in [true, false] {
        let mut stage = Stage::new();
        let spins = Arc::new(AtomicBool::new(spins_at_once));
        let team = || {
            let spins = spins.clone();
            Agent::from_fn("a", move |cx: RunContext| {
                let spins = spins.load(SeqCst);
                async move {
                    if spins {
                        // What it asked for is done all the same.
                        tokio::select! {
                            biased;
                            () = spin() => {}
                            counted = step(&cx, 1) => drop(counted?),
                        }
                        spin().await;
                    }
                    step(&cx, 1).await?;
                    cx.sleep(Duration::from_millis(100)).await?;
                    Ok(Outcome::answer("done"))
                }
            })
        };
        let system = stage.start(team()).await;
        let run = ask(&system, "a", "go").await;
        pause(20).await;
        let (system, run) = match spins_at_once {
            true => (system, run),
            false => {
                stage.crash(&system).await;
                spins.store(true, SeqCst);
                let system = stage.start(team()).await;
                pause(200).await;
                let run = system.run(run.id());
                (system, run)
            }
        };
        assert_eq!(run.status().await.unwrap().status, RunStatus::Running);
        assert!(run.cancel("enough").await.unwrap());
        let outcome = outcome(&run).await;
        assert!(matches!(outcome, Outcome::Stopped { .. }), "{outcome:?}");
        drop(system);
    }
}

#[tokio::test(start_paused = true)]
async fn a_function_that_waits_for_something_outside_is_waited_for_and_then_parked() {
    for comes in [true, false] {
        let mut stage = Stage::new();
        stage.not_replayed("the function waits for what comes in its first life alone");
        let lives = Arc::new(AtomicU32::new(0));
        let team = || {
            let lives = lives.clone();
            Agent::from_fn("a", move |cx: RunContext| {
                let is_first = lives.fetch_add(1, SeqCst) == 0;
                async move {
                    let (sender, mut receiver) = mpsc::unbounded_channel();
                    let other = tokio::spawn(async move {
                        pause(2000).await;
                        if comes || is_first {
                            let _ = sender.send(());
                        } else {
                            sender.closed().await;
                        }
                    });
                    receiver.recv().await;
                    step(&cx, 1).await?;
                    other.abort();
                    cx.sleep(Duration::from_secs(60)).await?;
                    Ok(Outcome::answer("done"))
                }
            })
        };
        let system = stage.start(team()).await;
        let run = ask(&system, "a", "go").await;
        pause(5000).await;
        stage.crash(&system).await;
        let system = stage.start(team()).await;
        let outcome = system.run(run.id()).outcome().await;
        match comes {
            true => assert_eq!(outcome.unwrap().text(), "done"),
            false => {
                let error = outcome.unwrap_err().to_string();
                assert!(
                    error.contains("something outside of its context"),
                    "{error}"
                );
            }
        }
    }
}
