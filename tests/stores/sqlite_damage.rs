//! Damaged, foreign, newer and truncated files.
//!
//! The promise under test: whatever happened to the bytes, an answer is the right one or an
//! error; it is never a wrong value, an empty answer or a shortened history.

use std::{fs, sync::Arc};

use ghostlight::stores::SqliteStore;
use ghostlight_actors::{
    contract::{
        Append, Batch, DynStore, Expected, ItemBody, MailboxItem, RunFilter, StateWrite, StoreError,
    },
    vocabulary::{Digest, Message, SessionId, Timestamp},
};

use crate::{appending, commit, folder::Folder, lines, making, run};

fn session() -> SessionId {
    SessionId {
        team: "team".into(),
        key: "key".into(),
    }
}

/// A small store with something of every kind.
pub(crate) async fn fill(store: &SqliteStore) {
    commit(store, making(1, &["first", "second"]))
        .await
        .unwrap();
    let mut batch = making(2, &["other"]);
    let row = Arc::make_mut(batch.appends[0].row.as_mut().unwrap());
    (row.root, row.parent) = (run(1), Some(run(1)));
    for key in ["a", "b"] {
        batch.writes.push(StateWrite {
            scope: "scope".to_owned(),
            key: key.to_owned(),
            value: serde_json::value::to_raw_value("value").ok(),
            expected: Expected::Any,
        });
    }
    batch.blobs.push((Digest::of(b"blob"), Arc::from(*b"blob")));
    commit(store, batch).await.unwrap();
    let epoch = store.claim(session().into(), false).await.unwrap().epoch;
    let append = Append::new(session(), 0, epoch, lines(&["turn"]));
    commit(store, Batch::of(append)).await.unwrap();
    for id in ["taken", "left"] {
        let item = MailboxItem::new(id, Timestamp(7), ItemBody::Steer(Message::user("note")));
        store.post(run(1).into(), item).await.unwrap();
    }
    let mut batch = appending(1, 2, &["third"]);
    batch.taken.push((run(1).into(), "taken".to_owned()));
    commit(store, batch).await.unwrap();
    store
        .put_checkpoint(session(), Some(vec![1; 300]))
        .await
        .unwrap();
    for sequence in 3..12 {
        let text = "x".repeat(400);
        commit(store, appending(1, sequence, &[&text]))
            .await
            .unwrap();
    }
}

/// Every answer of a store, in words.
pub(crate) type Answers = Vec<Result<String, StoreError>>;

pub(crate) async fn ask(store: &SqliteStore) -> Answers {
    let mut answers = Vec::new();
    macro_rules! ask {
        ($($question:expr),* $(,)?) => {
            $(answers.push($question.await.map(|answer| format!("{answer:?}")));)*
        };
    }
    let text = str::to_owned;
    ask!(
        store.read(run(1).into(), 0, 100),
        store.read(run(1).into(), 5, 2),
        store.read(run(2).into(), 0, 100),
        store.read(run(3).into(), 0, 100),
        store.read(session().into(), 0, 100),
        store.read_tree(run(1), 0, 100),
        store.read_tree(run(1), 6, 3),
        store.run(run(1)),
        store.run(run(2)),
        store.runs(RunFilter::default()),
        store.state(text("scope"), text("a")),
        store.state(text("scope"), text("b")),
        store.scope(text("scope")),
        store.blob(Digest::of(b"blob")),
        store.mailbox(run(1).into()),
        store.posted(0),
        store.checkpoint(session()),
    );
    answers
}

pub(crate) fn is_honest(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Damaged { .. }
            | StoreError::Truncated { .. }
            | StoreError::TooNew { .. }
            | StoreError::NoLongerRead { .. }
    )
}

