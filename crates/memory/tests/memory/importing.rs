//! A memory goes from one store into another, and nothing of it changes.

use ghostlight_actors::{
    contract::StoreHandle,
    testing::{Fault, FaultyStore, Harm, InMemoryStore, Strike},
    vocabulary::{Scope, SessionId},
};
use ghostlight_memory::{
    Import, Memory, MemoryDocument, NewMemory, StoredMemory, StoredMemoryError,
};
use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

use crate::stage::{Stage, agent, send, session};

fn memory_of(store: impl Into<StoreHandle>) -> StoredMemory {
    let session = SessionId {
        team: "desk".into(),
        key: "s".into(),
    };
    let memory = Memory::new("memory")
        .capacity(10_000)
        .working_capacity(10_000);
    StoredMemory::new(store.into(), memory, &session, &Scope::Session).unwrap()
}

async fn text(memory: &StoredMemory) -> String {
    serde_json::to_string(&memory.export().await.unwrap()).unwrap()
}

fn document(items: &[Value]) -> String {
    json!({ "format": 1, "memory": "memory", "items": items }).to_string()
}

fn item(id: &str, content: &str) -> Value {
    json!({ "id": id, "kind": "semantic", "content": content, "importance": 0.5, "created_at": 1, "updated_at": 2 })
}

/// An item as a program may have written it into a document.
fn any_item() -> impl Strategy<Value = Value> {
    let kinds = [
        "working", "episodic", "semantic", "task", "wisdom", "entity",
    ];
    let kind = prop::sample::select(kinds.to_vec());
    let times = (any::<u32>(), any::<u32>(), prop::option::of(any::<u64>()));
    let fact = prop::option::of((".{0,80}", vec(".{0,40}", 0..3)));
    let uses = (0_u64..5, prop::option::of(any::<u32>()));
    let rest = (vec(".{0,12}", 0..4), any::<f64>(), any::<bool>());
    ("[a-z0-9_-]{1,8}", kind, ".{0,200}", rest, times, fact, uses).prop_map(
        |(id, kind, content, (tags, importance, pinned), (created, updated, expires), fact, uses)| {
            let mut item = json!({
                "id": id, "kind": kind, "content": format!("x{content}"), "tags": tags,
                "importance": if importance.is_finite() { importance } else { 2.0 }, "pinned": pinned,
                "created_at": created, "updated_at": updated,
            });
            item["expires_at"] = expires.into();
            if let Some((about, earlier)) = fact {
                item["detail"] = json!({ "is": "fact", "about": about, "earlier": earlier });
            }
            if uses.0 > 0 {
                (item["accesses"], item["accessed_at"]) = (uses.0.into(), uses.1.into());
            }
            item
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_exported_memory_is_the_same_text_after_its_import(items in vec(any_item(), 0..12)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let written = MemoryDocument::from_json(&document(&items)).unwrap();
            let first = memory_of(InMemoryStore::new());
            first.import(&written, Import::Upsert).await.unwrap();
            let exported = text(&first).await;
            let read = MemoryDocument::from_json(&exported).unwrap();
            let second = memory_of(InMemoryStore::new());
            let count = second.import(&read, Import::Merge).await.unwrap();
            assert_eq!(count, read.items.len());
            assert_eq!(text(&second).await, exported);
            // A second time nothing changes, however it is imported.
            for how in [Import::Merge, Import::Upsert, Import::Replace] {
                assert_eq!(second.import(&read, how).await.unwrap(), 0);
                assert_eq!(text(&second).await, exported);
            }
        });
    }
}

#[tokio::test(start_paused = true)]
async fn what_agents_remember_is_the_same_in_another_store() {
    let stage = Stage::new();
    let team = agent(|cx| async move {
        let memory = session(&cx);
        for number in 0..40 {
            let long = format!(
                "\u{1b}[31mnumber {number}\u{202e} {}",
                "ä lamp ".repeat(900)
            );
            let item = NewMemory::fact(long).tag(format!("Tag {number}\n"));
            memory.add(item.about("the lamp").importance(0.7)).await?;
            memory
                .add(NewMemory::fact(format!("desk{number}")).expires_in_s(1_000_000))
                .await?;
        }
        Ok(memory.list([]).await?.len().to_string())
    });
    let system = stage.start(team).await;
    let run = send(&system, "s", "ada", "go").await;
    assert!(run.outcome().await.unwrap().text().parse::<u32>().unwrap() > 40);
    let exported = text(&memory_of(stage.store.clone())).await;
    let other = memory_of(InMemoryStore::new());
    let read = MemoryDocument::from_json(&exported).unwrap();
    other.import(&read, Import::Merge).await.unwrap();
    assert_eq!(text(&other).await, exported);
    system.stop().await.unwrap();
}

#[tokio::test]
async fn a_bad_item_is_named_and_nothing_is_imported() {
    let good = item("a", "a lamp");
    for (bad, told) in [
        (json!({ "id": "b" }), "item 2"),
        (json!("lamp"), "item 2"),
        (item("../b", "a desk"), "item 2 of the document: its `id`"),
        (
            item("b", " \u{200b}"),
            "item 2 of the document: its `content` is empty",
        ),
    ] {
        let memory = memory_of(InMemoryStore::new());
        let imported = match MemoryDocument::from_json(&document(&[good.clone(), bad])) {
            Ok(document) => memory.import(&document, Import::Upsert).await,
            Err(error) => Err(error),
        };
        let error = imported.unwrap_err();
        assert!(
            matches!(error, StoredMemoryError::Item { number: 2, .. }),
            "{error:?}"
        );
        assert!(error.to_string().contains(told), "{error}");
        assert_eq!(memory.list().await.unwrap(), []);
    }
    for (text, told) in [
        ("{\"format\": 9, \"items\": {}}", "later program"),
        ("{\"format\": 1}", "not a document"),
        ("[]", "not a document"),
        ("{\"format\": 1, ", "not a document"),
    ] {
        let error = MemoryDocument::from_json(text).unwrap_err();
        assert!(error.to_string().contains(told), "{text}: {error}");
    }
}

/// Wherever its process dies, importing again imports the rest.
#[tokio::test(start_paused = true)]
async fn a_long_import_that_a_crash_interrupts_is_finished_by_the_next() {
    let items: Vec<Value> = (0..2_500)
        .map(|number| item(&format!("i{number}"), &format!("lamp{number}")))
        .collect();
    let document = MemoryDocument::from_json(&document(&items)).unwrap();
    let mut whole = None;
    for commit in (1..=3).rev() {
        for strike in [Strike::Before, Strike::After] {
            let store = InMemoryStore::new();
            let harm = Harm::Crash;
            let fault = Fault {
                call: commit,
                strike,
                harm,
            };
            let faulty = FaultyStore::at_commit(store.clone(), fault);
            let memory = memory_of(faulty.clone());
            tokio::select! {
                done = memory.import(&document, Import::Merge) => panic!("{done:?}"),
                () = faulty.crashed() => {}
            }
            let memory = memory_of(store.another_process());
            let there = memory.list().await.unwrap().len();
            let commits = if matches!(strike, Strike::After) {
                commit
            } else {
                commit - 1
            };
            assert_eq!(there, (commits as usize * 1_000).min(2_500));
            let added = memory.import(&document, Import::Merge).await.unwrap();
            assert_eq!(added, 2_500 - there);
            let now = text(&memory).await;
            assert_eq!(*whole.get_or_insert_with(|| now.clone()), now);
        }
    }
}
