//! What comes for a run is read once, however much waits.

use std::time::{Duration, Instant};

use ghostlight_actors::{
    run::{Agent, RunContext, operations::AgentMessage},
    vocabulary::Outcome,
};
use serde::{Deserialize, Serialize};

use crate::stage::{Stage, ask, text};

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
