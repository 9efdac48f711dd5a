//! Events of topics come to those who wait for them, whoever goes away meanwhile.

use std::time::Duration;

use ghostlight_actors::{
    contract::DynStore,
    run::{
        Agent, RunContext,
        operations::{Overflow, Subscription},
    },
    session::Turn,
    testing::{CrashOptions, Scenario, crash_everywhere},
    vocabulary::{ErrorKind, Outcome, Scope},
};
use serde_json::Value;

use crate::{
    contested::{Contested, start},
    stage::{Stage, ask, pause, text},
};

const SECOND: Duration = Duration::from_secs(1);

/// Hears one event after another, each by a subscriber of its own.
fn listener() -> Agent {
    Agent::from_fn("listener", |cx: RunContext| async move {
        let topic = cx.topic::<u32>("numbers");
        let (mut one, mut other) = (
            topic.subscribe(Subscription::new("shared")).await?,
            topic.subscribe(Subscription::new("shared")).await?,
        );
        let (one, other) = futures_util::future::join(one.next(), other.next()).await;
        let mut heard = [one?.event, other?.event];
        heard.sort_unstable();
        Ok(Outcome::answer(format!("{heard:?}")))
    })
}

#[derive(schemars::JsonSchema)]
#[allow(dead_code)]
struct Order {
    pieces: u32,
}

