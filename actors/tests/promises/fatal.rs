//! A run that ends its process again and again is taken out of the way of the others.

use std::{future::pending, sync::Arc, time::Duration};

use ghostlight_actors::{
    actor::{Run, System, SystemError},
    contract::{RunStatus, SeededEntropy, Tool, ToolContext, ToolError, ToolOutput},
    run::{Agent, RunContext},
    session::Turn,
    vocabulary::{AgentError, Arguments, Effect, Entry, Outcome, ToolDefinition},
};
use serde_json::json;
use tokio::sync::Notify;

use crate::stage::{Stage, ask, call, pause, silent, text};

/// A tool that needs more memory than there is: the process dies, and nothing of the call is recorded.
#[derive(Clone)]
struct Fatal(ToolDefinition, Arc<Notify>);

impl Tool for Fatal {
    fn definition(&self) -> ToolDefinition {
        self.0.clone()
    }

    async fn call(&self, _: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
        self.1.notify_one();
        pending().await
    }
}

/// Processes that die of a tool, and start again.
struct Machine {
    stage: Stage,
    dies: Arc<Notify>,
    processes: u64,
    seed: u64,
}

impl Machine {
    fn new(seed: u64) -> Self {
        Self {
            stage: Stage::alone(),
            dies: Arc::default(),
            processes: 0,
            seed,
        }
    }

    /// Works in ten steps of 400 ms; "fatal" ends the process, "below" has an agent do so.
    fn agent(&self) -> Agent {
        let definition = ToolDefinition::new("fatal", "ends the process").effect(Effect::Read);
        let fatal = Fatal(definition, self.dies.clone());
        let below = Agent::from_fn("worker", |cx: RunContext| async move {
            cx.tool_unasked(call("1", "fatal")).await?;
            Ok(Outcome::answer("never"))
        });
        Agent::from_fn("a", |cx: RunContext| async move {
            match cx.input().content().as_ref() {
                "fatal" => drop(cx.tool_unasked(call("1", "fatal")).await?),
                "below" => {
                    let error = cx.delegate("worker", "go").await.unwrap_err();
                    return Ok(Outcome::answer(format!("it says: {error}")));
                }
                _ => {
                    for _ in 0..10 {
                        cx.tool_unasked(call("1", "work")).await?;
                    }
                }
            }
            Ok(Outcome::answer("done"))
        })
        .tool(self.stage.tool("work", Effect::Read, 400))
        .tool(fatal.clone())
        .agent(below.tool(fatal))
    }

    async fn start(&mut self) -> System {
        self.processes += 1;
        let entropy = SeededEntropy::new(self.seed * 1_000 + self.processes);
        let stage = &self.stage;
        stage.start_by(self.agent(), silent(), entropy).await
    }

    /// Starts the process again whenever it dies, until this is over.
    async fn run_until<T>(
        &mut self,
        mut system: System,
        over: impl AsyncFn(&System) -> T,
    ) -> (T, System) {
        for _ in 0..100 {
            let dies = self.dies.clone();
            tokio::select! {
                biased;
                () = dies.notified() => {}
                value = over(&system) => return (value, system),
            }
            self.stage.crash(&system).await;
            system = self.start().await;
        }
        panic!("the processes die for ever");
    }

    /// How often processes took the run over.
    async fn takeovers(&self, run: &Run) -> usize {
        let entries = self.stage.entries(run.id()).await;
        let taken = entries
            .iter()
            .filter(|e| matches!(e, Entry::Activated { .. }));
        taken.count()
    }
}

async fn say(system: &System, session: &str, words: &str) -> Run {
    system
        .session("a", session)
        .send(Turn::text(words))
        .await
        .unwrap()
}

