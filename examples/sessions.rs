//! Sessions: branched, rewound, listed and exported, with state and files that agents keep (takes 1 s).
//!
//!     cargo run --example sessions
#![allow(clippy::print_stdout)]

use ghostlight::{
    instructions::Instructions,
    prelude::*,
    run::operations::Scope,
    testing::Reply,
    tools::{list_artifacts, load_artifact, save_artifact},
    vocabulary::ToolCall,
};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), ghostlight::Error> {
    history().await?;
    artifacts().await
}

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

/// A branch tries another turn; a rewind takes a turn back.
async fn history() -> Result<(), ghostlight::Error> {
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

/// An agent keeps a file, and its instructions read it.
async fn artifacts() -> Result<(), ghostlight::Error> {
    // What is agreed stands in the instructions of every turn, as data.
    let clerk = Agent::new("clerk")
        .instructions("Keep to what was agreed: {artifact.agreement.md?}")
        .tool(save_artifact())
        .tool(load_artifact())
        .tool(list_artifacts())
        .policy("instructions", Instructions::new);
    let save = |content: &str| {
        let arguments = json!({ "name": "agreement.md", "content": content });
        ToolCall::new("1", "save_artifact", arguments)
    };
    // A model that is scripted, so that the example needs no key: it saves twice, and reads.
    let model = ScriptedModel::replies([
        Reply::from(save("Delivery on Monday.")),
        "Agreed.".into(),
        save("Delivery on Tuesday.").into(),
        "Changed.".into(),
    ]);
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .model("default", model.clone())
        .team(clerk.into_team()?)
        .start()
        .await?;
    let session = system.session("clerk", "order-7");
    for turn in ["When do you deliver?", "Make it Tuesday."] {
        let run = session.send(turn).await?;
        println!("{turn} {}", run.outcome().await?.text());
    }
    if let Some(request) = model.requests().last() {
        println!("told: {}", request.instructions);
    }
    for version in [1, 2] {
        let found = session
            .artifact(Scope::Session, "agreement.md", Some(version))
            .await?;
        if let Some(artifact) = found {
            println!("{}: {}", artifact.info, artifact.text().unwrap_or_default());
        }
    }
    system.stop().await
}
