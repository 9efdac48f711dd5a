//! Sessions that sleep for long cost a node nothing: the database reads the rows of none of them.

use ghostlight_actors::{
    contract::{DynStore as _, RunFilter, StoreError},
    vocabulary::Timestamp,
};
use ghostlight_postgres::PostgresStore;

use crate::{
    outages::make,
    server::{Server, is_left_out},
};

const SLEEPERS: i64 = 100_000;
/// The earliest time at which one of them wakes.
const DAWN: i64 = 1_000_000;

#[tokio::test(flavor = "multi_thread")]
async fn of_a_hundred_thousand_sleepers_only_those_are_read_whose_time_comes() {
    if is_left_out() {
        return;
    }
    let server = Server::quick();
    let store = PostgresStore::open(&server.url()).await.unwrap();
    make(&store, 1).await.unwrap();
    let client = server.client().await;
    // Nobody can read these rows: their paths are wrong.
    let insert = "INSERT INTO ghostlight.runs(run, root, team, agent, path, status, title, wake_at, started_at, updated_at) \
         SELECT id, id, 'team', 'agent', 'odd', 'waiting', '', $1::bigint + n, n, n \
         FROM (SELECT n, 'ffffffff-ffff-4fff-bfff-' || lpad(n::text, 12, '0') AS id \
             FROM generate_series(0, $2::bigint - 1) AS n) AS ids";
    client.execute(insert, &[&DAWN, &SLEEPERS]).await.unwrap();
    let read = "SELECT coalesce(seq_tup_read + idx_tup_fetch, 0)::bigint FROM pg_stat_user_tables \
         WHERE schemaname = 'ghostlight' AND relname = 'runs'";
    // Whether or not the database has looked yet at what the table holds.
    for prepare in ["SELECT 1", "ANALYZE ghostlight.runs"] {
        client.batch_execute(prepare).await.unwrap();
        let before: i64 = client.query_one(read, &[]).await.unwrap().get(0);
        let node = PostgresStore::open(&server.url()).await.unwrap();
        let mut filter = RunFilter::default();
        for (time, found) in [(0, 1), (DAWN - 1, 1)] {
            filter.awake_by = Some(Timestamp(time as u64));
            for _ in 0..8 {
                let rows = node.runs(filter.clone()).await.unwrap();
                assert_eq!(rows.len(), found);
            }
        }
        filter.awake_by = Some(Timestamp(DAWN as u64));
        let unread = node.runs(filter).await.unwrap_err();
        assert!(matches!(unread, StoreError::Damaged { .. }), "{unread}");
        // A connection tells what it did when it ends.
        node.close().await.unwrap();
        drop(node);
        let begun = std::time::Instant::now();
        loop {
            client
                .batch_execute("SELECT pg_stat_clear_snapshot()")
                .await
                .unwrap();
            let after: i64 = client.query_one(read, &[]).await.unwrap().get(0);
            let rows = after - before;
            assert!(rows < 200, "{rows} rows were read after {prepare}");
            if rows >= 17 {
                break;
            }
            assert!(begun.elapsed().as_secs() < 20, "nothing is told");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
}
