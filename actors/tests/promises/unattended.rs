//! A run goes on by itself in the next process, wherever the one before died, although nobody says
//! anything to it again.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::poll;
use ghostlight_actors::{
    actor::{Run, System},
    contract::RunStatus,
    run::{Agent, RunContext, Task},
    session::Turn,
    testing::{EffectLog, FaultyStore, InMemoryStore},
    vocabulary::{Effect, Outcome, ParentPolicy, Question, Timestamp, ToolDefinition, Transfer},
};
use serde_json::json;

use crate::stage::{Stage, ask, call, crash, pause, silent, text};

const SECOND: Duration = Duration::from_secs(1);

/// Asks, and leaves what is to be done with the answer to another agent, whose work takes time.
fn clerk(log: &EffectLog) -> Agent {
    let files = log.tool(
        ToolDefinition::new("file", "files").effect(Effect::Read),
        30 * SECOND,
    );
    let second = Agent::from_fn("second", |cx: RunContext| async move {
        cx.tool_unasked(call("1", "file")).await?;
        Ok(Outcome::answer("filed"))
    });
    Agent::from_fn("clerk", |cx: RunContext| async move {
        cx.ask(Question::new("well?")).await?;
        Ok(Outcome::Transfer(Transfer::to("second")))
    })
    .tool(files)
    .agent(second.tool_named("file"))
}

/// Delegates to the clerk.
fn boss(log: &EffectLog) -> Agent {
    Agent::from_fn("boss", |cx: RunContext| async move {
        Ok(Outcome::answer(cx.delegate("clerk", "go").await?.text))
    })
    .agent(clerk(log))
}

async fn start(store: FaultyStore<InMemoryStore>, agent: Agent) -> System {
    let builder = System::builder(store).model("default", silent());
    let system = builder.team(agent.into_team().unwrap()).start().await;
    system.unwrap()
}

/// Answers what the run asks. `false` when it asks nothing.
async fn answer(system: &System, run: &Run) -> bool {
    let Ok(questions) = run.questions().await else {
        return false;
    };
    for (below, operation, _) in &questions {
        let asking = system.run(*below);
        asking.answer(*operation, json!("yes")).await.unwrap();
    }
    !questions.is_empty()
}

