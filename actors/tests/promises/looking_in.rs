//! Whoever operates a System sees which slots are taken, and how the topics of a run stand.

use std::time::Duration;

use ghostlight_actors::{
    actor::System,
    contract::{News, Notice, Store},
    run::{
        Agent, RunContext,
        operations::{Overflow, Subscription},
    },
    testing::{FaultyStore, ScriptedModel},
    vocabulary::{AgentError, Effect, Outcome, RunId, ToolCall},
};
use serde_json::json;
use tokio::time::Instant;

use crate::stage::{Stage, ask, outcome, pause, text};

#[tokio::test(start_paused = true)]
async fn slots_are_counted_with_what_waits_for_them() {
    let mut stage = Stage::new();
    stage.limits.executor.concurrency = 3;
    stage.limits.gateway.concurrency = 1;
    stage.limits.max_live_runs = 7;
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
    assert_eq!((load.live_runs, system.options().max_live_runs), (3, 7));
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

/// An agent that works for so long.
fn working(pause: Duration) -> Agent {
    Agent::from_fn("a", move |cx: RunContext| async move {
        let work = async move {
            tokio::time::sleep(pause).await;
            Ok::<_, AgentError>("done".to_owned())
        };
        Ok(Outcome::answer(cx.step("work", Effect::Read, work).await?))
    })
}

/// A System of this agent in another process.
async fn elsewhere(stage: &Stage, store: impl Store, agent: Agent) -> System {
    System::builder(store)
        .options(stage.limits)
        .clock(stage.clock.clone())
        .team(agent.into_team().unwrap())
        .start()
        .await
        .unwrap()
}

/// The clock stands for an hour, in which a look each 20 ms would be 180,000 looks.
#[tokio::test(start_paused = true)]
async fn a_run_of_another_process_is_looked_at_less_often_the_longer_it_takes() {
    let stage = Stage::alone();
    let agent = || working(Duration::from_secs(3_600));
    let system = stage.start(agent()).await;
    let run = ask(&system, "a", "go").await;
    let store = FaultyStore::counting_calls(stage.store.another_process());
    let other = elsewhere(&stage, store.clone(), agent()).await;
    let outcome = other.run(run.id()).outcome().await.unwrap();
    assert_eq!(outcome.text(), "done");
    let calls = store.calls();
    assert!(calls < 20_000, "{calls} calls of the store");
}

/// Both runs end between two looks, which come each second.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_run_wakes_those_who_wait_for_it_and_a_lost_notice_costs_a_second() {
    let stage = Stage::alone();
    let agent = || working(Duration::from_millis(10_300));
    let system = stage.start(agent()).await;
    let told = ask(&system, "a", "go").await.id();
    let lost = system.session("a", "lost").send("go").await.unwrap().id();
    let news = News::default();
    let store = FaultyStore::telling(stage.store.another_process(), news.clone());
    let other = elsewhere(&stage, store.clone(), agent()).await;
    let begun = Instant::now();
    let wait_for = async |run: RunId| {
        let outcome = other.run(run).outcome().await.unwrap();
        assert_eq!(outcome.text(), "done");
        begun.elapsed()
    };
    let tell = async {
        tokio::time::sleep(Duration::from_millis(10_350)).await;
        news.tell(Notice::Rested(told));
    };
    let (after_told, after_lost, ()) = tokio::join!(wait_for(told), wait_for(lost), tell);
    let millis = Duration::from_millis;
    assert!(after_told < millis(10_400), "{after_told:?}");
    assert!(after_lost > millis(10_900), "{after_lost:?}");
    assert!(after_lost < millis(11_200), "{after_lost:?}");
    let calls = store.calls();
    assert!(calls < 100, "{calls} calls of the store");
}
