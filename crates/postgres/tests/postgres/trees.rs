//! A tree is read in the order of its commits from any position on, also in tables that were made before its root's
//! entries left the index of trees.

use std::time::Duration;

use ghostlight_actors::{
    contract::{
        Append, Batch, Deletion as _, DynStore as _, Line, RunRow, RunStatus, StoreError,
        StoredLine, TreeLine,
    },
    vocabulary::{RunId, Timestamp},
};
use ghostlight_postgres::PostgresStore;

use crate::server::{Server, is_left_out};

/// The run whose entry comes next: a root with two children, and another root.
const ORDER: [u128; 32] = [
    1, 1, 9, 2, 1, 2, 2, 1, 3, 9, 9, 1, 1, 1, 1, 1, 3, 2, 1, 9, 3, 3, 3, 3, 3, 1, 2, 9, 1, 1, 3, 9,
];

fn run(number: u128) -> RunId {
    RunId::from_random(number << 64)
}

/// Appends an entry to each of these runs, one commit after the other.
async fn append(store: &PostgresStore, order: &[u128], numbers: &mut [u64; 10]) {
    for number in order {
        let sequence = &mut numbers[usize::try_from(*number).unwrap()];
        let text = format!("\"{sequence} of {number}\"").into();
        let at = Timestamp(1_763_000_000_000);
        let mut append = Append::new(run(*number), *sequence, 1, vec![Line { at, text }]);
        if *sequence == 0 {
            let mut row = RunRow::new(run(*number), "team", "agent");
            if matches!(number, 2 | 3) {
                (row.root, row.parent) = (run(1), Some(run(1)));
            }
            append = append.row(row);
        }
        *sequence += 1;
        let committed = store.commit(vec![Batch::of(append)]).await.unwrap();
        committed.into_iter().next().unwrap().unwrap();
    }
}

/// The entries of these runs in the order of their positions, read journal by journal.
async fn merged(store: &PostgresStore, numbers: &[u128]) -> Vec<TreeLine> {
    let mut merged = Vec::new();
    for number in numbers {
        let run = run(*number);
        let lines = store.read(run.into(), 0, usize::MAX).await.unwrap();
        let of_run = |stored: StoredLine| TreeLine { run, stored };
        merged.extend(lines.into_iter().map(of_run));
    }
    merged.sort_by_key(|line| line.stored.position);
    merged
}

async fn check(store: &PostgresStore) {
    for (root, of_tree) in [(1, &[1, 2, 3][..]), (9, &[9]), (2, &[])] {
        let wanted = merged(store, of_tree).await;
        let last = merged(store, &[1, 2, 3, 9]).await;
        let last = last.last().unwrap().stored.position;
        for after in 0..=last + 1 {
            for limit in [1, 3, usize::MAX] {
                let page = store.read_tree(run(root), after, limit).await.unwrap();
                let wanted = wanted.iter().filter(|line| line.stored.position > after);
                let wanted: Vec<_> = wanted.take(limit).cloned().collect();
                assert_eq!(page, wanted, "{limit} of tree {root} after {after}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_reads_the_same_from_every_position_also_on_two_other_nodes() {
    if is_left_out() {
        return;
    }
    let server = Server::quick();
    let store = PostgresStore::open(&server.url()).await.unwrap();
    let mut numbers = [0; 10];
    append(&store, &ORDER, &mut numbers).await;
    check(&store).await;
    let before = merged(&store, &[1, 2, 3]).await;
    store.close().await.unwrap();

    let url = server.url();
    let (first, second) = futures_util::join!(PostgresStore::open(&url), PostgresStore::open(&url));
    let (first, second) = (first.unwrap(), second.unwrap());
    let index = "SELECT indexdef FROM pg_indexes WHERE indexname = 'entries_by_tree'";
    let client = server.client().await;
    let index = client.query_one(index, &[]).await.unwrap();
    let index: String = index.get(0);
    assert!(index.ends_with("WHERE (journal <> root)"), "{index}");
    for store in [&first, &second] {
        assert_eq!(merged(store, &[1, 2, 3]).await, before);
        check(store).await;
    }
    // A run of the closed store goes on, and the node that reads along sees it.
    let claim = first.claim(run(1).into(), false).await.unwrap();
    let text = "\"more\"".into();
    let line = Line {
        at: Timestamp(1),
        text,
    };
    let more = Append::new(run(1), claim.entries, claim.epoch, vec![line]);
    let told = first.commit(vec![Batch::of(more)]).await.unwrap().remove(0);
    let position = told.unwrap().position;
    let seen = second.read_tree(run(1), position - 1, 9).await.unwrap();
    assert_eq!(seen.len(), 1);
    check(&second).await;
}

/// Makes ended trees of one run each.
async fn make_ended(store: &PostgresStore, numbers: impl Iterator<Item = u128>) {
    let made = numbers.map(|number| {
        let mut row = RunRow::new(run(number), "team", "agent");
        row.status = RunStatus::Answered;
        let (at, text) = (Timestamp(1), "\"made\"".into());
        Batch::of(Append::new(run(number), 0, 1, vec![Line { at, text }]).row(row))
    });
    for committed in store.commit(made.collect()).await.unwrap() {
        committed.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_is_verified_while_trees_go_and_each_journal_ends_as_its_row_says() {
    if is_left_out() {
        return;
    }
    let server = Server::quick();
    let store = PostgresStore::open(&server.url()).await.unwrap();
    make_ended(&store, 1..=150).await;
    let goes = async {
        // Those that are verified last go first.
        for number in (2..=150).rev() {
            let gone = store.delete_tree(run(number), Timestamp(1), 100).await;
            assert!(!gone.unwrap().more);
        }
    };
    let (verified, ()) = tokio::join!(store.verify(), goes);
    verified.unwrap();
    let client = server.client().await;
    let edit = "UPDATE ghostlight.journals SET hash = decode(repeat('07', 32), 'hex')";
    assert_eq!(client.execute(edit, &[]).await.unwrap(), 1);
    let found = store.verify().await.unwrap_err();
    assert!(matches!(found, StoreError::Damaged { .. }), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn blobs_are_looked_for_while_others_commit() {
    if is_left_out() {
        return;
    }
    let server = Server::quick();
    let store = PostgresStore::open(&server.url()).await.unwrap();
    let mut client = server.client().await;
    let commit = client.transaction().await.unwrap();
    let lock = "SELECT FROM ghostlight.tail FOR UPDATE";
    commit.query_one(lock, &[]).await.unwrap();
    let dropped = tokio::time::timeout(Duration::from_secs(20), store.drop_blobs()).await;
    assert_eq!(dropped.expect("it waits for the commit").unwrap(), 0);
    commit.rollback().await.unwrap();
}
