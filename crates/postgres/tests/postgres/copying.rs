//! A store is copied into PostgreSQL and back, and nothing is lost on the way.

use ghostlight_actors::{
    contract::{
        Append, Batch, DynStore as _, Expected, ItemBody, Line, MailboxItem, RunRow, StateWrite,
        StoreHandle, copy_store,
    },
    testing::InMemoryStore,
    vocabulary::{Digest, Message, RunId, SessionId, Timestamp},
};
use ghostlight_postgres::PostgresStore;

use crate::server::{QUICK, Server, is_left_out};

fn lines(texts: &[&str]) -> Vec<Line> {
    let line = |text: &&str| Line {
        at: Timestamp(1),
        text: serde_json::json!(text).to_string().into(),
    };
    texts.iter().map(line).collect()
}

/// Texts that the database cannot hold as they are, and more than fits into one page.
async fn fill(store: &InMemoryStore) {
    let mut batch = Batch::default();
    let session = SessionId {
        team: "team".into(),
        key: "a\0b/\u{1}".into(),
    };
    for number in 1..=3_000_u32 {
        let mut row = RunRow::new(RunId::from_random(number.into()), "team", "agent");
        row.root = RunId::from_random((number % 10 + 1).into());
        row.started_at = Timestamp(number.into());
        row.session = Some(session.clone());
        let append = Append::new(row.run, 0, 1, lines(&["a", "\u{0}ß"]));
        batch.appends.push(append.row(row));
    }
    batch
        .appends
        .push(Append::new(session, 0, 1, lines(&["said"])));
    for (key, value) in [("kept", Some("1")), ("gone\0", None)] {
        let value = value.map(|value| serde_json::value::to_raw_value(value).unwrap());
        batch.writes.push(StateWrite {
            scope: "user:\u{1}".to_owned(),
            key: key.to_owned(),
            value,
            expected: Expected::Copy(7),
        });
    }
    batch
        .blobs
        .push((Digest::of(b"bytes"), b"bytes"[..].into()));
    for id in ["x", "y\0"] {
        let item = MailboxItem::new(id, Timestamp(1), ItemBody::Steer(Message::user("note")));
        batch.posts.push((RunId::from_random(1).into(), item));
    }
    store.commit(vec![batch]).await.unwrap().remove(0).unwrap();
    let mut batch = Batch::default();
    batch
        .taken
        .push((RunId::from_random(1).into(), "x".to_owned()));
    store.commit(vec![batch]).await.unwrap().remove(0).unwrap();
    for epoch in 2..=4 {
        let claim = store.claim(RunId::from_random(5).into(), true).await;
        assert_eq!(claim.unwrap().epoch, epoch);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_is_copied_into_postgresql_and_back() {
    if is_left_out() {
        return;
    }
    let server = Server::start(&QUICK);
    let memory = InMemoryStore::new();
    fill(&memory).await;
    memory.close().await.unwrap();
    let memory = StoreHandle::new(memory.another_process());
    let wanted = memory.inventory().await.unwrap();

    let postgres = PostgresStore::open(&server.url()).await.unwrap();
    let there = StoreHandle::new(postgres.clone());
    let copied = copy_store(&memory, &there, |_| ()).await.unwrap();
    assert_eq!((copied.runs, copied.sessions), (3_000, 1));
    postgres.verify().await.unwrap();
    there.close().await.unwrap();

    let there = StoreHandle::new(PostgresStore::open(&server.url()).await.unwrap());
    let back = StoreHandle::new(InMemoryStore::new());
    let again = copy_store(&there, &back, |_| ()).await.unwrap();
    assert_eq!(again, copied);
    let found = back.inventory().await.unwrap();
    assert_eq!(found.journals, wanted.journals);
    assert_eq!(found.items, wanted.items);
    assert_eq!(found.blobs, wanted.blobs);
    let values = |inventory: &ghostlight_actors::contract::Inventory| {
        let mut values = inventory.values.clone();
        values.retain(|(scope, ..)| scope != "copy");
        values
    };
    assert_eq!(values(&found), values(&wanted));
    for (journal, _) in &wanted.journals {
        let texts = async |store: &StoreHandle| {
            let lines = store.read(journal.clone(), 0, usize::MAX).await.unwrap();
            let lines = lines.into_iter().map(|stored| stored.line);
            lines.collect::<Vec<Line>>()
        };
        assert_eq!(texts(&back).await, texts(&memory).await, "{journal}");
    }
}
