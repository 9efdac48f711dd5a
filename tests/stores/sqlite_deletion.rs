//! What deletion does to the file: its chains stay whole, and its pages are used again.

use std::{fs, time::Duration};

use ghostlight::stores::{SqliteStore, sqlite::Options};
use ghostlight_actors::{
    contract::{Append, Batch, Deletion, DynStore, RunRow, RunStatus, StoreError},
    vocabulary::{RunId, SessionId, Timestamp},
};

use crate::{appending, commit, folder::Folder, lines, run, texts};

/// A store whose anchor follows every commit, so that all commits but the last can be folded.
fn open(folder: &Folder) -> SqliteStore {
    let mut options = Options::default();
    options.anchor_interval = Duration::ZERO;
    SqliteStore::open_with(folder.store(), &options).unwrap()
}

fn ended(run: RunId) -> Batch {
    let mut row = RunRow::new(run, "team", "agent");
    row.status = RunStatus::Answered;
    Batch::of(Append::new(run, 0, 1, lines(&["made"])).row(row))
}

async fn delete(store: &SqliteStore, run: RunId, limit: usize) {
    while store
        .delete_tree(run, Timestamp(1), limit)
        .await
        .unwrap()
        .more
    {}
}

fn count(folder: &Folder, table: &str) -> i64 {
    let connection = rusqlite::Connection::open(folder.store()).unwrap();
    let count = format!("SELECT count(*) FROM {table}");
    connection.query_row(&count, [], |row| row.get(0)).unwrap()
}

