//! The database goes away and comes back: what was acknowledged is there once, the rest waits, and a database that
//! lost commits is refused.

use std::{sync::Arc, time::Duration};

use ghostlight_actors::{
    actor::{System, SystemError},
    contract::{Append, Batch, DynStore as _, Expected, Line, RunRow, StateWrite, StoreError},
    run::{Agent, RunContext},
    session::Turn,
    vocabulary::{AgentError, Digest, Effect, Outcome, RunId, Timestamp},
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

/// A store through a proxy, in which there is run 1.
async fn store_with_a_run(options: &Options) -> (Server, Proxy, PostgresStore) {
    let server = Server::quick();
    let proxy = Proxy::to(server.port()).await;
    let url = server.url_at(proxy.port);
    let store = PostgresStore::open_with(&url, options).await.unwrap();
    make(&store, 1).await.unwrap();
    (server, proxy, store)
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
    let (_server, proxy, store) = store_with_a_run(&Options::default()).await;
    let mut sequence = 1;
    for answers in 0..24 {
        // After so many commits that nothing disturbs, the next one is sent as a whole.
        for undisturbed in [0, 0, 10] {
            for _ in 0..undisturbed {
                append(&store, 1, sequence, 1).await.unwrap();
                sequence += 1;
            }
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
    let (_server, proxy, store) = store_with_a_run(&Options::default()).await;
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
    let mut options = Options::default();
    (options.patience, options.lease) = (Duration::from_millis(200), Duration::from_millis(300));
    let (_server, proxy, store) = store_with_a_run(&options).await;
    // A network that is cut, and a server that does not answer.
    for (sequence, way) in [(1, Way::Cut), (2, Way::Frozen)] {
        proxy.set(way);
        let refused = store.read(run(1).into(), 0, 10).await.unwrap_err();
        assert!(matches!(refused, StoreError::Io { .. }), "{refused}");
        let waiting = {
            let store = store.clone();
            tokio::spawn(async move { append(&store, 1, sequence, 1).await })
        };
        while store.is_reached() {
            tokio::task::yield_now().await;
        }
        proxy.set(Way::Open);
        waiting.await.unwrap().unwrap();
        assert!(store.is_reached());
        assert_eq!(texts(&store, 1).await, numbers(sequence + 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_lost_commits_is_refused_and_not_written_over() {
    if is_left_out() {
        return;
    }
    let server = Server::start(&[]);
    let proxy = Proxy::to(server.port()).await;
    let at = server.url_at(proxy.port);
    let store = PostgresStore::open(&at).await.unwrap();
    let other = PostgresStore::open(&at).await.unwrap();
    make(&store, 1).await.unwrap();
    make(&other, 2).await.unwrap();
    let replica = server.replica();
    let (old, new) = (server.client().await, replica.client().await);
    let place = "SELECT pg_current_wal_lsn()::text";
    let place: String = old.query_one(place, &[]).await.unwrap().get(0);
    let is_there = format!("SELECT pg_last_wal_replay_lsn() >= '{place}'");
    while !new
        .query_one(&is_there, &[])
        .await
        .unwrap()
        .get::<_, bool>(0)
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The replica hears nothing more, and takes the server's place without the last commit.
    replica.sql("ALTER SYSTEM SET primary_conninfo = ''");
    replica.sql("SELECT pg_reload_conf()");
    let hears = "SELECT count(*) FROM pg_stat_replication";
    while old.query_one(hears, &[]).await.unwrap().get::<_, i64>(0) > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    append(&store, 1, 1, 1).await.unwrap();
    server.crash();
    replica.promote();
    proxy.lead_to(replica.port());

    // One that saw nothing of the lost commit goes on, also past its number.
    append(&other, 2, 1, 1).await.unwrap();
    append(&other, 2, 2, 1).await.unwrap();
    let refused = append(&store, 1, 2, 1).await.unwrap_err();
    assert!(matches!(refused, StoreError::Truncated { .. }), "{refused}");
    let refused = store.read(run(2).into(), 0, 10).await.unwrap_err();
    assert!(matches!(refused, StoreError::Truncated { .. }), "{refused}");
    assert_eq!(texts(&other, 1).await, numbers(1));
    assert_eq!(texts(&other, 2).await, numbers(3));
    other.verify().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_the_database_refuses_does_not_hinder_the_others() {
    if is_left_out() {
        return;
    }
    let server = Server::quick();
    let store = PostgresStore::open(&server.url()).await.unwrap();
    for number in 1..=9 {
        make(&store, number).await.unwrap();
    }
    // No index takes such a key.
    let long: String = (0..9_000).map(|_| rand::random::<u8>() as char).collect();
    let write = StateWrite {
        scope: "scope".to_owned(),
        key: long.replace('\0', "-"),
        value: None,
        expected: Expected::Any,
    };
    let batches = |sequence: u64| {
        let batch = move |number| {
            let lines = vec![line(&sequence.to_string())];
            Batch::of(Append::new(run(number), sequence, 1, lines))
        };
        let mut batches: Vec<Batch> = (1..=9).map(batch).collect();
        batches[4].writes.push(write.clone());
        batches
    };
    let told = store.commit(batches(1)).await.unwrap();
    for (number, told) in (1..=9).zip(told) {
        let refused = matches!(told, Err(StoreError::Refused { .. }));
        assert_eq!(refused, number == 5, "batch {number}: {told:?}");
        let entries = if number == 5 { 1 } else { 2 };
        assert_eq!(texts(&store, number).await, numbers(entries));
    }
    // Requests of different callers stand in one commit too.
    let callers = batches(1)
        .into_iter()
        .enumerate()
        .map(|(place, mut batch)| {
            let sequence = if place == 4 { 1 } else { 2 };
            batch.appends[0].expected = sequence;
            batch.appends[0].lines = vec![line(&sequence.to_string())];
            let store = store.clone();
            async move {
                store
                    .commit(vec![batch])
                    .await
                    .map(|mut told| told.remove(0))
            }
        });
    let told = futures_util::future::join_all(callers).await;
    for (number, told) in (1..=9).zip(told) {
        let is_made = matches!(told, Ok(Ok(_)));
        assert_eq!(is_made, number != 5, "batch {number}: {told:?}");
    }
    store.verify().await.unwrap();
}

/// A run whose entry the database never takes is parked, and says so; the runs that commit beside it go on.
#[tokio::test(flavor = "multi_thread")]
async fn an_append_that_the_database_refuses_parks_its_run_alone() {
    if is_left_out() {
        return;
    }
    let server = Server::quick();
    let store = PostgresStore::open(&server.url()).await.unwrap();
    let client = server.client().await;
    let bound = "ALTER TABLE ghostlight.entries ADD CHECK (length(body) < 10000)";
    client.batch_execute(bound).await.unwrap();
    let agent = Agent::from_fn("writer", |cx: RunContext| async move {
        let bytes: usize = cx.input().content().parse().unwrap();
        let made = async move { Ok::<_, AgentError>("x".repeat(bytes)) };
        let text = cx.step("write", Effect::Idempotent, made).await?;
        Ok(Outcome::answer(text.len().to_string()))
    });
    let builder = System::builder(store.clone()).team(agent.into_team().unwrap());
    let system = builder.start().await.unwrap();
    let sizes = ["100", "200", "20000", "300", "400"];
    let sent = sizes.map(|size| {
        let session = system.session("writer", size);
        async move { session.send(Turn::text(size)).await.unwrap() }
    });
    for (run, size) in futures_util::future::join_all(sent).await.iter().zip(sizes) {
        match run.outcome().await {
            Ok(outcome) => assert_eq!(outcome.text(), size),
            Err(SystemError::Parked { run: parked, error }) => {
                assert_eq!((parked, size), (run.id(), "20000"));
                let said = error.to_string();
                assert!(said.contains(&format!("to run {parked} ")), "{said}");
            }
            Err(error) => panic!("{size}: {error}"),
        }
    }
    system.stop().await.unwrap();
}

/// What is too large for one message is not sent, since the database would end the connection without a word.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_is_too_large_for_a_commit_is_refused_and_hinders_no_other() {
    if is_left_out() {
        return;
    }
    let server = Server::quick();
    let store = PostgresStore::open(&server.url()).await.unwrap();
    for number in 1..=3 {
        make(&store, number).await.unwrap();
    }
    let batch = |number| Batch::of(Append::new(run(number), 1, 1, vec![line("1")]));
    let mut batches: Vec<Batch> = (1..=3).map(batch).collect();
    // The same memory again and again; the digests do not matter.
    let bytes: Arc<[u8]> = vec![0; 32 << 20].into();
    let blob = |number: u8| (Digest::of(&[number]), bytes.clone());
    batches[1].blobs = (0..17).map(blob).collect();
    let told = store.commit(batches).await.unwrap();
    assert!(told[0].is_ok() && told[2].is_ok(), "{told:?}");
    match &told[1] {
        Err(StoreError::Refused { to, .. }) => assert_eq!(*to, format!("run {}", run(2))),
        told => panic!("{told:?}"),
    }
    for (number, entries) in [(1, 2), (2, 1), (3, 2)] {
        assert_eq!(texts(&store, number).await, numbers(entries));
    }
}

/// The server is stopped by a disk without room, and goes on when there is room again.
#[tokio::test(flavor = "multi_thread")]
async fn commits_wait_for_room_on_a_full_disk_and_are_there_once() {
    if is_left_out() {
        return;
    }
    let settings = ["max_connections = 200", "max_wal_size = 64MB"];
    let Some(server) = Server::small(&settings, 192) else {
        eprintln!("left out: no file system can be mounted");
        return;
    };
    let store = PostgresStore::open(&server.url()).await.unwrap();
    make(&store, 1).await.unwrap();
    server.fill();
    let writer = {
        let store = store.clone();
        tokio::spawn(async move {
            let long = "x".repeat(1 << 20);
            for sequence in 1..20 {
                let lines = vec![line(&sequence.to_string()), line(&long)];
                let append = Append::new(run(1), sequence * 2 - 1, 1, lines);
                let committed = store.commit(vec![Batch::of(append)]).await;
                committed.unwrap().remove(0).unwrap();
            }
        })
    };
    while store.is_reached() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.make_room();
    writer.await.unwrap();
    assert!(store.is_reached());
    let verified = store.verify().await.unwrap();
    assert_eq!((verified.journals, verified.entries), (1, 39));
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
