//! How agents are shown to people.

use ghostlight_actors::{
    run::{Agent, RunContext},
    vocabulary::{EventRecord, Outcome, Transfer},
};

use crate::stage::{Stage, ask, outcome};

/// Delegates something, and hands over to an agent that has no display name.
fn desk() -> Agent {
    let clerk = Agent::from_fn("clerk", |_: RunContext| async {
        Ok(Outcome::answer("filed"))
    });
    let night = Agent::from_fn("night", |_: RunContext| async {
        Ok(Outcome::answer("done"))
    });
    Agent::from_fn("desk", |cx: RunContext| async move {
        cx.delegate("clerk", "file it").await?;
        Ok(Outcome::Transfer(Transfer::to("night")))
    })
    .display_name("Customer desk")
    .agent(clerk.display_name("Clerk Nº 1"))
    .agent(night)
}

fn authors(events: &[EventRecord]) -> Vec<(String, String)> {
    let mut authors: Vec<(String, String)> = events
        .iter()
        .filter(|record| record.sequence.is_some())
        .map(|record| (record.agent().to_owned(), record.author().to_owned()))
        .collect();
    authors.dedup();
    authors
}

#[tokio::test(start_paused = true)]
async fn events_say_how_their_authors_are_shown_live_and_later() {
    let stage = Stage::new();
    let system = stage.start(desk()).await;
    let run = ask(&system, "desk", "go").await;
    let mut live = run.events();
    let mut seen = Vec::new();
    while let Some(record) = live.next().await {
        seen.push(record.unwrap());
    }
    outcome(&run).await;
    let pair = |name: &str, shown: &str| (name.to_owned(), shown.to_owned());
    let wanted = [
        pair("desk", "Customer desk"),
        pair("clerk", "Clerk Nº 1"),
        pair("desk", "Customer desk"),
        pair("night", "night"),
    ];
    assert_eq!(authors(&seen), wanted);
    let later = run.events().recorded().so_far().await.unwrap();
    assert_eq!(authors(&later), wanted);
    // The name stays what code and files go by.
    let json = serde_json::to_value(&later[0]).unwrap();
    assert_eq!(json["display_name"], "Customer desk");
    assert_eq!(json["path"][0], "desk");
}
