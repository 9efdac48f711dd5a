//! What users run: an agent with the default behavior and one tool, four model calls and three tool
//! calls, and an outcome. Each figure is beside the same work done by hand: a loop over the same
//! model in this process, or, over HTTP, a bare loop over async-openai and a server on this machine.
//!
//! `cargo bench --bench run` prints all of it, `-- memory` what has that in its name.
//!
//! For tools that count, such as valgrind: `-- ours NAME 300` does 300 runs of the figure of exactly
//! that name and nothing else, `-- floor NAME 300` so many of its floor. The difference of two lengths
//! is free of the start and the stop.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

#[path = "shared/http.rs"]
mod http;
mod shared;

use std::{
    fs,
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
};

use async_openai::{Client, config::OpenAIConfig};
use futures_util::{StreamExt, stream};
use ghostlight::{models::OpenAi, stores::SqliteStore};
use ghostlight_actors::{
    actor::{Session, System},
    contract::ModelHandle,
    session::Turn,
    testing::InMemoryStore,
};
use mimalloc::MiMalloc;
use serde_json::Value;
use shared::{Round, alternately, round, stepping};
use tokio::runtime::{Builder, Runtime};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// How many turns are said to a session that lasts, before the next one is begun.
const TURNS: u32 = 20;

/// One figure.
#[derive(Clone, Copy)]
struct Figure {
    name: &'static str,
    /// Whether the model is a server, or one in this process.
    http: bool,
    sqlite: bool,
    /// Whether many runs share a session, one after the other.
    lasting: bool,
    /// Whether somebody reads the events of each run.
    events: bool,
    at_once: usize,
}

const fn figure(name: &'static str) -> Figure {
    Figure {
        name,
        http: false,
        sqlite: false,
        lasting: false,
        events: false,
        at_once: 1,
    }
}

const FIGURES: [Figure; 13] = [
    figure("memory"),
    Figure {
        lasting: true,
        ..figure("memory, same session")
    },
    Figure {
        events: true,
        ..figure("memory, events")
    },
    Figure {
        at_once: 100,
        ..figure("memory, 100 at once")
    },
    Figure {
        at_once: 100,
        lasting: true,
        ..figure("memory, 100 at once, same sessions")
    },
    Figure {
        sqlite: true,
        ..figure("SQLite")
    },
    Figure {
        sqlite: true,
        lasting: true,
        ..figure("SQLite, same session")
    },
    Figure {
        sqlite: true,
        events: true,
        ..figure("SQLite, events")
    },
    Figure {
        sqlite: true,
        at_once: 100,
        ..figure("SQLite, 100 at once")
    },
    Figure {
        http: true,
        ..figure("HTTP")
    },
    Figure {
        http: true,
        at_once: 100,
        ..figure("HTTP, 100 at once")
    },
    Figure {
        http: true,
        sqlite: true,
        ..figure("HTTP, SQLite")
    },
    Figure {
        http: true,
        sqlite: true,
        at_once: 100,
        ..figure("HTTP, SQLite, 100 at once")
    },
];

/// What the figures are taken with.
struct Bench {
    runtime: Runtime,
    address: String,
    client: Client<OpenAIConfig>,
    tools: Value,
    model: ModelHandle,
    folder: PathBuf,
}

impl Bench {
    fn new() -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let address = format!("http://{}/v1", http::serve());
        let folder = std::env::temp_dir().join(format!("ghostlight-run-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self {
            runtime,
            client: http::client(&address),
            address,
            tools: http::tools(),
            model: ModelHandle::new(stepping::Answering),
            folder,
        }
    }

    fn start(&self, figure: Figure) -> System {
        self.runtime.block_on(async {
            let builder = if figure.sqlite {
                let name = figure.name.replace([' ', ','], "-");
                System::builder(SqliteStore::open(self.folder.join(name)).unwrap())
            } else {
                System::builder(InMemoryStore::new())
            };
            let builder = match figure.http {
                true => builder.model("default", OpenAi::new(http::MODEL).base_url(&self.address)),
                false => builder.model("default", stepping::Answering),
            };
            let team = stepping::default_agent("desk").into_team().unwrap();
            let builder = builder.registry(ghostlight::builtin()).team(team);
            builder.start().await.unwrap()
        })
    }

    /// So many runs by hand; the time is for each.
    fn floor(&self, figure: Figure, runs: u32) -> Round {
        round(runs, || {
            self.runtime.block_on(async {
                let runs = stream::iter(0..runs).map(|_| async {
                    let (client, tools) = (self.client.clone(), self.tools.clone());
                    let model = self.model.clone();
                    let run = async move {
                        match figure.http {
                            true => http::bare(&client, &tools).await,
                            false => drop(stepping::by_hand(&model).await),
                        }
                    };
                    tokio::spawn(run).await.unwrap();
                });
                runs.buffer_unordered(figure.at_once).collect::<()>().await;
            });
        })
    }

    /// So many runs of ours.
    fn ours(&self, figure: Figure, system: &System, runs: u32) -> Round {
        static SESSIONS: AtomicU64 = AtomicU64::new(0);
        let turns = if figure.lasting { TURNS.min(runs) } else { 1 };
        let sessions = runs / turns;
        round(sessions * turns, || {
            self.runtime.block_on(async {
                let sessions = stream::iter(0..sessions).map(|_| async {
                    let key = SESSIONS.fetch_add(1, Ordering::Relaxed).to_string();
                    let session = system.session("desk", key);
                    // A task, as the floor is, and as a server's requests are.
                    let said = async move {
                        for _ in 0..turns {
                            run(&session, figure.events).await;
                        }
                    };
                    tokio::spawn(said).await.unwrap();
                });
                sessions
                    .buffer_unordered(figure.at_once)
                    .collect::<()>()
                    .await;
            });
        })
    }
}

async fn run(session: &Session, events: bool) {
    let run = session.send(Turn::text(stepping::QUESTION)).await.unwrap();
    if events {
        let mut seen = run.events();
        while let Some(event) = seen.next().await {
            assert!(!event.unwrap().to_string().is_empty());
        }
    }
    assert_eq!(run.outcome().await.unwrap().text(), stepping::ANSWER);
}

fn main() {
    let bench = Bench::new();
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|asked| asked != "--bench")
        .collect();
    if let [side, name, runs] = asked.as_slice() {
        let figure = *FIGURES.iter().find(|figure| figure.name == name).unwrap();
        let runs = runs.parse().unwrap();
        if side == "ours" {
            let system = bench.start(figure);
            bench.ours(figure, &system, runs);
            bench.runtime.block_on(system.stop()).unwrap();
        } else {
            bench.floor(figure, runs);
        }
    } else {
        let wanted =
            |figure: &&Figure| asked.iter().all(|part| figure.name.contains(part.as_str()));
        for figure in FIGURES.iter().filter(wanted) {
            let system = bench.start(*figure);
            let (runs, rounds) = match (figure.at_once, figure.http) {
                (1, true) => (20, 31),
                (1, false) => (100, 31),
                _ if figure.lasting => (100 * TURNS, 11),
                _ => (400, 15),
            };
            let compared = alternately(
                rounds,
                || bench.floor(*figure, runs),
                || bench.ours(*figure, &system, runs),
            );
            compared.print(&format!("run, {}", figure.name));
            bench.runtime.block_on(system.stop()).unwrap();
        }
    }
    // The folder is the bench's own.
    fs::remove_dir_all(&bench.folder).unwrap();
}
