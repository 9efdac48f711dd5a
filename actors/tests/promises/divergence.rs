//! Code that asks for something else than what is recorded parks the run, which is never lost.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use ghostlight_actors::{
    actor::{System, SystemError},
    contract::RunStatus,
    run::{Agent, RunContext},
    testing::ScriptedModel,
    vocabulary::{AgentError, Effect, Entry, Outcome, ToolCall},
};
use serde_json::json;

use crate::stage::{SlowStore, Stage, ask, call, outcome, pause, silent, text};

const OLD: u8 = 0;

/// Code of which there are several versions.
fn changing(stage: &Stage, version: &Arc<AtomicU8>) -> Agent {
    let version = version.clone();
    Agent::from_fn("a", move |cx: RunContext| {
        let version = version.load(Ordering::SeqCst);
        async move {
            match version {
                // Another kind.
                1 => drop(cx.now().await?),
                // Another name.
                2 => drop(
                    cx.tool_unasked(ToolCall::new("1", "put", json!({"x": 1})))
                        .await?,
                ),
                // Another input.
                3 => drop(
                    cx.tool_unasked(ToolCall::new("1", "look", json!({"x": 2})))
                        .await?,
                ),
                // The function ends early.
                4 => return Ok(Outcome::answer("early")),
                _ => drop(
                    cx.tool_unasked(ToolCall::new("1", "look", json!({"x": 1})))
                        .await?,
                ),
            }
            cx.sleep(Duration::from_secs(60)).await?;
            Ok(Outcome::answer("done"))
        }
    })
    .tool(stage.tool("look", Effect::Read, 1))
    .tool(stage.tool("put", Effect::Idempotent, 1))
}