/// Opens what a crash or damage left, and demands right answers or honest errors.
/// Tells whether the damage was noticed.
pub(crate) async fn demand(folder: &Folder, right: &Answers, what: &str) -> bool {
    let store = match SqliteStore::open_read_only(folder.store()) {
        Ok(store) => store,
        Err(error) => {
            assert!(is_honest(&error), "{what}: {error}");
            return true;
        }
    };
    if let Some(StoreError::Truncated { .. }) = store.why_read_only() {
        // Opened on purpose, as somebody does who wants to see what is left.
        return true;
    }
    let found = ask(&store).await;
    let mut noticed = false;
    for (number, (found, right)) in found.iter().zip(right).enumerate() {
        match (found, right) {
            (Err(error), _) => {
                assert!(is_honest(error), "{what}, question {number}: {error}");
                noticed = true;
            }
            (Ok(found), Ok(right)) => assert_eq!(found, right, "{what}, question {number}"),
            (Ok(_), Err(_)) => unreachable!("the whole store answers everything"),
        }
    }
    noticed
}

/// A store that was closed, and its answers.
pub(crate) async fn closed_store() -> (Folder, Answers) {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.store()).unwrap();
    fill(&store).await;
    let right = ask(&store).await;
    assert!(right.iter().all(Result::is_ok), "{right:?}");
    store.close().await.unwrap();
    assert!(!folder.beside("-wal").exists(), "closing left the log");
    (folder, right)
}

/// A store whose process stopped while its commits were in the log only, after the anchor was
/// brought up to date.
pub(crate) async fn crashed_store() -> (Folder, Answers) {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.store()).unwrap();
    fill(&store).await;
    let crashed = crash(&folder, store).await;
    assert!(fs::metadata(crashed.0.beside("-wal")).unwrap().len() > 20_000);
    crashed
}

/// What is left of a store whose process stops now, and what it answered before.
pub(crate) async fn crash(folder: &Folder, store: SqliteStore) -> (Folder, Answers) {
    let right = ask(&store).await;
    let image = folder.image();
    store.close().await.unwrap();
    // The anchor as it was a moment later: the crash came after the commits' second.
    fs::copy(folder.beside(".anchor"), image.beside(".anchor")).unwrap();
    (image, right)
}

/// What one flipped bit does: the whole header bit by bit, then one bit in each byte of the
/// tables that is not free space. The bit differs from byte to byte.
fn flips(bytes: &[u8], step: usize) -> Vec<(usize, u8)> {
    let header = (0..100).flat_map(|at| (0..8).map(move |bit| (at, 1 << bit)));
    let used = |at: &usize| {
        let around = &bytes[at.saturating_sub(8)..(at + 8).min(bytes.len())];
        around.iter().any(|byte| *byte != 0)
    };
    let rest = (100..bytes.len()).filter(used).step_by(step);
    header
        .chain(rest.map(|at| (at, 1 << (at * 5 / step % 8))))
        .collect()
}

async fn flip_each(folder: &Folder, suffix: &str, right: &Answers, step: usize) -> (usize, usize) {
    let whole = fs::read(folder.beside(suffix)).unwrap();
    let (mut flipped, mut noticed) = (0, 0);
    let log = fs::read(folder.beside("-wal")).ok();
    for (at, bit) in flips(&whole, step) {
        let mut bytes = whole.clone();
        bytes[at] ^= bit;
        fs::write(folder.beside(suffix), &bytes).unwrap();
        let what = format!("bit {bit:#x} of byte {at} of {suffix:?} flipped");
        noticed += usize::from(demand(folder, right, &what).await);
        flipped += 1;
        // Looking must not have changed anything.
        assert!(
            fs::read(folder.beside(suffix)).unwrap() == bytes,
            "{what}: it was written to"
        );
        if suffix.is_empty()
            && let Some(log) = &log
        {
            assert!(
                &fs::read(folder.beside("-wal")).unwrap() == log,
                "{what}: the log changed"
            );
        }
    }
    fs::write(folder.beside(suffix), &whole).unwrap();
    (flipped, noticed)
}

#[tokio::test]
async fn a_flipped_bit_of_the_file_is_an_error_or_makes_no_difference() {
    let (folder, right) = closed_store().await;
    let (flipped, noticed) = flip_each(&folder, "", &right, 13).await;
    assert!(
        flipped > 1_500 && noticed > flipped / 2,
        "{noticed} of {flipped}"
    );
    assert!(!demand(&folder, &right, "the whole file").await);
}

