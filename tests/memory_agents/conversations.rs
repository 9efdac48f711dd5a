//! What was said in a user's earlier conversations is found, from before there was a memory, too.

use std::{path::Path, time::Instant};

use ghostlight::{
    actor::supervisor::Supervisor,
    contract::{Append, Batch, Line, StoreHandle},
    memory::{Memory, MemoryHit, MemoryQuery, StoredMemory},
    prelude::*,
    vocabulary::{Entry, Message, RunId, Scope, SessionId, SessionTurn, Timestamp, TurnEnd},
};
use serde_json::{Value, json};

use crate::stage::{obedient, say, team};

async fn desk(store: &StoreHandle, memory: &Value, model: &ScriptedModel) -> System {
    System::builder(store.clone())
        .registry(ghostlight::builtin())
        .model("default", model.clone())
        .team(team(memory))
        .start()
        .await
        .unwrap()
}

fn open(file: &Path) -> StoreHandle {
    StoreHandle::new(SqliteStore::open(file).unwrap())
}

/// What the tool finds for a user.
async fn found(system: &System, owner: &str, query: &str) -> String {
    let search = json!({ "action": "search", "query": query, "kind": "conversation", "limit": 10 });
    say(
        system,
        &format!("asking of {owner}"),
        owner,
        &search.to_string(),
    )
    .await
}

/// How often something is found.
async fn times(system: &System, owner: &str, query: &str, text: &str) -> usize {
    let found = found(system, owner, query).await;
    // The question is a turn as well, and so is what it found before.
    let said = |line: &str| {
        line.split_once("They said: ")
            .map(|(_, said)| said.to_owned())
    };
    let said = found.lines().filter_map(said);
    said.filter(|said| said.starts_with(text)).count()
}

/// A session of 50 turns, as it is recorded.
fn recorded(key: &str, owner: &str, what: &str, session: u32) -> Batch {
    let entries = (0..50).flat_map(|turn| {
        let number = session * 50 + turn;
        let run = RunId::from_random(u128::from(number) + 1);
        let said = Message::user(format!("the {what} number{number} hangs in room{number}"));
        let mut began = SessionTurn::new(format!("t{turn}"), run, said.clone());
        began.owner = Some(owner.to_owned());
        let messages = vec![said.into(), Message::assistant("it is noted").into()];
        let ended = TurnEnd::new(run, "desk", messages);
        [
            Entry::TurnStarted(began.into()),
            Entry::TurnEnded(ended.into()),
        ]
    });
    let line = |(at, entry): (usize, Entry)| Line::encode(Timestamp(at as u64), &entry).unwrap();
    let lines = entries.enumerate().map(line).collect();
    let (team, key) = ("desk".into(), key.into());
    Batch::of(Append::new(SessionId { team, key }, 0, 1, lines))
}

fn hers(owner: &str) -> (SessionId, Scope) {
    let (team, key) = ("desk".into(), "".into());
    (SessionId { team, key }, Scope::User(owner.to_owned()))
}

