//! New work past a bound is refused at once; admitted work never is.

use std::time::Duration;

use ghostlight_actors::{
    actor::{Run, SystemError},
    definition::WhileBusy,
    run::{Agent, RunContext},
    session::Turn,
    testing::ScriptedModel,
    vocabulary::{Effect, Outcome},
};

use crate::{
    stage::{Stage, ask, call, pause, text},
    turns,
};

fn slow() -> Agent {
    Agent::from_fn("slow", |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(5)).await?;
        Ok(Outcome::answer("done"))
    })
}

#[tokio::test(start_paused = true)]
async fn past_its_bound_a_session_refuses_at_once_and_records_nothing_of_it() {
    let mut stage = Stage::new();
    stage.limits.max_queued_turns = 2;
    let system = stage.start(slow()).await;
    let first = ask(&system, "slow", "0").await;
    let session = system.session("slow", "s");
    let waiting: Vec<_> = (1..3)
        .map(|n| {
            let session = session.clone();
            tokio::spawn(async move { session.send(n.to_string()).await })
        })
        .collect();
    pause(5).await;
    let began = tokio::time::Instant::now();
    let refused = session.send("3").await.unwrap_err();
    assert!(
        matches!(refused, SystemError::Overloaded { bound: 2, .. }),
        "{refused}"
    );
    assert_eq!(began.elapsed(), Duration::ZERO, "it is told at once");
    text(&first).await;
    for turn in waiting {
        assert_eq!(text(&turn.await.unwrap().unwrap()).await, "done");
    }
    assert_eq!(stage.rows().await.len(), 3);
    for row in stage.rows().await {
        let entries = format!("{:?}", stage.entries(row.run).await);
        assert!(!entries.contains("Overloaded"));
    }
    // There is room again.
    assert_eq!(text(&session.send("4").await.unwrap()).await, "done");
}

#[tokio::test(start_paused = true)]
async fn past_its_bounds_the_system_refuses_at_once() {
    let mut stage = Stage::new();
    stage.limits.max_live_runs = 3;
    let system = stage.start(slow()).await;
    let mut runs = Vec::new();
    for key in 0..3 {
        let session = system.session("slow", key.to_string());
        runs.push(session.send(Turn::text("go")).await.unwrap());
    }
    let refused = system.session("slow", "one more").send("go").await;
    assert!(matches!(
        refused,
        Err(SystemError::Overloaded { bound: 3, .. })
    ));
    for run in &runs {
        text(run).await;
    }
    pause(50).await;
    let run = system.session("slow", "later").send("go").await.unwrap();
    assert_eq!(text(&run).await, "done");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_adds_no_run_is_taken_although_no_place_is_free() {
    let mut stage = Stage::new();
    stage.limits.max_live_runs = 1;
    let system = turns::system(&stage, WhileBusy::Steer).await;
    let session = system.session("worker", "s");
    let one = Turn::text("one").id("1");
    let first = session.send(one.clone()).await.unwrap();
    // It is said to the run under way, it is the same again, and it waits for the place of the one before it.
    let (steers, again) = (session.send("two").await, session.send(one).await);
    assert_eq!(steers.unwrap().id(), first.id());
    assert_eq!(again.unwrap().id(), first.id());
    let waits = tokio::spawn({
        let session = session.clone();
        async move { session.send(Turn::text("three").dry_run()).await }
    });
    pause(10).await;
    let other = system.session("worker", "t");
    let is_refused = |sent: Result<Run, SystemError>| {
        let refused = sent.unwrap_err();
        let named = matches!(refused, SystemError::Overloaded { bound: 1, .. });
        assert!(named, "{refused}");
    };
    is_refused(other.send("go").await);
    text(&waits.await.unwrap().unwrap()).await;
    pause(50).await;
    let goes = other.send("go").await.unwrap();
    // Its agent is still here.
    is_refused(session.send("four").await);
    text(&goes).await;
    pause(50).await;
    text(&session.send("four").await.unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn turns_on_their_way_are_bounded_too() {
    let mut stage = Stage::new();
    stage.limits.max_admissions = 1;
    let system = stage.start(slow()).await;
    ask(&system, "slow", "first").await;
    // It is on its way until the first has ended.
    let session = system.session("slow", "s");
    let waiting = tokio::spawn(async move { session.send("second").await });
    pause(5).await;
    let refused = system.session("slow", "t").send("go").await;
    assert!(matches!(
        refused,
        Err(SystemError::Overloaded { bound: 1, .. })
    ));
    waiting.await.unwrap().unwrap();
    system.session("slow", "t").send("go").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_admitted_runs_operations_wait_their_turn_and_are_never_refused() {
    let mut stage = Stage::new();
    stage.limits.executor.concurrency = 2;
    stage.limits.gateway.concurrency = 2;
    let agent = Agent::from_fn("many", |cx: RunContext| async move {
        let calls = (0..20).map(|n| call(&n.to_string(), "look"));
        let results = cx.tools(calls).await?;
        let asked = (0..20).map(|_| cx.model(cx.model_request(cx.conversation())));
        let said = futures_util::future::join_all(asked).await;
        let fine = said.iter().all(Result::is_ok);
        let texts = results.iter().filter(|r| r.text == "look {}").count();
        Ok(Outcome::answer(format!("{texts} {fine}")))
    })
    .parallel_tools(20)
    .tool(stage.tool("look", Effect::Read, 100));
    let model = ScriptedModel::turns(["yes"]).delay(Duration::from_millis(100));
    let system = stage.start_with(agent, model).await;
    let began = tokio::time::Instant::now();
    assert_eq!(text(&ask(&system, "many", "go").await).await, "20 true");
    assert!(began.elapsed() >= Duration::from_secs(2), "the bound holds");
}