#[tokio::test]
async fn a_flipped_bit_of_the_log_is_an_error_or_makes_no_difference() {
    let (folder, right) = crashed_store().await;
    assert!(!demand(&folder, &right, "the whole store").await);
    let (flipped, noticed) = flip_each(&folder, "-wal", &right, 41).await;
    assert!(
        flipped > 1_000 && noticed > flipped / 2,
        "{noticed} of {flipped}"
    );
}

#[tokio::test]
async fn a_flipped_bit_of_the_anchor_makes_no_store_look_wrong() {
    let (folder, right) = closed_store().await;
    let (flipped, _) = flip_each(&folder, ".anchor", &right, 3).await;
    assert!(flipped > 500, "{flipped}");
}

#[tokio::test]
async fn a_truncated_file_is_an_error() {
    let (folder, right) = closed_store().await;
    let whole = fs::read(folder.store()).unwrap();
    for len in (0..whole.len())
        .step_by(197)
        .chain(whole.len() - 20..whole.len())
    {
        fs::write(folder.store(), &whole[..len]).unwrap();
        let noticed = demand(&folder, &right, &format!("the first {len} bytes")).await;
        assert!(noticed, "the first {len} of {} bytes", whole.len());
    }
}

#[tokio::test]
async fn a_truncated_log_is_an_error() {
    let (folder, right) = crashed_store().await;
    let whole = fs::read(folder.beside("-wal")).unwrap();
    for len in (0..whole.len())
        .step_by(409)
        .chain(whole.len() - 20..whole.len())
    {
        fs::write(folder.beside("-wal"), &whole[..len]).unwrap();
        let noticed = demand(
            &folder,
            &right,
            &format!("the first {len} bytes of the log"),
        )
        .await;
        assert!(
            noticed,
            "the first {len} of {} bytes of the log",
            whole.len()
        );
    }
    fs::remove_file(folder.beside("-wal")).unwrap();
    assert!(demand(&folder, &right, "no log").await);
}

#[tokio::test]
async fn a_lost_tail_is_told_with_its_numbers_and_can_be_read() {
    let (folder, _) = crashed_store().await;
    let log = fs::read(folder.beside("-wal")).unwrap();
    fs::write(folder.beside("-wal"), &log[..log.len() - 100]).unwrap();
    let before = fs::read(folder.store()).unwrap();

    let error = SqliteStore::open(folder.store()).unwrap_err();
    let StoreError::Truncated { have, expected, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(have + 1, expected);
    assert!(
        error.to_string().contains("truncated or replaced"),
        "{error}"
    );

    let store = SqliteStore::open_read_only(folder.store()).unwrap();
    let found = store.read(run(1).into(), 0, 100).await.unwrap();
    assert_eq!(found.len(), 11, "all but the last entry");
    let verified = store.verify().await.unwrap_err();
    assert!(
        matches!(verified, StoreError::Truncated { .. }),
        "{verified}"
    );
    let refused = commit(&store, appending(1, 11, &["x"])).await.unwrap_err();
    assert!(matches!(refused, StoreError::Truncated { .. }), "{refused}");
    let refused = store.claim(run(1).into(), true).await.unwrap_err();
    assert!(matches!(refused, StoreError::Truncated { .. }), "{refused}");
    drop(store);
    assert!(
        fs::read(folder.store()).unwrap() == before,
        "the file was written to"
    );

    // Whoever accepts the loss removes the anchor.
    fs::remove_file(folder.beside(".anchor")).unwrap();
    let store = SqliteStore::open(folder.store()).unwrap();
    assert_eq!(store.claim(run(1).into(), false).await.unwrap().entries, 11);
}

#[tokio::test]
async fn an_older_copy_in_the_place_of_the_file_is_noticed() {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.store()).unwrap();
    commit(&store, making(1, &["a"])).await.unwrap();
    store.close().await.unwrap();
    let older = fs::read(folder.store()).unwrap();
    let store = SqliteStore::open(folder.store()).unwrap();
    commit(&store, making(2, &["b"])).await.unwrap();
    store.close().await.unwrap();
    let newer = fs::read(folder.store()).unwrap();

    fs::write(folder.store(), &older).unwrap();
    let error = SqliteStore::open(folder.store()).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::Truncated {
                have: 1,
                expected: 2,
                ..
            }
        ),
        "{error}"
    );
    fs::remove_file(folder.store()).unwrap();
    let error = SqliteStore::open(folder.store()).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::Truncated {
                have: 0,
                expected: 2,
                ..
            }
        ),
        "{error}"
    );
    assert!(
        !folder.store().exists(),
        "a fresh store took the place of the lost one"
    );
    fs::write(folder.store(), &newer).unwrap();
    SqliteStore::open(folder.store()).unwrap();
}

