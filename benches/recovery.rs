//! From the start of a System over an open SQLite store until every run that was interrupted has
//! been replayed and asks its model again: one run with a long journal, and many with short ones.
//! The floor is reading and decoding the same entries; opening the store stands beside it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod shared;

use std::path::Path;

use futures_util::{StreamExt, stream};
use ghostlight::stores::SqliteStore;
use ghostlight_actors::{
    actor::{System, SystemOptions},
    contract::{DynStore, RunFilter},
    session::Turn,
    testing::{Reply, ScriptedModel},
    vocabulary::{JournalId, ModelResponse},
};
use mimalloc::MiMalloc;
use shared::{Quartiles, Round, round, stepping};
use tokio::{
    runtime::{Builder, Runtime},
    sync::watch,
};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// A model that asks for the tool so often in each conversation, and then is silent.
fn model(steps: usize, silent: watch::Sender<u32>) -> ScriptedModel {
    ScriptedModel::from_reply_fn(move |request, number| {
        // The turn, then an answer and a result for each step.
        if request.conversation.len() < 1 + 2 * steps {
            return Reply::Respond(ModelResponse::tool_calls([stepping::call(number)]));
        }
        silent.send_modify(|runs| *runs += 1);
        Reply::Hang
    })
}

async fn start(store: SqliteStore, steps: usize) -> (System, watch::Receiver<u32>) {
    let (sender, silent) = watch::channel(0);
    let mut limits = SystemOptions::default();
    limits.gateway.concurrency = 1_000_000;
    // Each round is a process that ends with all runs under way.
    limits.fatal_after = 0;
    let team = stepping::agent("stepper", u32::MAX).into_team().unwrap();
    let builder = System::builder(store).options(limits);
    let builder = builder.model("default", model(steps, sender)).team(team);
    (builder.start().await.unwrap(), silent)
}

/// Starts so many runs and leaves them where they ask the model for the last time.
async fn interrupt(file: &Path, runs: u32, steps: usize) {
    let (system, mut silent) = start(SqliteStore::open(file).unwrap(), steps).await;
    stream::iter(0..runs)
        .map(|key| {
            let session = system.session("stepper", key.to_string());
            async move { session.send(Turn::text("go")).await.unwrap() }
        })
        .buffer_unordered(100)
        .for_each(|_| async {})
        .await;
    silent.wait_for(|silent| *silent == runs).await.unwrap();
    system.stop().await.unwrap();
}

async fn read_all(store: &SqliteStore) {
    for row in store.runs(RunFilter::default()).await.unwrap() {
        let lines = store
            .read(JournalId::Run(row.run), 0, usize::MAX >> 1)
            .await;
        for stored in lines.unwrap() {
            stored.line.decode().unwrap();
        }
    }
}

fn figure(runtime: &Runtime, runs: u32, steps: usize, rounds: usize) {
    let folder = std::env::temp_dir().join(format!("ghostlight-recovery-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("runs.db");
    runtime.block_on(interrupt(&file, runs, steps));
    let (mut opened, mut floor, mut ours): (Vec<Round>, Vec<Round>, Vec<Round>) =
        Default::default();
    for _ in 0..rounds {
        let (mut store, mut started) = (None, None);
        opened.push(round(1, || {
            store = Some(runtime.block_on(async { SqliteStore::open(&file).unwrap() }));
        }));
        let store = store.unwrap();
        floor.push(round(1, || runtime.block_on(read_all(&store))));
        ours.push(round(1, || {
            runtime.block_on(async {
                let (system, mut silent) = start(store, steps).await;
                silent.wait_for(|silent| *silent == runs).await.unwrap();
                started = Some(system);
            });
        }));
        runtime.block_on(started.unwrap().stop()).unwrap();
    }
    let ms = |rounds: &[Round]| Quartiles::of(rounds.iter().map(|round| round.wall / 1e3));
    let (opened, floor, ours) = (ms(&opened), ms(&floor), ms(&ours));
    let entries = f64::from(runs) * (2.0 * steps as f64 + 1.0);
    println!(
        "recovery, {runs} runs of {} entries: opening the store {opened} ms, reading them {floor} \
         ms, start to last model call {ours} ms, {:.0} entries a second",
        2 * steps + 1,
        entries / ours.1 * 1e3
    );
    // The folder is the bench's own.
    std::fs::remove_dir_all(folder).unwrap();
}

fn main() {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    figure(&runtime, 1, 15, 15);
    figure(&runtime, 1, 500, 15);
    figure(&runtime, 500, 15, 5);
    figure(&runtime, 10_000, 15, 3);
}
