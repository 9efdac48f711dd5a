//! A deadline ends whatever a run waits for, and holds for all that the run began.

use std::time::Duration;

use ghostlight_actors::{
    actor::{Fork, System},
    contract::Clock,
    run::{Agent, RunContext, Task, Team},
    session::Turn,
    testing::{CrashOptions, Scenario, ScriptedModel, crash_everywhere},
    vocabulary::{Budget, Effect, Event, Outcome, Question, Resource, StopReason, ToolDefinition},
};

use crate::stage::{Stage, call, outcome, pause, silent, text};

const ALL: [&str; 6] = [
    "model",
    "tool",
    "delegation",
    "spawned",
    "sleep",
    "question",
];

fn minute() -> Budget {
    wall_time(60)
}

fn wall_time(seconds: u64) -> Budget {
    Budget {
        wall_time: Some(Duration::from_secs(seconds)),
        ..Budget::default()
    }
}

/// An agent that waits for one thing for hours.
fn waiting(stage: &Stage, what: &'static str) -> Agent {
    let worker = Agent::from_fn("worker", |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(9000)).await?;
        Ok(Outcome::answer("late"))
    });
    Agent::from_fn("a", move |cx: RunContext| async move {
        match what {
            "model" => {
                let request = cx.model_request(cx.conversation());
                drop(cx.model(request.streaming()).await?)
            }
            "tool" => drop(cx.tools([call("1", "look")]).await?),
            "delegation" => drop(cx.delegate("worker", "go").await?),
            "spawned" => {
                let child = cx.spawn("worker", "go").await?;
                cx.join(&child).await?;
            }
            "sleep" => cx.sleep(Duration::from_secs(9000)).await?,
            _ => drop(cx.ask(Question::new("well?")).await?),
        }
        Ok(Outcome::answer("never"))
    })
    .tool(stage.tool("look", Effect::Read, 9_000_000))
    .agent(worker)
}

