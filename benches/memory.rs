//! What a memory costs: a write in scopes of 10, 1,000 and 10,000 items, and a step of a team that has none.
//!
//!     cargo bench --features full --bench memory            # all sizes
//!     cargo bench --features full --bench memory -- 100     # this many items
//!
//! A write is `ScopedMemory::add` in a run over SQLite: it looks for an item that says the same, and is one commit with its
//! entry in the journal. The first floor is a bare commit of the same bytes to the same kind of store, the second one a
//! value of the same length that a run sets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod shared;

use std::{cell::RefCell, path::Path};

use ghostlight::{
    memory::{
        self, Import, Memory, MemoryDocument, MemoryItem, MemoryKind, MemoryScope, NewMemory,
        StoredMemory,
    },
    stores::SqliteStore,
};
use ghostlight_actors::{
    actor::System,
    contract::{Append, Batch, DynStore, Expected, Line, StateWrite, Store, StoreHandle},
    definition::MemorySpec,
    run::{Agent, Registry, RunContext},
    session::Turn,
    testing::InMemoryStore,
    vocabulary::{JournalId, Outcome, RunId, Scope, SessionId},
};
use mimalloc::MiMalloc;
use serde_json::{json, value::to_raw_value};
use shared::{Round, alternately, round, stepping};
use tokio::runtime::{Builder, Runtime};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Writes of a round.
const WRITES: u32 = 20;
const ROUNDS: usize = 11;
const MOST: usize = 20_000;

fn memory() -> Memory {
    Memory::new("memory").capacity(MOST)
}

/// What a person may say of a thing. No two of them count as the same.
fn said(number: usize) -> String {
    format!(
        "the lamp number{number} hangs in the room{number} of floor{}",
        number % 97
    )
}

fn filled(count: usize) -> MemoryDocument {
    let item = |number: usize| {
        json!({
            "id": format!("mem-{number:032}"), "kind": "semantic", "content": said(number), "importance": 0.5,
            "created_at": 1_000 + number, "updated_at": 1_000 + number,
        })
    };
    let items: Vec<_> = (0..count).map(item).collect();
    let document = json!({ "format": MemoryDocument::FORMAT, "memory": "memory", "items": items });
    serde_json::from_value(document).unwrap()
}

/// An agent that writes so often, as its input says: `add`, or `set` for a value of the same length.
fn writer() -> Agent {
    Agent::from_fn("writer", |cx: RunContext| async move {
        let asked = cx.input().content();
        let (what, from) = asked.split_once(' ').unwrap();
        let from: usize = from.parse().unwrap();
        let memory = memory().on(&cx, MemoryScope::Session);
        for number in from..from + WRITES as usize {
            match what {
                "consolidate" => {
                    let moved = memory.consolidate(0.7, std::time::Duration::ZERO).await?;
                    return Ok(Outcome::answer(moved.len().to_string()));
                }
                "add" => drop(memory.add(NewMemory::fact(said(number))).await?),
                _ => {
                    let value = MemoryItem::clone(&filled(1).items[0]);
                    cx.state(Scope::Session)
                        .set(format!("v{number}"), &value)
                        .await?;
                }
            }
        }
        Ok(Outcome::answer("done"))
    })
}

struct Writing<S> {
    system: System,
    store: S,
    /// The number of the next fact, so that each is a new one.
    next: usize,
}

fn start<S: Store + Clone>(runtime: &Runtime, store: S) -> Writing<S>
where
    StoreHandle: From<S>,
{
    let system = runtime.block_on(async {
        let builder = System::builder(store.clone()).team(writer().into_team().unwrap());
        builder.start().await.unwrap()
    });
    Writing {
        system,
        store,
        next: MOST,
    }
}

impl<S> Writing<S> {
    fn write(&mut self, runtime: &Runtime, session: &str, what: &str) -> (Round, RunId) {
        let from = self.next;
        self.next += WRITES as usize;
        let mut id = None;
        let took = round(WRITES, || {
            runtime.block_on(async {
                let session = self.system.session("writer", session);
                let run = session.send(Turn::text(format!("{what} {from}"))).await;
                let run = run.unwrap();
                assert_eq!(run.outcome().await.unwrap().text(), "done");
                id = Some(run.id());
            });
        });
        (took, id.unwrap())
    }
}

