//! Several nodes on one database: one owner at a time, whatever freezes, dies or is cut off.

use std::{process::Stdio, sync::Arc, time::Duration};

use ghostlight_actors::{
    contract::{
        Append, Batch, Claim, DynStore as _, ItemBody, Line, MailboxItem, RunRow, RunStatus,
        StoreError,
    },
    vocabulary::Timestamp,
};
use ghostlight_postgres::{Lag, Options, PostgresStore};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

use crate::{
    outages::{append, make, run, texts},
    proxy::{Proxy, Way},
    server::{Server, is_left_out},
};

fn short_lease() -> Options {
    let mut options = Options::default();
    options.lease = Duration::from_millis(300);
    options
}

/// Claims as soon as the owner's lease allows it.
async fn claim_when_free(store: &PostgresStore, number: u8) -> u64 {
    loop {
        match store.claim(run(number).into(), false).await {
            Ok(claim) => return claim.epoch,
            Err(StoreError::Owned { .. }) => tokio::time::sleep(Duration::from_millis(10)).await,
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_cut_off_loses_what_it_owns_and_cannot_write_any_more() {
    if is_left_out() {
        return;
    }
    let server = Server::quick();
    let proxy = Proxy::to(server.port()).await;
    let options = short_lease();
    let frozen = PostgresStore::open_with(&server.url_at(proxy.port), &options)
        .await
        .unwrap();
    let other = PostgresStore::open_with(&server.url(), &options)
        .await
        .unwrap();
    make(&frozen, 1).await.unwrap();
    assert!(matches!(
        other.claim(run(1).into(), false).await,
        Err(StoreError::Owned { .. })
    ));

    proxy.set(Way::Frozen);
    assert_eq!(claim_when_free(&other, 1).await, 2);
    append(&other, 1, 1, 2).await.unwrap();

    proxy.set(Way::Open);
    let refused = append(&frozen, 1, 1, 1).await.unwrap_err();
    assert!(
        matches!(
            refused,
            StoreError::Stale {
                epoch: 1,
                current: 2,
                ..
            }
        ),
        "{refused}"
    );
    assert_eq!(texts(&frozen, 1).await, ["0", "1"]);
    // It lives again, and what it makes is its own.
    make(&frozen, 2).await.unwrap();
    while !frozen.nodes().await.unwrap().iter().all(|node| node.lives) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(matches!(
        other.claim(run(2).into(), false).await,
        Err(StoreError::Owned { .. })
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_tells_how_long_the_former_owner_may_still_begin_effects() {
    if is_left_out() {
        return;
    }
    let server = Server::quick();
    let proxy = Proxy::to(server.port()).await;
    let mut options = Options::default();
    options.lease = Duration::from_secs(60);
    let (lease, open) = (Duration::from_secs(60), PostgresStore::open_with);
    let settles_in = async |store: &PostgresStore, number: u8| {
        let claim = store.claim(run(number).into(), false).await.unwrap();
        claim.settles_in
    };
    let cut = open(&server.url_at(proxy.port), &options).await.unwrap();
    for number in [1, 2] {
        make(&cut, number).await.unwrap();
    }
    assert_eq!(settles_in(&cut, 1).await, Duration::ZERO, "its own");
    let other = open(&server.url(), &options).await.unwrap();
    // The database has ended its connection, and it need not have heard of that.
    proxy.set(Way::Cut);
    let left = claim_once_free(&other).await.settles_in;
    assert!(left > lease && left <= lease * 2, "{left:?}");
    // A next claim does not forget it, by the same node, by one in its place or after entries.
    append(&other, 1, 1, 3).await.unwrap();
    let again = settles_in(&other, 1).await;
    assert!(again > lease && again <= left, "{again:?}");
    other.close().await.unwrap();
    let third = open(&server.url(), &options).await.unwrap();
    let later = settles_in(&third, 1).await;
    assert!(later > lease && later <= again, "{later:?}");
    // Of one that left in order nothing is to come, and of one whose lease is long over neither.
    make(&third, 3).await.unwrap();
    third.close().await.unwrap();
    let fourth = open(&server.url(), &options).await.unwrap();
    assert_eq!(settles_in(&fourth, 3).await, Duration::ZERO);
    let ago = "UPDATE ghostlight.nodes SET lease_until = lease_until - interval '3 minutes', \
         renewed_at = renewed_at - interval '3 minutes'";
    server.client().await.batch_execute(ago).await.unwrap();
    assert_eq!(settles_in(&fourth, 2).await, Duration::ZERO);
}

/// The address of the store, for a process that a test starts.
const SUBJECT: &str = "GHOSTLIGHT_OWNER_OF";

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_owns_a_run() {
    let Ok(url) = std::env::var(SUBJECT) else {
        return;
    };
    let mut options = Options::default();
    options.lease = Duration::from_secs(60);
    let store = PostgresStore::open_with(&url, &options).await.unwrap();
    make(&store, 1).await.unwrap();
    println!("\n> {}", store.node());
    std::future::pending().await
}

/// A process that owns run 1, and its node.
#[cfg(target_os = "linux")]
async fn owner(url: &str) -> (Child, String) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["nodes::a_process_that_owns_a_run", "--exact", "--nocapture"])
        .env(SUBJECT, url)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    loop {
        let line = lines.next_line().await.unwrap().unwrap();
        if let Some(node) = line.strip_prefix("> ") {
            return (child, node.to_owned());
        }
    }
}

/// Claims run 1 as soon as its owner has lost its connection.
async fn claim_once_free(store: &PostgresStore) -> Claim {
    loop {
        match store.claim(run(1).into(), false).await {
            Ok(claim) => return claim,
            Err(StoreError::Owned { .. }) => tokio::time::sleep(Duration::from_millis(10)).await,
            Err(error) => panic!("{error}"),
        }
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_process_of_this_machine_that_was_killed_is_not_waited_for_and_one_that_is_frozen_is() {
    if is_left_out() {
        return;
    }
    for kills in [true, false] {
        let server = Server::quick();
        let store = PostgresStore::open(&server.url()).await.unwrap();
        let (mut child, node) = owner(&server.url()).await;
        if kills {
            child.kill().await.unwrap();
        } else {
            let id = child.id().unwrap().to_string();
            let mut stop = Command::new("kill");
            assert!(stop.args(["-STOP", &id]).status().await.unwrap().success());
            let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_locks JOIN ghostlight.nodes \
                 ON classid = 1735943795 AND objid = number::oid WHERE id = $1";
            server.client().await.query(cut, &[&node]).await.unwrap();
        }
        let settles_in = claim_once_free(&store).await.settles_in;
        let is_waited_for = settles_in > Duration::from_secs(60);
        assert_eq!(is_waited_for, !kills, "{settles_in:?}");
        assert!(is_waited_for || settles_in.is_zero(), "{settles_in:?}");
    }
}

/// A claim that found a node dead may be committed after that node is back.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_back_begins_no_effect_before_the_claims_that_found_it_dead_are_committed() {
    if is_left_out() {
        return;
    }
    let server = Server::quick();
    let mut options = Options::default();
    options.lease = Duration::from_secs(60);
    let store = PostgresStore::open_with(&server.url(), &options)
        .await
        .unwrap();
    let observer = server.client().await;
    let mut client = server.client().await;
    let claim = client.transaction().await.unwrap();
    let lock = "SELECT FROM ghostlight.tail FOR UPDATE";
    claim.execute(lock, &[]).await.unwrap();
    let ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ghostlight'";
    observer.execute(ends, &[]).await.unwrap();
    let waits = "SELECT FROM pg_stat_activity WHERE application_name = 'ghostlight' \
         AND wait_event_type = 'Lock' AND query LIKE '%tail FOR SHARE%'";
    while observer.query(waits, &[]).await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(store.term(), None);
    claim.commit().await.unwrap();
    while store.term().is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_in_which_one_journal_was_taken_writes_the_others_and_nothing_to_it() {
    if is_left_out() {
        return;
    }
    let server = Server::quick();
    let first = PostgresStore::open(&server.url()).await.unwrap();
    let second = PostgresStore::open(&server.url()).await.unwrap();
    for number in [1, 2, 3] {
        make(&first, number).await.unwrap();
        append(&first, number, 1, 1).await.unwrap();
    }
    assert_eq!(second.claim(run(2).into(), true).await.unwrap().epoch, 2);
    let next = |sequence: u64, epoch: u64| {
        let text = sequence.to_string();
        let line = |text: &String| Line {
            at: Timestamp(1),
            text: text.as_str().into(),
        };
        let append = |number| Append::new(run(number), sequence, epoch, vec![line(&text)]);
        [1, 2, 3].map(|number| Batch::of(append(number))).to_vec()
    };
    let told = first.commit(next(2, 1)).await.unwrap();
    let stale = |told: &Result<_, StoreError>| {
        matches!(
            told,
            Err(StoreError::Stale {
                epoch: 1,
                current: 2,
                ..
            })
        )
    };
    assert!(
        told[0].is_ok() && stale(&told[1]) && told[2].is_ok(),
        "{told:?}"
    );
    // It is taken again by the first, which goes by what it finds and not by what it knew.
    append(&second, 2, 2, 2).await.unwrap();
    let claim = first.claim(run(2).into(), true).await.unwrap();
    assert_eq!((claim.epoch, claim.entries), (3, 3));
    append(&first, 2, 3, 3).await.unwrap();
    append(&first, 2, 4, 3).await.unwrap();
    let late = append(&second, 2, 3, 2).await.unwrap_err();
    assert!(
        matches!(late, StoreError::Stale { current: 3, .. }),
        "{late}"
    );
    let verified = first.verify().await.unwrap();
    assert_eq!((verified.journals, verified.entries), (3, 11));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_freezes_within_a_commit_holds_up_the_others_only_for_its_lease() {
    if is_left_out() {
        return;
    }
    let server = Server::quick();
    let other = PostgresStore::open(&server.url()).await.unwrap();
    make(&other, 1).await.unwrap();
    let mut client = server.client().await;
    client
        .batch_execute(
            "SET search_path = ghostlight; SET idle_in_transaction_session_timeout = 1000",
        )
        .await
        .unwrap();
    let frozen = client.transaction().await.unwrap();
    frozen
        .execute("SELECT 1 FROM tail FOR UPDATE", &[])
        .await
        .unwrap();
    append(&other, 1, 1, 1).await.unwrap();
    assert!(frozen.commit().await.is_err(), "the server ended it");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_nodes_write_to_one_store_and_no_chain_breaks() {
    if is_left_out() {
        return;
    }
    let server = Arc::new(Server::quick());
    let mut writers = Vec::new();
    for node in 0..4_u8 {
        let server = server.clone();
        writers.push(tokio::spawn(async move {
            let store = PostgresStore::open(&server.url()).await.unwrap();
            let runs = (1..=5).map(|number| node * 10 + number);
            let each = runs.map(|number| {
                let store = store.clone();
                async move {
                    make(&store, number).await.unwrap();
                    for sequence in 1..60 {
                        append(&store, number, sequence, 1).await.unwrap();
                    }
                }
            });
            futures_util::future::join_all(each).await;
            store.close().await.unwrap();
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let store = PostgresStore::open(&server.url()).await.unwrap();
    let verified = store.verify().await.unwrap();
    assert_eq!((verified.journals, verified.entries), (20, 1_200));
    let client = server.client().await;
    let gaps = "SELECT max(position) - count(*) FROM ghostlight.entries";
    assert_eq!(
        client.query_one(gaps, &[]).await.unwrap().get::<_, i64>(0),
        0,
        "gaps"
    );
}

/// Two nodes fight over one journal: each append that was acknowledged is there, in its place, once.
#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_that_take_a_journal_from_each_other_lose_nothing() {
    if is_left_out() {
        return;
    }
    let server = Arc::new(Server::quick());
    let first = PostgresStore::open(&server.url()).await.unwrap();
    make(&first, 1).await.unwrap();
    let fighters: Vec<_> = (0..2)
        .map(|_| {
            let server = server.clone();
            tokio::spawn(async move {
                let store = PostgresStore::open(&server.url()).await.unwrap();
                let mut acknowledged = Vec::new();
                for _ in 0..60 {
                    let claim = store.claim(run(1).into(), true).await.unwrap();
                    for sequence in claim.entries..claim.entries + 3 {
                        match append(&store, 1, sequence, claim.epoch).await {
                            Ok(()) => acknowledged.push(sequence),
                            Err(StoreError::Stale { .. }) => break,
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
                acknowledged
            })
        })
        .collect();
    let mut acknowledged = vec![0];
    for fighter in fighters {
        acknowledged.extend(fighter.await.unwrap());
    }
    acknowledged.sort_unstable();
    let there: Vec<u64> = texts(&first, 1)
        .await
        .iter()
        .map(|text| text.parse().unwrap())
        .collect();
    assert_eq!(acknowledged, there);
}

/// Milliseconds since 1970, as runs have them.
fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap().as_millis() as u64
}

/// The run of this number, with the row as it is to be.
async fn set(store: &PostgresStore, number: u8, sequence: u64, status: RunStatus, wake_at: u64) {
    let mut row = RunRow::new(run(number), "team", "agent");
    (row.status, row.wake_at) = (status, Some(Timestamp(wake_at)));
    let text = sequence.to_string().into();
    let at = Timestamp(now());
    let append = Append::new(run(number), sequence, 1, vec![Line { at, text }]).row(row);
    let committed = store.commit(vec![Batch::of(append)]).await.unwrap();
    assert!(committed.iter().all(Result::is_ok), "{committed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn how_far_each_node_is_behind_and_what_nobody_carries_is_told() {
    if is_left_out() {
        return;
    }
    let server = Server::quick();
    let proxy = Proxy::to(server.port()).await;
    let slow = PostgresStore::open_with(&server.url_at(proxy.port), &short_lease())
        .await
        .unwrap();
    let other = PostgresStore::open(&server.url()).await.unwrap();
    let of = async |id: &str| {
        let nodes = other.nodes().await.unwrap();
        nodes.into_iter().find(|node| node.id == id).unwrap()
    };
    // At work, asleep for long, asleep past its time, waiting for a person, and parked with an item that waits too.
    let minute_ago = now() - 60_000;
    set(&slow, 1, 0, RunStatus::Running, 0).await;
    set(&slow, 2, 0, RunStatus::Waiting, now() + 3_600_000).await;
    set(&slow, 3, 0, RunStatus::Waiting, minute_ago).await;
    set(&slow, 4, 0, RunStatus::Parked, 0).await;
    let item = |id: &str, at: u64| {
        let name = "message".to_owned();
        let value = json!("hello");
        MailboxItem::new(id, Timestamp(at), ItemBody::Message { name, value })
    };
    assert!(
        other
            .post(run(4).into(), item("of a parked run", 1))
            .await
            .unwrap()
    );
    let (id, healthy) = (slow.node().to_owned(), other.node().to_owned());
    let behind = of(&id).await;
    assert_eq!((behind.lives, behind.open_runs), (true, 4));
    assert_eq!((behind.lag.late_runs, behind.lag.unread), (1, 0));
    let oldest = behind.lag.oldest.unwrap();
    assert!(oldest >= Duration::from_secs(59) && oldest < Duration::from_secs(600));
    assert_eq!(of(&healthy).await.lag, Lag::default());
    // A posted item is unread until a commit takes it.
    assert!(
        other
            .post(run(2).into(), item("a", minute_ago - 60_000))
            .await
            .unwrap()
    );
    let behind = of(&id).await;
    assert_eq!((behind.lag.late_runs, behind.lag.unread), (1, 1));
    assert!(behind.lag.oldest.unwrap() >= Duration::from_secs(119));
    assert_eq!(other.unclaimed().await.unwrap(), Lag::default());

    // A node that cannot renew its lease is seen to fall behind, and its work becomes nobody's: also what was at work.
    let renewed = of(&healthy).await.renewed.unwrap();
    assert!(renewed < Duration::from_secs(5), "{renewed:?}");
    proxy.set(Way::Frozen);
    while of(&id).await.lives {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let gone = of(&id).await;
    assert!(gone.renewed.unwrap() >= Duration::from_millis(300));
    assert_eq!((gone.open_runs, gone.lag), (4, Lag::default()));
    let unclaimed = other.unclaimed().await.unwrap();
    assert_eq!((unclaimed.late_runs, unclaimed.unread), (2, 1));

    // One that was claimed is nobody's no more.
    claim_when_free(&other, 3).await;
    assert_eq!(other.unclaimed().await.unwrap().late_runs, 1);
    assert_eq!(of(&healthy).await.lag.late_runs, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_that_nobody_polls_hold_up_no_other() {
    if is_left_out() {
        return;
    }
    let server = Server::quick();
    let store = PostgresStore::open(&server.url()).await.unwrap();
    make(&store, 1).await.unwrap();
    let mut begun = Vec::new();
    // As branches of a `select!` that wait for their turn while another branch goes on.
    for _ in 0..100 {
        let mut read = Box::pin(store.read(run(1).into(), 0, 1));
        let _ = std::future::poll_fn(|cx| std::task::Poll::Ready(read.as_mut().poll(cx))).await;
        begun.push(read);
    }
    let other = tokio::time::timeout(Duration::from_secs(10), store.read(run(1).into(), 0, 1));
    assert_eq!(other.await.expect("a read in time").unwrap().len(), 1);
}
