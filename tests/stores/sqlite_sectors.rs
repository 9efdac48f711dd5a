//! Power that fails in the middle of writing: some sectors are new, some are old, none is torn.
//!
//! What was written between two syncs is the difference of two images of the files. A disk may
//! have kept any part of it, so random parts are put over the older image, and the store must
//! answer like one of the two, or say that it is damaged. Where a sync was promised in between
//! (the anchor says so) the older one is no answer either.

use std::fs;

use ghostlight::stores::SqliteStore;
use ghostlight_actors::contract::{DynStore, Entropy, SeededEntropy, StoreError};

use crate::{
    appending, commit,
    folder::Folder,
    sqlite_damage::{Answers, ask, crashed_store, fill, is_honest},
};

/// What a disk writes whole or not at all.
const SECTOR: usize = 512;
const MIXES: u64 = 300;

/// Bytes of the older image with some sectors of the newer one. What only one of them has may be
/// there or not: a file that grew may have its length and not its bytes.
fn mix(older: &[u8], newer: &[u8], chance: &SeededEntropy, share: f64) -> Vec<u8> {
    let len = if chance.fraction() < share {
        newer.len()
    } else {
        older.len()
    };
    let mut mixed = vec![0; len];
    for (number, sector) in mixed.chunks_mut(SECTOR).enumerate() {
        let from = number * SECTOR;
        let source = if chance.fraction() < share {
            newer
        } else {
            older
        };
        let bytes = source.get(from..).unwrap_or_default();
        let kept = bytes.len().min(sector.len());
        sector[..kept].copy_from_slice(&bytes[..kept]);
    }
    mixed
}

/// Opens what is there; the answers, all of one moment, or the first honest error.
async fn answers(folder: &Folder, what: &str) -> Result<Answers, StoreError> {
    let honest = |error: StoreError| {
        assert!(is_honest(&error), "{what}: {error}");
        error
    };
    let store = SqliteStore::open_read_only(folder.store()).map_err(honest)?;
    if let Some(error @ StoreError::Truncated { .. }) = store.why_read_only() {
        return Err(error.clone());
    }
    let answers = ask(&store).await;
    for answer in &answers {
        if let Err(error) = answer {
            return Err(honest(error.clone()));
        }
    }
    Ok(answers)
}

/// Two moments of a store whose commits are in its log: before and after one large commit.
struct Moments {
    folders: [Folder; 2],
    answers: [String; 2],
}

async fn moments() -> Moments {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.store()).unwrap();
    fill(&store).await;
    let before = (format!("{:?}", ask(&store).await), folder.image());
    let texts: Vec<String> = (0..12).map(|n| n.to_string().repeat(900)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    commit(&store, appending(1, 12, &texts)).await.unwrap();
    let after = (format!("{:?}", ask(&store).await), folder.image());
    store.close().await.unwrap();
    // The anchors as they are a second after each moment.
    Moments {
        folders: [before.1, after.1],
        answers: [before.0, after.0],
    }
}

#[tokio::test]
async fn a_log_that_was_written_in_part_is_the_older_or_the_newer_store_or_damaged() {
    let Moments {
        folders,
        answers: right,
    } = moments().await;
    let logs = folders
        .each_ref()
        .map(|folder| fs::read(folder.beside("-wal")).unwrap());
    assert!(logs[1].len() > logs[0].len() + 20 * SECTOR, "many sectors");
    let chance = SeededEntropy::new(1);
    let mut seen = [0; 3];
    for number in 0..MIXES {
        // Nearly all, nearly none, and everything in between.
        let share = [0.02, 0.5, 0.98, 1.0][usize::try_from(number % 4).unwrap()];
        let log = mix(&logs[0], &logs[1], &chance, share);
        let place = folders[0].image();
        fs::write(place.beside("-wal"), &log).unwrap();
        let found = answers(&place, &format!("mix {number}")).await;
        match found.map(|found| format!("{found:?}")) {
            Ok(found) if found == right[0] => seen[0] += 1,
            Ok(found) if found == right[1] => seen[1] += 1,
            Ok(found) => panic!("mix {number}: neither the older nor the newer store: {found}"),
            Err(_) => seen[2] += 1,
        }
    }
    println!(
        "{MIXES} mixes of the log: {} older, {} newer, {} errors",
        seen[0], seen[1], seen[2]
    );
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}