/// The entries of one write, and the rows that it changes.
fn bytes_of_a_write(runtime: &Runtime) -> (Vec<Line>, Vec<(String, serde_json::Value)>) {
    let mut writing = start(runtime, InMemoryStore::new());
    let (_, run) = writing.write(runtime, "s", "add");
    let journal = writing.store.read(JournalId::Run(run), 0, 1_000);
    let lines: Vec<Line> = runtime
        .block_on(journal)
        .unwrap()
        .into_iter()
        .map(|recorded| recorded.line)
        .collect();
    let entry = |line: &Line| serde_json::from_str::<serde_json::Value>(&line.text).unwrap();
    let is_end = |line: &Line| line.text.contains("\"memory_add\"");
    // The entries up to the end of the first write, and from there to the end of the second.
    let ends: Vec<usize> = (0..lines.len()).filter(|at| is_end(&lines[*at])).collect();
    let lines = lines[ends[0] + 1..=ends[1]].to_vec();
    let rows = lines.iter().map(entry).filter_map(|entry| {
        let text = entry.to_string();
        let changed = find(&entry, "key")?.as_str()?.to_owned();
        (!text.contains("memory_add")).then(|| (changed, find(&entry, "value").cloned().unwrap()))
    });
    let rows = rows.collect();
    runtime.block_on(writing.system.stop()).unwrap();
    (lines, rows)
}

/// The member of this name, wherever it is.
fn find<'v>(value: &'v serde_json::Value, name: &str) -> Option<&'v serde_json::Value> {
    let members = value.as_object()?;
    let inside = || members.values().find_map(|member| find(member, name));
    members.get(name).or_else(inside)
}

/// A journal of its own, to which the same bytes are committed one after the other.
struct Bare {
    store: SqliteStore,
    journal: JournalId,
    expected: u64,
    epoch: u64,
    lines: Vec<Line>,
    rows: Vec<(String, Box<serde_json::value::RawValue>)>,
}

impl Bare {
    fn new(runtime: &Runtime, path: &Path) -> Self {
        let store = {
            let _inside = runtime.enter();
            SqliteStore::open(path).unwrap()
        };
        let (lines, rows) = bytes_of_a_write(runtime);
        assert_eq!(rows.len(), 2, "the head and the item");
        let session = SessionId {
            team: "bare".into(),
            key: "s".into(),
        };
        let journal = JournalId::Session(session);
        let claim = runtime
            .block_on(store.claim(journal.clone(), false))
            .unwrap();
        Self {
            store,
            journal,
            expected: claim.entries,
            epoch: claim.epoch,
            lines,
            rows: rows
                .into_iter()
                .map(|(key, value)| (key, to_raw_value(&value).unwrap()))
                .collect(),
        }
    }

    fn write(&mut self, runtime: &Runtime) -> Round {
        round(WRITES, || {
            for _ in 0..WRITES {
                let journal = self.journal.clone();
                let append = Append::new(journal, self.expected, self.epoch, self.lines.clone());
                let mut batch = Batch::of(append);
                let number = self.expected;
                batch.writes = self
                    .rows
                    .iter()
                    .enumerate()
                    .map(|(place, (key, value))| StateWrite {
                        scope: "bare".into(),
                        // The head is the same row each time, the item a new one.
                        key: if place == 0 {
                            key.clone()
                        } else {
                            format!("{key}{number}")
                        },
                        value: Some(value.clone()),
                        expected: Expected::Any,
                    })
                    .collect();
                self.expected += self.lines.len() as u64;
                let committed = runtime.block_on(self.store.commit(vec![batch])).unwrap();
                assert!(committed.iter().all(Result::is_ok));
            }
        })
    }
}

