//! A memory of ten thousand items.

use std::time::Duration;

use futures_util::future::join_all;
use ghostlight_actors::{
    actor::supervisor::Supervisor,
    contract::StoreHandle,
    vocabulary::{Scope, SessionId},
};
use ghostlight_memory::{
    Forget, Import, MemoryDocument, MemoryItem, MemoryQuery, MemoryScope, NewMemory, StoredMemory,
};
use serde_json::json;

use crate::stage::{Stage, agent, memory, send};

const ITEMS: usize = 10_000;
const AGENTS: usize = 50;
const ROWS: usize = 4;

/// Ten thousand facts. Every fourth is of importance 0.1.
fn document() -> MemoryDocument {
    let item = |number: usize| {
        json!({
            "id": format!("mem-{number:032}"),
            "kind": "semantic",
            "content": format!("lamp{number} hangs in room{number} of floor{}", number % 97),
            "tags": [],
            "importance": if number.is_multiple_of(4) { 0.1 } else { 0.8 },
            "pinned": false,
            "created_at": 1_000 + number,
            "updated_at": 1_000 + number,
        })
    };
    let items: Vec<serde_json::Value> = (0..ITEMS).map(item).collect();
    let document = json!({ "format": MemoryDocument::FORMAT, "memory": "memory", "items": items });
    serde_json::from_value(document).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_agents_share_ten_thousand_items_and_a_killed_actor_loses_none() {
    let stage = Stage::new();
    let at = |session: &str, scope: &Scope, capacity| {
        let session = SessionId {
            team: "desk".into(),
            key: session.into(),
        };
        let memory = memory().capacity(capacity);
        let store = StoreHandle::new(stage.store.clone());
        StoredMemory::new(store, memory, &session, scope).unwrap()
    };
    let team = at("any", &Scope::App, ITEMS * 2);
    let filled = document();
    assert_eq!(team.import(&filled, Import::Merge).await.unwrap(), ITEMS);
    assert_eq!(team.import(&filled, Import::Merge).await.unwrap(), 0);

    let system = stage
        .start(agent(|cx| async move {
            let said = cx.input().content();
            let memory = memory().capacity(ITEMS * 2).on(&cx, MemoryScope::Team);
            let own = NewMemory::fact(format!("desk{said} is taken")).about(format!("desk{said}"));
            memory.add(own).await?;
            // An item has at most 16 tags.
            let row = said.parse::<usize>().unwrap() % ROWS;
            let shared = NewMemory::fact(format!("taken desks of row{row} are counted"));
            let shared = shared.about(format!("row{row}"));
            memory.add(shared.tag(format!("by{said}"))).await?;
            let found = memory
                .search(MemoryQuery::new(format!("lamp77{said}")))
                .await?;
            Ok(found[0].item.content.clone())
        }))
        .await;
    let killer = {
        let system = system.clone();
        tokio::spawn(async move {
            for _ in 0..5 {
                tokio::time::sleep(Duration::from_millis(100)).await;
                let root = system.supervisor().unwrap();
                let Ok(Some(cell)) = root.find_child("memory memory").await else {
                    continue;
                };
                let above = Supervisor::from_actor(cell).unwrap();
                if let Ok(Some(memory)) = above.find_child("memory memory").await {
                    memory.kill();
                }
            }
        })
    };
    let runs = (0..AGENTS).map(|number| {
        let system = system.clone();
        async move {
            let session = format!("s{number}");
            let run = send(&system, &session, "ada", &number.to_string()).await;
            (number, run.outcome().await.unwrap().text().to_owned())
        }
    });
    for (number, found) in join_all(runs).await {
        assert!(
            found.starts_with(&format!("lamp77{number} ")),
            "{number}: {found}"
        );
    }
    killer.abort();

    let exported = team.export().await.unwrap();
    assert_eq!(exported.items.len(), ITEMS + AGENTS + ROWS);
    let rows = exported.items.iter();
    let rows = rows.filter(|item| item.content.starts_with("taken desks"));
    assert_eq!(rows.map(|row| row.tags.len()).sum::<usize>(), AGENTS);

    let low = Forget::Importance { below: 0.3 };
    assert_eq!(team.forget(&low.into()).await.unwrap().len(), ITEMS / 4);
    assert_eq!(
        team.list().await.unwrap().len(),
        ITEMS * 3 / 4 + AGENTS + ROWS
    );

    // A smaller memory takes the document and keeps what is worth most: what was used, and what is important.
    let small = at("small", &Scope::Session, 100);
    small.import(&exported, Import::Replace).await.unwrap();
    let left = small.list().await.unwrap();
    assert_eq!(left.len(), 100);
    let is_worth_it = |item: &MemoryItem| item.importance > 0.3 || item.accesses > 0;
    assert!(left.iter().all(is_worth_it));
    system.stop().await.unwrap();
}