fn is_crashed(error: &SystemError, bound: u32) -> bool {
    matches!(error, SystemError::Parked { error: AgentError::Crashed { times, .. }, .. } if *times == bound)
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ends_its_process_again_and_again_is_parked_and_the_runs_beside_it_come_to_their_ends()
 {
    for seed in 0..8 {
        let mut machine = Machine::new(seed);
        let system = machine.start().await;
        let mut beside = Vec::new();
        for number in 0..20 {
            beside.push(say(&system, &format!("s{number}"), "work").await.id());
        }
        let fatal = say(&system, "fatal", "fatal").await.id();
        let (error, system) = machine
            .run_until(system, async |system| {
                system.run(fatal).outcome().await.unwrap_err()
            })
            .await;
        assert!(is_crashed(&error, 10), "{error:?}");
        assert!(
            error
                .to_string()
                .contains("the process ended with the run under way"),
            "{error}"
        );
        for run in beside {
            assert_eq!(text(&system.run(run)).await, "done", "seed {seed}");
        }
        assert_eq!(text(&say(&system, "fatal", "work").await).await, "done");
        // A retry has as many tries again.
        let fatal = system.run(fatal);
        assert_eq!(machine.takeovers(&fatal).await, 11);
        fatal.retry().await.unwrap();
        let (error, _) = machine
            .run_until(system, async |system| {
                system.run(fatal.id()).outcome().await.unwrap_err()
            })
            .await;
        assert!(is_crashed(&error, 10), "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_below_that_ends_its_process_is_a_failed_delegation_for_the_one_above() {
    let mut machine = Machine::new(1);
    let system = machine.start().await;
    let run = ask(&system, "a", "below").await.id();
    let (said, _) = machine
        .run_until(system, async |system| text(&system.run(run)).await)
        .await;
    assert!(
        said.contains("the process ended with the run under way"),
        "{said}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_suspect_that_pauses_is_cancelled_at_once() {
    let mut machine = Machine::new(2);
    let mut system = machine.start().await;
    let fatal = say(&system, "s", "fatal").await.id();
    for _ in 0..9 {
        machine.dies.notified().await;
        machine.stage.crash(&system).await;
        system = machine.start().await;
    }
    let run = system.run(fatal);
    let before = tokio::time::Instant::now();
    assert!(run.cancel("enough").await.unwrap());
    while run.status().await.unwrap().status != RunStatus::Cancelled {
        pause(10).await;
    }
    assert!(
        before.elapsed() < Duration::from_millis(200),
        "{:?}",
        before.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn without_a_bound_a_run_goes_on_at_once_in_every_process() {
    let mut machine = Machine::new(3);
    machine.stage.limits.fatal_after = 0;
    let mut system = machine.start().await;
    let fatal = say(&system, "s", "fatal").await;
    let before = tokio::time::Instant::now();
    for _ in 0..15 {
        machine.dies.notified().await;
        machine.stage.crash(&system).await;
        system = machine.start().await;
    }
    machine.dies.notified().await;
    assert!(
        before.elapsed() < Duration::from_secs(1),
        "{:?}",
        before.elapsed()
    );
    assert_eq!(machine.takeovers(&fatal).await, 15);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_or_that_this_process_takes_up_again_is_not_suspected() {
    let mut stage = Stage::alone();
    let agent = || {
        let below = Agent::from_fn("worker", |cx: RunContext| async move {
            for _ in 0..40 {
                cx.tool_unasked(call("1", "work")).await?;
            }
            Ok(Outcome::answer("done"))
        });
        Agent::from_fn("a", |cx: RunContext| async move {
            if cx.input().content() == "wait" {
                cx.sleep(Duration::from_secs(60)).await?;
                return Ok(Outcome::answer("waited"));
            }
            Ok(Outcome::answer(cx.delegate("worker", "go").await?.text))
        })
        .agent(below)
    };
    let work = stage.tool("work", Effect::Read, 400);
    let mut system = stage.start(agent().tool(work)).await;
    let waits = say(&system, "waits", "wait").await.id();
    let above = say(&system, "above", "go").await.id();
    // Its child gets further in each process.
    for _ in 0..15 {
        pause(900).await;
        stage.crash(&system).await;
        let work = stage.tool("work", Effect::Read, 400);
        system = stage.start(agent().tool(work)).await;
    }
    assert_eq!(text(&system.run(above)).await, "done");
    assert_eq!(text(&system.run(waits)).await, "waited");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_gets_further_in_every_process_is_not_suspected() {
    let mut machine = Machine::new(4);
    let mut system = machine.start().await;
    let run = say(&system, "s", "work").await.id();
    let began = tokio::time::Instant::now();
    for _ in 0..9 {
        pause(600).await;
        machine.stage.crash(&system).await;
        system = machine.start().await;
    }
    assert_eq!(text(&system.run(run)).await, "done");
    let took = began.elapsed();
    assert!(took < Duration::from_secs(6), "it paused: {took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_whenever_its_process_ends_is_not_suspected() {
    let mut stage = Stage::alone();
    let agent = || {
        Agent::from_fn("a", |cx: RunContext| async move {
            let answer = cx.ask("Well?").await?;
            Ok(Outcome::answer(answer.to_string()))
        })
    };
    let mut system = stage.start(agent()).await;
    let run = ask(&system, "a", "go").await.id();
    for _ in 0..12 {
        // It is taken up for what it does not wait for.
        system.run(run).steer("hurry").await.unwrap();
        pause(100).await;
        let status = system.run(run).status().await.unwrap().status;
        assert_eq!(status, RunStatus::Waiting);
        stage.crash(&system).await;
        system = stage.start(agent()).await;
    }
    let run = system.run(run);
    let (_, operation, _) = run.questions().await.unwrap().remove(0);
    run.answer(operation, json!("yes")).await.unwrap();
    assert_eq!(text(&run).await, "\"yes\"");
}