#[tokio::test]
async fn thousands_of_turns_from_before_are_searched_in_a_file_and_only_the_users_own() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.db");
    let model = obedient();
    // Nothing is kept for a memory: there is none yet.
    let store = open(&file);
    let system = desk(&store, &json!({}), &model).await;
    say(&system, "the first", "ada", "the ladder stands in the shed").await;
    system.stop().await.unwrap();
    let store = open(&file);
    let sessions = (0..60).map(|session| match session % 3 {
        0 => recorded(&format!("bob {session}"), "bob", "secret", session),
        _ => recorded(&format!("ada {session}"), "ada", "lamp", session),
    });
    for done in store.commit(sessions.collect()).await.unwrap() {
        done.unwrap();
    }
    store.close().await.unwrap();

    // It is switched on over the same file, in another life.
    let store = open(&file);
    let system = desk(&store, &json!({ "conversations": true }), &model).await;
    for _ in 0..2 {
        assert_eq!(
            times(
                &system,
                "ada",
                "lamp number2005",
                "the lamp number2005 hangs"
            )
            .await,
            1
        );
        assert_eq!(
            times(&system, "ada", "where is the ladder", "the ladder stands").await,
            1
        );
        assert_eq!(
            times(
                &system,
                "bob",
                "secret number2401",
                "the secret number2401 hangs"
            )
            .await,
            1
        );
        let hers = found(&system, "ada", "which secret number2401 hangs").await;
        assert!(
            hers.contains("the lamp") && !hers.contains("the secret"),
            "{hers}"
        );
        assert_eq!(times(&system, "eve", "lamp number2005", "the").await, 0);
    }
    // What is said from now on is found as well, once.
    say(&system, "ada later", "ada", "the chandelier is gone").await;
    assert_eq!(
        times(
            &system,
            "ada",
            "where is the chandelier",
            "the chandelier is gone"
        )
        .await,
        1
    );

    // The command and the server read it without a memory.
    let (session, scope) = hers("ada");
    let stored = StoredMemory::new(store.clone(), Memory::new("memory"), &session, &scope).unwrap();
    for (asked, said, key) in [
        ("lamp number2005", "the lamp number2005 hangs", None),
        (
            "where is the ladder",
            "the ladder stands in the shed",
            Some("the first"),
        ),
    ] {
        let hits = stored
            .conversations(&MemoryQuery::new(asked))
            .await
            .unwrap();
        let is_it = |hit: &&MemoryHit| hit.item.content.starts_with(&format!("They said: {said}"));
        let hit = hits.iter().find(is_it).unwrap();
        let run = store
            .run(hit.item.source.as_ref().unwrap().run)
            .await
            .unwrap();
        assert_eq!(
            run.and_then(|run| run.session)
                .map(|session| session.key)
                .as_deref(),
            key
        );
    }

    let hangs = async |owner: &str, text: &str| {
        times(&system, owner, "where is the chandelier", text).await
    };
    // A rewind takes turns back, and a deleted session is not searched; nor is one that has its name afterwards.
    let session = system.as_operator().session("desk", "ada later");
    session.rewind(0).await.unwrap();
    assert_eq!(hangs("ada", "the chandelier is gone").await, 0);
    say(&system, "ada later", "ada", "the chandelier hangs again").await;
    assert_eq!(hangs("ada", "the chandelier hangs again").await, 1);
    session.delete().await.unwrap();
    assert_eq!(hangs("ada", "the chandelier hangs again").await, 0);
    say(&system, "ada later", "ada", "the chandelier swings").await;
    assert_eq!(hangs("ada", "the chandelier swings").await, 1);
    session.delete().await.unwrap();
    for _ in 0..3 {
        say(&system, "ada later", "bob", "the chandelier of bob").await;
    }
    let hers = found(&system, "ada", "where is the chandelier").await;
    assert!(!hers.contains("of bob"), "{hers}");
    assert_eq!(hangs("ada", "the chandelier swings").await, 0);
    assert_eq!(hangs("bob", "the chandelier of bob").await, 3);

    // A search after the first one reads what is new.
    let begun = Instant::now();
    found(&system, "ada", "lamp number2005").await;
    println!("a later search over 2,000 turns: {:?}", begun.elapsed());
    system.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn with_an_embedder_turns_from_before_are_found_by_parts_of_words() {
    let store = InMemoryStore::new();
    let open = || StoreHandle::new(store.another_process());
    let model = obedient();
    let system = desk(&open(), &json!({}), &model).await;
    say(
        &system,
        "one",
        "ada",
        "The Heizungsmonteur comes on Tuesday",
    )
    .await;
    say(&system, "two", "ada", "All is quiet here").await;
    system.stop().await.unwrap();
    let lexical = json!({ "conversations": true, "embedder": { "provider": "lexical" } });
    for (memory, is_found) in [(json!({ "conversations": true }), false), (lexical, true)] {
        let system = desk(&open(), &memory, &model).await;
        let found = found(&system, "ada", "Heizungsmonteurin").await;
        assert_eq!(found.contains("comes on Tuesday"), is_found, "{found}");
        system.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_user_only_this_conversation_is_searched_and_no_other_scope_has_any() {
    let store = StoreHandle::new(InMemoryStore::new());
    let system = desk(
        &store,
        &json!({ "conversations": true, "team": "write" }),
        &obedient(),
    )
    .await;
    let say = async |session: &str, text: &str| {
        let run = system.session("desk", session).send(text).await.unwrap();
        run.outcome().await.unwrap().text().to_owned()
    };
    say("one", "the gate squeaks").await;
    say("two", "the gate is oiled").await;
    let search = json!({ "action": "search", "query": "gate", "kind": "conversation" }).to_string();
    let found = say("one", &search).await;
    assert!(
        found.contains("squeaks") && !found.contains("oiled"),
        "{found}"
    );
    let mut of_team: Value = serde_json::from_str(&search).unwrap();
    of_team["scope"] = json!("team");
    let found = say("one", &of_team.to_string()).await;
    assert!(!found.contains("gate"), "{found}");
    system.stop().await.unwrap();
}

/// Kills the index of conversations so often, as soon as it lives.
async fn kill(system: &System, times: usize) {
    let mut kills = 0;
    while kills < times {
        let root = system.supervisor().unwrap();
        if let Ok(Some(above)) = root.find_child("conversations").await
            && let Some(above) = Supervisor::from_actor(above)
            && let Ok(Some(index)) = above.find_child("conversations").await
        {
            index.kill();
            kills += 1;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_of_conversations_that_is_killed_in_the_middle_of_searches_answers_all_of_them() {
    let store = StoreHandle::new(InMemoryStore::new());
    let sessions = (0..20).map(|session| recorded(&format!("s{session}"), "ada", "lamp", session));
    for done in store.commit(sessions.collect()).await.unwrap() {
        done.unwrap();
    }
    let memory = json!({ "conversations": true });
    let system = desk(&store, &memory, &obedient()).await;
    for number in (0..1_000).step_by(97) {
        let query = format!("number{number}");
        let asked = times(&system, "ada", &query, "the lamp");
        let (found, ()) = tokio::join!(asked, kill(&system, 5));
        assert_eq!(found, 1, "{query}");
    }
    system.stop().await.unwrap();
}