/// Interleaves the entries of so many ended runs in many small commits, some of them shared.
async fn plant(store: &SqliteStore, runs: u8, rounds: u64) {
    for number in 1..=runs {
        commit(store, ended(run(number))).await.unwrap();
    }
    for round in 1..=rounds {
        for number in 1..=runs {
            let mut batch = appending(number, round, &["more"]);
            let next = number % runs + 1;
            if round % 3 == 0 && next > number && number % 2 == 1 {
                batch
                    .appends
                    .extend(appending(next, round, &["shared"]).appends);
                commit(store, batch).await.unwrap();
            } else if round % 3 != 0 || number % 2 == 1 || runs == 1 {
                commit(store, batch).await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn every_chain_stays_whole_whatever_is_deleted_and_in_whatever_steps() {
    for limit in [1, 3, 1000] {
        for order in [[1, 2, 3, 4], [4, 3, 2, 1], [2, 4, 1, 3]] {
            let folder = Folder::new();
            let store = open(&folder);
            plant(&store, 4, 9).await;
            let all = store.verify().await.unwrap();
            let (mut left, mut store) = (all.entries, store);
            for number in order {
                loop {
                    let deleted = store.delete_tree(run(number), Timestamp(1), limit).await;
                    let deleted = deleted.unwrap();
                    left -= deleted.entries;
                    // Each step leaves a store that is whole, also for the next process.
                    let verified = store.verify().await.unwrap();
                    assert_eq!(verified.entries, left);
                    assert!(verified.commits >= all.commits);
                    if !deleted.more {
                        break;
                    }
                }
                store.close().await.unwrap();
                drop(store);
                store = open(&folder);
                assert_eq!(store.verify().await.unwrap().entries, left);
                let read_only = SqliteStore::open_read_only(folder.store()).unwrap();
                read_only.verify().await.unwrap();
            }
            assert_eq!(left, 0);
            assert_eq!(count(&folder, "journals"), 0);
            assert!(count(&folder, "gone") <= 2, "{}", count(&folder, "gone"));
            assert!(
                count(&folder, "commits") <= 3,
                "{}",
                count(&folder, "commits")
            );
            // It goes on as a new one would.
            commit(&store, ended(run(7))).await.unwrap();
            store.verify().await.unwrap();
        }
    }
}

#[tokio::test]
async fn the_chains_stay_whole_when_sessions_go() {
    for limit in [1, 3, 1000] {
        let folder = Folder::new();
        let store = open(&folder);
        plant(&store, 2, 9).await;
        let session = |number: u64| SessionId {
            team: "team".into(),
            key: format!("s{number}").into(),
        };
        // Their entries share commits with each other and with those of the runs.
        for round in 0..12 {
            let mut batch = appending(1, 10 + round, &["more"]);
            for number in 0..3 {
                let text = lines(&["said"]);
                let append = Append::new(session(number), round, 1, text);
                batch.appends.push(append);
            }
            commit(&store, batch).await.unwrap();
        }
        let all = store.verify().await.unwrap();
        let (mut left, mut store) = (all.entries, store);
        for number in [1, 0, 2] {
            loop {
                let deleted = store.delete_session(session(number), limit).await.unwrap();
                left -= deleted.entries;
                assert_eq!(store.verify().await.unwrap().entries, left);
                if !deleted.more {
                    break;
                }
            }
            store.close().await.unwrap();
            drop(store);
            store = open(&folder);
            assert_eq!(store.verify().await.unwrap().entries, left);
            assert_eq!(
                store.sessions(Default::default()).await.unwrap().len() as u64,
                { [1, 2, 0][number as usize] }
            );
        }
        assert_eq!(left, all.entries - 36);
        assert_eq!(count(&folder, "journals"), 2);
        for number in [1, 2] {
            delete(&store, run(number), limit).await;
        }
        assert_eq!(store.verify().await.unwrap().entries, 0);
        assert!(count(&folder, "commits") <= 3);
    }
}

#[tokio::test]
async fn what_a_crash_left_of_a_deletion_goes_with_the_next() {
    let folder = Folder::new();
    let store = open(&folder);
    plant(&store, 3, 9).await;
    assert!(
        store
            .delete_tree(run(1), Timestamp(1), 2)
            .await
            .unwrap()
            .more
    );
    let image = folder.image();
    let store = open(&image);
    store.verify().await.unwrap();
    assert_eq!(store.run(run(1)).await.unwrap(), None);
    assert_eq!(store.deleted(run(1)).await.unwrap(), Some(Timestamp(1)));
    delete(&store, run(2), 1000).await;
    assert_eq!(count(&image, "journals"), 1);
    store.verify().await.unwrap();
}

#[tokio::test]
async fn damage_is_found_as_before_where_something_was_deleted() {
    for (sql, what) in [
        (
            "DELETE FROM gone WHERE position = (SELECT max(position) FROM gone)",
            "missing",
        ),
        (
            "UPDATE gone SET hash = zeroblob(16)",
            "does not match its digest",
        ),
        (
            "UPDATE commits SET first = first + 1 WHERE first IS NOT NULL",
            "",
        ),
        ("UPDATE commits SET first = NULL", ""),
        ("DELETE FROM commits WHERE first IS NOT NULL", ""),
        ("UPDATE commits SET first = number WHERE number = 6", ""),
        ("UPDATE deleted SET at = 7", "does not match its check"),
        ("DELETE FROM entries WHERE sequence = 4", "missing"),
    ] {
        let folder = Folder::new();
        let store = open(&folder);
        plant(&store, 3, 9).await;
        delete(&store, run(1), 1000).await;
        store.verify().await.unwrap();
        store.close().await.unwrap();
        drop(store);
        let connection = rusqlite::Connection::open(folder.store()).unwrap();
        assert!(connection.execute(sql, []).unwrap() > 0, "{sql}");
        drop(connection);
        let found = match SqliteStore::open(folder.store()) {
            Ok(store) => store.verify().await.map(drop).unwrap_err(),
            Err(error) => error,
        };
        assert!(
            matches!(found, StoreError::Damaged { .. }),
            "{sql}: {found}"
        );
        assert!(found.to_string().contains(what), "{sql}: {found}");
    }
}

#[tokio::test]
async fn an_older_anchor_than_the_deletion_is_no_damage() {
    let folder = Folder::new();
    let store = open(&folder);
    plant(&store, 1, 9).await;
    let old = fs::read(folder.beside(".anchor")).unwrap();
    commit(&store, ended(run(9))).await.unwrap();
    delete(&store, run(1), 1000).await;
    store.close().await.unwrap();
    drop(store);
    fs::write(folder.beside(".anchor"), old).unwrap();
    open(&folder).verify().await.unwrap();
}

#[tokio::test]
async fn a_long_life_with_deletion_does_not_let_the_file_grow() {
    let folder = Folder::new();
    let store = open(&folder);
    let text = "x".repeat(512);
    let mut pages = Vec::new();
    for week in 0..8_u128 {
        for day in 0..40_u128 {
            let run = RunId::from_random((week * 40 + day + 1) << 96);
            commit(&store, ended(run)).await.unwrap();
            let more = vec![text.as_str(); 20];
            let append = Append::new(run, 1, 1, lines(&more));
            commit(&store, Batch::of(append)).await.unwrap();
            // What ended more than ten runs ago goes.
            if let Some(old) = (week * 40 + day).checked_sub(10) {
                delete(&store, RunId::from_random((old + 1) << 96), 64).await;
            }
        }
        let connection = rusqlite::Connection::open(folder.store()).unwrap();
        let count = connection.pragma_query_value(None, "page_count", |row| row.get::<_, i64>(0));
        pages.push(count.unwrap());
    }
    store.verify().await.unwrap();
    assert!(count(&folder, "entries") <= 11 * 21);
    assert!(
        count(&folder, "commits") <= 11 * 4,
        "{}",
        count(&folder, "commits")
    );
    // Only the ten thousand deletions that are remembered still grow, by a row each.
    assert!(pages[7] <= pages[1] + 10, "pages by week: {pages:?}");
}

/// A run below an ended root.
fn below(child: RunId, root: RunId) -> Batch {
    let mut row = RunRow::new(child, "team", "agent");
    (row.root, row.parent, row.status) = (root, Some(root), RunStatus::Answered);
    Batch::of(Append::new(child, 0, 1, lines(&["made"])).row(row))
}

#[tokio::test]
async fn a_damaged_tree_stays_and_all_else_goes_on() {
    let child = run(2);
    for damage in [
        format!("UPDATE runs SET title = 'x' WHERE run = '{child}'"),
        format!("UPDATE journals SET epoch = 9 WHERE key = '{child}'"),
    ] {
        let folder = Folder::new();
        let store = open(&folder);
        commit(&store, ended(run(1))).await.unwrap();
        commit(&store, below(child, run(1))).await.unwrap();
        commit(&store, ended(run(3))).await.unwrap();
        store.close().await.unwrap();
        drop(store);
        let connection = rusqlite::Connection::open(folder.store()).unwrap();
        assert_eq!(connection.execute(&damage, []).unwrap(), 1);
        drop(connection);
        let store = open(&folder);
        for limit in [1, 1000] {
            let refused = store.delete_tree(run(1), Timestamp(1), limit).await;
            assert!(
                matches!(refused, Err(StoreError::Damaged { .. })),
                "{damage}: {refused:?}"
            );
        }
        assert_eq!(texts(&store, 1).await.unwrap(), ["made"]);
        delete(&store, run(3), 1).await;
        assert_eq!(store.run(run(3)).await.unwrap(), None);
        commit(&store, ended(run(4))).await.unwrap();
    }
}

#[tokio::test]
async fn a_deletion_that_damage_stops_halfway_keeps_no_other_from_its_end() {
    let folder = Folder::new();
    let store = open(&folder);
    plant(&store, 2, 9).await;
    let step = store.delete_tree(run(1), Timestamp(1), 2).await.unwrap();
    assert!(step.more);
    store.close().await.unwrap();
    drop(store);
    let connection = rusqlite::Connection::open(folder.store()).unwrap();
    let damage = "UPDATE entries SET hash = x'00' WHERE sequence = 1 \
         AND journal = (SELECT id FROM journals WHERE key LIKE 'deleted:%')";
    assert_eq!(connection.execute(damage, []).unwrap(), 1);
    drop(connection);
    let store = open(&folder);
    delete(&store, run(2), 1000).await;
    assert_eq!(count(&folder, "runs"), 0);
    assert_eq!(count(&folder, "journals"), 1);
    commit(&store, ended(run(4))).await.unwrap();
    let found = store.verify().await.unwrap_err();
    assert!(matches!(found, StoreError::Damaged { .. }), "{found}");
}
