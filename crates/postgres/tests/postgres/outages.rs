//! The database goes away and comes back: what was acknowledged is there once, the rest waits, and a database that
//! lost commits is refused.

use std::{fs, process::Command, sync::Arc, time::Duration};

use ghostlight_actors::{
    contract::{Append, Batch, Line, RunRow, Store as _, StoreError},
    vocabulary::{RunId, Timestamp},
};
use ghostlight_postgres::{Options, PostgresStore};

use crate::{
    proxy::{Proxy, Way},
    server::{Server, is_left_out},
};

pub(crate) fn run(number: u8) -> RunId {
    RunId::from_random(u128::from(number) << 120)
}

fn line(text: &str) -> Line {
    Line {
        at: Timestamp(1_763_000_000_000),
        text: serde_json::Value::from(text).to_string().into(),
    }
}

/// Makes a run with its first entry.
pub(crate) async fn make(store: &PostgresStore, number: u8) -> Result<(), StoreError> {
    let row = RunRow::new(run(number), "team", "agent");
    let batch = Batch::of(Append::new(run(number), 0, 1, vec![line("0")]).row(row));
    store.commit(vec![batch]).await?.remove(0).map(drop)
}

/// Appends the entry of this number.
pub(crate) async fn append(
    store: &PostgresStore,
    run_number: u8,
    sequence: u64,
    epoch: u64,
) -> Result<(), StoreError> {
    let lines = vec![line(&sequence.to_string())];
    let batch = Batch::of(Append::new(run(run_number), sequence, epoch, lines));
    store.commit(vec![batch]).await?.remove(0).map(drop)
}

pub(crate) async fn texts(store: &PostgresStore, number: u8) -> Vec<String> {
    let lines = store.read(run(number).into(), 0, usize::MAX).await.unwrap();
    let text = |line: &Line| serde_json::from_str(&line.text).unwrap();
    lines.iter().map(|stored| text(&stored.line)).collect()
}

fn numbers(up_to: u64) -> Vec<String> {
    (0..up_to).map(|number| number.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_wait_for_a_server_that_crashed_and_are_there_once() {
    if is_left_out() {
        return;
    }
    let server = Arc::new(Server::start(&[]));
    let store = PostgresStore::open(&server.url()).await.unwrap();
    for number in 1..=4 {
        make(&store, number).await.unwrap();
    }
    let writers: Vec<_> = (1..=4)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move {
                for sequence in 1..200 {
                    append(&store, number, sequence, 1).await.unwrap();
                }
            })
        })
        .collect();
    for _ in 0..3 {
        let server = server.clone();
        // Whatever the writers are at: the server ends without a word.
        let crash = move || {
            server.crash();
            server.restart();
        };
        tokio::task::spawn_blocking(crash).await.unwrap();
    }
    for writer in writers {
        writer.await.unwrap();
    }
    for number in 1..=4 {
        assert_eq!(texts(&store, number).await, numbers(200), "run {number}");
    }
    let verified = store.verify().await.unwrap();
    assert_eq!((verified.journals, verified.entries), (4, 800));
}

/// The answer to a COMMIT is lost at every place in turn, so that nobody knows whether it came to be.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_answer_was_lost_is_neither_lost_nor_made_twice() {
    if is_left_out() {
        return;
    }
    let server = Server::quick();
    let proxy = Proxy::to(server.port()).await;
    let store = PostgresStore::open(&server.url_at(proxy.port))
        .await
        .unwrap();
    make(&store, 1).await.unwrap();
    let mut sequence = 1;
    for answers in 0..24 {
        for _ in 0..3 {
            proxy.set(Way::CutAfter(answers));
            let store = store.clone();
            let appended = tokio::spawn(async move { append(&store, 1, sequence, 1).await });
            // A connection that is always cut at one place never comes far enough.
            tokio::time::sleep(Duration::from_millis(20)).await;
            proxy.set(Way::Open);
            appended.await.unwrap().unwrap();
            sequence += 1;
        }
    }
    assert_eq!(texts(&store, 1).await, numbers(sequence));
}

