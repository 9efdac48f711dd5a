//! A System that starts goes on with every run that was interrupted.

use std::{sync::atomic::Ordering, time::Duration};

use ghostlight_actors::{
    actor::System,
    contract::{
        Append, Batch, DynStore, InMemoryStore, ItemBody, Line, MailboxItem, RunFilter, RunRow,
        RunStatus,
    },
    run::{Agent, RunContext},
    session::Turn,
    testing::{Reply, ScriptedModel},
    vocabulary::{Effect, Entry, JournalId, ModelResponse, Outcome, RunId, StopReason, Timestamp},
};

use tokio::time::Instant;

use crate::{
    contested::Contested,
    stage::{Stage, call, outcome, pause},
};

/// More than are recovered together.
const RUNS: usize = 300;
const CANCELLED: usize = 7;
const SLEEPERS: usize = 500;
/// More rows than can be read a thousand times.
const MANY: usize = 50_000;
const ELSEWHERE: usize = 9;
const HALF_ELSEWHERE: usize = 11;

fn worker(stage: &Stage) -> Agent {
    Agent::from_fn("worker", |cx: RunContext| async move {
        cx.tool_unasked(call("1", "note")).await?;
        let answer = cx.model(cx.model_request(cx.conversation())).await?;
        Ok(Outcome::answer(answer.content()))
    })
    .tool(stage.tool("note", Effect::Once, 1))
}

#[tokio::test(start_paused = true)]
async fn runs_that_a_living_process_carries_are_not_tried_again_and_again() {
    let mut stage = Stage::new();
    let hanging = ScriptedModel::from_reply_fn(|_, _| Reply::Hang);
    let system = stage.start_with(worker(&stage), hanging).await;
    let run = system.session("worker", "s").send("go").await.unwrap().id();
    pause(1000).await;
    let store = Contested::over(stage.store.another_process());
    let claims = store.claims.clone();
    let answering = ScriptedModel::from_fn(|_, _| Ok(ModelResponse::text("done")));
    let other = System::builder(store)
        .model("default", answering)
        .team(worker(&stage).into_team().unwrap())
        .start()
        .await
        .unwrap();
    for _ in 0..20 {
        other.recover().await.unwrap();
        pause(2000).await;
    }
    assert_eq!(claims.load(Ordering::SeqCst), 0);
    // As soon as that process is gone the run goes on here.
    stage.crash(&system).await;
    other.recover().await.unwrap();
    assert_eq!(outcome(&other.run(run)).await.text(), "done");
}

