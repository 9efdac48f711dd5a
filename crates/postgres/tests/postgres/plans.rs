//! What a commit names is found by index, also in tables of which the database knows nothing yet, and a step changes no
//! index of its run's journal. An entry of a root stands in no index of trees, and is found all the same.

use ghostlight_actors::{
    contract::{
        Append, Batch, DynStore as _, Expected, ItemBody, Line, MailboxItem, RunRow, StateWrite,
    },
    vocabulary::{RunId, Timestamp},
};
use ghostlight_postgres::PostgresStore;

use crate::server::{QUICK, Server, is_left_out, versions};

const AT: Timestamp = Timestamp(1_763_000_000_000);

/// An entry, a value and an item of the run of this number.
fn batch(number: u128, sequence: u64) -> Batch {
    let run = RunId::from_random(number << 64);
    let text = sequence.to_string().into();
    let append = Append::new(run, sequence, 1, vec![Line { at: AT, text }]);
    let mut batch = Batch::of(match sequence {
        0 => append.row(RunRow::new(run, "team", "agent")),
        _ => append,
    });
    batch.writes.push(StateWrite {
        scope: format!("scope of {number}"),
        key: "count".to_owned(),
        value: Some(serde_json::value::to_raw_value(&sequence).unwrap()),
        expected: Expected::Any,
    });
    let told = ItemBody::Cancel {
        reason: "none".to_owned(),
        stop: None,
    };
    let item = MailboxItem::new(sequence.to_string(), AT, told);
    batch.posts.push((run.into(), item));
    batch
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_finds_its_rows_by_index_and_a_step_changes_no_index_of_its_journal() {
    if is_left_out() {
        return;
    }
    for version in versions() {
        let mut settings = QUICK.to_vec();
        settings.push("autovacuum = off");
        let server = Server::of(version, &settings);
        let store = PostgresStore::open(&server.url()).await.unwrap();
        // The first groups come while the tables are empty: their plans would stay.
        for sequence in 0..10 {
            for first in (0..2_000).step_by(200) {
                let batches = (first..first + 200).map(|number| batch(number, sequence));
                for committed in store.commit(batches.collect()).await.unwrap() {
                    committed.unwrap();
                }
            }
        }
        let of_run = RunId::from_random(700 << 64);
        let entries = store.read(of_run.into(), 4, 1).await.unwrap();
        let page = store.read_tree(of_run, entries[0].position, 3).await;
        assert_eq!(page.unwrap().len(), 3);
        store.close().await.unwrap();
        drop(store);
        let client = server.client().await;
        let others = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'ghostlight'";
        // A connection tells what it read when it ends.
        while client
            .query_one(others, &[])
            .await
            .unwrap()
            .get::<_, i64>(0)
            > 0
        {
            tokio::task::yield_now().await;
        }
        let read = "SELECT relname::text, seq_tup_read FROM pg_stat_user_tables \
             WHERE relname IN ('journals', 'state', 'inbox', 'runs', 'entries') AND seq_tup_read > 0";
        let read = client.query(read, &[]).await.unwrap();
        let read: Vec<(String, i64)> = read.iter().map(|row| (row.get(0), row.get(1))).collect();
        assert_eq!(read, [], "rows that were read without an index");
        let read = "SELECT idx_tup_fetch, pg_relation_size('ghostlight.entries_by_tree') \
             FROM pg_stat_user_tables WHERE relname = 'entries'";
        let read = client.query_one(read, &[]).await.unwrap();
        let (read, index): (i64, i64) = (read.get(0), read.get(1));
        assert!(read < 40, "two pages took {read} entries");
        assert_eq!(index, 8_192, "the index of trees has entries of roots");
        let changed = "SELECT n_tup_upd, n_tup_hot_upd, idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'journals'";
        let changed = client.query_one(changed, &[]).await.unwrap();
        let (all, in_place): (i64, i64) = (changed.get(0), changed.get(1));
        assert_eq!(all, 2_000 * 9);
        let read: i64 = changed.get(2);
        assert!(
            read < all * 11 / 10,
            "{read} rows were read to change {all}"
        );
        assert!(
            in_place >= all * 9 / 10,
            "of {all} changed rows only {in_place} changed no index"
        );
    }
}
