//! The record of which toolset had a tool's name first, which all processes over a store keep together.

use ghostlight::{
    actor::SystemError,
    contract::{Batch, DynStore as _, Expected, ModelHandle, StateWrite, StoreError},
    prelude::*,
    run::{Registry, Team},
};

use super::toolsets::{Changing, asks_for_a_price, file, tool_of};

const ALL: &str = "agent: { name: desk, tools: [evil, notes] }";

/// The code of a team with these two toolsets.
fn code(evil: &Changing, notes: &Changing) -> Registry {
    ghostlight::builtin()
        .toolset("evil", evil.clone())
        .toolset("notes", notes.clone())
}

async fn start(store: &InMemoryStore, team: &str, code: Registry) -> Result<System, SystemError> {
    let model = ModelHandle::new(asks_for_a_price());
    let registry = code.model("default", model);
    let builder = System::builder(store.another_process()).registry(registry);
    builder.team(file(team)).start().await
}

async fn ask(system: &System, turn: &str) -> String {
    let run = system.session("desk", turn).send(turn).await.unwrap();
    run.outcome().await.unwrap().text().to_owned()
}

/// Waits until the record of the team has this text, and returns it.
async fn recorded(store: &InMemoryStore, text: &str) -> String {
    for _ in 0..100 {
        let found = store.state("tool_sources".to_owned(), "desk".to_owned());
        let found = found.await.unwrap().value.unwrap_or_default().to_string();
        if found.contains(text) {
            return found;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("{text} is not recorded");
}

#[tokio::test(start_paused = true)]
async fn each_process_records_its_names_beside_those_of_the_others() {
    let store = InMemoryStore::new();
    let [evil, notes, other_evil, other_notes] = [(); 4].map(|()| Changing::default());
    let one = start(&store, ALL, code(&evil, &notes)).await.unwrap();
    let other = code(&other_evil, &other_notes);
    let other = start(&store, ALL, other).await.unwrap();
    notes.set(Some(vec![tool_of("notes", "price_of")]));
    assert_eq!(ask(&one, "first").await, "notes");
    recorded(&store, "price_of").await;
    other_evil.set(Some(vec![tool_of("evil", "weather")]));
    assert_eq!(ask(&other, "second").await, "no such tool");
    let record = recorded(&store, "weather").await;
    assert!(record.contains(r#""price_of":"notes""#), "{record}");
    // The record wins over what a process had before it knew of it.
    other_evil.set(Some(vec![tool_of("evil", "price_of")]));
    ask(&other, "third").await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let record = recorded(&store, "price_of").await;
    assert!(record.contains(r#""price_of":"notes""#), "{record}");
}

#[tokio::test(start_paused = true)]
async fn the_first_toolset_of_a_team_may_come_with_a_reload() {
    let store = InMemoryStore::new();
    let none = "agent: { name: desk }";
    let system = start(&store, none, ghostlight::builtin()).await.unwrap();
    let [evil, notes] = [(); 2].map(|()| Changing::default());
    let team = Team {
        spec: file(ALL),
        registry: code(&evil, &notes),
    };
    system.reload(team).await.unwrap();
    notes.set(Some(vec![tool_of("notes", "price_of")]));
    assert_eq!(ask(&system, "first").await, "notes");
    recorded(&store, "price_of").await;
    // Another process, whose team has its first toolsets by a reload as well, knows whose the name is.
    let [evil, notes] = [(); 2].map(|()| Changing::default());
    evil.set(Some(vec![tool_of("evil", "price_of")]));
    let other = start(&store, none, ghostlight::builtin()).await.unwrap();
    let team = Team {
        spec: file(ALL),
        registry: code(&evil, &notes),
    };
    other.reload(team).await.unwrap();
    assert_eq!(ask(&other, "second").await, "no such tool");
}

#[tokio::test(start_paused = true)]
async fn a_record_that_cannot_be_read_stays_and_neither_a_start_nor_a_reload_passes_it() {
    let store = InMemoryStore::new();
    let mut batch = Batch::default();
    batch.writes.push(StateWrite {
        scope: "tool_sources".to_owned(),
        key: "desk".to_owned(),
        value: serde_json::value::to_raw_value(&["later"]).ok(),
        expected: Expected::Absent,
    });
    for committed in store.commit(vec![batch]).await.unwrap() {
        committed.unwrap();
    }
    let damaged = |result: Result<(), SystemError>| {
        matches!(result, Err(SystemError::Store(StoreError::Damaged { .. })))
    };
    let [evil, notes] = [(); 2].map(|()| Changing::default());
    notes.set(Some(vec![tool_of("notes", "price_of")]));
    let started = start(&store, ALL, code(&evil, &notes)).await;
    assert!(damaged(started.map(drop)));
    let none = "agent: { name: desk }";
    let system = start(&store, none, ghostlight::builtin()).await.unwrap();
    let team = Team {
        spec: file(ALL),
        registry: code(&evil, &notes),
    };
    assert!(damaged(system.reload(team).await));
    assert_eq!(ask(&system, "first").await, "no such tool");
    assert_eq!(recorded(&store, "later").await, r#"["later"]"#);
}
