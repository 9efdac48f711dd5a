//! A topic between agents: who receives an event, and how a full queue drops and counts events (takes 1 s).
//!
//! A publisher need not know the receivers.
//!
//!     cargo run --example topics
//!
//! In a team file an agent's model publishes, and an event starts agents:
//! examples/teams/reactive.yaml.
#![allow(clippy::print_stdout)]

use std::time::Duration;

use ghostlight::{
    prelude::*,
    run::operations::{Overflow, Subscription},
};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Reading {
    celsius: i32,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let station = Agent::from_fn("station", |cx: RunContext| async move {
        let readings = cx.topic::<Reading>("readings");
        let queue = Subscription::new("alarm")
            .capacity(4)
            .overflow(Overflow::DropOldest);
        let alarm = readings.subscribe(queue).await?;
        let sensor = cx.spawn("sensor", "Measure.").await?;
        cx.join(&sensor).await?;
        let mut hot = alarm
            .filter(|reading| reading.celsius > 30)
            .map(|reading| reading.celsius);
        let mut heard = Vec::new();
        while let Ok(next) = cx.timeout(Duration::from_millis(50), hot.next()).await {
            let next = next?;
            heard.push(format!("{} at reading {}", next.event, next.sequence));
        }
        let counts = readings.counts().await?;
        Ok(Outcome::answer(format!(
            "{} readings, {} dropped, hot: {}",
            counts.published,
            counts.queues["alarm"].dropped,
            heard.join(", "),
        )))
    });
    let sensor = Agent::from_fn("sensor", |cx: RunContext| async move {
        for celsius in [19, 35, 22, 31, 28, 33] {
            cx.topic("readings").publish(&Reading { celsius }).await?;
        }
        Ok(Outcome::answer("measured"))
    });
    let system = System::builder(InMemoryStore::new())
        .team(station.agent(sensor).into_team()?)
        .start()
        .await?;
    let run = system.session("station", "today").send("Watch.").await?;
    println!("{}", run.outcome().await?.text());
    system.stop().await?;
    Ok(())
}
