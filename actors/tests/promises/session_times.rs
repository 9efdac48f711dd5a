//! Ids and times of a session, which are the same however often they are read.

use std::time::Duration;

use ghostlight_actors::{
    actor::System,
    run::{Agent, RunContext},
    session::SessionLog,
    vocabulary::{EventRecord, Outcome, Timestamp},
};

use crate::stage::{Stage, pause, text};

fn echo() -> Agent {
    Agent::from_fn("echo", |cx: RunContext| async move {
        cx.sleep(Duration::from_millis(700)).await?;
        Ok(Outcome::answer(cx.input().content()))
    })
}

async fn say(system: &System, what: &str) {
    let run = system.session("echo", "s").send(what).await.unwrap();
    assert_eq!(text(&run).await, what);
}

async fn told(system: &System) -> (SessionLog, Vec<EventRecord>) {
    let log = system.session("echo", "s").log().await.unwrap();
    let mut events = Vec::new();
    for turn in &log.turns {
        events.extend(system.run(turn.run).events().so_far().await.unwrap());
    }
    (log, events)
}

#[tokio::test(start_paused = true)]
async fn ids_and_times_of_turns_and_events_are_after_a_crash_what_they_were() {
    let mut stage = Stage::new();
    let system = stage.start(echo()).await;
    for what in ["first", "second", "third"] {
        say(&system, what).await;
    }
    let before = told(&system).await;
    let begun = before.0.turns.iter().map(|turn| turn.began_at);
    assert!(begun.is_sorted_by(|a, b| a < b) && before.1.len() > 6);
    pause(5_000).await;
    stage.crash(&system).await;
    let system = stage.start(echo()).await;
    assert_eq!(told(&system).await, before);
    // Also once the session is in memory again.
    say(&system, "on").await;
    let (mut log, mut events) = told(&system).await;
    let last = log.turns.pop().unwrap();
    events.retain(|event| event.run != last.run);
    assert_eq!((log.turns, events), (before.0.turns, before.1));
}

#[tokio::test(start_paused = true)]
async fn the_last_turns_and_those_since_a_time_keep_their_numbers() {
    let stage = Stage::new();
    let system = stage.start(echo()).await;
    for what in ["first", "second", "third"] {
        say(&system, what).await;
    }
    let (log, _) = told(&system).await;
    let numbers =
        |log: SessionLog| -> Vec<u64> { log.turns.iter().map(|turn| turn.number).collect() };
    assert_eq!(numbers(log.clone().last(2)), [2, 3]);
    assert_eq!(numbers(log.clone().last(9)), [1, 2, 3]);
    assert_eq!(numbers(log.clone().last(0)), [0; 0]);
    let second = log.turns[1].began_at;
    assert_eq!(numbers(log.clone().since(second)), [2, 3]);
    assert_eq!(
        numbers(log.clone().since(second.after(Duration::from_millis(1)))),
        [3]
    );
    assert_eq!(numbers(log.since(Timestamp(0)).last(1)), [3]);
}
