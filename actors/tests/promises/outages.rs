//! A provider that is down is no failure of the agents that need it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use ghostlight_actors::{
    actor::SystemError,
    contract::ModelError,
    run::{Agent, RunContext},
    testing::ScriptedModel,
    vocabulary::{Entry, ErrorKind, Event, ModelResponse, Outcome},
};

use parking_lot::Mutex;

use crate::stage::{Stage, ask, pause, text};

fn provider(down: &Arc<AtomicBool>, calls: &Arc<AtomicU32>) -> ScriptedModel {
    let (down, calls) = (down.clone(), calls.clone());
    ScriptedModel::from_fn(move |_, _| {
        calls.fetch_add(1, Ordering::SeqCst);
        if down.load(Ordering::SeqCst) {
            let error = ModelError::new(ErrorKind::Model, "no server").status(503);
            return Err(error.retryable());
        }
        Ok(ModelResponse::text("hello"))
    })
}

fn asking() -> Agent {
    Agent::from_fn("a", |cx: RunContext| async move {
        let request = cx.model_request(cx.conversation());
        Ok(Outcome::answer(cx.model(request).await?.content()))
    })
}

fn is_restart(entry: &Entry) -> bool {
    matches!(entry, Entry::Restarted { .. } | Entry::Parked { .. })
}

#[tokio::test(start_paused = true)]
async fn a_hundred_outages_restart_nothing_and_are_typed_errors() {
    let (down, calls) = (Arc::new(AtomicBool::new(true)), Arc::default());
    let stage = Stage::new();
    let system = stage.start_with(asking(), provider(&down, &calls)).await;
    for outage in 1..=100 {
        let run = ask(&system, "a", "go").await;
        let SystemError::Failed { error, .. } = run.outcome().await.unwrap_err() else {
            panic!("outage {outage} did not fail the run");
        };
        let error = error.operation().unwrap();
        assert_eq!(error.kind, ErrorKind::Model);
        assert!(error.retryable && error.status == Some(503), "{error:?}");
        let entries = stage.entries(run.id()).await;
        assert!(!entries.iter().any(is_restart), "outage {outage}");
        assert_eq!(calls.load(Ordering::SeqCst), 4 * outage);
    }
    let teams = system.tree().await;
    let restarts: u64 = teams.iter().map(|child| child.restarts).sum();
    assert_eq!(restarts, 0);
    down.store(false, Ordering::SeqCst);
    assert_eq!(text(&ask(&system, "a", "go").await).await, "hello");
}

