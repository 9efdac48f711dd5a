//! Whoever operates a System sees which slots are taken, and how the topics of a run stand.

use std::time::Duration;

use ghostlight_actors::{
    actor::System,
    run::{
        Agent, RunContext,
        operations::{Overflow, Subscription},
    },
    testing::{FaultyStore, ScriptedModel},
    vocabulary::{AgentError, Effect, Outcome, ToolCall},
};
use serde_json::json;

use crate::stage::{Stage, ask, outcome, pause, text};

#[tokio::test(start_paused = true)]
async fn slots_are_counted_with_what_waits_for_them() {
    let mut stage = Stage::new();
    stage.limits.executor.concurrency = 3;
    stage.limits.gateway.concurrency = 1;
    stage.limits.live_runs = 7;
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let call = |number: usize| ToolCall::new(number.to_string(), "look", json!({}));
        cx.tools((0..5).map(call)).await?;
        let said = cx.model(cx.model_request(cx.conversation())).await?;
        Ok(Outcome::answer(said.content()))
    })
    .tool(stage.tool("look", Effect::Read, 1_000));
    let slow = ScriptedModel::from_reply_fn(|_, _| "well".into());
    let slow = slow.delay(Duration::from_secs(1));
    let system: System = stage.start_with(agent, slow).await;
    let load = system.load();
    assert_eq!((load.tools.slots, load.tools.used), (3, 0));
    assert_eq!((load.live_runs, load.admissions), (0, 0));
    let mut runs = Vec::new();
    for key in ["one", "two", "three"] {
        runs.push(system.session("a", key).send("go").await.unwrap());
    }
    pause(500).await;
    let load = system.load();
    assert_eq!((load.tools.used, load.tools.waiting), (3, 12));
    assert_eq!((load.live_runs, system.limits().live_runs), (3, 7));
    pause(4_800).await;
    let load = system.load();
    let model = load.models["model default"];
    assert_eq!((model.slots, model.used), (1, 1), "{load:?}");
    assert!(load.live_runs > 1, "{load:?}");
    assert_eq!(model.waiting, load.live_runs - 1, "{load:?}");
    for run in runs {
        assert_eq!(text(&run).await, "well");
    }
    let load = system.load();
    for slots in load.models.values().chain([&load.tools]) {
        assert_eq!((slots.used, slots.waiting), (0, 0), "{load:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_topics_of_a_run_are_seen_from_outside_and_are_its_own() {
    let stage = Stage::new();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let prices = cx.topic::<u32>("prices");
        let mut kept = prices
            .subscribe(Subscription::new("kept").capacity(2))
            .await?;
        let latest = Subscription::new("latest").capacity(1);
        let latest = prices
            .subscribe(latest.overflow(Overflow::DropOldest))
            .await?;
        prices.publish(&1).await?;
        prices.publish(&2).await?;
        kept.next().await?;
        cx.ask("well?").await?;
        drop(latest);
        Ok(Outcome::answer("done"))
    });
    let system = stage.start(agent).await;
    let run = ask(&system, "a", "go").await;
    pause(100).await;
    let topics = run.topics().await.unwrap();
    let prices = &topics["prices"];
    assert_eq!((prices.published, prices.blocked), (2, 0));
    let (kept, latest) = (prices.queues["kept"], prices.queues["latest"]);
    assert_eq!((kept.waiting, kept.capacity, kept.received), (1, 2, 1));
    assert_eq!((latest.waiting, latest.capacity, latest.dropped), (1, 1, 1));
    let other = system.session("a", "other").send("go").await.unwrap();
    run.cancel("seen").await.unwrap();
    outcome(&run).await;
    pause(100).await;
    assert_eq!(other.topics().await.unwrap()["prices"].published, 2);
    other.cancel("seen").await.unwrap();
    outcome(&other).await;
}

/// The clock stands for an hour, in which a look each 20 ms would be 180,000 looks.
#[tokio::test(start_paused = true)]
async fn a_run_of_another_process_is_looked_at_less_often_the_longer_it_takes() {
    let stage = Stage::alone();
    let hour = Duration::from_secs(3_600);
    let agent = move || {
        Agent::from_fn("a", move |cx: RunContext| async move {
            let work = async move {
                tokio::time::sleep(hour).await;
                Ok::<_, AgentError>("done".to_owned())
            };
            Ok(Outcome::answer(cx.step("work", Effect::Read, work).await?))
        })
    };
    let system = stage.start(agent()).await;
    let run = ask(&system, "a", "go").await;
    let elsewhere = FaultyStore::counting_calls(stage.store.another_process());
    let other = System::builder(elsewhere.clone())
        .limits(stage.limits)
        .clock(stage.clock.clone())
        .team(agent().into_team().unwrap())
        .start()
        .await
        .unwrap();
    let outcome = other.run(run.id()).outcome().await.unwrap();
    assert_eq!(outcome.text(), "done");
    let calls = elsewhere.calls();
    assert!(calls < 20_000, "{calls} calls of the store");
}
