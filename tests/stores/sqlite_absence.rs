//! What is gone from a store is damage, and never taken for what never was.

use std::{fs, sync::Arc};

use ghostlight::stores::SqliteStore;
use ghostlight_actors::{
    contract::{DynStore, Line, RunFilter, StoreError},
    vocabulary::{Digest, Entry, Message, RunStart, Timestamp},
};

use crate::{appending, commit, folder::Folder, making, run};

/// A store with some runs, one of which is pinned to a definition.
async fn filled() -> Folder {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.store()).unwrap();
    for number in 1..5 {
        commit(&store, making(number, &["first", "second"]))
            .await
            .unwrap();
    }
    let definition = Digest::of(b"{}");
    let start = RunStart::new(run(5), "team", "agent", definition, Message::user("go"));
    let entry = Entry::RunStarted(Box::new(start));
    let mut batch = making(5, &[]);
    batch.appends[0].lines = vec![Line::encode(Timestamp::default(), &entry).unwrap()];
    batch.blobs.push((definition, Arc::from(*b"{}")));
    commit(&store, batch).await.unwrap();
    store.close().await.unwrap();
    folder
}

fn is_damage<T: std::fmt::Debug>(told: &Result<T, StoreError>) -> bool {
    matches!(told, Err(StoreError::Damaged { .. }))
}

#[tokio::test]
async fn rows_that_somebody_deleted_are_damage_and_not_absence() {
    for delete in [
        "DELETE FROM runs",
        "DELETE FROM runs WHERE id = 2",
        "DELETE FROM blobs",
    ] {
        let folder = filled().await;
        let connection = rusqlite::Connection::open(folder.store()).unwrap();
        connection.execute(delete, []).unwrap();
        connection.close().unwrap();
        let opened = SqliteStore::open(folder.store());
        assert!(is_damage(&opened), "{delete}: {opened:?}");
        let read = SqliteStore::open_read_only(folder.store());
        assert!(is_damage(&read), "{delete}: {read:?}");
    }
}

#[tokio::test]
async fn a_run_whose_row_goes_while_the_store_is_open_is_damaged_and_not_unknown() {
    let folder = filled().await;
    let store = SqliteStore::open(folder.store()).unwrap();
    assert!(store.run(run(1)).await.unwrap().is_some());
    let connection = rusqlite::Connection::open(folder.store()).unwrap();
    connection.execute("DELETE FROM runs", []).unwrap();
    let told = store.run(run(1)).await;
    assert!(is_damage(&told), "{told:?}");
    let verified = store.verify().await;
    assert!(is_damage(&verified), "{verified:?}");
    // One that never was is none.
    assert_eq!(store.run(run(9)).await.unwrap(), None);
}

#[cfg(unix)]
#[tokio::test]
async fn a_store_whose_file_is_removed_moved_or_replaced_refuses_work() {
    for how in ["removed", "moved", "replaced"] {
        let folder = filled().await;
        let copy = folder.beside(".copy");
        fs::copy(folder.store(), &copy).unwrap();
        let store = SqliteStore::open(folder.store()).unwrap();
        commit(&store, appending(1, 2, &["third"])).await.unwrap();
        match how {
            "removed" => fs::remove_file(folder.store()).unwrap(),
            "moved" => fs::rename(folder.store(), folder.beside(".old")).unwrap(),
            _ => fs::rename(&copy, folder.store()).unwrap(),
        }
        let gone = |told: &StoreError| matches!(told, StoreError::Gone { .. });
        let told = commit(&store, making(7, &["lost"])).await.unwrap_err();
        assert!(gone(&told), "{how}: {told}");
        let told = store.runs(RunFilter::default()).await.unwrap_err();
        assert!(gone(&told), "{how}: {told}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_is_gone_is_noticed_also_when_nothing_is_committed() {
    let folder = filled().await;
    let store = SqliteStore::open(folder.store()).unwrap();
    store.posted(0).await.unwrap();
    fs::remove_file(folder.store()).unwrap();
    let told = store.posted(0).await.unwrap_err();
    assert!(matches!(told, StoreError::Gone { .. }), "{told}");
}

/// Names the store for the process that has it on a read-only mount.
#[cfg(target_os = "linux")]
const READ_ONLY: &str = "GHOSTLIGHT_TEST_READ_ONLY";

/// Needs a kernel that lets users make namespaces; where it does not, nothing is mounted.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_store_on_a_read_only_mount_is_listed() {
    if let Some(path) = std::env::var_os(READ_ONLY) {
        let written = fs::write(std::path::Path::new(&path).with_extension("x"), b"x");
        assert!(written.is_err(), "it is no read-only mount");
        let refused = SqliteStore::open(&path).map(drop).unwrap_err().to_string();
        assert!(refused.contains("open_read_only"), "{refused}");
        let store = SqliteStore::open_read_only(&path).unwrap();
        let rows = store.runs(RunFilter::default()).await.unwrap();
        assert_eq!(rows.len(), 5);
        assert_eq!(store.posted(0).await.unwrap().1, []);
        return;
    }
    let folder = filled().await;
    let mount = "mount --bind \"$1\" \"$1\" && mount -o remount,ro,bind \"$1\" \"$1\" && shift && exec \"$@\"";
    let mut command = std::process::Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
    command
        .args([mount, "sh"])
        .arg(folder.store().parent().unwrap());
    let can = command.arg("true").status();
    if !can.is_ok_and(|status| status.success()) {
        return;
    }
    let mut command = std::process::Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
    command
        .args([mount, "sh"])
        .arg(folder.store().parent().unwrap());
    command.arg(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "sqlite_absence::a_store_on_a_read_only_mount_is_listed",
    ]);
    let status = command.env(READ_ONLY, folder.store()).status().unwrap();
    assert!(status.success());
}