/// The connection that finds out what became of a commit breaks as well.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_is_found_again_when_the_connection_that_found_it_breaks() {
    if is_left_out() {
        return;
    }
    let server = Server::quick();
    let proxy = Proxy::to(server.port()).await;
    let store = PostgresStore::open(&server.url_at(proxy.port))
        .await
        .unwrap();
    make(&store, 1).await.unwrap();
    for sequence in 1..5 {
        proxy.set(Way::CutAnswersTo(&["COMMIT", "ROLLBACK"]));
        let appended = {
            let store = store.clone();
            tokio::spawn(async move { append(&store, 1, sequence, 1).await })
        };
        // Several connections may be ended so before the way is open again.
        proxy.wait_until_cut("ROLLBACK").await;
        proxy.set(Way::Open);
        appended.await.unwrap().unwrap();
    }
    assert_eq!(texts(&store, 1).await, numbers(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_wait_for_a_while_and_then_say_what_is_wrong() {
    if is_left_out() {
        return;
    }
    let server = Server::quick();
    let proxy = Proxy::to(server.port()).await;
    let mut options = Options::default();
    options.patience_ms = 200;
    let store = PostgresStore::open_with(&server.url_at(proxy.port), &options)
        .await
        .unwrap();
    make(&store, 1).await.unwrap();
    proxy.set(Way::Cut);
    let refused = store.read(run(1).into(), 0, 10).await.unwrap_err();
    assert!(matches!(refused, StoreError::Io { .. }), "{refused}");
    let waiting = {
        let store = store.clone();
        tokio::spawn(async move { append(&store, 1, 1, 1).await })
    };
    while store.is_reached() {
        tokio::task::yield_now().await;
    }
    proxy.set(Way::Open);
    waiting.await.unwrap().unwrap();
    assert!(store.is_reached());
    assert_eq!(texts(&store, 1).await, numbers(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_lost_commits_is_refused_and_not_written_over() {
    if is_left_out() {
        return;
    }
    let server = Server::start(&[]);
    let store = PostgresStore::open(&server.url()).await.unwrap();
    make(&store, 1).await.unwrap();
    server.crash();
    let copied = Command::new("cp")
        .arg("-a")
        .arg(server.data())
        .arg(server.data().with_extension("old"))
        .status()
        .unwrap();
    assert!(copied.success());
    server.restart();
    append(&store, 1, 1, 1).await.unwrap();
    server.crash();
    // A fail-over to a replica that lacked the last commit.
    fs::remove_dir_all(server.data()).unwrap();
    fs::rename(server.data().with_extension("old"), server.data()).unwrap();
    server.restart();
    let refused = append(&store, 1, 2, 1).await.unwrap_err();
    assert!(
        matches!(refused, StoreError::Truncated { have, expected, .. } if have < expected),
        "{refused}"
    );
    let client = server.client().await;
    let entries = client
        .query_one("SELECT count(*) FROM ghostlight.entries", &[])
        .await
        .unwrap();
    assert_eq!(entries.get::<_, i64>(0), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_changed_is_noticed() {
    if is_left_out() {
        return;
    }
    let server = Server::quick();
    let store = PostgresStore::open(&server.url()).await.unwrap();
    make(&store, 1).await.unwrap();
    append(&store, 1, 1, 1).await.unwrap();
    append(&store, 1, 2, 1).await.unwrap();
    let client = server.client().await;
    for (change, back) in [
        (
            "UPDATE ghostlight.entries SET body = '\"x\"' WHERE sequence = 1",
            "UPDATE ghostlight.entries SET body = '\"1\"' WHERE sequence = 1",
        ),
        (
            "UPDATE ghostlight.entries SET sequence = 9 WHERE sequence = 1",
            "UPDATE ghostlight.entries SET sequence = 1 WHERE sequence = 9",
        ),
    ] {
        client.batch_execute(change).await.unwrap();
        let refused = store.read(run(1).into(), 0, 10).await.unwrap_err();
        assert!(matches!(refused, StoreError::Damaged { .. }), "{refused}");
        assert!(matches!(
            store.verify().await,
            Err(StoreError::Damaged { .. })
        ));
        client.batch_execute(back).await.unwrap();
    }
    store.verify().await.unwrap();
    client
        .batch_execute("DELETE FROM ghostlight.entries WHERE sequence = 2")
        .await
        .unwrap();
    assert!(matches!(
        store.verify().await,
        Err(StoreError::Damaged { .. })
    ));
    client
        .batch_execute("DELETE FROM ghostlight.runs")
        .await
        .unwrap();
    assert!(matches!(
        store.run(run(1)).await,
        Err(StoreError::Damaged { .. })
    ));
}
