//! Events between agents.

use std::time::Duration;

use ghostlight::behaviors;
use ghostlight_actors::{
    actor::{Fork, Run, System},
    contract::{DynStore, RunFilter},
    run::{
        Agent, Registry, RunContext,
        operations::{Overflow, Scope, Subscription},
    },
    testing::{CrashOptions, InMemoryStore, Scenario, ScriptedModel, crash_everywhere},
    vocabulary::{
        AgentError, Effect, ErrorKind, Event, Message, Outcome, ToolCall, ToolDefinition,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::patterns::acts;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Price {
    euro: u32,
}

async fn begun(agent: Agent) -> (System, Run) {
    let system = System::builder(InMemoryStore::new())
        .registry(behaviors::register(Registry::new()))
        .model("default", ScriptedModel::hanging())
        .team(agent.into_team().unwrap())
        .start()
        .await
        .unwrap();
    let run = system.session("boss", "s").send("go").await.unwrap();
    (system, run)
}

async fn answer(agent: Agent) -> String {
    let (system, run) = begun(agent).await;
    let text = run.outcome().await.unwrap().text().to_owned();
    system.stop().await.unwrap();
    text
}

/// Eight events of rising and falling priority into a queue of three that nobody empties
/// meanwhile: what is left of them, and how many were dropped.
async fn left_of_eight(overflow: Overflow) -> String {
    let boss = Agent::from_fn("boss", move |cx: RunContext| async move {
        let topic = cx.topic::<u32>("numbers");
        let queue = Subscription::new("all").capacity(3).overflow(overflow);
        let mut all = topic.subscribe(queue).await?;
        for (number, priority) in [
            (1, 5),
            (2, 1),
            (3, 4),
            (4, 1),
            (5, 6),
            (6, 2),
            (7, 9),
            (8, 4),
        ] {
            topic.publish_with_priority(&number, priority).await?;
        }
        let counts = topic.counts().await?;
        let mut left = Vec::new();
        for _ in 0..counts.queues["all"].waiting {
            left.push(all.next().await?.event);
        }
        let after = topic.counts().await?.queues["all"];
        assert_eq!((after.waiting, after.received), (0, 3));
        Ok(Outcome::answer(format!(
            "{left:?} of {}, {} dropped",
            counts.published, counts.queues["all"].dropped
        )))
    });
    answer(boss).await
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_what_it_was_told_to_and_counts_it() {
    for (overflow, left) in [
        (Overflow::DropOldest, "[6, 7, 8] of 8, 5 dropped"),
        (Overflow::DropNewest, "[1, 2, 3] of 8, 5 dropped"),
        (Overflow::DropLowestPriority, "[1, 5, 7] of 8, 5 dropped"),
    ] {
        assert_eq!(left_of_eight(overflow).await, left, "{overflow:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_publisher_waits_for_room_and_nothing_is_lost() {
    let boss = Agent::from_fn("boss", |cx: RunContext| async move {
        let queue = Subscription::new("slow").capacity(2);
        let mut slow = cx.topic::<u32>("numbers").subscribe(queue).await?;
        let child = cx.spawn("source", "7").await?;
        let mut heard = Vec::new();
        for _ in 0..7 {
            cx.sleep(Duration::from_secs(5)).await?;
            let counts = cx.topic::<u32>("numbers").counts().await?;
            assert!(counts.queues["slow"].waiting <= 2, "{counts:?}");
            heard.push(slow.next().await?.event);
        }
        let took = cx.join(&child).await?.text;
        Ok(Outcome::answer(format!("{heard:?} {took}")))
    });
    let source = Agent::from_fn("source", |cx: RunContext| async move {
        let begun = cx.now().await?;
        for number in 0..7_u32 {
            cx.topic("numbers").publish(&number).await?;
        }
        let took = cx.now().await?.since(begun).as_secs();
        Ok(Outcome::answer(format!("{took} s")))
    });
    // The last one found room when the fifth was taken.
    assert_eq!(
        answer(boss.agent(source)).await,
        "[0, 1, 2, 3, 4, 5, 6] 25 s"
    );
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_has_ended_holds_nobody_up() {
    let boss = Agent::from_fn("boss", |cx: RunContext| async move {
        cx.delegate("listener", "go").await?;
        let topic = cx.topic::<u32>("numbers");
        for number in 0..3 {
            topic.publish(&number).await?;
        }
        let counts = topic.counts().await?;
        Ok(Outcome::answer(format!(
            "{} {}",
            counts.published,
            counts.queues.len()
        )))
    });
    let listener = Agent::from_fn("listener", |cx: RunContext| async move {
        let queue = Subscription::new("gone").capacity(1);
        cx.topic::<u32>("numbers").subscribe(queue).await?;
        Ok(Outcome::answer("gone"))
    });
    assert_eq!(answer(boss.agent(listener)).await, "3 0");
}

#[tokio::test(start_paused = true)]
async fn events_are_filtered_transformed_and_answered_within_a_time() {
    let boss = Agent::from_fn("boss", |cx: RunContext| async move {
        let child = cx.spawn("clerk", "go").await?;
        let prices = cx.topic::<Price>("prices");
        // Until the clerk listens nobody answers.
        let limit = Duration::from_secs(1);
        let missed = prices.request::<u32>(&Price { euro: 1 }, limit).await;
        assert_eq!(missed.unwrap_err().kind(), Some(&ErrorKind::Timeout));
        cx.sleep(Duration::from_secs(5)).await?;
        let limit = Duration::from_secs(60);
        let answer: u32 = prices.request(&Price { euro: 100 }, limit).await?;
        prices.publish(&Price { euro: 7 }).await?;
        prices.publish(&Price { euro: 200 }).await?;
        let heard = cx.join(&child).await?.text;
        Ok(Outcome::answer(format!("{answer}, {heard}")))
    });
    let clerk = Agent::from_fn("clerk", |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(3)).await?;
        let prices = cx
            .topic::<Price>("prices")
            .subscribe(Subscription::new("clerk"))
            .await?;
        let mut gross = prices
            .filter(|price| price.euro >= 100)
            .map(|price| price.euro * 119 / 100);
        let asked = gross.next().await?;
        assert!(asked.asks());
        assert_eq!((asked.from.as_str(), asked.sequence), ("boss", 2));
        asked.respond(&cx, &asked.event).await?;
        let told = gross.next().await?;
        assert!(!told.respond(&cx, &0).await?);
        Ok(Outcome::answer(told.event.to_string()))
    });
    assert_eq!(answer(boss.agent(clerk)).await, "119, 238");
}

fn team(log: Option<&ghostlight_actors::testing::EffectLog>) -> Agent {
    let put = ToolDefinition::new("put", "is logged").effect(Effect::Once);
    let boss = Agent::from_fn("boss", |cx: RunContext| async move {
        let a = cx.spawn("worker", "a").await?;
        let b = cx.spawn("worker", "b").await?;
        let ready = cx.topic::<String>("ready");
        let mut ready = ready.subscribe(Subscription::new("boss")).await?;
        ready.next().await?;
        ready.next().await?;
        let jobs = cx.topic::<u32>("jobs");
        for job in 0..5 {
            jobs.publish(&job).await?;
        }
        jobs.publish(&100).await?;
        jobs.publish(&100).await?;
        let (a, b) = (cx.join(&a).await?.text, cx.join(&b).await?.text);
        let mut all: Vec<u32> = format!("{a}{b}")
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        all.sort_unstable();
        Ok::<_, AgentError>(Outcome::answer(format!("{all:?}")))
    });
    // Two share one queue: each job is done once.
    let worker = Agent::from_fn("worker", |cx: RunContext| async move {
        let queue = Subscription::new("workers").capacity(2);
        let mut jobs = cx.topic::<u32>("jobs").subscribe(queue).await?;
        let name = cx.input().content();
        cx.topic("ready").publish(&name).await?;
        let mut done = String::new();
        loop {
            let job = jobs.next().await?.event;
            if job == 100 {
                return Ok(Outcome::answer(done));
            }
            let call = ToolCall::new(format!("job-{job}"), "put", json!({"job": job}));
            if cx.spec().tools.contains(&"put".to_owned()) {
                cx.tool(call).await?;
            }
            done.push_str(&format!("{job} "));
        }
    });
    let worker = match log {
        Some(log) => worker.tool(log.tool(put, Duration::from_millis(5))),
        None => worker,
    };
    boss.agent(worker)
}

#[tokio::test(start_paused = true)]
async fn those_who_share_a_queue_get_each_event_once_whenever_the_process_dies() {
    assert_eq!(answer(team(None)).await, "[0, 1, 2, 3, 4]");
    let scenario = Scenario::new("boss", |builder, log| {
        builder.team(team(Some(&log)).into_team().unwrap())
    });
    let options = CrashOptions::default();
    let report = crash_everywhere(&scenario.named("topics").turn("go"), options).await;
    assert!(report.violations.is_empty(), "{report}");
    assert!(report.crashes >= 30, "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_topic_of_the_team_is_shared_by_its_sessions() {
    let boss = Agent::from_fn("boss", |cx: RunContext| async move {
        let topic = cx.topic::<String>("news").in_scope(Scope::App);
        if cx.input().content() == "tell" {
            let told = topic.publish(&"it is done".to_owned()).await?;
            return Ok(Outcome::answer(told.delivered.to_string()));
        }
        let mut news = topic.subscribe(Subscription::new("news")).await?;
        Ok(Outcome::answer(news.next().await?.event))
    });
    let (system, listens) = begun(boss).await;
    while listens.events().so_far().await.unwrap().len() < 3 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let tells = system.session("boss", "other").send("tell").await.unwrap();
    assert_eq!(tells.outcome().await.unwrap().text(), "1");
    assert_eq!(listens.outcome().await.unwrap().text(), "it is done");
    system.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_event_that_a_model_publishes_starts_the_agents_that_wait_for_its_topic() {
    let model = ScriptedModel::from_reply_fn(|request, _| {
        let said = request.conversation.messages();
        match (said[0].content().as_str(), said.len()) {
            ("go", 1) => acts([
                ("publish", json!({"topic": "weather", "event": "x"})),
                ("publish", json!({"topic": "orders", "event": "two chairs"})),
            ]),
            ("go", _) => {
                let results = said[2].tool_results().map(|result| result.text.clone());
                results.collect::<Vec<_>>().join(" ").into()
            }
            (task, _) => format!("done: {task}").into(),
        }
    });
    let boss = Agent::new("boss")
        .publishes(["orders"])
        .agent(Agent::new("billing").starts_on(["orders"]))
        .agent(Agent::new("other").starts_on(["weather"]));
    let store = InMemoryStore::new();
    let system = System::builder(store.clone())
        .registry(behaviors::register(Registry::new()))
        .model("default", model)
        .team(boss.into_team().unwrap())
        .start()
        .await
        .unwrap();
    let run = system.session("boss", "s").send("go").await.unwrap();
    let told = run.outcome().await.unwrap().text().to_owned();
    assert!(
        told.contains("do not fit the tool") && told.ends_with("Published."),
        "{told}"
    );
    let rows = store.runs(RunFilter::default()).await.unwrap();
    let billing: Vec<_> = rows.iter().filter(|row| row.agent == "billing").collect();
    assert_eq!((rows.len(), billing.len()), (2, 1));
    let billing = system.run(billing[0].run);
    assert_eq!(billing.outcome().await.unwrap().text(), "done: two chairs");
    system.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_model_is_told_that_its_event_was_held_back() {
    let model = ScriptedModel::from_reply_fn(|request, _| {
        let said = request.conversation.messages();
        match said.len() {
            1 => acts([
                ("publish", json!({"topic": "orders", "event": "one"})),
                ("publish", json!({"topic": "orders", "event": "two"})),
            ]),
            _ => {
                let results = said[2].tool_results();
                let told = results.map(|result| format!("{:?} {}", result.status, result.text));
                told.collect::<Vec<_>>().join(" ").into()
            }
        }
    });
    let boss = Agent::from_fn("boss", |cx: RunContext| async move {
        let queue = Subscription::new("few").capacity(1);
        let queue = queue.overflow(Overflow::DropNewest);
        let topic = cx.topic::<String>("orders");
        let mut orders = topic.subscribe(queue).await?;
        let told = cx.delegate("clerk", "go").await?.text;
        Ok(Outcome::answer(format!(
            "{}: {told}",
            orders.next().await?.event
        )))
    });
    let boss = boss.agent(Agent::new("clerk").publishes(["orders"]));
    let system = System::builder(InMemoryStore::new())
        .registry(behaviors::register(Registry::new()))
        .model("default", model)
        .team(boss.into_team().unwrap())
        .start()
        .await
        .unwrap();
    let run = system.session("boss", "s").send("go").await.unwrap();
    let told = run.outcome().await.unwrap().text().to_owned();
    let expected = "one: Success Published. Blocked Held back: 1 of 1 receivers";
    assert!(told.starts_with(expected), "{told}");
    system.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_fork_has_told_its_own_child_what_the_run_told_its_own() {
    let boss = Agent::from_fn("boss", |cx: RunContext| async move {
        let child = cx.spawn("worker", "wait").await?;
        cx.tell(&child, &Message::user("now")).await?;
        cx.sleep(Duration::from_secs(5)).await?;
        Ok(Outcome::answer(cx.join(&child).await?.text))
    });
    let worker = Agent::from_fn("worker", |cx: RunContext| async move {
        let told = cx.receive::<Message>().await?.content();
        cx.sleep(Duration::from_secs(60)).await?;
        Ok(Outcome::answer(format!("heard {told}")))
    });
    let (system, run) = begun(boss.agent(worker)).await;
    assert_eq!(run.outcome().await.unwrap().text(), "heard now");
    let records = run.events().so_far().await.unwrap();
    let slept = records.iter().find_map(|record| match &record.event {
        Event::OperationCompleted { kind, .. } if kind == "sleep" => record.sequence,
        _ => None,
    });
    // The fork replays that it told its child, and its child, which is another run, that it heard.
    let fork = run.fork(Fork::at(slept.unwrap())).await.unwrap();
    assert_eq!(fork.outcome().await.unwrap().text(), "heard now");
    system.stop().await.unwrap();
}

#[test]
fn topics_that_would_start_runs_for_ever_are_refused() {
    let team = |last: &'static str| {
        let first = Agent::new("first")
            .starts_on(["a"])
            .agent(Agent::new("deep").publishes(["b"]));
        let second = Agent::new("second").starts_on(["b"]).publishes([last]);
        Agent::new("boss")
            .publishes(["a"])
            .agent(first)
            .agent(second)
            .into_team()
    };
    let refused = team("a").unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("the topic \"a\" starts an agent"),
        "{refused}"
    );
    team("c").unwrap();
}