#[tokio::test]
async fn another_stores_anchor_is_noticed() {
    let (folder, _) = closed_store().await;
    let other = Folder::new();
    let store = SqliteStore::open(other.store()).unwrap();
    commit(&store, making(9, &["of another store"]))
        .await
        .unwrap();
    drop(store);
    fs::copy(other.beside(".anchor"), folder.beside(".anchor")).unwrap();
    let error = SqliteStore::open(folder.store()).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}

/// Opens a file that must be refused, and must not be touched.
fn refuse(folder: &Folder, bytes: &[u8]) -> StoreError {
    fs::write(folder.store(), bytes).unwrap();
    let error = SqliteStore::open(folder.store()).unwrap_err();
    assert!(
        fs::read(folder.store()).unwrap() == bytes,
        "the file was written to"
    );
    SqliteStore::open_read_only(folder.store()).unwrap_err();
    assert!(
        fs::read(folder.store()).unwrap() == bytes,
        "the file was written to"
    );
    assert!(!folder.beside(".anchor").exists(), "an anchor was made");
    error
}

#[tokio::test]
async fn a_foreign_file_is_left_untouched() {
    let folder = Folder::new();
    let error = refuse(&folder, b"Dear diary, this is not a database.");
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    let error = refuse(&folder, &[0; 8192]);
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");

    let theirs = folder.beside(".theirs");
    let connection = rusqlite::Connection::open(&theirs).unwrap();
    connection
        .execute_batch("PRAGMA user_version = 4; CREATE TABLE entries(x)")
        .unwrap();
    drop(connection);
    let error = refuse(&folder, &fs::read(&theirs).unwrap());
    assert!(error.to_string().contains("another program"), "{error}");

    // Even with our mark, tables that are not ours are not used.
    let connection = rusqlite::Connection::open(&theirs).unwrap();
    connection
        .execute_batch("PRAGMA application_id = 0x47687374; PRAGMA journal_mode = wal")
        .unwrap();
    drop(connection);
    let error = refuse(&folder, &fs::read(&theirs).unwrap());
    assert!(error.to_string().contains("tables"), "{error}");
}

#[tokio::test]
async fn a_newer_file_is_left_untouched() {
    let (made, _) = closed_store().await;
    let connection = rusqlite::Connection::open(made.store()).unwrap();
    connection
        .execute_batch("PRAGMA user_version = 77")
        .unwrap();
    drop(connection);
    let folder = Folder::new();
    let error = refuse(&folder, &fs::read(made.store()).unwrap());
    assert!(
        matches!(
            error,
            StoreError::TooNew {
                found: 77,
                known: 6,
                ..
            }
        ),
        "{error}"
    );
}

