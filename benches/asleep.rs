//! Agents that sleep: a run that waits for a message is rows and no memory. What the file holds for
//! each of so many, what a System holds and takes to start over them, and how long a message takes
//! to wake one: warm, and cold, with the file out of the operating system's cache.
//!
//! The floor of a waking is a bare SQLite commit, since a message is durable before it wakes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod shared;

use std::{
    alloc::System as Allocator,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream};
use ghostlight::stores::SqliteStore;
use ghostlight_actors::{
    actor::{System, SystemOptions},
    run::Agent,
    session::Turn,
    vocabulary::{Message, Outcome, RunId},
};
use rusqlite::Connection;
use shared::Quartiles;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tokio::{runtime::Builder, sync::watch};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<Allocator> = &INSTRUMENTED_SYSTEM;

const AGENTS: [usize; 2] = [10_000, 100_000];
const WAKINGS: usize = 200;
/// How long a run that waits, and an agent without a run, stay in memory.
const LINGER: Duration = Duration::from_millis(20);

/// Bytes on the heap that are in use.
fn live() -> f64 {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated as f64 - stats.bytes_deallocated as f64 + stats.bytes_reallocated as f64
}

/// A System whose agents tell when their message has come.
async fn start(file: &Path) -> (System, watch::Receiver<usize>) {
    let (sender, woken) = watch::channel(0);
    let agent = Agent::from_fn("sleeper", move |cx| {
        let sender = sender.clone();
        async move {
            let said = cx.receive::<Message>().await?;
            sender.send_modify(|woken| *woken += 1);
            Ok(Outcome::answer(said.content()))
        }
    });
    let mut limits = SystemOptions::default();
    (limits.linger, limits.passivate_after) = (LINGER, LINGER);
    limits.max_idle_sessions = usize::MAX;
    let builder = System::builder(SqliteStore::open(file).unwrap()).options(limits);
    let team = agent.into_team().unwrap();
    (builder.team(team).start().await.unwrap(), woken)
}

/// Waits until no agent is left in memory.
async fn all_asleep(system: &System) {
    loop {
        let tree = system.tree().await;
        let teams = tree.iter().find(|child| child.id == "teams");
        if teams.unwrap().children.is_empty() {
            return;
        }
        tokio::time::sleep(LINGER).await;
    }
}

async fn put_to_sleep(file: &Path, agents: usize) -> Vec<RunId> {
    let (system, _) = start(file).await;
    let runs = stream::iter(0..agents)
        .map(|key| {
            let session = system.session("sleeper", key.to_string());
            async move { session.send(Turn::text("go")).await.unwrap().id() }
        })
        .buffer_unordered(256)
        .collect()
        .await;
    all_asleep(&system).await;
    system.stop().await.unwrap();
    runs
}

/// The milliseconds from a message to each of these runs until its function has it.
async fn wake(system: &System, woken: &mut watch::Receiver<usize>, runs: &[RunId]) -> Vec<f64> {
    let mut took = Vec::new();
    for run in runs {
        let (before, began) = (*woken.borrow(), Instant::now());
        let said = Message::user("wake up");
        system.run(*run).tell(&said).await.unwrap();
        woken.wait_for(|woken| *woken > before).await.unwrap();
        took.push(began.elapsed().as_secs_f64() * 1e3);
    }
    took
}

/// The milliseconds of bare commits of as many bytes as a message has.
fn commits(path: &Path) -> Vec<f64> {
    let connection = Connection::open(path).unwrap();
    for (name, value) in [("journal_mode", "wal"), ("synchronous", "FULL")] {
        connection.pragma_update(None, name, value).unwrap();
    }
    let table = "CREATE TABLE entries(id INTEGER PRIMARY KEY, text TEXT NOT NULL)";
    connection.execute_batch(table).unwrap();
    let text = "x".repeat(200);
    let commit = |_| {
        let began = Instant::now();
        let sql = "INSERT INTO entries(text) VALUES (?1)";
        let mut insert = connection.prepare_cached(sql).unwrap();
        insert.execute([&text]).unwrap();
        began.elapsed().as_secs_f64() * 1e3
    };
    (0..WAKINGS).map(commit).collect()
}

/// Asks the operating system to forget what it keeps of a file; where it cannot, cold is warm.
fn forget(path: &Path) {
    let mut dd = Command::new("dd");
    dd.arg(format!("of={}", path.display()));
    dd.args(["oflag=nocache", "conv=notrunc,fdatasync", "count=0"]);
    let _ = dd.stdin(Stdio::null()).stderr(Stdio::null()).status();
}

fn p99(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() * 99 / 100]
}

fn figure(folder: &Path, agents: usize) {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let file = folder.join(format!("{agents}.db"));
    let runs = runtime.block_on(put_to_sleep(&file, agents));
    let bytes = std::fs::metadata(&file).unwrap().len() as f64 / agents as f64;
    let (before, began) = (live(), Instant::now());
    let (system, mut woken) = runtime.block_on(start(&file));
    let started = began.elapsed().as_secs_f64() * 1e3;
    println!(
        "asleep, {agents} agents: {bytes:.0} bytes of the file each; a System over them starts \
         in {started:.0} ms and holds {:.0} kB of heap",
        (live() - before) / 1e3
    );
    // Some of each part of the file.
    let step = agents / (2 * WAKINGS);
    let some: Vec<RunId> = runs.into_iter().step_by(step).collect();
    let (first, second) = some.split_at(WAKINGS);
    let mut cold = Vec::new();
    for run in first.iter().step_by(20) {
        forget(&file);
        cold.extend(runtime.block_on(wake(&system, &mut woken, &[*run])));
    }
    let warm = runtime.block_on(wake(&system, &mut woken, second));
    let floor = commits(&folder.join(format!("bare-{agents}.db")));
    println!(
        "asleep, {agents} agents: a bare commit {} ms, p99 {:.1}; waking one warm {} ms, p99 \
         {:.1}; cold {} ms",
        Quartiles::of(floor.iter().copied()),
        p99(&floor),
        Quartiles::of(warm.iter().copied()),
        p99(&warm),
        Quartiles::of(cold)
    );
    runtime.block_on(system.stop()).unwrap();
}

fn main() {
    let folder = std::env::temp_dir().join(format!("ghostlight-asleep-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for agents in AGENTS {
        figure(&folder, agents);
    }
    // The folder is the bench's own.
    std::fs::remove_dir_all(folder).unwrap();
}
