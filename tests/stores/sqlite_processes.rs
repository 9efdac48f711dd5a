//! Two processes with one store, and a process that is killed.

use std::{
    io::{BufRead, BufReader, Lines, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use ghostlight::stores::SqliteStore;
use ghostlight_actors::{
    contract::{Append, Batch, DynStore, ItemBody, MailboxItem, StoreError},
    vocabulary::{Message, Timestamp},
};

use crate::{appending, commit, folder::Folder, lines, making, run, texts};

/// Names the store for a process that a test starts.
pub(crate) const STORE: &str = "GHOSTLIGHT_TEST_STORE";

/// Another process with the store open, which does what it is told line by line.
pub(crate) struct Process {
    child: Child,
    tell: ChildStdin,
    hear: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(store: &Path) -> Self {
        Self::start_as(Command::new(std::env::current_exe().unwrap()), store)
    }

    fn start_as(command: Command, store: &Path) -> Self {
        Self::start_test(command, "sqlite_processes::another_process_obeys", store)
    }

    /// Starts one test as a process of its own.
    pub(crate) fn start_test(mut command: Command, test: &str, store: &Path) -> Self {
        let mut child = command
            .args(["--exact", test, "--nocapture"])
            .env(STORE, store)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let tell = child.stdin.take().unwrap();
        let hear = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut process = Self { child, tell, hear };
        assert_eq!(process.hear(), "ready");
        process
    }

    /// The next line that is for us and not from the test harness.
    pub(crate) fn hear(&mut self) -> String {
        loop {
            let line = self.hear.next().expect("the process ended").unwrap();
            if let Some((_, answer)) = line.split_once("> ") {
                return answer.to_owned();
            }
        }
    }

    fn ask(&mut self, order: &str) -> String {
        writeln!(self.tell, "{order}").unwrap();
        self.hear()
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[cfg(unix)]
#[tokio::test]
async fn what_a_store_makes_is_for_its_user_alone() {
    use std::{fs, os::unix::fs::PermissionsExt as _};
    let folder = Folder::new();
    let store = SqliteStore::open(folder.store()).unwrap();
    commit(&store, making(1, &["made"])).await.unwrap();
    let mode = |suffix: &str| {
        let found = fs::metadata(folder.beside(suffix)).unwrap();
        found.permissions().mode() & 0o777
    };
    for suffix in ["", "-wal", "-shm", ".anchor"] {
        assert_eq!(mode(suffix), 0o600, "{suffix}");
    }
    assert_eq!(mode(".owners"), 0o700);
    store.close().await.unwrap();
    // What is there stays as it is.
    fs::set_permissions(folder.store(), fs::Permissions::from_mode(0o640)).unwrap();
    let store = SqliteStore::open(folder.store()).unwrap();
    commit(&store, making(2, &["made"])).await.unwrap();
    assert_eq!((mode(""), mode("-wal")), (0o640, 0o640));
}

/// In the process that a test started this is all that it does: what it is told.
#[tokio::test]
async fn another_process_obeys() {
    if let Some(store) = std::env::var_os(STORE) {
        return obey(Path::new(&store)).await;
    }
    let folder = Folder::new();
    let mut process = Process::start(&folder.store());
    assert_eq!(process.ask("make"), "ok");
    assert_eq!(process.ask("close"), "ok");
    process.kill();
}

async fn obey(store: &Path) {
    let store = SqliteStore::open(store).unwrap();
    println!("> ready");
    let mut sequence = 0;
    for order in std::io::stdin().lines() {
        let order = order.unwrap();
        let result = match order.as_str() {
            "make" => commit(&store, making(1, &["made"])).await.map(drop),
            "claim" => store.claim(run(1).into(), false).await.map(drop),
            "append" => {
                sequence += 1;
                commit(&store, appending(1, sequence, &["appended"]))
                    .await
                    .map(drop)
            }
            "post" => {
                let item = MailboxItem::new(
                    "from outside",
                    Timestamp(1),
                    ItemBody::Steer(Message::user("note")),
                );
                store.post(run(1).into(), item).await.map(drop)
            }
            "read" => texts(&store, 1).await.map(drop),
            "flood" => flood(&store).await,
            "close" => store.close().await,
            other => panic!("{other}?"),
        };
        match result {
            Ok(()) => println!("> ok"),
            Err(error) => println!("> {error}"),
        }
    }
}

/// Commits until it is killed, and says how many commits were durable.
async fn flood(store: &SqliteStore) -> Result<(), StoreError> {
    println!("> ok");
    for sequence in 1.. {
        commit(store, appending(1, sequence, &["appended"])).await?;
        println!("> {}", sequence + 1);
    }
    Ok(())
}

#[tokio::test]
async fn one_process_owns_a_run_until_it_is_killed() {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.store()).unwrap();
    let mut owner = Process::start(&folder.store());
    assert_eq!(owner.ask("make"), "ok");

    let error = store.claim(run(1).into(), false).await.unwrap_err();
    let StoreError::Owned { owner: named, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(*named, format!("process {}", owner.child.id()));
    let error = commit(&store, appending(1, 1, &["x"])).await.unwrap_err();
    assert!(matches!(error, StoreError::Owned { .. }), "{error}");
    assert_eq!(owner.ask("append"), "ok");
    owner.kill();

    let claim = store.claim(run(1).into(), false).await.unwrap();
    assert_eq!((claim.epoch, claim.entries), (2, 2));
    let append = Append::new(run(1), 2, 2, lines(&["here"]));
    commit(&store, Batch::of(append)).await.unwrap();
    assert_eq!(
        texts(&store, 1).await.unwrap(),
        ["made", "appended", "here"]
    );
}

#[tokio::test]
async fn a_process_whose_run_was_taken_over_is_refused() {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.store()).unwrap();
    let mut former = Process::start(&folder.store());
    assert_eq!(former.ask("make"), "ok");
    assert_eq!(former.ask("append"), "ok");
    store.claim(run(1).into(), true).await.unwrap();
    let refused = former.ask("append");
    assert!(refused.contains("has moved to epoch 2"), "{refused}");
    let refused = former.ask("claim");
    assert!(refused.contains("is alive"), "{refused}");
    let append = Append::new(run(1), 2, 2, lines(&["here"]));
    commit(&store, Batch::of(append)).await.unwrap();
    former.kill();
}

#[tokio::test]
async fn a_process_posts_while_another_one_owns_the_run() {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.store()).unwrap();
    commit(&store, making(1, &["made"])).await.unwrap();
    let (mark, none) = store.posted(0).await.unwrap();
    assert_eq!(none, []);
    let mut outside = Process::start(&folder.store());
    assert_eq!(outside.ask("post"), "ok");
    let (later, runs) = store.posted(mark).await.unwrap();
    assert_eq!(runs, [run(1).into()]);
    assert_eq!(store.posted(later).await.unwrap(), (later, vec![]));
    assert_eq!(store.mailbox(run(1).into()).await.unwrap().len(), 1);
    // Another process's commit does not stop the owner's.
    commit(&store, appending(1, 1, &["more"])).await.unwrap();
    assert_eq!(outside.ask("close"), "ok");
    outside.kill();
}

#[tokio::test]
async fn what_was_durable_is_there_after_a_kill_at_any_time() {
    for round in 0..8 {
        let folder = Folder::new();
        let mut process = Process::start(&folder.store());
        assert_eq!(process.ask("make"), "ok");
        assert_eq!(process.ask("flood"), "ok");
        let mut durable = 0;
        for _ in 0..=round * 7 {
            durable = process.hear().parse().unwrap();
        }
        process.kill();
        let store = SqliteStore::open(folder.store()).unwrap();
        let claim = store.claim(run(1).into(), false).await.unwrap();
        assert!(
            claim.entries >= durable,
            "{} of {durable} entries",
            claim.entries
        );
        assert_eq!(texts(&store, 1).await.unwrap().len() as u64, claim.entries);
        let verified = store.verify().await.unwrap();
        assert_eq!(verified.entries, claim.entries);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_to_the_file_is_the_same_store() {
    let (folder, elsewhere) = (Folder::new(), Folder::new());
    let store = SqliteStore::open(folder.store()).unwrap();
    commit(&store, making(1, &["made"])).await.unwrap();
    std::os::unix::fs::symlink(folder.store(), elsewhere.store()).unwrap();
    let other = SqliteStore::open(elsewhere.store()).unwrap();
    let error = other.claim(run(1).into(), false).await.unwrap_err();
    assert!(matches!(error, StoreError::Owned { .. }), "{error}");
}

#[tokio::test]
async fn locks_of_the_dead_are_swept_away() {
    let folder = Folder::new();
    let process = Process::start(&folder.store());
    let count = || std::fs::read_dir(folder.beside(".owners")).unwrap().count();
    assert_eq!(count(), 2, "its lock and the guard");
    process.kill();
    let store = SqliteStore::open(folder.store()).unwrap();
    assert_eq!(count(), 2, "our lock and the guard");
    store.close().await.unwrap();
    assert_eq!(count(), 1, "the guard");
}

/// A process that may not write files of more than some blocks: its disk is as good as full.
#[cfg(unix)]
#[tokio::test]
async fn a_store_whose_write_failed_refuses_all_work() {
    let folder = Folder::new();
    drop(SqliteStore::open(folder.store()).unwrap());
    let mut command = Command::new("sh");
    let program = std::env::current_exe().unwrap();
    // Blocks are of 512 bytes; the signal would end the process before it could see the error.
    let script = "trap '' XFSZ; ulimit -f 600; exec \"$0\" \"$@\"";
    command.args(["-c", script]).arg(program);
    let mut process = Process::start_as(command, &folder.store());
    assert_eq!(process.ask("make"), "ok");
    let mut durable = 1;
    let refused = loop {
        match process.ask("append").as_str() {
            "ok" => durable += 1,
            error => break error.to_owned(),
        }
        assert!(durable < 10_000, "the limit did not work");
    };
    assert!(
        refused.contains("refuses work since a write failed"),
        "{refused}"
    );
    for order in ["append", "claim", "post", "read"] {
        assert_eq!(process.ask(order), refused, "{order}");
    }
    process.kill();
    let store = SqliteStore::open(folder.store()).unwrap();
    assert_eq!(texts(&store, 1).await.unwrap().len(), durable);
    assert_eq!(store.verify().await.unwrap().entries, durable as u64);
    store.claim(run(1).into(), false).await.unwrap();
}
