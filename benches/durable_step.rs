//! One stream over SQLite: a step (a model call and a tool call) whose entries are durable
//! before anything rests on them. The floor is two bare commits of the same bytes.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod shared;

use std::path::Path;

use ghostlight::stores::SqliteStore;
use ghostlight_actors::{
    actor::System,
    contract::{DynStore, StoreHandle},
    session::Turn,
    testing::InMemoryStore,
    vocabulary::{JournalId, RunId},
};
use mimalloc::MiMalloc;
use rusqlite::Connection;
use shared::{Round, alternately, round, stepping};
use tokio::runtime::{Builder, Runtime};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const STEPS: u32 = 50;

fn start(runtime: &Runtime, store: impl Into<StoreHandle>) -> System {
    runtime.block_on(async {
        let builder = System::builder(store).model("default", stepping::Caller::default());
        let team = stepping::agent("stepper", STEPS).into_team().unwrap();
        builder.team(team).start().await.unwrap()
    })
}

/// One run in a session of its own.
fn run(runtime: &Runtime, system: &System) -> (Round, RunId) {
    let mut id = None;
    let took = round(STEPS, || {
        runtime.block_on(async {
            let session = system.session("stepper", uuid::Uuid::new_v4().to_string());
            let run = session.send(Turn::text("go")).await.unwrap();
            assert_eq!(run.outcome().await.unwrap().text(), "done");
            id = Some(run.id());
        });
    });
    (took, id.unwrap())
}

/// The two entries of a step, as bytes.
fn entries(runtime: &Runtime) -> [String; 2] {
    let store = InMemoryStore::new();
    let system = start(runtime, store.clone());
    let (_, id) = run(runtime, &system);
    let lines = runtime
        .block_on(store.read(JournalId::Run(id), 0, 100))
        .unwrap();
    runtime.block_on(system.stop()).unwrap();
    let text = |place: usize| lines[place].line.text.to_string();
    [text(1), text(2)]
}

fn open(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection
        .pragma_update(None, "journal_mode", "wal")
        .unwrap();
    connection
        .pragma_update(None, "synchronous", "FULL")
        .unwrap();
    connection
        .execute_batch("CREATE TABLE entries(id INTEGER PRIMARY KEY, text TEXT NOT NULL)")
        .unwrap();
    connection
}

fn main() {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let folder = std::env::temp_dir().join(format!("ghostlight-durable-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let entries = entries(&runtime);
    let bare = open(&folder.join("bare.db"));
    let store = {
        let _inside = runtime.enter();
        SqliteStore::open(folder.join("runs.db")).unwrap()
    };
    let system = start(&runtime, store);
    let compared = alternately(
        21,
        || {
            round(STEPS, || {
                for entry in (0..STEPS).flat_map(|_| &entries) {
                    let mut insert = bare
                        .prepare_cached("INSERT INTO entries(text) VALUES (?1)")
                        .unwrap();
                    insert.execute([entry]).unwrap();
                }
            })
        },
        || run(&runtime, &system).0,
    );
    compared.print("durable_step");
    runtime.block_on(system.stop()).unwrap();
    drop((system, bare));
    // The folder is the bench's own.
    std::fs::remove_dir_all(folder).unwrap();
}
