//! Children that go on in other journals are ended, found again, and forked with those above them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use ghostlight_actors::{
    actor::{Fork, SystemError},
    run::{Agent, RunContext, Task},
    session::Turn,
    vocabulary::{AgentError, Budget, Effect, Outcome, ParentPolicy, ToolDefinition},
};

use crate::stage::{Stage, ask, call, outcome, pause, text};

/// Goes on each second for ever, with an effect in each journal.
fn walker(stage: &Stage) -> Agent {
    let step = ToolDefinition::new("step", "is logged").effect(Effect::Once);
    let step = stage.log.tool(step, Duration::from_millis(5));
    Agent::from_fn("walker", |cx: RunContext| async move {
        let steps: u32 = cx.input().content().parse().unwrap_or(0);
        cx.tool_unasked(call("1", "step")).await?;
        cx.sleep(Duration::from_secs(1)).await?;
        Ok(cx.continue_as((steps + 1).to_string()))
    })
    .tool(step)
}

#[tokio::test(start_paused = true)]
async fn a_child_that_goes_on_for_ever_ends_with_what_is_not_wanted_any_more() {
    for how in ["call", "drop", "end", "cancel", "deadline"] {
        for crash in [false, true] {
            let parent = |stage: &Stage| {
                Agent::from_fn("a", move |cx: RunContext| async move {
                    match how {
                        "call" => {
                            let end = cx.delegate("walker", "0").await;
                            let kind = end.map(|end| end.text);
                            cx.sleep(Duration::from_secs(5)).await?;
                            return Ok(Outcome::answer(format!("{}", kind.is_err())));
                        }
                        "drop" => {
                            let walk = cx.delegate("walker", "0");
                            let walk = cx.timeout(Duration::from_millis(3500), walk).await;
                            cx.sleep(Duration::from_secs(5)).await?;
                            return Ok(Outcome::answer(format!("{}", walk.is_err())));
                        }
                        "end" => {
                            cx.spawn("walker", "0").await?;
                            cx.sleep(Duration::from_millis(3500)).await?;
                        }
                        _ => drop(cx.delegate("walker", "0").await?),
                    }
                    Ok(Outcome::answer("true"))
                })
                .agent(walker(stage))
            };
            let mut stage = Stage::new();
            let mut system = stage.start(parent(&stage)).await;
            let mut turn = Turn::text("go");
            if how == "deadline" {
                turn = turn.budget(Budget {
                    wall_time: Some(Duration::from_millis(3_500)),
                    ..Budget::default()
                });
            }
            let mut run = system.session("a", "s").send(turn).await.unwrap();
            if crash {
                pause(2_500).await;
                stage.crash(&system).await;
                system = stage.start(parent(&stage)).await;
                run = system.run(run.id());
                pause(1_000).await;
            } else {
                pause(3_500).await;
            }
            match how {
                "call" => assert!(run.cancel_call("0.0.0".parse().unwrap()).await.unwrap()),
                "cancel" => assert!(run.cancel("enough").await.unwrap()),
                _ => {}
            }
            outcome(&run).await;
            let steps = stage.log.count("step");
            assert!(steps < 6, "{how} {crash}: {steps}");
            let rows = stage.rows().await;
            assert!(
                rows.iter().all(|row| row.status.is_ended()),
                "{how} {crash} {rows:#?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_that_continues_beside_its_parent_is_cancelled_with_it_in_whatever_journal() {
    for crash in [false, true] {
        let parent = |stage: &Stage| {
            Agent::from_fn("a", move |cx: RunContext| async move {
                let task = Task::from("0").when_parent_ends(ParentPolicy::Continue);
                cx.spawn("walker", task).await?;
                cx.sleep(Duration::from_secs(900)).await?;
                Ok(Outcome::answer("never"))
            })
            .agent(walker(stage))
        };
        let mut stage = Stage::new();
        let mut system = stage.start(parent(&stage)).await;
        let run = ask(&system, "a", "go").await;
        pause(3_500).await;
        if crash {
            stage.crash(&system).await;
            system = stage.start(parent(&stage)).await;
        }
        assert!(system.run(run.id()).cancel("enough").await.unwrap());
        outcome(&system.run(run.id())).await;
        pause(5_000).await;
        let rows = stage.rows().await;
        assert!(rows.iter().all(|row| row.status.is_ended()), "{crash}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_parent_that_is_run_again_finds_its_child_in_whatever_journal() {
    for how in ["delegate", "join"] {
        let lost = Arc::new(AtomicU32::new(0));
        let parent = Agent::from_fn("a", {
            let lost = lost.clone();
            move |cx: RunContext| {
                let lost = lost.clone();
                async move {
                    let child = match how {
                        "join" => Some(cx.spawn("three", "0").await?),
                        _ => None,
                    };
                    let walk = async {
                        match &child {
                            Some(child) => cx.join(child).await,
                            None => cx.delegate("three", "0").await,
                        }
                    };
                    let panics = async {
                        cx.sleep(Duration::from_millis(2500)).await?;
                        if lost.fetch_add(1, Ordering::SeqCst) == 0 {
                            panic!("lost");
                        }
                        Ok::<_, AgentError>(())
                    };
                    let (walked, _) = futures_util::future::join(walk, panics).await;
                    Ok(Outcome::answer(walked?.text))
                }
            }
        });
        let stage = Stage::new();
        let three = Agent::from_fn("three", |cx: RunContext| async move {
            let steps: u32 = cx.input().content().parse().unwrap_or(0);
            if steps == 6 {
                return Ok(Outcome::answer("there"));
            }
            cx.tool_unasked(call("1", "step")).await?;
            cx.sleep(Duration::from_secs(1)).await?;
            Ok(cx.continue_as((steps + 1).to_string()))
        });
        let three = three.tool(stage.tool("step", Effect::Once, 5));
        let system = stage.start(parent.agent(three)).await;
        let run = ask(&system, "a", "go").await;
        assert_eq!(text(&run).await, "there", "{how}");
        assert_eq!(lost.load(Ordering::SeqCst), 2);
        assert_eq!(stage.log.count("step"), 6);
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_that_crashes_in_a_later_journal_fails_its_delegation() {
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let end = cx.delegate("b", "go").await;
        Ok(Outcome::answer(format!("{}", end.unwrap_err())))
    });
    let b = Agent::from_fn("b", |cx: RunContext| async move {
        if cx.input().content() == "go" {
            return Ok(cx.continue_as("on"));
        }
        cx.now().await?;
        panic!("no way");
    });
    let mut stage = Stage::new();
    stage.limits.quarantine_after = 3;
    let system = stage.start(agent.agent(b)).await;
    let run = ask(&system, "a", "go").await;
    let told = text(&run).await;
    assert!(told.contains("no way"), "{told}");
}

/// Delegates and joins children that go on, and goes on itself.
fn team(stage: &Stage) -> Agent {
    let three = Agent::from_fn("three", |cx: RunContext| async move {
        let steps: u32 = cx.input().content().parse().unwrap_or(0);
        let told = cx.tool_unasked(call("1", "step")).await?.text;
        if steps == 2 {
            return Ok(Outcome::answer(format!("there {told}")));
        }
        cx.sleep(Duration::from_millis(100)).await?;
        Ok(cx.continue_as((steps + 1).to_string()))
    });
    let step = ToolDefinition::new("step", "is logged").effect(Effect::Idempotent);
    let step = stage.log.tool(step, Duration::from_millis(5));
    Agent::from_fn("a", |cx: RunContext| async move {
        if cx.input().content() == "go" {
            let child = cx.spawn("three", "0").await?;
            let delegated = cx.delegate("three", "1").await?.text;
            cx.sleep(Duration::from_millis(20)).await?;
            let joined = cx.join(&child).await?.text;
            cx.sleep(Duration::from_millis(20)).await?;
            return Ok(cx.continue_as(format!("{delegated} {joined}")));
        }
        let before = cx.input().content();
        cx.sleep(Duration::from_millis(20)).await?;
        let child = cx.spawn("three", "0").await?;
        let joined = cx.join(&child).await?;
        Ok(Outcome::answer(format!("{before} {}", joined.text)))
    })
    .agent(three)
    .tool(step)
}

#[tokio::test(start_paused = true)]
async fn runs_that_go_on_are_forked_at_any_entry_and_come_to_the_same_outcome() {
    let stage = Stage::new();
    let system = stage.start(team(&stage)).await;
    let run = ask(&system, "a", "go").await;
    let came_to = text(&run).await;
    for of in [run.id(), run.id().next()] {
        let entries = stage.entries(of).await.len() as u64;
        for at in 1..entries {
            match system.run(of).fork(Fork::at(at)).await {
                Ok(fork) => assert_eq!(text(&fork).await, came_to, "{of} at {at}"),
                Err(SystemError::Fork(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}
