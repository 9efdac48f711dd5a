//! What stands at the names that a store uses: only regular files of one name are opened, and a store
//! appears once however many processes make it.
#![cfg(unix)]

use std::{
    fs,
    os::unix::{
        fs::{FileTypeExt as _, MetadataExt as _, symlink},
        net::UnixListener,
    },
    path::Path,
    process::{Command, Stdio},
    thread,
};

use ghostlight::stores::SqliteStore;
use ghostlight_actors::contract::{DynStore, StoreError};

use crate::{appending, commit, folder::Folder, making, sqlite_processes::STORE, texts};

/// Puts something at a path that is no regular file; `false` where this user may not.
fn put(kind: &str, path: &Path) -> bool {
    let make = |program: &str, words: &[&str]| {
        let mut command = Command::new(program);
        let made = command.arg(path).args(words).stderr(Stdio::null()).status();
        made.unwrap().success()
    };
    match kind {
        "FIFO" => make("mkfifo", &[]),
        // The numbers of the null device.
        "device" => make("mknod", &["c", "1", "3"]),
        "socket" => UnixListener::bind(path).is_ok(),
        "folder" => fs::create_dir(path).is_ok(),
        "link to nothing" => symlink(path.with_extension("nowhere"), path).is_ok(),
        "link to a FIFO" => {
            let target = path.with_extension("target");
            put("FIFO", &target) && symlink(target, path).is_ok()
        }
        other => panic!("{other}?"),
    }
}

/// What stands there, as it can be told from outside.
fn seen(path: &Path) -> (u64, fs::FileType, bool) {
    let found = fs::symlink_metadata(path).unwrap();
    let kind = found.file_type();
    (found.ino(), kind, kind.is_char_device())
}

#[tokio::test]
async fn a_store_leaves_what_is_no_regular_file_untouched() {
    let kinds = [
        "FIFO",
        "device",
        "socket",
        "folder",
        "link to nothing",
        "link to a FIFO",
    ];
    let mut tried = 0;
    for suffix in ["", "-wal", "-shm", "-journal", ".anchor", ".owners"] {
        for kind in kinds {
            for there in [false, true] {
                let folder = Folder::new();
                // Beside a store, or beside none; in the place of the store there is none.
                if there && suffix.is_empty() {
                    continue;
                }
                if there {
                    let store = SqliteStore::open(folder.store()).unwrap();
                    commit(&store, making(1, &["made"])).await.unwrap();
                    store.close().await.unwrap();
                    drop(store);
                    let place = folder.beside(suffix);
                    let _ = fs::remove_file(&place).or_else(|_| fs::remove_dir_all(&place));
                }
                let place = folder.beside(suffix);
                if (suffix, kind) == (".owners", "folder") || !put(kind, &place) {
                    continue;
                }
                let before = seen(&place);
                let case = format!("{kind} at {suffix:?}, a store: {there}");
                for opened in [
                    SqliteStore::open(folder.store()),
                    SqliteStore::open_read_only(folder.store()),
                ] {
                    let error = opened.expect_err(&case);
                    assert!(matches!(error, StoreError::Io { .. }), "{case}: {error}");
                }
                assert_eq!(seen(&place), before, "{case}");
                tried += 1;
            }
        }
    }
    assert!(tried > 40, "{tried}");
}

#[tokio::test]
async fn the_name_of_a_device_is_told() {
    let folder = Folder::new();
    assert!(put("FIFO", &folder.store()));
    let error = SqliteStore::open(folder.store()).unwrap_err().to_string();
    assert!(
        error.contains("it is a FIFO and no regular file"),
        "{error}"
    );
}

#[tokio::test]
async fn a_store_leaves_files_of_others_beside_it_untouched() {
    let folder = Folder::new();
    let others = [".new", ".anchor.new", ".owners/cafe", ".owners/mine.txt"];
    fs::create_dir(folder.beside(".owners")).unwrap();
    for other in others {
        fs::write(folder.beside(other), "mine").unwrap();
    }
    for _ in 0..2 {
        drop(SqliteStore::open(folder.store()).unwrap());
    }
    for other in others {
        assert_eq!(fs::read(folder.beside(other)).unwrap(), b"mine", "{other}");
    }
}

#[tokio::test]
async fn an_empty_file_becomes_a_store_where_a_link_leads_to_it() {
    let (folder, elsewhere) = (Folder::new(), Folder::new());
    fs::write(folder.store(), "").unwrap();
    symlink(folder.store(), elsewhere.store()).unwrap();
    let store = SqliteStore::open(elsewhere.store()).unwrap();
    commit(&store, making(1, &["made"])).await.unwrap();
    assert!(elsewhere.store().is_symlink());
    assert!(folder.beside(".anchor").exists() && !elsewhere.beside(".anchor").exists());
}

#[tokio::test]
async fn a_store_with_two_names_is_refused() {
    let (folder, elsewhere) = (Folder::new(), Folder::new());
    let store = SqliteStore::open(folder.store()).unwrap();
    commit(&store, making(1, &["made"])).await.unwrap();
    fs::hard_link(folder.store(), elsewhere.store()).unwrap();
    for name in [elsewhere.store(), folder.store()] {
        for opened in [SqliteStore::open(&name), SqliteStore::open_read_only(&name)] {
            let error = opened.unwrap_err();
            assert!(matches!(error, StoreError::Io { .. }), "{error}");
            assert!(error.to_string().contains("second name"), "{error}");
        }
    }
    assert!(!elsewhere.beside("-wal").exists() && !elsewhere.beside(".owners").exists());
    // Who has it open goes on.
    commit(&store, appending(1, 1, &["more"])).await.unwrap();
    store.close().await.unwrap();
    fs::remove_file(elsewhere.store()).unwrap();
    let store = SqliteStore::open(folder.store()).unwrap();
    assert_eq!(texts(&store, 1).await.unwrap(), ["made", "more"]);
    store.verify().await.unwrap();
}

#[tokio::test]
async fn eight_processes_make_one_store_at_once() {
    for round in 0..5 {
        let folder = Folder::new();
        let store = folder.store();
        thread::scope(|threads| {
            let first_use = || {
                let mut command = Command::new(std::env::current_exe().unwrap());
                let told = command
                    .args(["--exact", "sqlite_processes::another_process_obeys"])
                    .arg("--nocapture")
                    .env(STORE, &store)
                    .stdin(Stdio::null())
                    .output()
                    .unwrap();
                assert!(told.status.success(), "round {round}: {told:?}");
            };
            for _ in 0..8 {
                threads.spawn(first_use);
            }
        });
        let store = SqliteStore::open(folder.store()).unwrap();
        commit(&store, making(1, &["made"])).await.unwrap();
        store.verify().await.unwrap();
    }
}