#[tokio::test(start_paused = true)]
async fn a_divergence_parks_the_run_and_a_retry_with_the_old_code_goes_on() {
    for change in 1..=4 {
        let mut stage = Stage::new();
        let version = Arc::new(AtomicU8::new(OLD));
        let system = stage.start(changing(&stage, &version)).await;
        let run = ask(&system, "a", "go").await;
        pause(1000).await;
        stage.crash(&system).await;
        version.store(change, Ordering::SeqCst);
        let system = stage.start(changing(&stage, &version)).await;
        let run = system.run(run.id());
        let parked = run.outcome().await.unwrap_err();
        let SystemError::Parked { error, .. } = &parked else {
            panic!("change {change}: {parked}");
        };
        assert!(
            matches!(error, AgentError::Diverged { .. }),
            "{change}: {error}"
        );
        assert_eq!(run.status().await.unwrap().status, RunStatus::Parked);
        // It stays parked over a restart, and nothing of it is lost.
        stage.crash(&system).await;
        version.store(OLD, Ordering::SeqCst);
        let system = stage.start(changing(&stage, &version)).await;
        let run = system.run(run.id());
        pause(1000).await;
        assert_eq!(run.status().await.unwrap().status, RunStatus::Parked);
        run.retry().await.unwrap();
        assert_eq!(text(&run).await, "done");
        assert_eq!(stage.log.count("look"), 1, "the recorded call ran again");
        assert_eq!(stage.log.count("put"), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_parked_run_can_be_cancelled() {
    let mut stage = Stage::new();
    stage.not_replayed("the code that was recorded is gone");
    let version = Arc::new(AtomicU8::new(OLD));
    let system = stage.start(changing(&stage, &version)).await;
    let run = ask(&system, "a", "go").await;
    pause(1000).await;
    stage.crash(&system).await;
    version.store(1, Ordering::SeqCst);
    let system = stage.start(changing(&stage, &version)).await;
    let run = system.run(run.id());
    run.outcome().await.unwrap_err();
    assert!(run.cancel("enough").await.unwrap());
    for _ in 0..100 {
        pause(50).await;
        if run.status().await.unwrap().status == RunStatus::Cancelled {
            break;
        }
    }
    assert_eq!(run.status().await.unwrap().status, RunStatus::Cancelled);
    assert_eq!(stage.ends(run.id()).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_parked_child_is_retried_with_its_root() {
    let mut stage = Stage::new();
    let version = Arc::new(AtomicU8::new(OLD));
    let team = |stage: &Stage| {
        Agent::from_fn("boss", |cx: RunContext| async move {
            let done = cx.delegate("a", "go").await?;
            Ok(Outcome::answer(done.text))
        })
        .agent(changing(stage, &version))
    };
    let system = stage.start(team(&stage)).await;
    let run = ask(&system, "boss", "go").await;
    pause(1000).await;
    stage.crash(&system).await;
    version.store(3, Ordering::SeqCst);
    let system = stage.start(team(&stage)).await;
    let run = system.run(run.id());
    // It sleeps until its timer wakes it.
    pause(100_000).await;
    let rows = stage.rows().await;
    let child = rows.iter().find(|row| row.agent == "a").unwrap();
    assert_eq!(child.status, RunStatus::Parked);
    version.store(OLD, Ordering::SeqCst);
    system.run(child.run).retry().await.unwrap();
    assert_eq!(text(&run).await, "done");
}

#[tokio::test(start_paused = true)]
async fn another_model_request_is_recorded_as_drift_or_parks_by_setting() {
    for parks in [false, true] {
        let mut stage = Stage::new();
        let model = ScriptedModel::turns(["said"]);
        let words = Arc::new(AtomicU8::new(0));
        let agent = || {
            let words = words.clone();
            Agent::from_fn("a", move |cx: RunContext| {
                let words = words.load(Ordering::SeqCst);
                async move {
                    let request = cx.model_request(cx.conversation());
                    let request = request.instructions(format!("variant {words}"));
                    let said = cx.model(request).await?;
                    cx.sleep(Duration::from_secs(60)).await?;
                    Ok(Outcome::answer(said.content()))
                }
            })
        };
        let start = async |stage: &Stage| {
            let team = agent().into_team().unwrap();
            let team = team.define(|team| team.park_on_drift = parks);
            ghostlight_actors::actor::System::builder(stage.store.clone())
                .model("default", model.clone())
                .team(team)
                .start()
                .await
                .unwrap()
        };
        let system = start(&stage).await;
        let run = ask(&system, "a", "go").await;
        pause(1000).await;
        stage.crash(&system).await;
        words.store(1, Ordering::SeqCst);
        let system = start(&stage).await;
        let run = system.run(run.id());
        if parks {
            let error = run.outcome().await.unwrap_err();
            assert!(matches!(error, SystemError::Parked { .. }), "{error}");
        } else {
            assert_eq!(text(&run).await, "said");
            let entries = stage.entries(run.id()).await;
            let drifts = entries
                .iter()
                .filter(|e| matches!(e, Entry::Drifted { .. }));
            assert_eq!(drifts.count(), 1);
        }
        assert_eq!(model.calls(), 1, "the recorded answer is used");
    }
}

/// Code whose second step is of another type, or whose notes are others.
fn noting(version: &Arc<AtomicU8>, stage: &Stage) -> Agent {
    let version = version.clone();
    Agent::from_fn("a", move |cx: RunContext| {
        let version = version.load(Ordering::SeqCst);
        async move {
            let seven = async { Ok::<_, std::io::Error>(7) };
            if version == 1 {
                let text = async { Ok::<_, std::io::Error>("seven".to_owned()) };
                let _: String = cx.step("seven", Effect::Read, text).await?;
            } else {
                let _: u32 = cx.step("seven", Effect::Read, seven).await?;
            }
            match version {
                2 => cx.on_cancel(ToolCall::new("u", "put", json!({"x": 1}))),
                3 => cx.emit("other", &1),
                4 => {}
                _ => cx.emit("noted", &version),
            }
            match version {
                5 => cx.on_cancel(ToolCall::new("u", "put", json!({"x": 2}))),
                6 => cx.emit("noted", &1),
                7 => drop(cx.now().await?),
                _ => cx.on_cancel(ToolCall::new("u", "put", json!({"x": 1}))),
            }
            cx.sleep(Duration::from_secs(60)).await?;
            Ok(Outcome::answer("done"))
        }
    })
    .tool(stage.tool("put", Effect::Idempotent, 1))
}

#[tokio::test(start_paused = true)]
async fn another_type_of_a_result_and_other_notes_park_and_nothing_is_lost() {
    for change in 1..=7 {
        let mut stage = Stage::new();
        let version = Arc::new(AtomicU8::new(OLD));
        let system = stage.start(noting(&version, &stage)).await;
        let run = ask(&system, "a", "go").await;
        pause(1000).await;
        stage.crash(&system).await;
        version.store(change, Ordering::SeqCst);
        let system = stage.start(noting(&version, &stage)).await;
        let run = system.run(run.id());
        let parked = run.outcome().await.unwrap_err();
        let SystemError::Parked { error, .. } = &parked else {
            panic!("change {change}: {parked}");
        };
        assert!(
            matches!(error, AgentError::Diverged { .. }),
            "{change}: {error}"
        );
        version.store(OLD, Ordering::SeqCst);
        run.retry().await.unwrap();
        assert_eq!(text(&run).await, "done", "{change}");
        // A note that is the same is written once, whatever it holds.
        let entries = stage.entries(run.id()).await;
        let notes = entries
            .iter()
            .filter(|entry| matches!(entry, Entry::Emitted { .. } | Entry::UndoRegistered { .. }));
        assert_eq!(notes.count(), 2, "{change}");
        // What has ended has nothing to be tried again.
        let error = run.retry().await.unwrap_err();
        assert!(matches!(error, SystemError::Ended(_)), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_drift_is_recorded_once_over_all_lives() {
    let mut stage = Stage::new();
    let model = ScriptedModel::turns(["said"; 30]);
    let words = Arc::new(AtomicU8::new(0));
    let agent = || {
        let words = words.clone();
        Agent::from_fn("a", move |cx: RunContext| {
            let words = words.load(Ordering::SeqCst);
            async move {
                for _ in 0..30 {
                    let request = cx.model_request(cx.conversation());
                    let request = request.instructions(format!("variant {words}"));
                    cx.model(request).await?;
                }
                cx.sleep(Duration::from_secs(60)).await?;
                Ok(Outcome::answer("done"))
            }
        })
    };
    let mut system = stage.start_with(agent(), model.clone()).await;
    let run = ask(&system, "a", "go").await.id();
    let mut drifts = Vec::new();
    for variant in [1, 1, 1, 2, 2] {
        pause(1000).await;
        stage.crash(&system).await;
        words.store(variant, Ordering::SeqCst);
        system = stage.start_with(agent(), model.clone()).await;
        system.resume(run, false).await.unwrap();
        pause(1000).await;
        let entries = stage.entries(run).await;
        let of_drift = |entry: &&Entry| matches!(entry, Entry::Drifted { .. });
        drifts.push(entries.iter().filter(of_drift).count());
    }
    assert_eq!(drifts, [30, 30, 30, 60, 60]);
    assert_eq!(text(&system.run(run)).await, "done");
    assert_eq!(model.calls(), 30);
}

/// The cancellation comes at any moment of the child's parking.
#[tokio::test(start_paused = true)]
async fn a_child_that_parks_while_it_is_cancelled_ends_with_its_parent() {
    for moment in (0..400).step_by(10) {
        let mut stage = Stage::alone();
        let agent = |stage: &Stage, is_changed: bool| {
            let below = Agent::from_fn("below", move |cx: RunContext| async move {
                match is_changed {
                    true => drop(cx.now().await?),
                    false => drop(cx.uuid().await?),
                }
                cx.tool_unasked(call("1", "look")).await?;
                Ok(Outcome::answer("late"))
            });
            let above = Agent::from_fn("a", |cx: RunContext| async move {
                Ok(Outcome::answer(cx.delegate("below", "go").await?.text))
            });
            let look = stage.tool("look", Effect::Read, 100_000);
            above.agent(below.tool(look))
        };
        let system = stage.start(agent(&stage, false)).await;
        let run = ask(&system, "a", "go").await.id();
        pause(1_000).await;
        stage.crash(&system).await;
        stage.not_replayed("the child's code was changed");
        let system = System::builder(SlowStore::to_commit(stage.store.clone()))
            .options(stage.limits)
            .model("default", silent())
            .team(agent(&stage, true).into_team().unwrap())
            .start()
            .await
            .unwrap();
        pause(moment).await;
        let run = system.run(run);
        assert!(run.cancel("enough").await.unwrap());
        outcome(&run).await;
        for row in stage.rows().await {
            assert_eq!(row.status, RunStatus::Cancelled, "{moment}: {}", row.agent);
        }
    }
}