#[tokio::test(start_paused = true)]
async fn a_run_is_left_to_the_process_that_has_its_session() {
    let mut stage = Stage::new();
    let hanging = ScriptedModel::from_reply_fn(|_, _| Reply::Hang);
    let system = stage.start_with(worker(&stage), hanging).await;
    let run = system.session("worker", "s").send("go").await.unwrap().id();
    pause(1000).await;
    stage.crash(&system).await;
    // A process that lives has begun to take the run up: of the two journals it has the first.
    let elsewhere = stage.store.another_process();
    let session = system.session("worker", "s").id().clone();
    elsewhere
        .claim(JournalId::Session(session), false)
        .await
        .unwrap();
    let answering = ScriptedModel::from_fn(|_, _| Ok(ModelResponse::text("done")));
    let _system = stage.start_with(worker(&stage), answering).await;
    pause(5000).await;
    elsewhere.claim(JournalId::Run(run), false).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn all_go_on_whatever_became_of_some_of_them() {
    let mut stage = Stage::new();
    let hanging = ScriptedModel::from_reply_fn(|_, _| Reply::Hang);
    let system = stage.start_with(worker(&stage), hanging).await;
    let mut runs = Vec::new();
    for key in 0..RUNS {
        let session = system.session("worker", key.to_string());
        runs.push(session.send(Turn::text("go")).await.unwrap().id());
    }
    pause(1000).await;
    stage.crash(&system).await;
    // While nobody carries them, one is cancelled, and a process that lives takes another one.
    let body = ItemBody::Cancel {
        reason: "enough".into(),
        stop: None,
    };
    let item = MailboxItem::new("cancel", Timestamp::default(), body);
    stage
        .store
        .post(runs[CANCELLED].into(), item)
        .await
        .unwrap();
    let elsewhere = stage.store.another_process();
    let session = system.session("worker", ELSEWHERE.to_string());
    let taken = JournalId::Session(session.id().clone());
    elsewhere.claim(taken, false).await.unwrap();
    let taken = JournalId::Run(runs[ELSEWHERE]);
    elsewhere.claim(taken, false).await.unwrap();
    // A process that seemed to be dead, and lives, has a run without its session: the run goes with the session.
    let taken = JournalId::Run(runs[HALF_ELSEWHERE]);
    elsewhere.claim(taken, false).await.unwrap();

    let answering = ScriptedModel::from_fn(|_, _| Ok(ModelResponse::text("done")));
    let system = stage.start_with(worker(&stage), answering).await;
    for (number, run) in runs.iter().enumerate() {
        let activations = |entries: &[Entry]| {
            let is_one = |entry: &&Entry| matches!(entry, Entry::Activated { .. });
            entries.iter().filter(is_one).count()
        };
        if number == ELSEWHERE {
            assert_eq!(activations(&stage.entries(*run).await), 0);
            continue;
        }
        match outcome(&system.run(*run)).await {
            Outcome::Stopped {
                reason: StopReason::Cancelled(_),
                ..
            } => assert_eq!(number, CANCELLED),
            answered => assert_eq!((answered.text(), number == CANCELLED), ("done", false)),
        }
        assert_eq!(activations(&stage.entries(*run).await), 1, "run {number}");
    }
    assert_eq!(stage.log.count("note"), RUNS, "no call was made twice");
}

/// A process that has nothing to do for a session does not hear that another one takes the session.
#[tokio::test(start_paused = true)]
async fn a_process_that_lost_a_session_unheard_takes_up_what_is_left_in_it() {
    let stage = Stage::new();
    let answering = ScriptedModel::from_fn(|_, _| Ok(ModelResponse::text("done")));
    let first = stage.start_with(worker(&stage), answering).await;
    let session = first.session("worker", "s");
    outcome(&session.send("go").await.unwrap()).await;
    let mut elsewhere = Stage::new();
    elsewhere.store = stage.store.another_process();
    let journal = JournalId::Session(session.id().clone());
    elsewhere.store.claim(journal, true).await.unwrap();
    let hanging = ScriptedModel::from_reply_fn(|_, _| Reply::Hang);
    let other = elsewhere.start_with(worker(&elsewhere), hanging).await;
    let run = other.session("worker", "s").send("go on").await.unwrap();
    let run = run.id();
    pause(1000).await;
    elsewhere.crash(&other).await;
    first.recover().await.unwrap();
    let run = first.run(run);
    let ended = tokio::time::timeout(Duration::from_secs(10), outcome(&run)).await;
    assert_eq!(ended.expect("it is taken up").text(), "done");
}

/// A System that has taken up as many as may be live goes on by itself with the others, and fairly.
#[tokio::test(start_paused = true)]
async fn what_was_left_for_want_of_places_is_taken_up_as_they_become_free() {
    let mut stage = Stage::new();
    let hanging = ScriptedModel::from_reply_fn(|_, _| Reply::Hang);
    let system = stage.start_with(worker(&stage), hanging).await;
    let mut runs = Vec::new();
    for number in 0..RUNS {
        // Those of the other tenant are the newest.
        let tenant = if number < RUNS - 3 { "acme" } else { "zeta" };
        let turn = Turn::text("go").owner(format!("{tenant}:{number}"));
        let session = system.session("worker", number.to_string());
        runs.push(session.send(turn).await.unwrap().id());
    }
    pause(1000).await;
    stage.crash(&system).await;
    stage.limits.max_live_runs = 4;
    let answering = ScriptedModel::from_fn(|_, _| Ok(ModelResponse::text("done")));
    let answering = answering.delay(Duration::from_millis(500));
    let bounded = stage.start_with(worker(&stage), answering).await;
    let of_zeta = runs.split_off(RUNS - 3);
    let began = Instant::now();
    for run in of_zeta {
        assert_eq!(outcome(&bounded.run(run)).await.text(), "done");
    }
    assert!(
        began.elapsed() < Duration::from_secs(3),
        "{:?}",
        began.elapsed()
    );
    for run in runs {
        assert_eq!(outcome(&bounded.run(run)).await.text(), "done");
    }
    // Four at a time, each for half a second, and some time to notice.
    let took = began.elapsed();
    assert!(took < Duration::from_secs(RUNS as u64 / 4), "{took:?}");
    let load = bounded.load().live_runs;
    assert!(load <= 4, "{load}");
}

/// A run that sleeps in a process that dies is woken at its time by one that runs already.
#[tokio::test(start_paused = true)]
async fn a_sleeper_of_a_dead_process_is_woken_by_a_living_one() {
    let mut stage = Stage::alone();
    stage.limits.linger = Duration::ZERO;
    let sleeper = || {
        Agent::from_fn("worker", |cx: RunContext| async move {
            cx.sleep(Duration::from_secs(3_600)).await?;
            Ok(Outcome::answer("awake"))
        })
    };
    let system = stage.start(sleeper()).await;
    let began = Instant::now();
    let run = system.session("worker", "s").send("go").await.unwrap().id();
    let store = stage.store.another_process();
    let beside = System::builder(store).options(stage.limits);
    let beside = beside.team(sleeper().into_team().unwrap());
    let beside = beside.start().await.unwrap();
    pause(60_000).await;
    stage.crash(&system).await;
    assert_eq!(outcome(&beside.run(run)).await.text(), "awake");
    let took = began.elapsed().as_secs();
    // The wall clocks of the two differ a little.
    assert!((3_590..3_610).contains(&took), "{took}");
}

/// Sleepers whose time comes at once become live as places become free.
#[tokio::test(start_paused = true)]
async fn sleepers_that_wake_at_the_same_time_wait_for_places() {
    let mut stage = Stage::alone();
    stage.limits.linger = Duration::ZERO;
    let sleeper = |stage: &Stage| {
        Agent::from_fn("worker", |cx: RunContext| async move {
            cx.sleep(Duration::from_secs(3_600)).await?;
            cx.tool_unasked(call("1", "note")).await?;
            Ok(Outcome::answer("awake"))
        })
        .tool(stage.tool("note", Effect::Once, 500))
    };
    let system = stage.start(sleeper(&stage)).await;
    for number in 0..SLEEPERS {
        let session = system.session("worker", number.to_string());
        session.send("go").await.unwrap();
    }
    pause(1000).await;
    stage.crash(&system).await;
    stage.limits.max_live_runs = 8;
    let bounded = stage.start(sleeper(&stage)).await;
    let mut open = RunFilter::default();
    (open.open, open.limit) = (true, 1);
    pause(3_500_000).await;
    let (mut most, began) = (0, Instant::now());
    while !stage.store.runs(open.clone()).await.unwrap().is_empty() {
        most = most.max(bounded.load().live_runs);
        pause(50).await;
    }
    assert_eq!(most, 8, "runs that were live at once");
    assert_eq!(stage.log.count("note"), SLEEPERS);
    // Eight at a time, each for half a second, and a tenth to notice; and until their time comes.
    let took = began.elapsed();
    assert!(
        took < Duration::from_secs(100 + SLEEPERS as u64 / 8),
        "{took:?}"
    );
}

/// How many rows a store in memory holds does not count where only those are looked for that wake soon.
#[tokio::test]
async fn in_memory_too_looking_for_the_next_sleepers_reads_no_others() {
    let store = InMemoryStore::new();
    let run = |number: usize| RunId::from_random((number as u128 + 1) << 80);

    for number in 0..MANY {
        let mut row = RunRow::new(run(number), "team", "agent");
        let wake_at = Timestamp(1_000 + number as u64);
        (row.status, row.wake_at) = (RunStatus::Waiting, Some(wake_at));
        let line = Line {
            at: Timestamp(0),
            text: "0".into(),
        };
        let batch = Batch::of(Append::new(run(number), 0, 1, vec![line]).row(row));
        store.commit(vec![batch]).await.unwrap().remove(0).unwrap();
    }
    let mut filter = RunFilter::default();
    let began = std::time::Instant::now();
    for look in 0..1_000 {
        filter.awake_by = Some(Timestamp(1_000 + look % 3));
        let found = store.runs(filter.clone()).await.unwrap();
        assert_eq!(found.len() as u64, look % 3 + 1);
    }
    // Reading all of them takes a hundred times longer.
    let took = began.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
}

/// Of the runs of two tenants a process takes up one of each in turn, and no more than it may carry.
#[tokio::test(start_paused = true)]
async fn many_runs_of_one_tenant_do_not_hold_up_those_of_another() {
    let mut stage = Stage::new();
    let hanging = || ScriptedModel::from_reply_fn(|_, _| Reply::Hang);
    let system = stage.start_with(worker(&stage), hanging()).await;
    let (mut of_acme, mut of_zeta) = (Vec::new(), Vec::new());
    for number in 0..RUNS {
        // Those of the other tenant are neither the oldest nor the newest.
        let (owner, runs) = match number {
            100..103 => (format!("zeta:{number}"), &mut of_zeta),
            _ => (format!("acme:{number}"), &mut of_acme),
        };
        let turn = Turn::text("go").owner(owner);
        let session = system.session("worker", number.to_string());
        runs.push(session.send(turn).await.unwrap().id());
    }
    pause(1000).await;
    stage.crash(&system).await;
    stage.limits.max_live_runs = 8;
    let bounded = stage.start_with(worker(&stage), hanging()).await;
    let other = stage.store.another_process();
    for _ in 0..3 {
        pause(2000).await;
        bounded.recover().await.unwrap();
        let held = async |runs: &[RunId]| {
            let journals = runs.iter().map(|run| (*run).into()).collect();
            let held = other.held_elsewhere(journals).await.unwrap();
            held.into_iter().filter(|held| *held).count()
        };
        assert_eq!((held(&of_zeta).await, held(&of_acme).await), (3, 5));
    }
    // What it leaves goes on elsewhere.
    let mut beside = Stage::new();
    beside.store = other;
    let answering = ScriptedModel::from_fn(|_, _| Ok(ModelResponse::text("done")));
    let beside = beside.start_with(worker(&stage), answering).await;
    assert_eq!(
        outcome(&beside.run(of_acme[RUNS - 10])).await.text(),
        "done"
    );
}
