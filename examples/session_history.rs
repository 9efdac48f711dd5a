//! A session that is branched, to try another turn, and rewound, to take a turn back.
//!
//!     cargo run --example session_history
#![allow(clippy::print_stdout)]

use ghostlight::{prelude::*, run::operations::Scope};

/// Keeps a list of guests, and says who is on it.
async fn guests(cx: RunContext) -> Result<Outcome, AgentError> {
    let guest = cx.input().content();
    let add = move |guests: Option<Vec<String>>| {
        let mut guests = guests.unwrap_or_default();
        guests.push(guest.clone());
        guests
    };
    let guests = cx.state(Scope::Session).update("guests", add).await?;
    Ok(Outcome::answer(guests.join(", ")))
}

#[tokio::main]
async fn main() -> Result<(), ghostlight::Error> {
    let host = Agent::from_fn("host", guests);
    let system = System::builder(InMemoryStore::new())
        .team(host.into_team()?)
        .start()
        .await?;
    let party = system.session("host", "party");
    for guest in ["Ada", "Bob", "Eve"] {
        let run = party.send(guest).await?;
        println!("party: {}", run.outcome().await?.text());
    }

    // Another session goes on from the second turn; the first one knows nothing of it.
    let dinner = party.fork(2, "dinner").await?;
    let run = dinner.send("Zoe").await?;
    println!("dinner: {}", run.outcome().await?.text());

    // Eve was not to be asked: her turn counts no more, and the list is what it was before it.
    party.rewind(2).await?;
    let run = party.send("Tim").await?;
    println!("party, rewound: {}", run.outcome().await?.text());

    // The dinner is off: nothing of it is kept, and the party does not notice.
    let deleted = dinner.delete().await?;
    println!("dinner, deleted: {} run", deleted.runs);

    for found in system.sessions().list(Default::default()).await?.sessions {
        println!("{}: {} turns", found.session, found.turns);
    }
    let document = system.sessions().export(party.id()).await?.to_json();
    println!("exported: {} bytes", document.len());
    system.stop().await
}
