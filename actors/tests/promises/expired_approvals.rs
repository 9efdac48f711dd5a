//! What counts when a person decides too late, or not at all.

use std::time::Duration;

use ghostlight_actors::{
    actor::System,
    contract::{Clock, SystemClock},
    definition::{ApprovalRule, OnExpiry},
    run::{Agent, RunContext},
    session::Turn,
    vocabulary::{Outcome, ToolStatus},
};
use serde_json::json;

use crate::{
    approvals::{call, caller, questions, results, wipe},
    stage::{Stage, ask, pause, silent},
};

#[tokio::test(start_paused = true)]
async fn nobody_s_answer_is_the_default() {
    for (on_expiry, status, count) in [
        (OnExpiry::Deny, ToolStatus::Denied, 0),
        (OnExpiry::Approve, ToolStatus::Success, 1),
    ] {
        let mut stage = Stage::new();
        let agent = |stage: &Stage| {
            caller(vec![call("1", json!({ "path": "x" }))])
                .tool(stage.log.tool(wipe(), Duration::ZERO))
                .approval(
                    "*",
                    ApprovalRule::required().expires(Duration::from_secs(60), on_expiry),
                )
        };
        let system = stage.start(agent(&stage)).await;
        let run = ask(&system, "a", "go").await;
        pause(1000).await;
        stage.crash(&system).await;
        let system = stage.start(agent(&stage)).await;
        let began = tokio::time::Instant::now();
        assert_eq!(results(&system.run(run.id())).await[0].status, status);
        let took = began.elapsed().as_secs();
        assert!((58..=60).contains(&took), "the first asking counts: {took}");
        assert_eq!(stage.log.count("wipe"), count);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_counts_when_it_was_given_in_time_wherever_it_is_read() {
    for (seconds, status) in [(59, ToolStatus::Success), (61, ToolStatus::Denied)] {
        let mut stage = Stage::new();
        let clock = SystemClock::new();
        let builder = |stage: &Stage| {
            let agent = caller(vec![call("1", json!({ "path": "x" }))])
                .tool(stage.log.tool(wipe(), Duration::ZERO))
                .approval(
                    "*",
                    ApprovalRule::required().expires(Duration::from_secs(60), OnExpiry::Deny),
                );
            System::builder(stage.store.clone())
                .clock(clock.clone())
                .model("default", silent())
                .team(agent.into_team().unwrap())
        };
        let system = builder(&stage).start().await.unwrap();
        let run = ask(&system, "a", "go").await;
        let (operation, _) = questions(&run).await.remove(0);
        stage.crash(&system).await;
        pause(seconds * 1000).await;
        // Nobody carries the run, as where a command only answers.
        let system = builder(&stage).recover(false).start().await.unwrap();
        let run = system.run(run.id());
        let answered = run.answer(operation, json!(true)).await;
        let in_time = status == ToolStatus::Success;
        assert_eq!(answered.is_ok(), in_time, "{answered:?}");
        pause(5000).await;
        system.resume(run.id(), false).await.unwrap();
        assert_eq!(results(&run).await[0].status, status, "after {seconds} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_is_not_approved_whose_turn_s_time_has_passed() {
    for below in [false, true] {
        let mut stage = Stage::new();
        let clock = SystemClock::new();
        let builder = |stage: &Stage| {
            let agent = caller(vec![call("1", json!({ "path": "x" }))])
                .tool(stage.log.tool(wipe(), Duration::ZERO))
                .approval("*", ApprovalRule::required());
            let agent = match below {
                false => agent,
                true => Agent::from_fn("desk", |cx: RunContext| async move {
                    Ok(Outcome::answer(cx.delegate("a", "go").await?.text))
                })
                .agent(agent),
            };
            let name = agent.spec().name.clone();
            let builder = System::builder(stage.store.clone())
                .clock(clock.clone())
                .model("default", silent())
                .team(agent.into_team().unwrap());
            (name, builder)
        };
        let (team, started) = builder(&stage);
        let system = started.start().await.unwrap();
        let turn = Turn::text("go").deadline(clock.now().after(Duration::from_secs(60)));
        let run = system.session(team, "s").send(turn).await.unwrap();
        let (operation, _) = questions(&run).await.remove(0);
        stage.crash(&system).await;
        pause(61_000).await;
        // Nobody carries the run, as where a command only answers.
        let system = builder(&stage).1.recover(false).start().await.unwrap();
        let run = system.run(run.id());
        let told = run.answer(operation, json!(true)).await.unwrap_err();
        let expected =
            "comes too late: the time of its run is over, and what it asks about is not done";
        assert!(told.to_string().contains(expected), "{told}");
        system.resume(run.id(), false).await.unwrap();
        let outcome = run.outcome().await.unwrap();
        assert!(outcome.stop_reason().is_some(), "{outcome:?}");
        assert_eq!(stage.log.count("wipe"), 0);
    }
}
