//! A cancelled run ends once, closes what is open, and does not wake up.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ghostlight_actors::{
    actor::{Run, System},
    contract::{ModelError, RunStatus},
    run::{Agent, RunContext, Team},
    session::Turn,
    testing::{FaultyStore, InMemoryStore, Reply, ScriptedModel},
    vocabulary::{Effect, Entry, ErrorKind, Outcome, Question, RunId, StopReason, ToolStatus},
};

use crate::stage::{Stage, ask, call, crash, outcome, pause, silent, text};

/// An agent of each thing that can be waited for.
pub(crate) fn waiting(stage: &Stage, what: &'static str) -> (Agent, ScriptedModel) {
    let worker = Agent::from_fn("worker", |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(900)).await?;
        Ok(Outcome::answer("late"))
    });
    let agent = Agent::from_fn("a", move |cx: RunContext| async move {
        match what {
            "model" | "back-off" => {
                cx.model(cx.model_request(cx.conversation())).await?;
            }
            "tool" => {
                cx.tools([call("1", "look"), call("2", "put")]).await?;
            }
            "once" => drop(cx.tool_unasked(call("1", "pay")).await?),
            "delegation" => drop(cx.delegate("worker", "go").await?),
            "spawned" => {
                let child = cx.spawn("worker", "go").await?;
                cx.join(&child).await?;
            }
            "sleep" => cx.sleep(Duration::from_secs(900)).await?,
            _ => drop(cx.ask(Question::new("well?")).await?),
        }
        Ok(Outcome::answer("never"))
    })
    .tool(stage.tool("look", Effect::Read, 900_000))
    .tool(stage.tool("put", Effect::Idempotent, 900_000))
    .tool(stage.tool("pay", Effect::Once, 900_000))
    .agent(worker);
    let model = match what {
        "model" => ScriptedModel::hanging(),
        "back-off" => ScriptedModel::from_reply_fn(|_, _| {
            Reply::Fail(ModelError::new(ErrorKind::Model, "busy").retryable())
        }),
        _ => silent(),
    };
    (agent, model)
}

pub(crate) const ALL: [&str; 8] = [
    "model",
    "back-off",
    "tool",
    "once",
    "delegation",
    "spawned",
    "sleep",
    "question",
];