/// One that cannot start leaves the event and the others as they are.
#[tokio::test(start_paused = true)]
async fn an_event_that_is_out_is_published_whatever_starts_on_it() {
    let boss = Agent::from_fn("boss", |cx: RunContext| async move {
        let topic = cx.topic::<u32>("numbers");
        let published = topic.publish(&7).await?;
        let (agent, fault) = &published.not_started[0];
        Ok(Outcome::answer(format!(
            "{} {agent} {:?} {}",
            published.sequence, fault.kind, published.started[0].agent
        )))
    });
    let told = |name: &str| {
        let agent = Agent::from_fn(name, |cx: RunContext| async move {
            Ok(Outcome::answer(cx.input().content()))
        });
        agent.starts_on(["numbers"])
    };
    let boss = boss.agent(told("picky").input::<Order>());
    let stage = Stage::new();
    let system = stage.start(boss.agent(told("other"))).await;
    let run = ask(&system, "boss", "go").await;
    assert_eq!(text(&run).await, "1 picky Malformed other");
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_woken_also_when_the_publisher_goes_away_at_once() {
    let boss = Agent::from_fn("boss", |cx: RunContext| async move {
        let child = cx.spawn("listener", "go").await?;
        cx.sleep(SECOND).await?;
        let topic = cx.topic::<u32>("numbers");
        // What the publisher does after its event is in the queues never comes to an end.
        let first = cx.timeout(SECOND, topic.publish(&1)).await;
        let second = cx.timeout(SECOND, topic.publish(&2)).await;
        let published = topic.counts().await?.published;
        let heard = cx.join(&child).await?.text;
        let (first, second) = (first.is_ok(), second.is_ok());
        Ok(Outcome::answer(format!(
            "{first} {second} {published} {heard}"
        )))
    });
    let stage = Stage::new();
    let store = Contested::over(stage.store.clone());
    store.posts_wait.send_replace(true);
    let system = start(&stage, store, boss.agent(listener())).await;
    let run = ask(&system, "boss", "go").await;
    assert_eq!(text(&run).await, "true true 2 [1, 2]");
}

#[tokio::test(start_paused = true)]
async fn two_receivers_of_one_run_are_each_told() {
    let boss = Agent::from_fn("boss", |cx: RunContext| async move {
        let child = cx.spawn("listener", "go").await?;
        for number in [1, 2] {
            cx.sleep(SECOND).await?;
            cx.topic("numbers").publish(&number).await?;
        }
        Ok(Outcome::answer(cx.join(&child).await?.text))
    });
    let stage = Stage::new();
    let system = stage.start(boss.agent(listener())).await;
    let run = ask(&system, "boss", "go").await;
    assert_eq!(text(&run).await, "[1, 2]");
}

/// Fills a queue of one event, and waits for room.
fn publisher() -> Agent {
    Agent::from_fn("publisher", |cx: RunContext| async move {
        for number in [1, 2, 3] {
            cx.topic("numbers").publish(&number).await?;
        }
        Ok(Outcome::answer("published"))
    })
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_taken_is_given_to_who_asked_for_it() {
    let boss = Agent::from_fn("boss", |cx: RunContext| async move {
        let topic = cx.topic::<u32>("numbers");
        let queue = Subscription::new("mine").capacity(1);
        let mut mine = topic.subscribe(queue).await?;
        let child = cx.spawn("publisher", "go").await?;
        cx.sleep(SECOND).await?;
        let mut heard = Vec::new();
        while heard.len() < 3 {
            if let Ok(event) = cx.timeout(SECOND, mine.next()).await {
                heard.push(event?.event);
            }
        }
        cx.join(&child).await?;
        Ok(Outcome::answer(format!("{heard:?}")))
    });
    let stage = Stage::new();
    let store = Contested::over(stage.store.clone());
    store.posts_wait.send_replace(true);
    let posts_wait = store.posts_wait.clone();
    let system = start(&stage, store, boss.agent(publisher())).await;
    let run = ask(&system, "boss", "go").await;
    pause(5000).await;
    posts_wait.send_replace(false);
    assert_eq!(text(&run).await, "[1, 2, 3]");
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_in_vain_wherever_the_process_dies() {
    let scenario = Scenario::new("boss", |builder, _| {
        let boss = Agent::from_fn("boss", |cx: RunContext| async move {
            let topic = cx.topic::<u32>("numbers");
            let queue = Subscription::new("mine").capacity(1);
            let mut mine = topic.subscribe(queue).await?;
            let child = cx.spawn("publisher", "go").await?;
            let mut heard = Vec::new();
            for _ in 0..3 {
                cx.sleep(SECOND).await?;
                heard.push(mine.next().await?.event);
            }
            // Nothing comes any more, and a wait that is given up leaves nothing behind.
            for _ in 0..3 {
                assert!(cx.timeout(SECOND, mine.next()).await.is_err());
            }
            cx.join(&child).await?;
            Ok(Outcome::answer(format!("{heard:?}")))
        });
        builder.team(boss.agent(publisher()).into_team().unwrap())
    })
    .turn("go");
    let report = crash_everywhere(&scenario, CrashOptions::default()).await;
    assert!(report.violations.is_empty(), "{report}");
    assert!(report.outcomes[0].contains("[1, 2, 3]"), "{report}");
}

#[tokio::test(start_paused = true)]
async fn what_lasts_of_a_topic_does_not_grow_with_the_runs_that_used_it() {
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let topic = cx.topic::<u32>("news").in_scope(Scope::App);
        let queue = Subscription::new("all").overflow(Overflow::DropOldest);
        let mut all = topic.subscribe(queue.capacity(1)).await?;
        if cx.input().content() == "wait" {
            return Ok(Outcome::answer(all.next().await?.event.to_string()));
        }
        for _ in 0..3 {
            assert!(cx.timeout(SECOND, all.next()).await.is_err());
        }
        Ok(Outcome::answer("nothing"))
    });
    let stage = Stage::new();
    let system = stage.start(agent).await;
    let waiting = ask(&system, "a", "wait").await;
    for turn in 0..40 {
        let session = system.session("a", format!("{}", turn % 4));
        let run = session.send(Turn::text("look")).await.unwrap();
        assert_eq!(text(&run).await, "nothing");
    }
    let state = system.session("a", "s").state(Scope::App).await.unwrap();
    let (_, topic) = state.first().unwrap();
    let queue = &topic["queues"]["all"];
    let many = |list: &str| queue[list].as_array().map_or(0, Vec::len);
    assert!(many("members") <= 8, "{queue}");
    assert!(topic.to_string().len() < 2000, "{topic}");
    // The one that lives is known all the same.
    let members = queue["members"].as_array().unwrap();
    assert!(
        members.contains(&Value::from(waiting.id().to_string())),
        "{queue}"
    );
    waiting.cancel("enough").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_nobody_could_share_is_refused() {
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let topic = cx.topic::<u32>("numbers").in_scope(Scope::Temp);
        let refused = topic.publish(&1).await.map(drop).unwrap_err();
        Ok(Outcome::answer(format!("{:?}", refused.kind())))
    });
    let stage = Stage::new();
    let system = stage.start(agent).await;
    let refused = format!("{:?}", Some(ErrorKind::InvalidInput));
    assert_eq!(text(&ask(&system, "a", "go").await).await, refused);
}