#[tokio::test(start_paused = true)]
async fn an_answered_run_goes_on_wherever_the_process_dies_also_below_one_with_a_deadline() {
    for team in ["clerk", "boss"] {
        for number in 0.. {
            let disk = InMemoryStore::new();
            let fault = crash(number);
            let log = EffectLog::new();
            let agent = |log: &EffectLog| match team {
                "clerk" => clerk(log),
                _ => boss(log),
            };
            let store = FaultyStore::at_commit(disk.clone(), fault);
            let system = start(store.clone(), agent(&log)).await;
            let work = async {
                let deadline = Timestamp::default().after(Duration::from_secs(u32::MAX.into()));
                let turn = Turn::text("go").deadline(deadline);
                let run = system.session(team, "s").send(turn).await.unwrap();
                while !answer(&system, &run).await {
                    pause(100).await;
                }
                run.outcome().await
            };
            let died = tokio::select! {
                biased;
                () = store.crashed() => true,
                _ = work => false,
            };
            if !died {
                assert!(number > 7, "{number}");
                break;
            }
            system.supervisor().unwrap().actor().kill();
            disk.crash();
            pause(1).await;
            let log = log.next_process();
            let next = FaultyStore::new(disk.another_process());
            let system = start(next, agent(&log)).await;
            pause(1000).await;
            let rows = system.runs(Default::default()).await.unwrap();
            let Some(row) = rows.into_iter().find(|row| row.parent.is_none()) else {
                continue;
            };
            let run = system.run(row.run);
            answer(&system, &run).await;
            let ended = tokio::time::timeout(120 * SECOND, run.outcome()).await;
            let place = format!("{team}, {fault:?}");
            assert_eq!(ended.expect(&place).unwrap().text(), "filed", "{place}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_answered_does_not_count_as_one_that_waits() {
    let stage = Stage::alone();
    let system = stage.start(clerk(&stage.log)).await;
    let run = ask(&system, "clerk", "go").await;
    while !answer(&system, &run).await {
        pause(10).await;
    }
    pause(1000).await;
    assert_eq!(run.status().await.unwrap().status, RunStatus::Running);
    assert_eq!(text(&run).await, "filed");
}

#[tokio::test(start_paused = true)]
async fn a_child_that_outlives_its_parent_begins_although_the_parent_panics_at_once() {
    for policy in [ParentPolicy::Adopt, ParentPolicy::Continue] {
        let stage = Stage::alone();
        let lives = Arc::new(AtomicU32::new(0));
        let worker = Agent::from_fn("worker", |cx: RunContext| async move {
            cx.sleep(SECOND).await?;
            Ok(Outcome::answer("worked"))
        });
        let boss = Agent::from_fn("boss", move |cx: RunContext| {
            let life = lives.fetch_add(1, Ordering::SeqCst);
            async move {
                let task = Task::from("go").when_parent_ends(policy);
                let child = cx.spawn("worker", task).await?;
                assert!(life > 0, "it panics");
                Ok(Outcome::answer(cx.join(&child).await?.text))
            }
        });
        let system = stage.start(boss.agent(worker)).await;
        let run = ask(&system, "boss", "go").await;
        let ended = tokio::time::timeout(600 * SECOND, run.outcome()).await;
        let ended = ended.unwrap_or_else(|_| panic!("{policy:?}: the child never began"));
        assert_eq!(ended.unwrap().text(), "worked");
    }
}

#[tokio::test(start_paused = true)]
async fn runs_whose_recovery_was_given_up_go_on_when_somebody_needs_them() {
    for polls in 0..40 {
        let mut stage = Stage::new();
        let agent = || {
            Agent::from_fn("a", |cx: RunContext| async move {
                cx.sleep(SECOND).await?;
                let slept = cx.tool_unasked(call("1", "look")).await?;
                Ok(Outcome::answer(slept.text))
            })
        };
        let look = |stage: &Stage| stage.tool("look", Effect::Read, 10_000);
        let system = stage.start(agent().tool(look(&stage))).await;
        let run = system
            .session("a", "s")
            .send(Turn::text("go").id("1"))
            .await;
        let run = run.unwrap().id();
        pause(2000).await;
        let other = stage.store.another_process();
        let builder = System::builder(other).model("default", silent());
        let team = agent().tool(look(&stage)).into_team().unwrap();
        let other = builder.team(team).start().await.unwrap();
        stage.crash(&system).await;
        {
            let mut recovery = pin!(other.recover());
            for _ in 0..polls {
                if poll!(&mut recovery).is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        let session = other.session("a", "s");
        let next = session.send(Turn::text("go on").id("2"));
        let next = tokio::time::timeout(600 * SECOND, next).await;
        let next = next.unwrap_or_else(|_| panic!("the session hangs after {polls} polls"));
        text(&next.unwrap()).await;
        assert_eq!(text(&other.run(run)).await, "look {}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sleeping_run_that_nobody_took_up_wakes_in_time_for_the_turn_behind_it() {
    let mut stage = Stage::new();
    let agent = || {
        Agent::from_fn("a", |cx: RunContext| async move {
            if cx.input().content() == "sleep" {
                cx.sleep(100 * SECOND).await?;
            }
            Ok(Outcome::answer("done"))
        })
    };
    let system = stage.start(agent()).await;
    ask(&system, "a", "sleep").await;
    pause(50_000).await;
    stage.crash(&system).await;
    let builder = System::builder(stage.store.clone()).recover(false);
    let team = agent().into_team().unwrap();
    let system = builder.team(team).start().await.unwrap();
    let session = system.session("a", "s");
    let next = tokio::time::timeout(600 * SECOND, session.send("next")).await;
    let next = next.expect("the turn waits for ever").unwrap();
    assert_eq!(text(&next).await, "done");
}