/// Its version was never promised to be read.
#[tokio::test]
async fn a_file_from_before_the_first_version_that_is_read_is_left_untouched() {
    let (made, _) = closed_store().await;
    let connection = rusqlite::Connection::open(made.store()).unwrap();
    connection.execute_batch("PRAGMA user_version = 3").unwrap();
    drop(connection);
    let folder = Folder::new();
    let error = refuse(&folder, &fs::read(made.store()).unwrap());
    assert!(
        matches!(
            error,
            StoreError::NoLongerRead {
                found: 3,
                oldest: 4,
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test]
async fn a_file_that_became_newer_in_its_log_is_left_untouched() {
    let (made, _) = closed_store().await;
    let connection = rusqlite::Connection::open(made.store()).unwrap();
    connection.execute_batch("PRAGMA user_version = 7").unwrap();
    let folder = made.image();
    drop(connection);
    let files =
        ["", "-wal", ".anchor"].map(|suffix| (suffix, fs::read(folder.beside(suffix)).unwrap()));
    assert!(!files[1].1.is_empty());
    let error = SqliteStore::open(folder.store()).unwrap_err();
    assert!(
        matches!(error, StoreError::TooNew { found: 7, .. }),
        "{error}"
    );
    for (suffix, bytes) in files {
        assert!(
            fs::read(folder.beside(suffix)).unwrap() == bytes,
            "{suffix:?} was written to"
        );
    }
}

#[tokio::test]
async fn a_log_without_its_file_is_not_played_into_a_fresh_one() {
    let (folder, _) = crashed_store().await;
    fs::remove_file(folder.store()).unwrap();
    fs::remove_file(folder.beside(".anchor")).unwrap();
    let error = SqliteStore::open(folder.store()).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    assert!(!folder.store().exists());
}

#[tokio::test]
async fn a_row_that_somebody_edited_is_noticed() {
    let edits = [
        "UPDATE entries SET body = '\"forged\"' WHERE sequence = 1",
        "UPDATE entries SET at = at + 1 WHERE sequence = 1",
        "DELETE FROM entries WHERE sequence = 1",
        "UPDATE journals SET epoch = 9",
        "UPDATE runs SET status = 'failed'",
        "UPDATE state SET value = '1'",
        "UPDATE state SET version = 7 WHERE key = 'a'",
        "UPDATE inbox SET body = NULL WHERE id = 'left'",
        "UPDATE blobs SET bytes = x'00'",
        "UPDATE checkpoints SET bytes = x'00'",
        "UPDATE commits SET digest = zeroblob(16) WHERE number = 2",
        "DELETE FROM commits WHERE number = 2",
        "DELETE FROM entries WHERE position = (SELECT max(position) FROM entries)",
    ];
    for edit in edits {
        let (folder, _) = closed_store().await;
        let connection = rusqlite::Connection::open(folder.store()).unwrap();
        assert!(connection.execute(edit, []).unwrap() > 0, "{edit}");
        drop(connection);
        let verified = match SqliteStore::open_read_only(folder.store()) {
            Ok(store) => store.verify().await.map(drop),
            Err(error) => Err(error),
        };
        let error = verified.expect_err(edit);
        assert!(
            matches!(error, StoreError::Damaged { .. }),
            "{edit}: {error}"
        );
    }
}

#[tokio::test]
async fn damage_of_one_row_is_the_trouble_of_who_needs_it() {
    let (folder, _) = closed_store().await;
    let connection = rusqlite::Connection::open(folder.store()).unwrap();
    let damage = "UPDATE state SET value = '1' WHERE key = 'a'; \
                  UPDATE journals SET epoch = 9 WHERE id = 1;";
    connection.execute_batch(damage).unwrap();
    drop(connection);
    let store = SqliteStore::open(folder.store()).unwrap();
    let write = |key: &str| {
        let mut batch = Batch::default();
        batch.writes.push(StateWrite {
            scope: "scope".to_owned(),
            key: key.to_owned(),
            value: None,
            expected: Expected::Any,
        });
        batch
    };
    let told = store
        .commit(vec![
            write("a"),
            appending(1, 12, &["x"]),
            write("b"),
            making(5, &["new"]),
        ])
        .await
        .unwrap();
    let damaged = |told: &Result<_, StoreError>| matches!(told, Err(StoreError::Damaged { .. }));
    assert!(damaged(&told[0]) && damaged(&told[1]), "{told:?}");
    assert!(told[2].is_ok() && told[3].is_ok(), "{told:?}");
    let error = store.claim(run(1).into(), true).await.unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    store.claim(run(5).into(), false).await.unwrap();
}

#[tokio::test]
async fn a_whole_store_is_verified() {
    let (folder, _) = closed_store().await;
    let store = SqliteStore::open(folder.store()).unwrap();
    let verified = store.verify().await.unwrap();
    assert_eq!(verified.entries, 14);
    assert_eq!(verified.commits, 17);
}