/// Each of its journals hears one event of the team, and one after which it goes on.
fn endless() -> Agent {
    Agent::from_fn("a", |cx: RunContext| async move {
        let topic = cx.topic::<u32>("numbers").in_scope(Scope::App);
        let said = cx.input().content();
        if said == "publish" {
            for number in 1..=20 {
                topic.publish(&number).await?;
            }
            return Ok(Outcome::answer("published"));
        }
        let mut mine = topic.subscribe(Subscription::new("mine")).await?;
        let heard = mine.next().await?.event;
        match heard {
            20 => Ok(Outcome::answer("heard")),
            _ => Ok(cx.continue_as("listen")),
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_receiver_is_one_member_of_its_queue_in_however_many_journals() {
    let stage = Stage::alone();
    let system = stage.start(endless()).await;
    let run = ask(&system, "a", "listen").await;
    let publishes = system.session("a", "other").send("publish").await.unwrap();
    assert_eq!(text(&publishes).await, "published");
    assert_eq!(text(&run).await, "heard");
    let values = stage.store.scope("app:a".to_owned()).await.unwrap();
    let (_, topic) = values
        .iter()
        .find(|(key, _)| key == "topic:numbers")
        .unwrap();
    let members = &topic.value["queues"]["mine"]["members"];
    assert_eq!(members.as_array().unwrap().len(), 1, "{members}");
}

#[tokio::test(start_paused = true)]
async fn signals_and_answers_of_topics_do_not_follow_a_run_into_its_next_journal() {
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let topic = |name: &str| cx.topic::<u32>(name).in_scope(Scope::App);
        match cx.input().content().as_str() {
            "listen" => {
                let mut news = topic("news").subscribe(Subscription::new("mine")).await?;
                // It gives up both, and is told of both afterwards.
                let heard = cx.timeout(SECOND, news.next()).await;
                let answer = topic("questions").request::<u32>(&1, SECOND).await;
                cx.sleep(10 * SECOND).await?;
                match (heard, answer) {
                    (Err(_), Err(_)) => Ok(cx.continue_as("wait")),
                    other => Ok(Outcome::answer(format!("{:?}", other.1))),
                }
            }
            "tell" => {
                let queue = Subscription::new("clerk");
                let mut asked = topic("questions").subscribe(queue).await?;
                let question = asked.next().await?;
                cx.sleep(5 * SECOND).await?;
                topic("news").publish(&1).await?;
                let told = question.respond(&cx, &2).await?;
                Ok(Outcome::answer(told.to_string()))
            }
            _ => {
                cx.sleep(60 * SECOND).await?;
                Ok(Outcome::answer("waited"))
            }
        }
    });
    let stage = Stage::alone();
    let system = stage.start(agent).await;
    let clerk = system.session("a", "clerk").send("tell").await.unwrap();
    let run = ask(&system, "a", "listen").await;
    assert_eq!(text(&clerk).await, "true");
    assert_eq!(
        stage.store.mailbox(run.id().into()).await.unwrap().len(),
        2,
        "it is told of both"
    );
    pause(20_000).await;
    let next = stage.store.mailbox(run.id().next().into()).await.unwrap();
    assert_eq!(next, []);
    assert_eq!(text(&run).await, "waited");
}
