//! A conversation that comes back: the desk hands it to shipping, sees what was found, and answers.
//!
//!     cargo run --example handover
//!
//! Shipping takes over the conversation without the desk's calls of tools, and gives it back when it is
//! done. An ordinary transfer is for good: its receiver answers later turns too.
#![allow(clippy::print_stdout)]

use ghostlight::{
    builtin,
    definition::{OnHandoff, Sees},
    prelude::*,
    vocabulary::{Role, Transfer},
};

/// Says how a parcel of this number travels.
#[tool(effect = "read")]
fn track_parcel(number: u64) -> String {
    format!("parcel {number} left the depot this morning")
}

async fn desk(cx: RunContext) -> Result<Outcome, AgentError> {
    let Some(shipping) = cx.returned_by() else {
        return Ok(Outcome::Transfer(Transfer::to("shipping").returning()));
    };
    let said = cx.conversation().messages();
    let found = said
        .iter()
        .rev()
        .find(|message| message.role == Role::Assistant);
    let found = found.map(|message| message.content()).unwrap_or_default();
    Ok(Outcome::answer(format!(
        "Good news from {shipping}: {found}"
    )))
}

#[tokio::main]
async fn main() -> Result<(), ghostlight::Error> {
    let shipping = Agent::new("shipping")
        .description("Knows where parcels are.")
        .tool(track_parcel)
        .on_handoff(OnHandoff::new().sees(Sees::Spoken));
    let system = System::builder(InMemoryStore::new())
        .registry(builtin())
        .model("default", OfflineModel)
        .team(Agent::from_fn("desk", desk).agent(shipping).into_team()?)
        .start()
        .await?;
    let run = system
        .session("desk", "ada")
        .send("Where is my parcel 4711?")
        .await?;
    let mut events = run.events().recorded();
    while let Some(event) = events.next().await {
        println!("{}", event?);
    }
    println!("= {}", run.outcome().await?.text());
    system.stop().await
}
