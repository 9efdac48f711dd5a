//! What comes for a run is read once, however much waits.

use std::time::{Duration, Instant};

use ghostlight_actors::{
    contract::{ItemBody, MailboxItem, Mailboxes, RunStatus},
    run::{Agent, RunContext, operations::AgentMessage},
    vocabulary::{Begun, Effect, Entry, Outcome, Question, Timestamp},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::stage::{Stage, ask, call, pause, text};

/// As many as a busy agent is told in a day.
const MANY: u32 = 10_000;

/// For a debug build on a busy machine; to look at all that waits for each message takes minutes.
const BOUND: Duration = Duration::from_secs(20);

#[derive(Serialize, Deserialize)]
struct Number(u32);

impl AgentMessage for Number {
    const NAME: &'static str = "number";
}

#[derive(Serialize, Deserialize)]
struct Begin;

impl AgentMessage for Begin {
    const NAME: &'static str = "begin";
}

/// Receives so many numbers one by one, in their order; at once, or when it is told to begin.
fn counter(at_once: bool) -> Agent {
    Agent::from_fn("counter", move |cx: RunContext| async move {
        if !at_once {
            let Begin = cx.receive().await?;
        }
        for expected in 0..MANY {
            let Number(number) = cx.receive().await?;
            if number != expected {
                return Ok(Outcome::answer(format!("{number} instead of {expected}")));
            }
        }
        Ok(Outcome::answer("all"))
    })
}

#[tokio::test]
async fn ten_thousand_messages_are_received_as_they_come_in_seconds() {
    let stage = Stage::new();
    let system = stage.start(counter(true)).await;
    let begun = Instant::now();
    let run = ask(&system, "counter", "go").await;
    for number in 0..MANY {
        run.tell(&Number(number)).await.unwrap();
    }
    assert_eq!(text(&run).await, "all");
    assert!(begun.elapsed() < BOUND, "it took {:?}", begun.elapsed());
}

#[tokio::test]
async fn ten_thousand_messages_that_wait_are_received_in_seconds() {
    let mut stage = Stage::new();
    let system = stage.start(counter(false)).await;
    let begun = Instant::now();
    let run = ask(&system, "counter", "go").await;
    for number in 0..MANY {
        run.tell(&Number(number)).await.unwrap();
    }
    stage.crash(&system).await;
    // Another process finds all of them.
    let system = stage.start(counter(false)).await;
    let run = system.run(run.id());
    run.tell(&Begin).await.unwrap();
    assert_eq!(text(&run).await, "all");
    assert!(begun.elapsed() < BOUND, "it took {:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_result_that_comes_for_a_call_which_is_over_leaves_the_mailbox() {
    let stage = Stage::new();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let order = cx.tool_unasked(call("1", "order"));
        let ordered = cx.timeout(Duration::from_secs(1), order).await;
        assert!(ordered.is_err(), "it has no result in time");
        let answer = cx.ask(Question::new("well?")).await?;
        Ok(Outcome::answer(answer.as_str().unwrap_or_default()))
    });
    let agent = agent.tool(stage.tool("order", Effect::Once, 5).later());
    let system = stage.start(agent).await;
    let run = ask(&system, "a", "go").await;
    pause(2_000).await;
    let entries = stage.entries(run.id()).await;
    let ticket = entries.iter().find_map(|entry| match entry {
        Entry::Started {
            op,
            begun: Begun::Ticket,
            ..
        } => Some(*op),
        _ => None,
    });
    let (operation, result) = (ticket.unwrap(), Ok("late".to_owned()));
    let body = ItemBody::Result { operation, result };
    let item = MailboxItem::new("late", Timestamp(0), body);
    stage.store.post(run.id().into(), item).await.unwrap();
    let rests = tokio::time::timeout(Duration::from_secs(3_600), run.wait()).await;
    let row = rests.expect("the run never seems to rest").unwrap();
    assert_eq!(row.status, RunStatus::Waiting);
    assert!(
        stage
            .store
            .mailbox(run.id().into())
            .await
            .unwrap()
            .is_empty()
    );
    let question = run.questions().await.unwrap().remove(0).1;
    run.answer(question, json!("yes")).await.unwrap();
    assert_eq!(text(&run).await, "yes");
}
