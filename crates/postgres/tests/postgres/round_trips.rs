//! A node that commits alone waits for one answer, and one that is mistaken in that loses nothing.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use ghostlight_actors::contract::{DynStore as _, StoreError};
use ghostlight_postgres::PostgresStore;

use crate::{
    outages::{append, make, run, texts},
    proxy::{Proxy, Way},
    server::{Server, is_left_out},
};

/// Commits after which a node expects to be alone.
const ALONE: u64 = 10;

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_commits_alone_waits_for_no_answer_before_the_last() {
    if is_left_out() {
        return;
    }
    let server = Server::quick();
    let proxy = Proxy::to(server.port()).await;
    let store = PostgresStore::open(&server.url_at(proxy.port)).await;
    let store = store.unwrap();
    make(&store, 1).await.unwrap();
    for sequence in 1..ALONE {
        append(&store, 1, sequence, 1).await.unwrap();
    }
    // It hears of nothing that the server says.
    proxy.set(Way::Deaf);
    let last = {
        let store = store.clone();
        tokio::spawn(async move { append(&store, 1, ALONE, 1).await })
    };
    let client = server.client().await;
    let written = async || {
        let count = "SELECT count(*) FROM ghostlight.entries";
        let row = client.query_one(count, &[]).await.unwrap();
        row.get::<_, i64>(0)
    };
    let sent = Instant::now();
    while written().await <= ALONE.cast_signed() {
        assert!(sent.elapsed() < Duration::from_secs(30), "not committed");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    proxy.set(Way::Open);
    last.await.unwrap().unwrap();
    assert_eq!(texts(&store, 1).await.len() as u64, ALONE + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_another_node_came_before_is_made_again_over_the_same_connection() {
    if is_left_out() {
        return;
    }
    let server = Server::quick();
    let open = async || PostgresStore::open(&server.url()).await.unwrap();
    let (first, second) = (open().await, open().await);
    make(&first, 1).await.unwrap();
    make(&second, 2).await.unwrap();
    let client = server.client().await;
    let connections = async || -> BTreeSet<i32> {
        let all = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'";
        let rows = client.query(all, &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    };
    let before = connections().await;
    let mut sequence = 1;
    for between in 1..6 {
        for _ in 0..ALONE {
            append(&first, 1, sequence, 1).await.unwrap();
            sequence += 1;
        }
        append(&second, 2, between, 1).await.unwrap();
    }
    assert!(before.is_subset(&connections().await), "connected again");
    assert_eq!(texts(&first, 1).await.len() as u64, sequence);
    assert_eq!(texts(&first, 2).await.len(), 6);
    first.verify().await.unwrap();
}

/// Each append that was acknowledged is there, in its place, once.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_expects_to_be_alone_writes_nothing_to_a_journal_that_another_has_taken() {
    if is_left_out() {
        return;
    }
    let server = Server::quick();
    let open = async || PostgresStore::open(&server.url()).await.unwrap();
    let nodes = [open().await, open().await];
    make(&nodes[0], 1).await.unwrap();
    let (mut sequence, mut epoch) = (1, 1);
    for turn in 1..8 {
        let (former, next) = (&nodes[(turn + 1) % 2], &nodes[turn % 2]);
        for _ in 0..ALONE {
            append(former, 1, sequence, epoch).await.unwrap();
            sequence += 1;
        }
        let claim = next.claim(run(1).into(), true).await.unwrap();
        assert_eq!(claim.entries, sequence);
        let refused = append(former, 1, sequence, epoch).await.unwrap_err();
        assert!(matches!(refused, StoreError::Stale { .. }), "{refused}");
        epoch = claim.epoch;
    }
    let wanted: Vec<String> = (0..sequence).map(|number| number.to_string()).collect();
    assert_eq!(texts(&nodes[0], 1).await, wanted);
    nodes[0].verify().await.unwrap();
}
