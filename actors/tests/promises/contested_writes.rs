//! A run that changes shared state, and that others are always faster than, hears what it is told.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use ghostlight_actors::{
    contract::Clock,
    run::{Agent, RunContext},
    session::Turn,
    vocabulary::{Outcome, StopReason},
};
use tokio::time::Instant;

use crate::{
    contested::{Contested, start},
    stage::{Stage, outcome, pause},
};

/// How long each attempt takes, in milliseconds.
const ATTEMPT_MS: u64 = 200;

fn writer() -> Agent {
    Agent::from_fn("writer", |cx: RunContext| async move {
        cx.memory().set("value", &1).await?;
        Ok(Outcome::answer("written"))
    })
}

/// How the run ends that is cancelled, or has its deadline, after half a second, and how soon.
async fn stopped(by_deadline: bool) -> (Outcome, Duration) {
    let stage = Stage::new();
    let mut store = Contested::over(stage.store.clone());
    store.conflicts.store(1_000, SeqCst);
    store.commit_ms = ATTEMPT_MS;
    let system = start(&stage, store, writer()).await;
    let mut turn = Turn::text("go");
    if by_deadline {
        let clock = ghostlight_actors::contract::SystemClock::new();
        turn.deadline = Some(clock.now().after(Duration::from_millis(1_500)));
    }
    let run = system.session("writer", "s").send(turn).await.unwrap();
    pause(1_500).await;
    let begun = Instant::now();
    if !by_deadline {
        run.cancel("enough").await.unwrap();
    }
    (outcome(&run).await, begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_change_that_is_never_made_keeps_no_run_from_its_cancellation() {
    let (end, took) = stopped(false).await;
    assert_eq!(
        end.stop_reason(),
        Some(&StopReason::Cancelled("enough".to_owned()))
    );
    // The attempt under way, and the commits of the end.
    assert!(took < Duration::from_millis(6 * ATTEMPT_MS), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_change_that_is_never_made_keeps_no_run_from_its_deadline() {
    let (end, took) = stopped(true).await;
    assert_eq!(end.stop_reason(), Some(&StopReason::Deadline));
    assert!(took < Duration::from_millis(6 * ATTEMPT_MS), "{took:?}");
}
