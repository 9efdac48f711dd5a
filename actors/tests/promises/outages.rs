//! A provider that is down is no failure of the agents that need it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use ghostlight_actors::{
    actor::{System, SystemError},
    contract::{Model, ModelContext, ModelError, RunStatus},
    run::{Agent, RunContext},
    testing::{CrashOptions, Scenario, ScriptedModel, crash_everywhere},
    vocabulary::{
        AgentError, Begun, Entry, ErrorKind, Event, Message, ModelRequest, ModelResponse, Outcome,
        Retry, RunId, Timestamp, Transcript, Usage,
    },
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

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// One whose runs wait for their provider for so long, half a minute to one between two attempts.
pub(crate) fn patient(patience: Duration) -> Stage {
    let mut stage = Stage::alone();
    stage.limits.linger = Duration::from_secs(5);
    let gateway = &mut stage.limits.gateway;
    (gateway.base_pause, gateway.max_pause) = (MINUTE, MINUTE);
    gateway.patience = patience;
    stage
}

/// The waits for a provider that the run has recorded.
pub(crate) async fn waits(stage: &Stage, run: RunId) -> Vec<Retry> {
    let entries = stage.entries(run).await.into_iter();
    let wait = |entry| match entry {
        Entry::Started {
            begun: Begun::Retry(retry),
            ..
        } => Some(*retry),
        _ => None,
    };
    entries.filter_map(wait).collect()
}

