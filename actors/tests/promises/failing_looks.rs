//! An item that another process posts is read, although the store fails at the look that finds it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use ghostlight_actors::{
    contract::RunStatus,
    run::{Agent, RunContext},
    vocabulary::{OperationId, Outcome, Question},
};
use serde_json::json;

use crate::{
    contested::{Contested, start},
    stage::{Stage, ask, pause, text},
};

/// Asks what was not said.
fn asking() -> Agent {
    Agent::from_fn("a", |cx: RunContext| async move {
        let said = cx.input().content();
        if said == "ask" {
            let answer = cx.ask(Question::new("well?")).await?;
            return Ok(Outcome::answer(answer.as_str().unwrap_or_default()));
        }
        Ok(Outcome::answer(said))
    })
}

fn fail(next: &Arc<AtomicU32>) {
    next.store(3, Ordering::SeqCst);
}

#[tokio::test(start_paused = true)]
async fn an_answer_wakes_a_sleeping_run_once_the_store_reads_again() {
    for fails_lookups in [true, false] {
        let mut stage = Stage::new();
        stage.limits.linger = Duration::from_millis(100);
        let store = Contested::over(stage.store.clone());
        let (lookups, mailboxes) = (store.failed_lookups.clone(), store.failed_mailboxes.clone());
        let owner = start(&stage, store, asking()).await;
        let run = ask(&owner, "a", "ask").await;
        while run.status().await.unwrap().status != RunStatus::Waiting {
            pause(50).await;
        }
        pause(1_000).await;
        let mut other = Stage::new();
        other.store = stage.store.another_process();
        let beside = other.start(asking()).await;
        fail(if fails_lookups { &lookups } else { &mailboxes });
        let seen_from_there = beside.run(run.id());
        seen_from_there.answer(asked(), json!("red")).await.unwrap();
        assert_eq!(text(&seen_from_there).await, "red");
        assert_eq!(lookups.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_posted_turn_is_begun_once_the_store_reads_again() {
    for fails_lookups in [true, false] {
        let stage = Stage::new();
        let store = Contested::over(stage.store.clone());
        let (lookups, mailboxes) = (store.failed_lookups.clone(), store.failed_mailboxes.clone());
        let owner = start(&stage, store, asking()).await;
        assert_eq!(text(&ask(&owner, "a", "one").await).await, "one");
        let mut other = Stage::new();
        other.store = stage.store.another_process();
        let beside = other.start(asking()).await;
        fail(if fails_lookups { &lookups } else { &mailboxes });
        let hour = Duration::from_secs(3600);
        let sent = tokio::time::timeout(hour, ask(&beside, "a", "two")).await;
        assert_eq!(text(&sent.expect("the turn waits for ever")).await, "two");
    }
}

/// The id of the first operation of a run, which asks.
fn asked() -> OperationId {
    "0.0.0".parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_answer_wakes_a_run_although_its_session_is_not_read_at_once() {
    for failures in 1..=6 {
        let mut stage = Stage::new();
        let system = stage.start(asking()).await;
        let run = ask(&system, "a", "ask").await;
        run.wait().await.unwrap();
        stage.crash(&system).await;
        let store = Contested::over(stage.store.clone());
        let failed_reads = store.failed_reads.clone();
        let system = start(&stage, store, asking()).await;
        let run = system.run(run.id());
        pause(1_000).await;
        failed_reads.store(failures, Ordering::SeqCst);
        // The answer may find the store failing, and is given again then.
        while run.answer(asked(), json!("red")).await.is_err() {
            pause(10).await;
        }
        failed_reads.fetch_max(failures, Ordering::SeqCst);
        let told = async {
            loop {
                match run.outcome().await {
                    Ok(outcome) => return outcome.text().to_owned(),
                    Err(_) => pause(1_000).await,
                }
            }
        };
        let told = tokio::time::timeout(Duration::from_secs(3600), told).await;
        assert_eq!(told.expect("the run sleeps for ever"), "red");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_wakes_a_run_whose_owner_is_gone_and_seemed_alive_when_it_came() {
    let stage = Stage::new();
    let owner = stage.start(asking()).await;
    let run = ask(&owner, "a", "ask").await;
    run.wait().await.unwrap();
    let mut other = Stage::new();
    other.store = stage.store.another_process();
    let beside = other.start(asking()).await;
    // Its machine hangs: what it holds is held until the store finds that it is gone.
    owner.supervisor().unwrap().actor().kill();
    let run = beside.run(run.id());
    run.answer(asked(), json!("red")).await.unwrap();
    pause(10_000).await;
    assert_eq!(run.status().await.unwrap().status, RunStatus::Waiting);
    stage.store.crash();
    let hour = Duration::from_secs(3600);
    let told = tokio::time::timeout(hour, text(&run)).await;
    assert_eq!(told.expect("the run sleeps for ever"), "red");
}
