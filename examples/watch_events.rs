//! Events: live while a run is under way, and the same again from its journal.
//!
//!     cargo run --example watch_events
//!
//! A stream reads the journal at its own pace, so a slow one holds nobody up and misses nothing that
//! is recorded. Previews (a streamed answer, a tool's progress) are only shown live.
#![allow(clippy::print_stdout)]

use std::time::Duration;

use ghostlight::{
    actor::EventStream,
    builtin,
    contract::StoreError,
    prelude::*,
    vocabulary::{EventId, EventRecord},
};

/// Looks for a lamp in the rooms of a house.
#[tool(effect = "read")]
async fn find_lamp(
    /// The number of rooms.
    rooms: u32,
    cx: &ToolContext,
) -> String {
    for room in 1..=rooms {
        cx.progress(
            Some(f64::from(room) / f64::from(rooms)),
            format!("looking into room {room}"),
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    format!("the lamp stands in room {rooms}")
}

type Ids = Vec<Option<EventId>>;

/// Reads a stream to its end, pausing before each event.
async fn watch(mut events: EventStream, pause: Duration) -> Result<Ids, StoreError> {
    let mut seen = Ids::new();
    while let Some(event) = events.next().await {
        seen.push(event?.id());
        tokio::time::sleep(pause).await;
    }
    Ok(seen)
}

#[tokio::main]
async fn main() -> Result<(), ghostlight::Error> {
    let finder = Agent::new("finder")
        .instructions("Find lamps.")
        .streaming()
        .tool(find_lamp);
    let system = System::builder(InMemoryStore::new())
        .registry(builtin())
        .model("default", OfflineModel)
        .team(finder.into_team()?)
        .start()
        .await?;

    let run = system
        .session("finder", "ada")
        .send("Find the lamp in a house of 3 rooms.")
        .await?;
    let slow = tokio::spawn(watch(run.events().recorded(), Duration::from_millis(50)));

    println!("live (· is a preview, which is not recorded):");
    let mut live = Ids::new();
    let mut events = run.events();
    while let Some(record) = events.next().await {
        let record = record?;
        match record.id() {
            Some(id) => println!("  {:>2} {record}", id.sequence),
            None => println!("   · {record}"),
        }
        live.push(record.id());
    }
    let previews = live.iter().filter(|id| id.is_none()).count();
    live.retain(Option::is_some);

    let again = run.events().so_far().await?;
    let again: Ids = again.iter().map(EventRecord::id).collect();
    let slow = slow.await.map_err(|_| ghostlight::Error::Stopped)??;
    println!("\n{} recorded, {previews} previews", live.len());
    println!("read again from the journal: the same is {}", again == live);
    println!("read by a slow subscriber:   the same is {}", slow == live);
    system.stop().await
}