async fn assert_cancelled(stage: &Stage, run: &Run, what: &str) {
    let stopped = outcome(run).await;
    let reason = StopReason::Cancelled("enough".to_owned());
    assert_eq!(stopped.stop_reason(), Some(&reason), "{what}");
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

#[tokio::test(start_paused = true)]
async fn whatever_a_run_waits_for_it_is_cancelled_with_one_end() {
    for what in ALL {
        let stage = Stage::new();
        let (agent, model) = waiting(&stage, what);
        let system = stage.start_with(agent, model.clone()).await;
        let run = ask(&system, "a", "go").await;
        pause(700).await;
        let began = tokio::time::Instant::now();
        assert!(run.cancel("enough").await.unwrap());
        assert!(run.cancel("twice is once").await.unwrap());
        assert_cancelled(&stage, &run, what).await;
        // A once tool has its grace period of five seconds; nothing else waits.
        let most = if what == "once" { 5500 } else { 500 };
        assert!(began.elapsed() < Duration::from_millis(most), "{what}");
        assert!(!run.cancel("it has ended").await.unwrap(), "{what}");
        let (calls, effects) = (model.calls(), stage.log.effects());
        pause(20_000).await;
        assert_eq!(
            (model.calls(), stage.log.effects()),
            (calls, effects),
            "{what}"
        );
        // The session goes on with its next turn.
        let next = ask(&system, "a", "next").await;
        assert_ne!(next.id(), run.id());
    }
}

/// A crash during the grace period of a call finds the cancellation, and so do those who look at the run.
#[tokio::test(start_paused = true)]
async fn a_cancellation_is_recorded_before_the_calls_are_given_their_time() {
    let stage = Stage::new();
    let (agent, model) = waiting(&stage, "once");
    let system = stage.start_with(agent, model).await;
    let run = ask(&system, "a", "go").await;
    pause(700).await;
    assert!(run.cancel("enough").await.unwrap());
    pause(1_000).await;
    let status = run.status().await.unwrap().status;
    assert_eq!(status, RunStatus::Cancelling);
    let entries = stage.entries(run.id()).await;
    let asked = |entry: &Entry| matches!(entry, Entry::CancelRequested { .. });
    assert!(entries.iter().any(asked), "{entries:?}");
    assert_cancelled(&stage, &run, "once").await;
}

#[tokio::test(start_paused = true)]
async fn what_is_cancelled_from_above_does_not_run_again() {
    let stage = Stage::new();
    let heard = Arc::new(AtomicBool::new(false));
    let hears = heard.clone();
    let below = Agent::from_fn("below", move |cx: RunContext| {
        let hears = hears.clone();
        async move {
            // The model tells of the cancelling by an error of its own.
            let _ = cx.model(cx.model_request(cx.conversation())).await;
            hears.store(true, Ordering::SeqCst);
            Ok(Outcome::answer("went on"))
        }
    });
    let between = Agent::from_fn("between", |cx: RunContext| async move {
        Ok(Outcome::answer(cx.delegate("below", "go").await?.text))
    });
    let above = Agent::from_fn("above", |cx: RunContext| async move {
        Ok(Outcome::answer(cx.delegate("between", "go").await?.text))
    });
    let team = above.agent(between.agent(below));
    let system = stage.start_with(team, ScriptedModel::hanging()).await;
    let run = ask(&system, "above", "go").await;
    pause(700).await;
    assert!(run.cancel("enough").await.unwrap());
    assert_cancelled(&stage, &run, "from above").await;
    assert!(!heard.load(Ordering::SeqCst), "the function went on");
    for row in stage.rows().await {
        assert_eq!(row.status, RunStatus::Cancelled, "{}", row.agent);
    }
}

#[tokio::test(start_paused = true)]
async fn a_sleeping_run_is_cancelled_too() {
    for what in ["delegation", "sleep", "question"] {
        let stage = Stage::new();
        let (agent, model) = waiting(&stage, what);
        let system = stage.start_with(agent, model).await;
        let run = ask(&system, "a", "go").await;
        pause(100_000).await;
        assert!(run.cancel("enough").await.unwrap());
        assert_cancelled(&stage, &run, what).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_between_the_cancellation_and_the_end_changes_nothing() {
    for what in ALL {
        // Before it is read, while it is carried out, and when it is nearly done.
        for moment in [0, 1, 30] {
            let mut stage = Stage::new();
            let (agent, model) = waiting(&stage, what);
            let system = stage.start_with(agent, model).await;
            let run = ask(&system, "a", "go").await;
            pause(700).await;
            assert!(run.cancel("enough").await.unwrap());
            if moment > 0 {
                pause(moment).await;
            }
            stage.crash(&system).await;
            let (agent, model) = waiting(&stage, what);
            let system = stage.start_with(agent, model).await;
            let run = system.run(run.id());
            assert_cancelled(&stage, &run, what).await;
            assert!(stage.log.count("pay") <= 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_run_is_not_cancelled() {
    let stage = Stage::new();
    let (agent, model) = waiting(&stage, "sleep");
    let system = stage.start_with(agent, model).await;
    let nobody = system.run(RunId::from_random(7));
    assert!(!nobody.cancel("enough").await.unwrap_or(false));
}

#[tokio::test(start_paused = true)]
async fn a_once_call_that_ends_within_its_grace_keeps_its_result_and_another_is_in_doubt() {
    for (takes, ends) in [(3000, true), (900_000, false)] {
        let stage = Stage::new();
        let agent = Agent::from_fn("a", |cx: RunContext| async move {
            cx.tool_unasked(call("1", "pay")).await?;
            Ok(Outcome::answer("never"))
        });
        let agent = agent.tool(stage.tool("pay", Effect::Once, takes));
        let system = stage.start(agent).await;
        let run = ask(&system, "a", "go").await;
        pause(500).await;
        run.cancel("enough").await.unwrap();
        assert_cancelled(&stage, &run, "grace").await;
        let entries = stage.entries(run.id()).await;
        let result = entries.iter().find_map(|entry| match entry {
            Entry::Completed { result, .. } => Some(result.get().to_owned()),
            _ => None,
        });
        let result = result.expect("the open call has a result");
        assert_eq!(result.contains("success"), ends, "{result}");
        assert_eq!(result.contains("in_doubt"), !ends, "{result}");
        assert_eq!(stage.log.effects()[0].ended, ends);
    }
}

fn undoing(stage: &Stage) -> Agent {
    let second = Agent::from_fn("second", |cx: RunContext| async move {
        cx.tool_unasked(call("2", "reserve")).await?;
        cx.on_cancel(call("u2", "release"));
        cx.sleep(Duration::from_secs(900)).await?;
        Ok(Outcome::answer("never"))
    })
    .tool_named("reserve");
    Agent::from_fn("a", |cx: RunContext| async move {
        cx.tool_unasked(call("1", "book")).await?;
        cx.on_cancel(call("u1", "unbook"));
        Ok(Outcome::Transfer(
            ghostlight_actors::vocabulary::Transfer::to("second"),
        ))
    })
    .tool(stage.tool("book", Effect::Once, 5))
    .tool(stage.tool("unbook", Effect::Once, 100))
    .tool(stage.tool("reserve", Effect::Once, 5))
    .tool(stage.tool("release", Effect::Once, 100))
    .agent(second)
}

fn undone(stage: &Stage) -> Vec<String> {
    let effects = stage.log.effects().into_iter();
    effects.skip(2).map(|effect| effect.name).collect()
}

#[tokio::test(start_paused = true)]
async fn what_was_done_is_undone_in_reverse_also_over_a_transfer() {
    let stage = Stage::new();
    let system = stage.start(undoing(&stage)).await;
    let run = ask(&system, "a", "go").await;
    pause(500).await;
    run.cancel("enough").await.unwrap();
    assert_cancelled(&stage, &run, "undo").await;
    assert_eq!(undone(&stage), ["release", "unbook"]);
}

#[tokio::test(start_paused = true)]
async fn an_undo_step_that_a_crash_cut_off_is_not_repeated() {
    let mut stage = Stage::new();
    let system = stage.start(undoing(&stage)).await;
    let run = ask(&system, "a", "go").await;
    pause(500).await;
    run.cancel("enough").await.unwrap();
    pause(50).await;
    assert_eq!(undone(&stage), ["release"], "it is under way");
    stage.crash(&system).await;
    let system = stage.start(undoing(&stage)).await;
    let run = system.run(run.id());
    assert_cancelled(&stage, &run, "undo").await;
    assert_eq!(undone(&stage), ["release", "unbook"]);
    let entries = stage.entries(run.id()).await;
    let in_doubt = entries.iter().filter(|entry| match entry {
        Entry::Completed { name, result, .. } => {
            name == "release" && result.get().contains("in_doubt")
        }
        _ => false,
    });
    assert_eq!(in_doubt.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn one_call_is_cancelled_and_the_run_goes_on() {
    let stage = Stage::new();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let results = cx.tools([call("1", "slow"), call("2", "fast")]).await?;
        let statuses: Vec<ToolStatus> = results.iter().map(|r| r.status).collect();
        Ok(Outcome::answer(format!("{statuses:?}")))
    })
    .tool(stage.tool("slow", Effect::Read, 900_000))
    .tool(stage.tool("fast", Effect::Read, 5));
    let system = stage.start(agent).await;
    let run = ask(&system, "a", "go").await;
    pause(500).await;
    assert!(run.cancel_call("0.0.0".parse().unwrap()).await.unwrap());
    assert_eq!(text(&run).await, "[Interrupted, Success]");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_before_its_child_starts_leaves_no_child_behind() {
    let stage = Stage::new();
    let worker = Agent::from_fn("worker", |cx: RunContext| async move {
        let _: String = cx.ask("never answered").await?.to_string();
        Ok(Outcome::answer("never"))
    });
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        {
            let mut child = std::pin::pin!(cx.delegate("worker", "go"));
            futures_util::future::poll_immediate(child.as_mut()).await;
        }
        let gone = std::pin::pin!(cx.delegate("worker", "go"));
        let now = std::pin::pin!(cx.now());
        let _ = futures_util::future::select(gone, now).await;
        cx.sleep(Duration::from_secs(5)).await?;
        Ok(Outcome::answer("done"))
    })
    .agent(worker);
    let system: System = stage.start(agent).await;
    let run = ask(&system, "a", "go").await;
    assert_eq!(text(&run).await, "done");
    for row in stage.rows().await {
        assert!(row.status.is_ended(), "{} is {}", row.agent, row.status);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_went_on_in_another_journal_is_cancelled_by_its_first_id() {
    let stage = Stage::new();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        if cx.input().content() == "first" {
            return Ok(cx.continue_as("second"));
        }
        cx.sleep(Duration::from_secs(900)).await?;
        Ok(Outcome::answer("never"))
    });
    let system = stage.start(agent).await;
    let run = ask(&system, "a", "first").await;
    pause(500).await;
    assert_eq!(run.status().await.unwrap().status, RunStatus::Continued);
    assert!(run.cancel("enough").await.unwrap());
    assert!(outcome(&run).await.stop_reason().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_an_earlier_life_began_and_this_one_ended_has_one_result() {
    let agent = || {
        Agent::from_fn("sleeper", |cx: RunContext| async move {
            cx.sleep(Duration::from_secs(1)).await?;
            let (place, _) = cx
                .race(vec![
                    cx.lane("a").sleep(Duration::from_secs(1)),
                    cx.lane("b").sleep(Duration::from_secs(9)),
                ])
                .await;
            cx.sleep(Duration::from_secs(3_600)).await?;
            Ok(Outcome::answer(place.to_string()))
        })
    };
    for crash_after in [500, 1_500] {
        let mut stage = Stage::new();
        let system = stage.start(agent()).await;
        let run = ask(&system, "sleeper", "go").await;
        pause(crash_after).await;
        stage.crash(&system).await;
        let system = stage.start(agent()).await;
        let run = system.run(run.id());
        pause(5_000).await;
        assert!(run.cancel("enough").await.unwrap());
        outcome(&run).await;
        let mut ends = std::collections::BTreeMap::new();
        for entry in stage.entries(run.id()).await {
            if let Entry::Completed { op, .. } | Entry::Dropped { op, .. } = entry {
                *ends.entry(op).or_insert(0) += 1;
            }
        }
        assert_eq!(ends.len(), 4);
        assert!(ends.values().all(|times| *times == 1), "{ends:?}");
    }
}

/// A child that its parent's end stops is not run again where the process dies while it is closed: what its function
/// would do next it must not do, and what it would register as an undo step was never done.
#[tokio::test(start_paused = true)]
async fn a_child_that_was_stopped_does_nothing_more_wherever_a_crash_strikes() {
    for number in 0.. {
        let mut stage = Stage::alone();
        let team = |stage: &Stage| {
            let worker = Agent::from_fn("worker", |cx: RunContext| async move {
                cx.on_cancel(call("1", "undo"));
                let second = Duration::from_secs(1);
                let naps = [cx.sleep(second), cx.sleep(2 * second)];
                let _ = futures_util::future::join_all(naps).await;
                cx.on_cancel(call("2", "undo"));
                cx.tool_unasked(call("3", "late")).await?;
                Ok(Outcome::answer("worked"))
            });
            let worker = worker
                .tool(stage.tool("late", Effect::Idempotent, 10))
                .tool(stage.tool("undo", Effect::Idempotent, 10));
            let boss = Agent::from_fn("boss", |cx: RunContext| async move {
                cx.spawn("worker", "go").await?;
                cx.sleep(Duration::from_millis(100)).await?;
                // In its next life the child comes first.
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
                Ok(Outcome::answer("done"))
            });
            boss.agent(worker).into_team().unwrap()
        };
        let store = FaultyStore::at_commit(stage.store.clone(), crash(number));
        let start = async |store: FaultyStore<InMemoryStore>, team: Team| {
            let builder = System::builder(store).model("default", silent());
            builder.team(team).start().await.unwrap()
        };
        let system = start(store.clone(), team(&stage)).await;
        let work = async {
            let session = system.session("boss", "s");
            let run = session.send(Turn::text("go").id("1")).await.unwrap();
            assert_eq!(text(&run).await, "done");
            pause(10_000).await;
        };
        let died = tokio::select! {
            biased;
            () = store.crashed() => true,
            () = work => false,
        };
        stage.crash(&system).await;
        let system = start(FaultyStore::new(stage.store.clone()), team(&stage)).await;
        let session = system.session("boss", "s");
        let run = session.send(Turn::text("go").id("1")).await.unwrap();
        assert_eq!(text(&run).await, "done");
        pause(10_000).await;
        let rows = stage.rows().await;
        let open: Vec<_> = rows.iter().filter(|row| !row.status.is_ended()).collect();
        assert!(open.is_empty(), "crash {number}: {open:?}");
        let worker = rows.iter().find(|row| row.agent == "worker").unwrap();
        let entries = stage.entries(worker.run).await;
        let undone = |entry: &&Entry| matches!(entry, Entry::UndoRegistered { .. });
        assert_eq!(entries.iter().filter(undone).count(), 1, "crash {number}");
        let late = stage
            .log
            .effects()
            .into_iter()
            .any(|effect| effect.name == "late");
        assert!(!late, "crash {number}");
        if !died {
            assert!(number > 6, "{number}");
            break;
        }
    }
}

/// The message that cancels a run is taken in the commit that records the cancellation, so that no crash loses it.
#[tokio::test(start_paused = true)]
async fn a_cancellation_that_was_taken_is_carried_out_wherever_a_crash_strikes() {
    for what in ALL {
        for number in 0.. {
            let mut stage = Stage::alone();
            let (agent, model) = waiting(&stage, what);
            let store = FaultyStore::at_commit(stage.store.clone(), crash(number));
            let builder = System::builder(store.clone()).model("default", model.clone());
            let system = builder.team(agent.into_team().unwrap()).start().await;
            let system = system.unwrap();
            let session = system.session("a", "s");
            let told = AtomicBool::new(false);
            let work = async {
                let run = session.send(Turn::text("go").id("1")).await.unwrap();
                pause(700).await;
                assert!(run.cancel("enough").await.unwrap());
                told.store(true, Ordering::SeqCst);
                outcome(&run).await;
            };
            let died = tokio::select! {
                biased;
                () = store.crashed() => true,
                () = work => false,
            };
            stage.crash(&system).await;
            let (agent, _) = waiting(&stage, what);
            let system = stage.start_with(agent, model).await;
            let run = system
                .session("a", "s")
                .send(Turn::text("go").id("1"))
                .await;
            let run = run.unwrap();
            if told.load(Ordering::SeqCst) {
                assert_cancelled(&stage, &run, &format!("{what}, crash {number}")).await;
            }
            if !died {
                assert!(number > 4, "{what}: {number}");
                assert!(told.load(Ordering::SeqCst), "{what}");
                break;
            }
        }
    }
}
