//! A recorded run is replayed against other code, and forked to try another way.
//!
//!     cargo run --example time_travel
//!
//! Nothing that was recorded is done again: the booking is made once, however often the run is
//! replayed or forked behind it.
#![allow(clippy::print_stdout)]

use ghostlight::{
    actor::{Fork, Run, recording},
    prelude::*,
    run::{Team, replay},
    vocabulary::ToolCall,
};
use serde_json::json;

/// Books a room.
#[tool]
async fn book(room: String) -> Result<String, ToolError> {
    println!("  (the tool books {room})");
    Ok(format!("{room} is booked"))
}

/// The code of today; `changed` is how somebody wants it to be tomorrow.
fn porter(changed: bool) -> Result<Team, ghostlight::Error> {
    let porter = Agent::from_fn("porter", move |cx: RunContext| async move {
        let room = if changed { "the attic" } else { "room 7" };
        let booked = cx
            .tool(ToolCall::new("1", "book", json!({ "room": room })))
            .await?;
        let breakfast = cx.ask("Breakfast?").await?;
        Ok(Outcome::answer(format!(
            "{}; breakfast: {breakfast}",
            booked.text
        )))
    });
    Ok(porter.tool(book).into_team()?)
}

#[tokio::main]
async fn main() -> Result<(), ghostlight::Error> {
    let system = System::builder(InMemoryStore::new())
        .team(porter(false)?)
        .start()
        .await?;
    let run = system
        .session("porter", "ada")
        .send("A room, please.")
        .await?;
    answer(&run, "no").await?;
    println!("the run     {}", run.outcome().await?.text());

    // A regression test before a deploy: does the code still do what is recorded?
    let recorded = recording(system.store(), run.id()).await?;
    for (name, team) in [("today's", porter(false)?), ("tomorrow's", porter(true)?)] {
        println!("{name:<11} {}", replay(&recorded, &team.registry, None)?);
    }

    // The run's entries: 0 it began, 1 the booking began, 2 it ended, 3 the question. A fork at 3
    // keeps the booking and asks again.
    let fork = run.fork(Fork::at(3)).await?;
    answer(&fork, "eggs").await?;
    println!("the fork    {}", fork.outcome().await?.text());
    println!("the run     {}", run.outcome().await?.text());
    system.stop().await
}

async fn answer(run: &Run, text: &str) -> Result<(), ghostlight::Error> {
    run.wait().await?;
    for (asking, operation, _) in run.questions().await? {
        println!("  (a person says {text:?} to {})", asking.short());
        run.answer(operation, json!(text)).await?;
    }
    Ok(())
}