#[tokio::test]
async fn a_log_that_lost_what_was_synced_is_never_taken_for_whole() {
    let Moments {
        folders,
        answers: right,
    } = moments().await;
    let logs = folders
        .each_ref()
        .map(|folder| fs::read(folder.beside("-wal")).unwrap());
    let chance = SeededEntropy::new(2);
    let mut errors = 0;
    for number in 0..MIXES {
        let log = mix(&logs[0], &logs[1], &chance, 0.9);
        let place = folders[1].image();
        fs::write(place.beside("-wal"), &log).unwrap();
        anchor_at_its_end(&folders[1], &place).await;
        match answers(&place, &format!("mix {number}")).await {
            Ok(found) => assert_eq!(format!("{found:?}"), right[1], "mix {number}"),
            Err(_) => errors += 1,
        }
    }
    println!("{MIXES} mixes of a log that was synced: {errors} errors, no shorter history");
    assert!(errors > MIXES / 2, "{errors}");
}

/// Gives a copy the anchor that its whole original has after a clean end.
async fn anchor_at_its_end(original: &Folder, copy: &Folder) {
    let whole = original.image();
    let store = SqliteStore::open(whole.store()).unwrap();
    store.close().await.unwrap();
    fs::copy(whole.beside(".anchor"), copy.beside(".anchor")).unwrap();
}

#[tokio::test]
async fn a_file_that_its_log_was_moved_into_in_part_is_whole_as_long_as_the_log_is() {
    let (crashed, right) = crashed_store().await;
    let older = fs::read(crashed.store()).unwrap();
    let moved = crashed.image();
    let store = SqliteStore::open(moved.store()).unwrap();
    store.close().await.unwrap();
    assert!(
        !moved.beside("-wal").exists(),
        "closing moved the log into the file"
    );
    let newer = fs::read(moved.store()).unwrap();
    let right = format!("{right:?}");
    let chance = SeededEntropy::new(3);
    for number in 0..MIXES {
        let place = crashed.image();
        let file = mix(&older, &newer, &chance, 0.1 + 0.8 * chance.fraction());
        fs::write(place.store(), file).unwrap();
        let what = format!("mix {number} of the file with its log");
        let found = answers(&place, &what)
            .await
            .map(|found| format!("{found:?}"));
        assert_eq!(found.ok().as_ref(), Some(&right), "{what}");
        // The log was cut although the file was not synced: a disk that lies.
        fs::remove_file(place.beside("-wal")).unwrap();
        let what = format!("mix {number} of the file without its log");
        if let Ok(found) = answers(&place, &what).await {
            assert_eq!(format!("{found:?}"), right, "{what}");
        }
    }
}

#[tokio::test]
async fn what_is_not_there_and_what_cannot_be_read_are_told_apart() {
    let (folder, _) = crashed_store().await;
    let store = SqliteStore::open(folder.store()).unwrap();
    // Never there: nothing, and no error.
    assert!(store.run(crate::run(77)).await.unwrap().is_none());
    assert!(
        store
            .read(crate::run(77).into(), 0, 10)
            .await
            .unwrap()
            .is_empty()
    );
    store.close().await.unwrap();
    // There, and damaged: an error, and not nothing.
    let connection = rusqlite::Connection::open(folder.store()).unwrap();
    for edit in [
        "UPDATE runs SET title = 'x'",
        "UPDATE entries SET at = at + 1 WHERE sequence = 0",
    ] {
        assert!(connection.execute(edit, []).unwrap() > 0, "{edit}");
    }
    drop(connection);
    let store = SqliteStore::open_read_only(folder.store()).unwrap();
    let read = store.read(crate::run(1).into(), 0, 10).await;
    assert!(matches!(read, Err(StoreError::Damaged { .. })), "{read:?}");
    let row = store.run(crate::run(1)).await;
    assert!(matches!(row, Err(StoreError::Damaged { .. })), "{row:?}");
}
