//! A team: the desk delegates a sum to a clerk and hands the conversation to shipping.
//!
//!     cargo run --example team
//!
//! A delegated task is a run below the run, with a journal of its own, and its result comes back. A
//! transfer moves the conversation: the next agent answers, and goes on answering in later turns.
#![allow(clippy::print_stdout)]

use ghostlight::{builtin, prelude::*};

/// Says how a parcel of this number travels.
#[tool(effect = "read")]
fn track_parcel(number: u64) -> String {
    format!("parcel {number} left the depot this morning")
}

#[tokio::main]
async fn main() -> Result<(), ghostlight::Error> {
    let clerk = Agent::new("clerk")
        .description("Calculates sums, percent and prices.")
        .tool_named("calculator"); // built in
    let shipping = Agent::new("shipping")
        .description("Knows where parcels and shipments are.")
        .tool(track_parcel);
    let desk = Agent::new("desk")
        .instructions("Leave sums to the clerk. Hand questions about parcels to shipping.")
        .delegate_to(clerk) // a call that returns
        .hand_off_to(shipping); // who answers from there on

    let system = System::builder(InMemoryStore::new())
        .registry(builtin())
        .model("default", OfflineModel)
        .team(desk.into_team()?)
        .start()
        .await?;
    let session = system.session("desk", "ada");

    for turn in [
        "What is 17% of 2340?",
        "Where is my parcel 4711?",
        "And where is parcel 4712?",
    ] {
        println!("> {turn}");
        let run = session.send(turn).await?;
        let mut events = run.events().recorded();
        while let Some(event) = events.next().await {
            println!("  {}", event?);
        }
        println!("= {}\n", run.outcome().await?.text());
    }
    system.stop().await
}