#[tokio::test(start_paused = true)]
async fn the_pauses_between_the_attempts_at_one_call_double() {
    let times = Arc::new(Mutex::new(Vec::new()));
    let noted = times.clone();
    let model = ScriptedModel::from_fn(move |_, _| {
        noted.lock().push(tokio::time::Instant::now());
        Err(ModelError::new(ErrorKind::Model, "no server").retryable())
    });
    let mut stage = Stage::new();
    let base = stage.limits.gateway.base_pause;
    stage.limits.gateway.max_pause = base * 100;
    let system = stage.start_with(asking(), model).await;
    assert!(ask(&system, "a", "go").await.outcome().await.is_err());
    let times = times.lock().clone();
    assert_eq!(times.len(), 4);
    let slack = Duration::from_millis(50);
    for (number, two) in times.windows(2).enumerate() {
        // Half of it is left to chance, so that many callers do not come back at once.
        let (paused, bound) = (two[1] - two[0], base * (1 << number));
        assert!(
            (bound / 2..bound + slack).contains(&paused),
            "pause {number}: {paused:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn by_setting_a_run_waits_for_its_provider_as_long_as_told() {
    let (down, calls) = (Arc::new(AtomicBool::new(true)), Arc::default());
    let mut stage = Stage::new();
    stage.limits.poll_interval = Duration::from_secs(60);
    stage.limits.gateway.patience = Duration::from_secs(1800);
    let system = stage.start_with(asking(), provider(&down, &calls)).await;
    let run = ask(&system, "a", "go").await;
    pause(1_200_000).await;
    let tries = calls.load(Ordering::SeqCst);
    assert!((20..80).contains(&tries), "{tries} tries in 20 minutes");
    down.store(false, Ordering::SeqCst);
    assert_eq!(text(&run).await, "hello");
    assert!(!stage.entries(run.id()).await.iter().any(is_restart));
    // Past its patience it fails as without.
    down.store(true, Ordering::SeqCst);
    let run = ask(&system, "a", "go").await;
    let began = tokio::time::Instant::now();
    assert!(matches!(
        run.outcome().await,
        Err(SystemError::Failed { .. })
    ));
    assert!(began.elapsed() >= Duration::from_secs(1800));
    let events = run.events().so_far().await.unwrap();
    let restarted = |event: &Event| matches!(event, Event::Restarted { .. });
    assert!(!events.iter().any(|record| restarted(&record.event)));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_for_its_provider_can_be_cancelled() {
    let (down, calls) = (Arc::new(AtomicBool::new(true)), Arc::default());
    let mut stage = Stage::new();
    stage.limits.poll_interval = Duration::from_secs(60);
    stage.limits.gateway.patience = Duration::from_secs(1800);
    let system = stage.start_with(asking(), provider(&down, &calls)).await;
    let run = ask(&system, "a", "go").await;
    pause(600_000).await;
    assert!(run.cancel("enough").await.unwrap());
    let outcome = tokio::time::timeout(Duration::from_secs(1), run.outcome()).await;
    assert!(outcome.unwrap().unwrap().stop_reason().is_some());
    let tries = calls.load(Ordering::SeqCst);
    pause(600_000).await;
    assert_eq!(calls.load(Ordering::SeqCst), tries, "it is asked no more");
}

/// A server that refuses its first call and asks to wait so long.
fn refusing(asked: Duration, calls: &Arc<AtomicU32>) -> ScriptedModel {
    let calls = calls.clone();
    ScriptedModel::from_fn(move |_, _| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => {
            let error = ModelError::new(ErrorKind::RateLimited, "slow down").status(429);
            Err(error.retryable().retry_after(asked))
        }
        _ => Ok(ModelResponse::text("hello")),
    })
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_hours_fails_the_call_at_once_and_says_for_how_long() {
    let hours = Duration::from_secs(2 * 3600);
    let calls = Arc::default();
    let stage = Stage::new();
    let system = stage.start_with(asking(), refusing(hours, &calls)).await;
    let began = tokio::time::Instant::now();
    let run = ask(&system, "a", "go").await;
    let SystemError::Failed { error, .. } = run.outcome().await.unwrap_err() else {
        panic!("it waits");
    };
    let error = error.operation().unwrap();
    assert_eq!(
        (&error.kind, error.status),
        (&ErrorKind::RateLimited, Some(429))
    );
    assert_eq!(error.retry_after_ms, Some(7_200_000));
    assert!(
        error.retryable && error.message.contains("7200 s"),
        "{error}"
    );
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert!(began.elapsed() < Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn what_a_server_asks_for_is_waited_for_whole_within_the_bound_or_the_patience() {
    for (asked, bound, patience) in [(90, 120, 0), (90, 10, 3600), (600, 600, 0)] {
        let calls = Arc::default();
        let mut stage = Stage::new();
        stage.limits.poll_interval = Duration::from_secs(60);
        stage.limits.gateway.max_retry_after = Duration::from_secs(bound);
        stage.limits.gateway.patience = Duration::from_secs(patience);
        let asked = Duration::from_secs(asked);
        let system = stage.start_with(asking(), refusing(asked, &calls)).await;
        let began = tokio::time::Instant::now();
        assert_eq!(text(&ask(&system, "a", "go").await).await, "hello");
        assert!(began.elapsed() >= asked, "{:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn agents_that_a_server_sends_away_together_do_not_come_back_together() {
    let asked = Duration::from_secs(60);
    let calls = Arc::new(Mutex::new(Vec::new()));
    let seen = calls.clone();
    let began = tokio::time::Instant::now();
    let model = ScriptedModel::from_fn(move |_, _| {
        let after = began.elapsed();
        seen.lock().push(after);
        if after >= asked {
            return Ok(ModelResponse::text("hello"));
        }
        let error = ModelError::new(ErrorKind::RateLimited, "slow down").status(429);
        Err(error.retryable().retry_after(asked))
    });
    let stage = Stage::new();
    let system = stage.start_with(asking(), model).await;
    let mut runs = Vec::new();
    for number in 0..20 {
        let session = system.session("a", format!("s{number}"));
        runs.push(session.send("go").await.unwrap());
    }
    for run in runs {
        assert_eq!(text(&run).await, "hello");
    }
    let back: Vec<Duration> = calls
        .lock()
        .iter()
        .copied()
        .filter(|at| *at >= asked)
        .collect();
    let (first, last) = (back.iter().min().unwrap(), back.iter().max().unwrap());
    assert_eq!(back.len(), 20);
    assert!(*last - *first > Duration::from_secs(5), "{back:?}");
}
