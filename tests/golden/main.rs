//! Journals of every format that is read: today's code reads and replays them all.
//!
//! A folder `vN` holds what a program of format N recorded: a run of each kind as `ghostlight
//! export` prints it, and a store with all of them. The folder `prompts` holds runs in which the
//! built-in prompts reach a model. They are never written again. For a new format raise
//! `Recording::FORMAT`, for a new prompt add its script, and run
//!
//!     GHOSTLIGHT_WRITE_GOLDEN=1 cargo test --test golden written
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, missing_docs)]

mod kinds;
mod prompts;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use ghostlight::{
    actor::recording,
    contract::{DynStore as _, RunFilter, StoreHandle},
    run::{Recording, replay},
    stores::SqliteStore,
    testing::InMemoryStore,
};

use crate::kinds::{kinds, team};

/// How many kinds of run are in the store, with a turn before each.
const IN_STORE: usize = 2;

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden"))
}

/// The folders of all formats.
fn formats() -> Vec<PathBuf> {
    let entries = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let is_format = |path: &PathBuf| path.is_dir() && !path.ends_with("prompts");
    let mut formats: Vec<PathBuf> = entries.filter(is_format).collect();
    formats.sort();
    formats
}

#[test]
fn this_format_has_its_journals() {
    let newest = folder().join(format!("v{}", Recording::FORMAT));
    for kind in kinds() {
        let file = newest.join(format!("{}.jsonl", kind.name));
        assert!(file.is_file(), "{} is missing", file.display());
    }
}

#[test]
fn journals_of_every_format_replay_with_todays_code() {
    let mut count = 0;
    for format in formats() {
        for kind in kinds() {
            let Ok(text) = fs::read_to_string(format.join(format!("{}.jsonl", kind.name))) else {
                continue;
            };
            let recorded = Recording::from_json_lines(&text).unwrap();
            assert_eq!(recorded.to_json_lines(), text, "{}", kind.name);
            let replayed = replay(&recorded, &team().registry, None).unwrap();
            assert!(replayed.is_faithful(), "{}: {replayed}", kind.name);
            assert!(!replayed.has_drifted(), "{}: {replayed}", kind.name);
            // The check can fail: without its first result the journal fits no code.
            let mut broken = recorded.clone();
            let results = |line: &ghostlight::contract::TreeLine| {
                line.run == recorded.root && line.stored.line.text.starts_with("{\"completed\"")
            };
            // A cancelled run may have stood anywhere.
            if let Some(place) = broken.lines.iter().position(results)
                && kind.name != "cancelled"
            {
                broken.lines.remove(place);
                let replayed = replay(&broken, &team().registry, None).unwrap();
                assert!(!replayed.is_faithful(), "{}: {replayed}", kind.name);
            }
            count += 1;
        }
    }
    assert!(count >= kinds().len());
}

/// Where the journals of prompts are: they belong to words, not to a format.
fn of_prompts() -> PathBuf {
    folder().join("prompts")
}

#[test]
fn every_built_in_prompt_is_the_one_with_which_runs_were_begun() {
    for script in prompts::scripts() {
        let file = of_prompts().join(format!("{}.jsonl", script.name));
        let text =
            fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let recorded = Recording::from_json_lines(&text).unwrap();
        let replayed = replay(&recorded, &prompts::registry(), None).unwrap();
        let unchanged = replayed.is_faithful() && !replayed.has_drifted();
        assert!(unchanged, "{}: {replayed}", script.name);
        if script.name == "synthesis" {
            // The check can fail.
            let replayed = replay(&recorded, &prompts::other_words(), None).unwrap();
            let unchanged = replayed.is_faithful() && !replayed.has_drifted();
            assert!(!unchanged, "{replayed}");
        }
    }
}

/// `GHOSTLIGHT_WRITE_GOLDEN=1` writes the journals of those that have none yet.
#[tokio::test]
async fn every_built_in_prompt_has_a_journal_that_was_written() {
    for script in prompts::scripts() {
        let file = of_prompts().join(format!("{}.jsonl", script.name));
        if std::env::var_os("GHOSTLIGHT_WRITE_GOLDEN").is_some() && !file.exists() {
            let recorded = prompts::record(&script).await;
            fs::write(&file, recorded.to_json_lines()).unwrap();
        }
        assert!(file.is_file(), "{} is missing", file.display());
    }
}

#[tokio::test]
async fn stores_of_every_format_are_opened_and_their_runs_replay() {
    for format in formats() {
        let copy = std::env::temp_dir().join(format!("ghostlight-golden-{}", std::process::id()));
        fs::create_dir_all(&copy).unwrap();
        fs::copy(format.join("store.db"), copy.join("store.db")).unwrap();
        let unchanged = SqliteStore::open_read_only(copy.join("store.db")).unwrap();
        unchanged.verify().await.unwrap();
        let listed = unchanged.runs(RunFilter::default()).await.unwrap();
        assert!(!listed.is_empty());
        unchanged.close().await.unwrap();
        let store = SqliteStore::open(copy.join("store.db")).unwrap();
        assert_eq!(store.runs(RunFilter::default()).await.unwrap(), listed);
        store.verify().await.unwrap();
        let store = StoreHandle::new(store);
        let mut filter = RunFilter::default();
        filter.roots = true;
        let rows = store.runs(filter).await.unwrap();
        assert_eq!(rows.len(), 2 * IN_STORE, "{}", format.display());
        for row in rows {
            let recorded = recording(&store, row.run).await.unwrap();
            let replayed = replay(&recorded, &team().registry, None).unwrap();
            assert!(replayed.is_faithful(), "{}: {replayed}", row.title);
        }
        store.close().await.unwrap();
        fs::remove_dir_all(&copy).unwrap();
    }
}

/// Writes into a folder of its own, and compares; `GHOSTLIGHT_WRITE_GOLDEN=1` keeps what it wrote
/// as the journals of a new format.
#[tokio::test]
async fn the_journals_of_this_format_are_written_anew() {
    let golden = folder().join(format!("v{}", Recording::FORMAT));
    if std::env::var_os("GHOSTLIGHT_WRITE_GOLDEN").is_some() && !golden.exists() {
        return write_journals(&golden).await;
    }
    let anew =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("golden-anew-{}", std::process::id()));
    write_journals(&anew).await;
    let names = |folder: &Path| -> BTreeSet<_> {
        let files = fs::read_dir(folder).unwrap();
        files.map(|file| file.unwrap().file_name()).collect()
    };
    assert_eq!(names(&anew), names(&golden));
    fs::remove_dir_all(&anew).unwrap();
}

async fn write_journals(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    let handle = StoreHandle::new(InMemoryStore::new());
    let system = kinds::start(handle.clone()).await;
    for kind in kinds() {
        let run = kinds::record(&system, &kind).await;
        let recorded = recording(&handle, run).await.unwrap();
        assert!(recorded.has_ended(), "{}", kind.name);
        let file = folder.join(format!("{}.jsonl", kind.name));
        fs::write(file, recorded.to_json_lines()).unwrap();
    }
    system.stop().await.unwrap();
    // A few runs show that a store of this version is read; it is to stay small.
    let store = SqliteStore::open(folder.join("store.db")).unwrap();
    let system = kinds::start(StoreHandle::new(store)).await;
    for kind in kinds().iter().take(IN_STORE) {
        kinds::record(&system, kind).await;
    }
    system.stop().await.unwrap();
    fs::remove_dir_all(folder.join("store.db.owners")).unwrap();
    fs::remove_file(folder.join("store.db.anchor")).unwrap();
    assert!(fs::metadata(folder.join("store.db")).unwrap().len() < 144 << 10);
}
