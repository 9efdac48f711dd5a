//! An agent that wakes on a schedule, sleeps in between, and goes on after a crash of its process (takes 4 s).
//!
//!     cargo run --example long_lived
//!
//! A day takes 400 milliseconds here. The process "dies" in the night of the third day and is missing for
//! some days; what it missed is one wake-up, and nothing is said twice.
#![allow(clippy::print_stdout)]

use std::time::Duration;

use ghostlight::{
    actor::SystemOptions, definition::Schedule, prelude::*, run::operations::Scope,
    testing::InMemoryStore,
};

const DAY: Duration = Duration::from_millis(400);

/// Waters the plants, waits until the water has gone down, and remembers how often it did.
async fn gardener(cx: RunContext) -> Result<Outcome, AgentError> {
    let diary = cx.state(Scope::App);
    let days: u32 = diary.get("days").await?.unwrap_or(0) + 1;
    cx.sleep(DAY / 4).await?; // a durable timer: it may be weeks as well
    diary.set("days", &days).await?;
    Ok(Outcome::answer(format!("watered, for the {days}. time")))
}

async fn process(store: &InMemoryStore) -> Result<System, ghostlight::Error> {
    let options = SystemOptions::default()
        .linger(DAY / 20) // how long a sleeping run stays in memory
        .passivate_after(DAY / 20); // how long an idle session does
    // In a real house: Schedule::cron("morning", "0 7 * * *", ..).zone("Europe/Berlin")
    let morning = Schedule::every("morning", DAY, "Good morning!").session("garden");
    let team = Agent::from_fn("gardener", gardener).into_team()?;
    let builder = System::builder(store.clone()).options(options);
    builder.team(team.schedule(morning)).start().await
}

/// What the gardener said, once it said so much: a busy machine may be late.
async fn diary(system: &System, lines: usize) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    for _ in 0..200 {
        let transcript = system.session("gardener", "garden").transcript().await?;
        let messages = transcript.messages();
        let answers = messages.iter().skip(1).step_by(2);
        let said: Vec<String> = answers.map(|answer| answer.content()).collect();
        if said.len() >= lines {
            return Ok(said);
        }
        tokio::time::sleep(DAY / 4).await;
    }
    Err("it did not go on".into())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = InMemoryStore::new();
    let system = process(&store).await?;
    tokio::time::sleep(DAY * 7 / 2).await;
    let before = diary(&system, 1).await?;
    println!("three days and a night:\n  {}", before.join("\n  "));

    // What `kill -9` does to a process, and then days without one.
    store.crash();
    if let Some(root) = system.supervisor() {
        root.actor().kill();
    }
    tokio::time::sleep(DAY * 3).await;

    let system = process(&store.another_process()).await?;
    tokio::time::sleep(DAY * 7 / 4).await;
    let after = diary(&system, before.len() + 1).await?;
    println!(
        "three days without a process, and two mornings:\n  {}",
        after.join("\n  ")
    );
    assert!(after.starts_with(&before), "what was said is said again");
    Ok(system.stop().await?)
}
