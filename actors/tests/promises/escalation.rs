//! What an agent cannot deal with goes to the one above it, as something to reason about.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use ghostlight_actors::{
    actor::{
        System,
        supervisor::{Intensity, Supervisor},
    },
    ractor::ActorCell,
    run::{Agent, RunContext},
    vocabulary::{AgentError, ErrorKind, Outcome, StopReason},
};

use crate::stage::{Stage, ask, outcome, pause, text};

/// Reads the failure of a delegation by its types, and answers with what it read.
fn boss() -> Agent {
    Agent::from_fn("boss", |cx: RunContext| async move {
        let failed = match cx.delegate("worker", "go").await {
            Ok(done) => return Ok(done.outcome),
            Err(failed) => failed,
        };
        let error = failed.operation().unwrap();
        assert_eq!(error.kind, ErrorKind::Delegation);
        let path = error.path.join("/");
        match error.cause.as_deref() {
            Some(AgentError::Crashed { times, reason }) => Ok(Outcome::answer(format!(
                "{path} crashed {times} times: {}",
                reason.contains("boom")
            ))),
            other => Ok(Outcome::answer(format!("{path}: {other:?}"))),
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_crashing_agent_is_a_typed_failure_of_its_parents_delegation() {
    let stage = Stage::new();
    let worker = Agent::from_fn("worker", |cx: RunContext| async move {
        assert!(cx.input().content().is_empty(), "boom");
        Ok(Outcome::answer("never"))
    });
    let system = stage.start(boss().agent(worker)).await;
    let run = ask(&system, "boss", "go").await;
    assert_eq!(text(&run).await, "worker crashed 3 times: true");
    for row in stage.rows().await {
        assert!(row.status.is_ended(), "{} is {}", row.agent, row.status);
        assert_eq!(stage.ends(row.run).await, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_path_names_every_agent_through_which_a_failure_came() {
    let stage = Stage::new();
    let deep = Agent::from_fn("deep", |cx: RunContext| async move {
        assert!(cx.input().content().is_empty(), "boom");
        Ok(Outcome::answer("never"))
    });
    let worker = Agent::from_fn("worker", |cx: RunContext| async move {
        let done = cx.delegate("deep", "go").await?;
        Ok(Outcome::answer(done.text))
    });
    let system = stage.start(boss().agent(worker.agent(deep))).await;
    let run = ask(&system, "boss", "go").await;
    assert_eq!(text(&run).await, "worker/deep crashed 3 times: true");
}

#[tokio::test(start_paused = true)]
async fn an_agent_hands_a_problem_to_its_parent_by_its_outcome() {
    let stage = Stage::new();
    let worker = Agent::from_fn("worker", |_: RunContext| async move {
        Ok(Outcome::escalated("the customer wants his money back"))
    });
    let system = stage.start(boss().agent(worker)).await;
    let run = ask(&system, "boss", "go").await;
    // The parent hands it on; nobody is above it, so the run says so to whoever asked.
    let reason = StopReason::Escalated("the customer wants his money back".into());
    assert_eq!(outcome(&run).await.stop_reason(), Some(&reason));
}

async fn worker_of(system: &System) -> Option<ActorCell> {
    let teams = system.supervisor()?.find_child("teams").await.ok()??;
    let session = Supervisor::from_actor(teams)?.find_child("boss/s").await;
    session.ok()??.get_children().pop()
}

#[tokio::test(start_paused = true)]
async fn a_lost_agent_below_is_started_with_growing_pauses_and_past_its_intensity_escalated() {
    let mut stage = Stage::new();
    stage.limits.run_restarts = Intensity::new(3, Duration::from_secs(60));
    let began = Arc::new(AtomicU32::new(0));
    let counted = began.clone();
    let worker = Agent::from_fn("worker", move |cx: RunContext| {
        let counted = counted.clone();
        async move {
            counted.fetch_add(1, Ordering::SeqCst);
            cx.sleep(Duration::from_secs(20)).await?;
            Ok(Outcome::answer("rested"))
        }
    });
    let system = stage.start(boss().agent(worker)).await;
    let run = ask(&system, "boss", "go").await;
    let mut pauses = Vec::new();
    for life in 1..=4 {
        while began.load(Ordering::SeqCst) < life {
            pause(1).await;
        }
        pause(10).await;
        worker_of(&system).await.unwrap().kill();
        let killed = tokio::time::Instant::now();
        while life < 4 && began.load(Ordering::SeqCst) == life {
            pause(1).await;
        }
        pauses.push(killed.elapsed());
    }
    assert!(pauses[0] >= Duration::from_millis(25), "{pauses:?}");
    assert!(pauses[2] >= Duration::from_millis(100), "{pauses:?}");
    let said = text(&run).await;
    assert!(said.starts_with("worker crashed 4 times"), "{said}");
    assert_eq!(began.load(Ordering::SeqCst), 4);
    for row in stage.rows().await {
        assert!(row.status.is_ended(), "{} is {}", row.agent, row.status);
        assert_eq!(stage.ends(row.run).await, 1);
    }
    // The session goes on, with a fresh agent below.
    let again = ask(&system, "boss", "again").await;
    assert_eq!(text(&again).await, "rested");
}

#[tokio::test(start_paused = true)]
async fn an_agent_below_that_is_lost_now_and_then_is_started_for_ever() {
    let mut stage = Stage::new();
    stage.limits.run_restarts = Intensity::new(1, Duration::from_secs(5));
    let worker = Agent::from_fn("worker", |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(100)).await?;
        Ok(Outcome::answer("rested"))
    });
    let system = stage.start(boss().agent(worker)).await;
    let run = ask(&system, "boss", "go").await;
    for _ in 0..5 {
        pause(10_000).await;
        worker_of(&system).await.unwrap().kill();
    }
    assert_eq!(text(&run).await, "rested");
}
