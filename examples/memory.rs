//! An agent's memories: facts that change, work that a person confirms, and one user's apart from another's (takes 1 s).
//!
//!     cargo run --example memory --features memory
#![allow(clippy::print_stdout)]

use ghostlight::{
    actor::Run,
    memory::{
        Episode, EpisodeStatus, Forget, Memory, MemoryQuery, MemoryScope, NewMemory, REACTION_TIME,
        Reaction, StoredMemory,
    },
    prelude::*,
    vocabulary::{Scope, SessionId},
};

async fn desk(cx: RunContext) -> Result<Outcome, AgentError> {
    let memory = Memory::new("memory");
    let user = memory.on(&cx, MemoryScope::User);
    let said = cx.input().content();
    if let Some(city) = said.strip_prefix("I live in ") {
        let fact = NewMemory::fact(format!("lives in {city}")).about("where the user lives");
        let added = user.add(fact).await?;
        let verb = if added.merged {
            "brought up to date"
        } else {
            "remembered"
        };
        return Ok(Outcome::answer(format!("{verb}: {}", added.item.content)));
    }
    if said.starts_with("Write") {
        // Whether it was good, only a person can say.
        let episode = Episode::new("a limerick of five lines", EpisodeStatus::Pending);
        user.add_episode(said, episode, 0.5).await?;
        return Ok(Outcome::answer("There was a young lady of Köln …"));
    }
    let mut told = Vec::new();
    for hit in user.search(MemoryQuery::new(said)).await? {
        told.push(format!("{} ({:.2})", hit.item.content, hit.score));
    }
    Ok(Outcome::answer(if told.is_empty() {
        "nothing".to_owned()
    } else {
        told.join("; ")
    }))
}

#[tokio::main]
async fn main() -> Result<(), ghostlight::Error> {
    let store = InMemoryStore::new();
    let system = System::builder(store.clone())
        .team(Agent::from_fn("desk", desk).into_team()?)
        .start()
        .await?;
    let say = async |session: &str, owner: &str, text: &str| -> Result<Run, ghostlight::Error> {
        let run = system
            .session("desk", session)
            .send(Turn::text(text).owner(owner))
            .await?;
        println!("{owner}: {text}\n  {}", run.outcome().await?.text());
        Ok(run)
    };
    say("monday", "ada", "I live in Paris").await?;
    say("tuesday", "ada", "I live in Köln").await?;
    say("friday", "ada", "where does the user live?").await?;
    say("friday-too", "bob", "where does the user live?").await?;
    let run = say("friday", "ada", "Write a limerick about Köln").await?;
    say("friday", "ada", "a limerick about Köln").await?;

    // The answer was sent with a message of a chat, and Ada reacts to it.
    let session = SessionId {
        team: "desk".into(),
        key: "friday".into(),
    };
    let hers = Scope::User("ada".into());
    let hers = StoredMemory::new(store.into(), Memory::new("memory"), &session, &hers);
    if let Some(hers) = hers {
        let refused = |error| println!("the memory refuses: {error}");
        if let Err(error) = hers
            .sent(run.id(), "message-1", "chat:ada", REACTION_TIME)
            .await
        {
            refused(error);
        }
        match hers
            .react(&Reaction::new("message-1", "chat:ada", "👍🏽"))
            .await
        {
            Ok(reacted) => println!("ada reacts: {reacted:?}"),
            Err(error) => refused(error),
        }
        say("saturday", "ada", "a limerick about Köln").await?;
        match hers.forget(&Forget::Capacity { keep: 0 }.into()).await {
            Ok(gone) => println!("forgotten: {} memories", gone.len()),
            Err(error) => refused(error),
        }
    }
    say("sunday", "ada", "where does the user live?").await?;
    system.stop().await
}