fn writes(runtime: &Runtime, folder: &Path, sizes: &[usize]) {
    let mut bare = Bare::new(runtime, &folder.join("bare.db"));
    let store = {
        let _inside = runtime.enter();
        SqliteStore::open(folder.join("runs.db")).unwrap()
    };
    let writing = RefCell::new(start(runtime, store.clone()));
    for &size in sizes {
        let session = format!("of-{size}");
        let id = SessionId {
            team: "writer".into(),
            key: session.as_str().into(),
        };
        let stored = StoreHandle::new(store.clone());
        let stored = StoredMemory::new(stored, memory(), &id, &Scope::Session).unwrap();
        let imported = runtime.block_on(stored.import(&filled(size), Import::Merge));
        assert_eq!(imported.unwrap(), size);
        // Each round adds to the scope, so that a small one grows by some 500 items.
        let ours = |what: &str| writing.borrow_mut().write(runtime, &session, what).0;
        let compared = alternately(ROUNDS, || bare.write(runtime), || ours("add"));
        compared.print(&format!("a write among {size} items; floor: a bare commit"));
        let compared = alternately(ROUNDS, || ours("set"), || ours("add"));
        compared.print(&format!(
            "a write among {size} items; floor: a value that a run sets"
        ));
    }
    let system = &writing.borrow().system;
    runtime.block_on(system.stop()).unwrap();
}

/// Moves all of a scope's working memories to episodic memory, once.
fn consolidation(runtime: &Runtime, folder: &Path, size: usize) {
    let store = {
        let _inside = runtime.enter();
        SqliteStore::open(folder.join(format!("consolidated-{size}.db"))).unwrap()
    };
    let system = start(runtime, store.clone()).system;
    let session = SessionId {
        team: "writer".into(),
        key: "s".into(),
    };
    let memory = memory().working_capacity(MOST);
    let stored = StoredMemory::new(store.into(), memory, &session, &Scope::Session).unwrap();
    let mut document = filled(size);
    for item in &mut document.items {
        (item.kind, item.importance) = (MemoryKind::Working, 0.9);
    }
    let imported = runtime.block_on(stored.import(&document, Import::Merge));
    assert_eq!(imported.unwrap(), size);
    let took = round(size as u32, || {
        runtime.block_on(async {
            let turn = Turn::text("consolidate 0");
            let run = system.session("writer", "s").send(turn).await.unwrap();
            assert_eq!(run.outcome().await.unwrap().text(), size.to_string());
        });
    });
    println!(
        "consolidating {size} working memories over SQLite: {:.1} µs each",
        took.wall
    );
    runtime.block_on(system.stop()).unwrap();
}

/// So many steps of function calling in memory.
fn steps(runtime: &Runtime, registry: Registry, memory: Option<MemorySpec>) -> Round {
    const STEPS: u32 = 200;
    let agent = stepping::agent("stepper", STEPS);
    let agent = match memory {
        Some(memory) => agent.memory(memory),
        None => agent,
    };
    let system = runtime.block_on(async {
        let builder = System::builder(InMemoryStore::new()).registry(registry);
        let builder = builder.model("default", stepping::Caller::default());
        let builder = builder.team(agent.into_team().unwrap());
        builder.start().await.unwrap()
    });
    let took = round(STEPS, || {
        runtime.block_on(async {
            let run = system.session("stepper", "s").send(Turn::text("go")).await;
            assert_eq!(run.unwrap().outcome().await.unwrap().text(), "done");
        });
    });
    runtime.block_on(system.stop()).unwrap();
    took
}

fn main() {
    let asked: Vec<usize> = std::env::args()
        .skip(1)
        .filter_map(|text| text.parse().ok())
        .collect();
    let sizes = match asked.is_empty() {
        true => vec![10, 1_000, 10_000],
        false => asked,
    };
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let folder = std::env::temp_dir().join(format!("ghostlight-memory-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    writes(&runtime, &folder, &sizes);
    for size in &sizes {
        consolidation(&runtime, &folder, *size);
    }
    // The folder is the bench's own.
    std::fs::remove_dir_all(folder).unwrap();
    let with = || memory::register(Registry::new());
    let compared = alternately(
        21,
        || steps(&runtime, Registry::new(), None),
        || steps(&runtime, with(), None),
    );
    compared.print(
        "a step of a team without memory where memory is registered; floor: where it is not",
    );
    let compared = alternately(
        21,
        || steps(&runtime, with(), None),
        || steps(&runtime, with(), Some(MemorySpec::default())),
    );
    compared.print("a step of a team with memory; floor: of one without");
}