#[tokio::test(start_paused = true)]
async fn more_runs_than_may_be_live_wait_for_their_provider_and_others_go_on() {
    let (down, calls) = (Arc::new(AtomicBool::new(true)), Arc::default());
    let mut stage = patient(120 * MINUTE);
    stage.limits.max_live_runs = 3;
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        match cx.input().content().as_str() {
            "alone" => Ok(Outcome::answer("done")),
            _ => Ok(Outcome::answer(cx.think().await?.content())),
        }
    });
    let system = stage.start_with(agent, provider(&down, &calls)).await;
    let mut runs = Vec::new();
    for number in 0..12 {
        let session = system.session("a", format!("s{number}"));
        let run = session.send("go").await.unwrap();
        pause(1_000).await;
        assert_eq!(run.status().await.unwrap().status, RunStatus::Waiting);
        assert!(!run.is_stalled().await.unwrap(), "it goes on by itself");
        assert_eq!(system.load().live_runs, 0, "after {number}");
        runs.push(run);
    }
    for _ in 0..20 {
        pause(60_000).await;
        assert_eq!(text(&ask(&system, "a", "alone").await).await, "done");
    }
    let tries = calls.load(Ordering::SeqCst);
    assert!((240..480).contains(&tries), "{tries} tries in 20 minutes");
    down.store(false, Ordering::SeqCst);
    for run in &runs {
        assert_eq!(text(run).await, "hello");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_above_one_that_waits_for_its_provider_sleeps_with_it() {
    let (down, calls) = (Arc::new(AtomicBool::new(true)), Arc::default());
    let stage = patient(60 * MINUTE);
    let root = Agent::from_fn("root", |cx: RunContext| async move {
        Ok(Outcome::answer(cx.delegate("a", "go").await?.text))
    });
    let root = root.agent(asking());
    let system = stage.start_with(root, provider(&down, &calls)).await;
    let run = ask(&system, "root", "go").await;
    pause(1_000).await;
    assert_eq!(system.load().live_runs, 0);
    pause(600_000).await;
    assert_eq!(system.load().live_runs, 0);
    assert!(calls.load(Ordering::SeqCst) >= 10);
    down.store(false, Ordering::SeqCst);
    assert_eq!(text(&run).await, "hello");
}

#[tokio::test(start_paused = true)]
async fn a_restart_neither_asks_before_the_time_nor_forgets_what_was_spent() {
    let mut stage = patient(60 * MINUTE);
    let asked: Arc<Mutex<Vec<Timestamp>>> = Arc::default();
    let (times, clock) = (asked.clone(), stage.clock.clone());
    let model = ScriptedModel::from_fn(move |_, _| {
        let mut times = times.lock();
        times.push(ghostlight_actors::contract::Clock::now(&clock));
        let consumed = Usage {
            input_tokens: [10, 100][usize::from(times.len() > 3)],
            ..Usage::default()
        };
        if times.len() <= 3 {
            let error = ModelError::new(ErrorKind::Model, "no server").usage(consumed);
            return Err(error.retryable());
        }
        let mut response = ModelResponse::text("hello");
        response.usage = consumed;
        Ok(response)
    });
    let mut system = stage.start_with(asking(), model.clone()).await;
    let run = ask(&system, "a", "go").await.id();
    for tries in 1..=3 {
        while asked.lock().len() < tries {
            pause(500).await;
        }
        pause(1_000).await;
        let last = waits(&stage, run).await.pop().unwrap();
        assert_eq!(
            (last.attempts as usize, last.usage.input_tokens as usize),
            (tries, 10 * tries)
        );
        stage.crash(&system).await;
        pause(10_000).await;
        system = stage.start_with(asking(), model.clone()).await;
    }
    assert_eq!(text(&system.run(run)).await, "hello");
    let asked = asked.lock().clone();
    let waits = waits(&stage, run).await;
    assert_eq!((asked.len(), waits.len()), (4, 3), "{waits:?}");
    for (wait, asked) in waits.iter().zip(&asked[1..]) {
        let late = asked.since(wait.at);
        assert!(
            *asked >= wait.at && late < Duration::from_secs(2),
            "{late:?}"
        );
        assert_eq!(wait.since, waits[0].since);
    }
    let entries = stage.entries(run).await;
    let Some(Entry::RunEnded(end)) = entries.last() else {
        panic!("it has not ended");
    };
    let spent = end.spent();
    assert_eq!((spent.model_calls, spent.usage.input_tokens), (1, 130));
    let events = system.run(run).events().so_far().await.unwrap();
    let attempts = events.iter().find_map(|record| match record.event {
        Event::ModelCalled { attempts, .. } => Some(attempts),
        _ => None,
    });
    assert_eq!(attempts, Some(4));
}

#[tokio::test(start_paused = true)]
async fn patience_ends_at_its_time_over_restarts_too() {
    let (down, calls) = (Arc::new(AtomicBool::new(true)), Arc::default());
    let mut stage = patient(10 * MINUTE);
    let began = tokio::time::Instant::now();
    let mut system = stage.start_with(asking(), provider(&down, &calls)).await;
    let run = ask(&system, "a", "go").await.id();
    for _ in 0..4 {
        pause(120_000).await;
        stage.crash(&system).await;
        system = stage.start_with(asking(), provider(&down, &calls)).await;
    }
    let ended = system.run(run).outcome().await;
    let SystemError::Failed { error, .. } = ended.unwrap_err() else {
        panic!("it waits");
    };
    let error = error.operation().unwrap();
    assert_eq!((&error.kind, error.status), (&ErrorKind::Model, Some(503)));
    let attempts = format!("after {} attempts", calls.load(Ordering::SeqCst));
    assert!(
        error.retryable && error.message.contains(&attempts),
        "{error}"
    );
    let waited = began.elapsed();
    assert!(waited >= 10 * MINUTE && waited < 12 * MINUTE, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_sleeps_until_its_provider_is_asked_again_can_be_cancelled() {
    for dies in [false, true] {
        let (down, calls) = (Arc::new(AtomicBool::new(true)), Arc::default());
        let mut stage = patient(60 * MINUTE);
        let mut system = stage.start_with(asking(), provider(&down, &calls)).await;
        let run = ask(&system, "a", "go").await.id();
        pause(1_000).await;
        assert_eq!(system.load().live_runs, 0);
        if dies {
            stage.crash(&system).await;
            system = stage.start_with(asking(), provider(&down, &calls)).await;
        }
        let run = system.run(run);
        assert!(run.cancel("enough").await.unwrap());
        let outcome = tokio::time::timeout(Duration::from_secs(2), run.outcome()).await;
        assert!(outcome.unwrap().unwrap().stop_reason().is_some());
        pause(600_000).await;
        assert_eq!(calls.load(Ordering::SeqCst), 1, "it is asked no more");
        assert_eq!(stage.ends(run.id()).await, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_another_in_each_life_is_no_drift_while_nothing_has_answered() {
    let (lives, stage) = (Arc::new(AtomicU32::new(0)), patient(60 * MINUTE));
    let agent = Agent::from_fn("a", move |cx: RunContext| {
        // As instructions with the time of day are.
        let said = Message::user(format!("life {}", lives.fetch_add(1, Ordering::SeqCst)));
        let asked = cx.model(ModelRequest::new(Transcript::from_iter([said])));
        async move { Ok(Outcome::answer(asked.await?.content())) }
    });
    let team = agent.into_team().unwrap();
    let model = ScriptedModel::from_fn(|request, number| match number {
        0..3 => Err(ModelError::new(ErrorKind::Model, "no server").retryable()),
        _ => {
            let said = request.conversation.messages();
            Ok(ModelResponse::text(said[said.len() - 1].content()))
        }
    });
    let system = System::builder(stage.store.clone())
        .options(stage.limits)
        .clock(stage.clock.clone())
        .model("default", model)
        .team(team.define(|team| team.park_on_drift = true));
    let system = system.start().await.unwrap();
    let run = ask(&system, "a", "go").await;
    assert_eq!(text(&run).await, "life 3");
}

/// Fails twice, whatever process asks it.
struct FailsTwice;

impl Model for FailsTwice {
    async fn respond(
        &self,
        _: ModelRequest,
        cx: ModelContext,
    ) -> Result<ModelResponse, ModelError> {
        let consumed = Usage {
            input_tokens: 10,
            ..Usage::default()
        };
        if cx.attempt() < 3 {
            let error = ModelError::new(ErrorKind::Model, "no server").usage(consumed);
            return Err(error.retryable());
        }
        let mut response = ModelResponse::text("hello");
        response.usage = consumed;
        Ok(response)
    }
}

#[tokio::test(start_paused = true)]
async fn killed_at_any_commit_a_call_that_waits_for_its_provider_is_charged_once() {
    let limits = patient(60 * MINUTE).limits;
    let scenario = Scenario::new("a", move |builder, _| {
        let agent = Agent::from_fn("a", |cx: RunContext| async move {
            let said = cx.think().await?;
            let (attempts, spent) = (said.attempts, cx.budget().await?.spent);
            let (calls, tokens) = (spent.model_calls, spent.usage.input_tokens);
            Ok(Outcome::answer(format!(
                "{attempts} attempts, {calls} call, {tokens} tokens"
            )))
        });
        let team = agent.into_team().unwrap();
        let builder = builder.options(limits).model("default", FailsTwice);
        builder.team(team)
    });
    let options = CrashOptions::default().again(3);
    let report = crash_everywhere(&scenario.turn("go"), options).await;
    assert!(report.violations.is_empty(), "{report}");
    assert!(report.crashes > 20, "{report}");
    let outcome = &report.outcomes[0];
    assert!(
        outcome.contains("3 attempts, 1 call, 30 tokens"),
        "{outcome}"
    );
}

/// Waits for its model no longer than this.
pub(crate) async fn hurrying(cx: RunContext, most: Duration) -> Result<Outcome, AgentError> {
    match cx.timeout(most, cx.think()).await {
        Ok(said) => Ok(Outcome::answer(said?.content())),
        Err(_) => Ok(Outcome::answer("late")),
    }
}

#[tokio::test(start_paused = true)]
async fn what_failed_attempts_consumed_is_charged_however_their_call_ends() {
    // How long it is patient, how long its function waits, and whether it is cancelled.
    for (patience, most, is_cancelled) in [
        (Duration::ZERO, 60 * MINUTE, false),
        (60 * MINUTE, 60 * MINUTE, true),
        (60 * MINUTE, Duration::from_secs(20), false),
    ] {
        let stage = patient(patience);
        let asked = Arc::new(AtomicU32::new(0));
        let counted = asked.clone();
        let model = ScriptedModel::from_fn(move |_, _| {
            counted.fetch_add(1, Ordering::SeqCst);
            let consumed = Usage {
                input_tokens: 10,
                ..Usage::default()
            };
            let error = ModelError::new(ErrorKind::Model, "no server").usage(consumed);
            Err(error.retryable())
        });
        let agent = Agent::from_fn("a", move |cx: RunContext| hurrying(cx, most));
        let system = stage.start_with(agent, model).await;
        let run = ask(&system, "a", "go").await;
        pause(5_000).await;
        if is_cancelled {
            assert!(run.cancel("enough").await.unwrap());
        }
        let _ = run.outcome().await;
        let entries = stage.entries(run.id()).await;
        let Some(Entry::RunEnded(end)) = entries.last() else {
            panic!("it has not ended");
        };
        let (spent, asked) = (end.spent(), u64::from(asked.load(Ordering::SeqCst)));
        assert_eq!(asked, if patience.is_zero() { 4 } else { 1 });
        assert_eq!(
            (spent.model_calls, spent.usage.input_tokens),
            (1, 10 * asked),
            "{most:?}, cancelled: {is_cancelled}"
        );
    }
}
