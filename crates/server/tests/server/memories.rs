//! What agents remember is listed, searched and forgotten; each subject's own alone.

use ghostlight_actors::{
    actor::SystemOptions,
    vocabulary::{Scope as State, SessionId},
};
use ghostlight_memory::{Import, Memory, MemoryDocument, StoredMemory};
use ghostlight_server::Scope;
use serde_json::{Value, json};

use crate::{
    client::Client,
    desk::{Desk, text_at},
};

/// Puts facts into a scope of the desk's memory.
pub(crate) async fn remember(desk: &Desk, (key, scope): (&str, State), facts: &[&str]) {
    let session = SessionId {
        team: "desk".into(),
        key: key.into(),
    };
    let store = desk.system.store().clone();
    let memory = StoredMemory::new(store, Memory::new("memory"), &session, &scope).unwrap();
    let item = |(number, fact): (usize, &&str)| {
        json!({
            "id": format!("{}-{number}", fact.replace(' ', "-")), "kind": "semantic", "content": fact, "importance": 0.5,
            "created_at": number, "updated_at": number, "last_used_at": number, "uses": 0,
        })
    };
    let items: Vec<Value> = facts.iter().enumerate().map(item).collect();
    let document = json!({ "format": 1, "memory": "memory", "items": items });
    let document: MemoryDocument = serde_json::from_value(document).unwrap();
    let put = memory.import(&document, Import::Merge).await.unwrap();
    assert_eq!(put, facts.len());
}

async fn contents(client: &Client, query: &str) -> Vec<String> {
    let path = format!("/api/v1/memories/desk/memory{query}");
    let found = client.get(&path).await.is(200).json();
    let items = found["items"].as_array().unwrap().iter();
    items.map(|item| text_at(item, "/content")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_memory_is_listed_searched_and_forgotten_in_its_scope() {
    let desk = Desk::start(SystemOptions::default(), |server, _| server).await;
    let client = &desk.client;
    remember(
        &desk,
        ("", State::App),
        &["apples are red", "pears are green"],
    )
    .await;
    remember(&desk, ("s", State::Session), &["said in s"]).await;
    remember(&desk, ("", State::User("ada".to_owned())), &["likes tea"]).await;
    assert_eq!(
        contents(client, "").await,
        ["pears are green", "apples are red"]
    );
    assert_eq!(contents(client, "?scope=session:s").await, ["said in s"]);
    assert_eq!(contents(client, "?scope=user:ada").await, ["likes tea"]);
    assert_eq!(contents(client, "?text=red").await, ["apples are red"]);
    assert_eq!(contents(client, "?kind=episodic").await, [""; 0]);
    assert_eq!(contents(client, "?limit=1").await, ["pears are green"]);
    let forget = "/api/v1/memories/desk/memory/forget";
    let id = json!({ "id": "apples-are-red-0" });
    let done = client.post(forget, id.clone()).await.is(200).json();
    assert_eq!(done["forgotten"], true);
    let again = client.post(forget, id).await.is(200).json();
    assert_eq!(again["forgotten"], false);
    assert_eq!(contents(client, "").await, ["pears are green"]);
    client
        .get("/api/v1/memories/desk/memory?scope=temp")
        .await
        .is(422);
    client.get("/api/v1/memories/secret/memory").await.is(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subject_reaches_its_own_memories_alone() {
    let desk = Desk::locked().await;
    let all = [Scope::Read, Scope::Run];
    let (ada, eve) = (desk.client_of("ada", &all), desk.client_of("eve", &all));
    remember(&desk, ("", State::App), &["for all"]).await;
    remember(&desk, ("", State::User("ada".to_owned())), &["hers"]).await;
    remember(&desk, ("ada/s", State::Session), &["said"]).await;
    assert_eq!(contents(&ada, "").await, ["hers"]);
    assert_eq!(contents(&ada, "?scope=user").await, ["hers"]);
    assert_eq!(contents(&ada, "?scope=session:s").await, ["said"]);
    assert_eq!(contents(&eve, "").await, [""; 0]);
    assert_eq!(contents(&eve, "?scope=session:s").await, [""; 0]);
    assert_eq!(contents(&eve, "?scope=session:ada/s").await, [""; 0]);
    for scope in ["user:ada", "app", "tenant"] {
        let path = format!("/api/v1/memories/desk/memory?scope={scope}");
        eve.get(&path).await.is(422);
    }
    let forget = "/api/v1/memories/desk/memory/forget";
    let hers = json!({ "id": "hers-0" });
    let tried = eve.post(forget, hers.clone()).await.is(200).json();
    assert_eq!(tried["forgotten"], false);
    let done = ada.post(forget, hers).await.is(200).json();
    assert_eq!(done["forgotten"], true);
}
