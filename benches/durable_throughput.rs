//! Durable steps a second when many agents work at once over SQLite. The floor is a bare SQLite
//! group commit: as many tasks, each of which waits until its entry of the same bytes is durable
//! before it writes the next one, and one thread that commits what waits. Beside it stands what
//! the disk does when the same groups are only appended to a file, and what an entry takes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod shared;

use std::{fs::File, io::Write, path::Path, sync::mpsc, thread, time::Instant};

use futures_util::future::join_all;
use ghostlight::stores::SqliteStore;
use ghostlight_actors::{
    actor::{System, SystemOptions},
    contract::{DynStore, RunFilter},
    session::Turn,
    vocabulary::JournalId,
};
use mimalloc::MiMalloc;
use rusqlite::Connection;
use shared::{Quartiles, stepping};
use tokio::{
    runtime::{Builder, Runtime},
    sync::oneshot,
};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// How many steps each agent takes in one round.
const STEPS: u32 = 8;
const ROUNDS: usize = 5;
/// At most so many entries share a commit, as in our store.
const GROUP: usize = 512;

/// An entry that is to be durable.
type Wish = (String, oneshot::Sender<()>);

/// What makes a group durable.
type Commit = Box<dyn FnMut(&[Wish]) + Send>;

/// Entries a second of so many tasks that each wait for their own.
fn floor(runtime: &Runtime, agents: usize, entry: &str, mut commit: Commit) -> f64 {
    let (sender, receiver) = mpsc::channel::<Wish>();
    let committer = thread::spawn(move || {
        while let Ok(first) = receiver.recv() {
            let more = receiver.try_iter().take(GROUP - 1);
            let group: Vec<Wish> = std::iter::once(first).chain(more).collect();
            commit(&group);
            for (_, durable) in group {
                durable.send(()).unwrap();
            }
        }
    });
    let entries = 2 * STEPS as usize;
    let began = Instant::now();
    runtime.block_on(async {
        let tasks = (0..agents).map(|_| {
            let (sender, entry) = (sender.clone(), entry.to_owned());
            tokio::spawn(async move {
                for _ in 0..entries {
                    let (durable, wait) = oneshot::channel();
                    sender.send((entry.clone(), durable)).unwrap();
                    wait.await.unwrap();
                }
            })
        });
        join_all(tasks).await;
    });
    let took = began.elapsed().as_secs_f64();
    drop(sender);
    committer.join().unwrap();
    (agents * entries) as f64 / took
}

fn bare_sqlite(path: &Path) -> Commit {
    let mut connection = Connection::open(path).unwrap();
    for (name, value) in [("journal_mode", "wal"), ("synchronous", "FULL")] {
        connection.pragma_update(None, name, value).unwrap();
    }
    let table = "CREATE TABLE entries(id INTEGER PRIMARY KEY, text TEXT NOT NULL)";
    connection.execute_batch(table).unwrap();
    Box::new(move |group| {
        let transaction = connection.transaction().unwrap();
        for (entry, _) in group {
            let sql = "INSERT INTO entries(text) VALUES (?1)";
            let mut insert = transaction.prepare_cached(sql).unwrap();
            insert.execute([entry]).unwrap();
        }
        transaction.commit().unwrap();
    })
}

fn append_only(path: &Path) -> Commit {
    let mut file = File::create(path).unwrap();
    Box::new(move |group| {
        let texts: Vec<&str> = group.iter().map(|(entry, _)| entry.as_str()).collect();
        file.write_all(texts.concat().as_bytes()).unwrap();
        file.sync_data().unwrap();
    })
}

fn start(runtime: &Runtime, path: &Path) -> System {
    let mut limits = SystemOptions::default();
    limits.gateway.concurrency = 1_000_000;
    let team = stepping::agent("stepper", STEPS).into_team().unwrap();
    runtime.block_on(async {
        let builder = System::builder(SqliteStore::open(path).unwrap()).options(limits);
        let builder = builder
            .model("default", stepping::Caller::default())
            .team(team);
        builder.start().await.unwrap()
    })
}

/// Steps a second. Each agent's session lasts, so that starting agents is not in it.
fn ours(runtime: &Runtime, system: &System, agents: usize) -> f64 {
    let began = Instant::now();
    runtime.block_on(join_all((0..agents).map(|key| async move {
        let session = system.session("stepper", key.to_string());
        let run = session.send(Turn::text("go")).await.unwrap();
        assert_eq!(run.outcome().await.unwrap().text(), "done");
    })));
    agents as f64 * f64::from(STEPS) / began.elapsed().as_secs_f64()
}

/// The mean bytes of content of a run's entry, and how many entries there are.
async fn content(store: &SqliteStore) -> (f64, f64) {
    let (mut bytes, mut entries) = (0, 0);
    for row in store.runs(RunFilter::default()).await.unwrap() {
        let journal = JournalId::Run(row.run);
        let lines = store.read(journal, 0, usize::MAX >> 1).await.unwrap();
        bytes += lines.iter().map(|line| line.line.text.len()).sum::<usize>();
        entries += lines.len();
    }
    (bytes as f64 / entries as f64, entries as f64)
}

fn figure(runtime: &Runtime, folder: &Path, agents: usize) {
    let file = folder.join(format!("{agents}.db"));
    let system = start(runtime, &file);
    ours(runtime, &system, agents);
    let read = SqliteStore::open_read_only(&file).unwrap();
    let entry = "x".repeat(runtime.block_on(content(&read)).0 as usize);
    drop(read);
    let (mut bare, mut append, mut steps) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let path = folder.join(format!("bare-{agents}-{round}.db"));
        bare.push(floor(runtime, agents, &entry, bare_sqlite(&path)) / 2.0);
        let path = folder.join(format!("append-{agents}-{round}"));
        append.push(floor(runtime, agents, &entry, append_only(&path)) / 2.0);
        steps.push(ours(runtime, &system, agents));
    }
    runtime.block_on(system.stop()).unwrap();
    let (bare, steps) = (Quartiles::of(bare), Quartiles::of(steps));
    println!(
        "durable_throughput, {agents} agents: bare SQLite {bare}, append-only {}, ours {steps} \
         steps a second, share {:.2}",
        Quartiles::of(append),
        steps.1 / bare.1
    );
    let read = SqliteStore::open_read_only(&file).unwrap();
    let (mean, entries) = runtime.block_on(content(&read));
    let bytes = std::fs::metadata(&file).unwrap().len() as f64 / entries;
    println!(
        "durable_throughput, {agents} agents: {bytes:.0} bytes of the file for each entry of a \
         run, whose content is {mean:.0} bytes ({:.0} would be content times 1.3 and 250)",
        mean * 1.3 + 250.0
    );
}

fn main() {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let folder = std::env::temp_dir().join(format!("ghostlight-throughput-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for agents in [256, 1024] {
        figure(&runtime, &folder, agents);
    }
    // The folder is the bench's own.
    std::fs::remove_dir_all(folder).unwrap();
}