async fn start(stage: &Stage, team: Team) -> System {
    let builder = System::builder(stage.store.clone()).options(stage.limits);
    let builder = builder.clock(stage.clock.clone());
    let builder = builder.model("default", ScriptedModel::hanging());
    builder.team(team).start().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn whatever_a_run_waits_for_its_deadline_ends_it_and_its_children() {
    for what in ALL {
        for crashes in [false, true] {
            let mut stage = Stage::new();
            let team = |stage: &Stage| waiting(stage, what).into_team().unwrap();
            let mut system = start(&stage, team(&stage)).await;
            let deadline = stage.clock.now().after(Duration::from_secs(60));
            let turn = Turn::text("go").deadline(deadline);
            let run = system.session("a", "s").send(turn).await.unwrap();
            pause(1000).await;
            if crashes {
                stage.crash(&system).await;
                system = start(&stage, team(&stage)).await;
            }
            let began = tokio::time::Instant::now();
            let stopped = outcome(&system.run(run.id())).await;
            assert_eq!(stopped.stop_reason(), Some(&StopReason::Deadline), "{what}");
            assert!(began.elapsed() < Duration::from_secs(62), "{what}");
            for row in stage.rows().await {
                assert!(
                    row.status.is_ended(),
                    "{what}: {} is {}",
                    row.agent,
                    row.status
                );
                assert_eq!(stage.ends(row.run).await, 1, "{what}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn wall_time_that_is_used_up_is_a_budget_and_is_warned_of() {
    for what in ALL {
        let stage = Stage::new();
        let team = waiting(&stage, what).into_team().unwrap();
        let system = start(&stage, team.budget(minute())).await;
        let run = system.session("a", "s").send("go").await.unwrap();
        let stopped = outcome(&run).await;
        let reason = StopReason::BudgetExhausted(Resource::WallTime);
        assert_eq!(stopped.stop_reason(), Some(&reason), "{what}");
        let events = run.events().recorded().so_far().await.unwrap();
        let begun = events[0].at;
        let warned: Vec<_> = events
            .iter()
            .filter(|event| event.run == run.id())
            .filter_map(|event| match event.event {
                Event::BudgetWarning {
                    resource,
                    percent,
                    used,
                    bound,
                } => {
                    assert!((48_000..49_000).contains(&used), "{used}");
                    assert_eq!(bound, 60_000);
                    Some((resource, percent, event.at.since(begun).as_secs()))
                }
                _ => None,
            })
            .collect();
        assert_eq!(warned, [(Resource::WallTime, 80, 48)], "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_whose_time_is_over_leaves_its_parent_going_on() {
    let stage = Stage::new();
    let worker = Agent::from_fn("worker", |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(9000)).await?;
        Ok(Outcome::answer("late"))
    });
    let boss = Agent::from_fn("boss", |cx: RunContext| async move {
        let task = Task::from("go").budget(wall_time(10));
        let done = cx.delegate("worker", task).await?;
        let reason = done.outcome.stop_reason().unwrap().to_string();
        Ok(Outcome::answer(reason))
    });
    let system = stage.start(boss.agent(worker)).await;
    let turn = Turn::text("go").budget(minute());
    let run = system.session("boss", "s").send(turn).await.unwrap();
    assert_eq!(text(&run).await, "the budget of wall time is used up");
}

#[tokio::test(start_paused = true)]
async fn a_fresh_journal_and_a_longer_time_below_do_not_move_a_deadline() {
    let stage = Stage::new();
    let worker = Agent::from_fn("worker", |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(9)).await?;
        Ok(cx.continue_as("again"))
    });
    let boss = Agent::from_fn("boss", |cx: RunContext| async move {
        let task = Task::from("go").budget(wall_time(9000));
        cx.delegate("worker", task).await?;
        Ok(Outcome::answer("never"))
    });
    let system = stage.start_with(boss.agent(worker), silent()).await;
    let began = tokio::time::Instant::now();
    let turn = Turn::text("go").budget(minute());
    let run = system.session("boss", "s").send(turn).await.unwrap();
    assert!(outcome(&run).await.stop_reason().is_some());
    let took = began.elapsed();
    assert!((60..62).contains(&took.as_secs()), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_holds_wherever_a_crash_strikes() {
    let scenario = Scenario::new("boss", |builder, log| {
        let worker = Agent::from_fn("worker", |cx: RunContext| async move {
            cx.tool_unasked(call("w", "put")).await?;
            cx.sleep(Duration::from_secs(9000)).await?;
            Ok(Outcome::answer("late"))
        });
        let put = ToolDefinition::new("put", "is logged").effect(Effect::Idempotent);
        let boss = Agent::from_fn("boss", |cx: RunContext| async move {
            cx.delegate("worker", "go").await?;
            Ok(Outcome::answer("never"))
        });
        let boss = boss.agent(worker.tool(log.tool(put, Duration::from_millis(5))));
        builder.team(boss.into_team().unwrap().budget(minute()))
    })
    .turn("go");
    let report = crash_everywhere(&scenario, CrashOptions::default()).await;
    assert!(report.violations.is_empty(), "{report}");
    assert!(
        report.outcomes[0].contains("WallTime"),
        "{:?}",
        report.outcomes
    );
}

#[tokio::test(start_paused = true)]
async fn a_fork_of_a_later_journal_has_what_was_left_of_the_bound_on_time() {
    let stage = Stage::new();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        if cx.input().content() == "go" {
            cx.sleep(Duration::from_secs(40)).await?;
            return Ok(cx.continue_as("on"));
        }
        cx.sleep(Duration::from_secs(9_000)).await?;
        Ok(Outcome::answer("never"))
    });
    let system = start(&stage, agent.into_team().unwrap()).await;
    let turn = Turn::text("go").budget(minute());
    let run = system.session("a", "s").send(turn).await.unwrap();
    pause(41_000).await;
    let fork = system.run(run.id().next()).fork(Fork::latest()).await;
    let (fork, began) = (fork.unwrap(), tokio::time::Instant::now());
    outcome(&fork).await;
    let took = began.elapsed().as_secs();
    assert!((19..=21).contains(&took), "{took}");
}
