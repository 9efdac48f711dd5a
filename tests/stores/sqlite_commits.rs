//! Group commit, and what outlives a crash.

use std::{pin::pin, sync::Arc, task::Poll, time::Duration};

use futures_util::future;
use ghostlight::stores::{SqliteStore, sqlite::Options};
use ghostlight_actors::{
    contract::{
        Append, Batch, DynStore, Expected, ItemBody, MailboxItem, RunRow, StateWrite, StoreError,
    },
    vocabulary::{Digest, Message, Timestamp},
};

use crate::{appending, commit, folder::Folder, lines, making, run, texts};

/// How many transactions the store has seen.
fn transactions(folder: &Folder) -> u64 {
    let connection = rusqlite::Connection::open(folder.store()).unwrap();
    let count = "SELECT count(*) FROM commits";
    connection
        .query_row(count, [], |row| row.get::<_, i64>(0))
        .unwrap() as u64
}

#[tokio::test]
async fn commits_that_wait_together_share_a_transaction() {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.store()).unwrap();
    for number in 1..=200 {
        commit(&store, making(number, &["made"])).await.unwrap();
    }
    assert_eq!(transactions(&folder), 200, "commits that come one by one");
    // While somebody else writes, all are sent; the committer can have begun with a few of them.
    let other = rusqlite::Connection::open(folder.store()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let all = (1..=200).map(|number| commit(&store, appending(number, 1, &["more"])));
    let mut all = pin!(future::try_join_all(all));
    assert!(futures_util::poll!(all.as_mut()).is_pending());
    other.execute_batch("ROLLBACK").unwrap();
    all.await.unwrap();
    let more = transactions(&folder) - 200;
    assert!(
        more <= 2,
        "{more} transactions for 200 commits that came at once"
    );
    assert_eq!(texts(&store, 200).await.unwrap(), ["made", "more"]);
}

#[tokio::test]
async fn what_changes_nothing_is_no_commit() {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.store()).unwrap();
    commit(&store, making(1, &["made"])).await.unwrap();
    commit(&store, appending(1, 7, &["x"])).await.unwrap_err();
    store.commit(vec![]).await.unwrap();
    store.commit(vec![Default::default()]).await.unwrap();
    assert_eq!(transactions(&folder), 1);
}

/// Whatever changes the store takes part in the chain of commits, by which an older copy of the file is recognised.
#[tokio::test]
async fn each_change_alone_is_a_commit() {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.store()).unwrap();
    commit(&store, making(1, &["made"])).await.unwrap();
    let mut before = transactions(&folder);
    let mut is_next = |what: &str| {
        let now = transactions(&folder);
        assert_eq!(now, before + 1, "{what}");
        before = now;
    };
    let item =
        |id: &str| MailboxItem::new(id, Timestamp(1), ItemBody::Steer(Message::user("note")));
    store.post(run(1).into(), item("a")).await.unwrap();
    is_next("a post");
    store.claim(run(1).into(), false).await.unwrap();
    is_next("a claim");
    let mut batch = Batch::default();
    batch.posts.push((run(1).into(), item("b")));
    commit(&store, batch).await.unwrap();
    is_next("a post in a batch");
    let mut batch = Batch::default();
    batch.taken.push((run(1).into(), "a".to_owned()));
    commit(&store, batch).await.unwrap();
    is_next("an item that is taken");
    let mut batch = Batch::default();
    batch.writes.push(StateWrite {
        scope: "scope".to_owned(),
        key: "key".to_owned(),
        value: serde_json::value::to_raw_value("value").ok(),
        expected: Expected::Any,
    });
    commit(&store, batch).await.unwrap();
    is_next("a change of state");
    let mut batch = Batch::default();
    batch.blobs.push((Digest::of(b"blob"), Arc::from(*b"blob")));
    commit(&store, batch).await.unwrap();
    is_next("a blob");
    // The same item again changes nothing.
    store.post(run(1).into(), item("b")).await.unwrap();
    assert_eq!(transactions(&folder), before);
}

/// A child may be recorded before its root, by a process that ends then.
#[tokio::test]
async fn a_root_that_only_its_child_named_keeps_its_place_over_a_restart() {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.store()).unwrap();
    let mut row = RunRow::new(run(2), "team", "child");
    (row.root, row.parent) = (run(1), Some(run(1)));
    let child = Append::new(run(2), 0, 1, lines(&["child"])).row(row);
    commit(&store, Batch::of(child)).await.unwrap();
    drop(store);
    let store = SqliteStore::open(folder.store()).unwrap();
    commit(&store, making(3, &["another"])).await.unwrap();
    commit(&store, making(1, &["root"])).await.unwrap();
    let of_tree = store.read_tree(run(1), 0, usize::MAX).await.unwrap();
    let runs: Vec<_> = of_tree.iter().map(|line| line.run).collect();
    assert_eq!(runs, [run(2), run(1)]);
    assert_eq!(
        store.read_tree(run(3), 0, usize::MAX).await.unwrap().len(),
        1
    );
    store.verify().await.unwrap();
}

