//! Tests of your own agents: killed at every commit, replayed against changed code, and forked (takes 2 s).
//!
//!     cargo run --example testing
//!
//! `docs/guide/testing.md` has the rest of the kit.
#![allow(clippy::print_stdout, clippy::expect_used)]

use std::time::Duration;

use ghostlight::{
    actor::{Fork, Run, recording},
    prelude::*,
    run::{Team, replay},
    testing::{CrashOptions, Scenario, crash_everywhere},
    vocabulary::{ToolCall, ToolDefinition},
};
use serde_json::json;

// Time is paused: it goes on by itself to the next timer, so that a sleep of 20 seconds takes none.
#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), ghostlight::Error> {
    kills().await;
    replays().await
}

/// Kills a shop at every commit of its work, and sees that nothing is lost or done twice.
async fn kills() {
    let scenario = Scenario::new("shop", |builder, log| {
        let tool = |name: &str, effect| {
            let definition = ToolDefinition::new(name, "Is logged.").effect(effect);
            log.tool(definition, Duration::from_millis(30))
        };
        let shop = Agent::from_fn("shop", |cx: RunContext| async move {
            let said = cx.model(cx.model_request(cx.conversation())).await?;
            let calls = ["look_up", "reserve", "charge"];
            let calls = calls.map(|name| ToolCall::new(name, name, json!({"item": "lamp"})));
            let results = cx.tools(calls).await?;
            cx.sleep(Duration::from_secs(20)).await?;
            let done = results.iter().map(|result| result.text.as_str());
            let done: Vec<_> = done.collect();
            Ok(Outcome::answer(format!(
                "{} {}",
                said.content(),
                done.join(", ")
            )))
        })
        .tool(tool("look_up", Effect::Read))
        .tool(tool("reserve", Effect::Idempotent))
        .tool(tool("charge", Effect::Once));
        builder
            .model("default", ScriptedModel::turns(["At your service."]))
            .team(shop.into_team().expect("the team is whole"))
    })
    .turn("I take the lamp.");

    let report = crash_everywhere(&scenario, CrashOptions::default().again(1)).await;
    println!("{report}");
    println!("undisturbed it comes to {}", report.outcomes.join(", "));
    assert!(report.violations.is_empty(), "a promise was broken");
}

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

/// Nothing that was recorded is done again: the booking is made once, however often the run is replayed or forked behind
/// it.
async fn replays() -> Result<(), ghostlight::Error> {
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
