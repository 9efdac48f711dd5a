//! Retention: ended runs go after their time, and what was said stays.
//!
//!     cargo run --example retention
//!
//! With `SystemOptions::retention` a System does this by itself; `ghostlight store prune` does it for a file.
#![allow(clippy::print_stdout)]

use ghostlight::{actor::Retention, prelude::*};

#[tokio::main]
async fn main() -> Result<(), ghostlight::Error> {
    let agent = Agent::from_fn("counter", |cx: RunContext| async move {
        let said = cx.conversation().messages().len();
        Ok(Outcome::answer(format!("{said} messages so far")))
    });
    let system = System::builder(InMemoryStore::new())
        .team(agent.into_team()?)
        .start()
        .await?;
    let session = system.session("counter", "ada");
    let mut runs = Vec::new();
    for _ in 0..5 {
        let run = session.send("Count.").await?;
        run.outcome().await?;
        runs.push(run);
    }
    let pruned = system.prune(Retention::default().keep(2)).await?;
    println!("deleted {} runs, {} entries", pruned.runs, pruned.entries);
    match runs[0].outcome().await {
        Ok(outcome) => println!("the first run is still there: {}", outcome.text()),
        Err(error) => println!("the first run: {error}"),
    }
    let next = session.send("Count.").await?;
    println!("the conversation goes on: {}", next.outcome().await?.text());
    system.stop().await
}