/// A life of a run that a later one of the same process replaced takes no child any more.
#[tokio::test]
async fn an_earlier_life_of_a_run_claims_nothing_below_it() {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.store()).unwrap();
    commit(&store, making(1, &["above"])).await.unwrap();
    commit(&store, making(2, &["below"])).await.unwrap();
    let above = store.claim(run(1).into(), false).await.unwrap().epoch;
    let below = |epoch| store.claim_below(run(2).into(), run(1).into(), epoch);
    let refused = below(above - 1).await.unwrap_err();
    assert!(
        matches!(refused, StoreError::Stale { current, .. } if current == above),
        "{refused}"
    );
    assert_eq!(below(above).await.unwrap().epoch, 2);
}

#[tokio::test]
async fn a_store_is_whole_after_a_crash_between_any_two_commits() {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.store()).unwrap();
    commit(&store, making(1, &["0"])).await.unwrap();
    let mut wanted = vec!["0".to_owned()];
    for sequence in 1..40 {
        let text = sequence.to_string();
        commit(&store, appending(1, sequence, &[&text]))
            .await
            .unwrap();
        wanted.push(text);
        let image = folder.image();
        let found = SqliteStore::open(image.store()).unwrap();
        assert_eq!(texts(&found, 1).await.unwrap(), wanted);
        assert_eq!(found.claim(run(1).into(), false).await.unwrap().epoch, 2);
        found.verify().await.unwrap();
    }
}

#[tokio::test]
async fn the_anchor_follows_while_the_store_is_open() {
    let folder = Folder::new();
    let mut options = Options::default();
    options.anchor_interval = Duration::from_millis(1);
    let store = SqliteStore::open_with(folder.store(), &options).unwrap();
    commit(&store, making(1, &["made"])).await.unwrap();
    let says = |number: u64| {
        let anchor = std::fs::read_to_string(folder.beside(".anchor")).unwrap();
        anchor.contains(&format!("\ncommit {number}\n"))
    };
    // The committer's thread keeps real time; this waits for its word, not for a time.
    let mut asked = 0;
    while !says(1) {
        tokio::task::yield_now().await;
        std::thread::sleep(Duration::from_millis(1));
        asked += 1;
        assert!(asked < 20_000, "the anchor stays behind");
    }
    commit(&store, appending(1, 1, &["more"])).await.unwrap();
    store.close().await.unwrap();
    assert!(says(2), "the anchor after closing");
}

#[tokio::test]
async fn a_claim_that_power_took_leaves_the_journal_as_it_was() {
    let folder = Folder::new();
    let mut options = Options::default();
    options.anchor_interval = Duration::from_millis(1);
    let store = SqliteStore::open_with(folder.store(), &options).unwrap();
    commit(&store, making(1, &["made"])).await.unwrap();
    let before = folder.image();
    assert_eq!(store.claim(run(1).into(), false).await.unwrap().epoch, 2);
    let claimed = folder.image();
    // A request without a change syncs nothing, so the anchor may not name the claim after it either.
    store.held_elsewhere(vec![run(1).into()]).await.unwrap();
    commit(&store, Batch::default()).await.unwrap();
    store.close().await.unwrap();
    // The anchor as it is at last, and the log as it was before the claim and right after it.
    for (kept, epoch) in [(before, 2), (claimed, 3)] {
        std::fs::copy(folder.beside(".anchor"), kept.beside(".anchor")).unwrap();
        let found = SqliteStore::open(kept.store()).unwrap();
        assert_eq!(texts(&found, 1).await.unwrap(), ["made"]);
        assert_eq!(found.claim(run(1).into(), true).await.unwrap().epoch, epoch);
        found.verify().await.unwrap();
    }
}

#[tokio::test]
async fn dropping_the_last_handle_frees_the_store() {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.store()).unwrap();
    let clone = store.clone();
    commit(&store, making(1, &["made"])).await.unwrap();
    drop(store);
    let other = SqliteStore::open(folder.store()).unwrap();
    other.claim(run(1).into(), false).await.unwrap_err();
    drop(clone);
    assert_eq!(other.claim(run(1).into(), false).await.unwrap().epoch, 2);
}

#[tokio::test]
async fn reads_that_nobody_polls_hold_up_no_other() {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.store()).unwrap();
    commit(&store, making(1, &["made"])).await.unwrap();
    let mut begun = Vec::new();
    // As branches of a `select!` that wait for their turn while another branch goes on.
    for _ in 0..100 {
        let mut read = Box::pin(store.read(run(1).into(), 0, 1));
        match futures_util::poll!(read.as_mut()) {
            Poll::Ready(read) => assert_eq!(read.unwrap().len(), 1),
            Poll::Pending => begun.push(read),
        }
    }
    let other = tokio::time::timeout(Duration::from_secs(10), texts(&store, 1)).await;
    assert_eq!(other.expect("a read in time").unwrap(), ["made"]);
    for read in begun {
        assert_eq!(read.await.unwrap().len(), 1);
    }
}
