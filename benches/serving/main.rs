//! What serving costs.
//!
//! - *Turns*: a turn over HTTP, through the JSON interface and through chat completions, against the same turn in
//!   process. The client is in the same process, so its work is part of the figure.
//! - *Streams*: the resident memory of a server process with 1,000 idle event streams, each of a run that waits for an
//!   answer, over the same process without them; and its processor time while nothing happens.
//! - *Load*: 1,000 sessions with 100 event streams at once, in turns without and with a client that reads nothing. What
//!   each stream sent is compared with the journal.
//!
//!     cargo bench --features server --bench serving
//!
//! `-- turns`, `-- streams` or `-- load` measures one of them alone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod client;
mod load;
#[path = "../shared/mod.rs"]
mod shared;
mod streams;

use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
};

use futures_util::future::join_all;
use ghostlight::{builtin, server::Server, stores::SqliteStore};
use ghostlight_actors::{
    actor::{System, SystemOptions},
    run::Team,
    session::Turn,
    testing::InMemoryStore,
};
use mimalloc::MiMalloc;
use serde_json::json;
use shared::{Round, alternately, round, stepping};
use tokio::{
    net::TcpListener,
    runtime::{Builder, Runtime},
};

use client::Client;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// A server in this process. Its folder goes when it is dropped.
pub(crate) struct Served {
    pub(crate) system: System,
    pub(crate) address: SocketAddr,
    folder: Option<PathBuf>,
}

impl Served {
    pub(crate) async fn start(sqlite: bool, limits: SystemOptions, teams: Vec<Team>) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ghostlight-serving-{}-{number}", std::process::id());
        let folder = sqlite.then(|| std::env::temp_dir().join(name));
        let builder = match &folder {
            Some(folder) => {
                fs::create_dir_all(folder).unwrap();
                System::builder(SqliteStore::open(folder.join("runs.db")).unwrap())
            }
            None => System::builder(InMemoryStore::new()),
        };
        let builder = builder.registry(builtin()).options(limits);
        let builder = builder.model("default", stepping::Answering);
        let builder = teams.into_iter().fold(builder, |b, team| b.team(team));
        let system = builder.start().await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(Server::new(system.clone()).serve(listener, std::future::pending::<()>()));
        Self {
            system,
            address,
            folder,
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            fs::remove_dir_all(folder).unwrap();
        }
    }
}

/// The key of a session that nobody has used.
pub(crate) fn fresh_key() -> String {
    static KEYS: AtomicU64 = AtomicU64::new(0);
    KEYS.fetch_add(1, Ordering::Relaxed).to_string()
}

// --- Turns -------------------------------------------------------------------------------------

#[derive(Clone, Copy)]
enum Interface {
    Json,
    Chat,
}

/// Each turn is the first of its session.
async fn over_http(client: &mut Client, interface: Interface) {
    let key = fresh_key();
    let answer = match interface {
        Interface::Json => {
            let path = format!("/api/v1/sessions/desk/{key}/turns?wait=60");
            let body = json!({ "text": stepping::QUESTION });
            client.post(&path, "", &body.to_string()).await
        }
        Interface::Chat => {
            let said = json!({ "role": "user", "content": stepping::QUESTION });
            let body = json!({ "model": "desk", "messages": [said] });
            let headers = format!("x-session-id: {key}\r\n");
            let path = "/v1/chat/completions";
            client.post(path, &headers, &body.to_string()).await
        }
    };
    assert!(answer.contains(stepping::ANSWER), "{answer}");
}

async fn in_process(system: &System) {
    let session = system.session("desk", fresh_key());
    let run = session.send(Turn::text(stepping::QUESTION)).await.unwrap();
    assert_eq!(run.outcome().await.unwrap().text(), stepping::ANSWER);
}

fn floor(runtime: &Runtime, system: &System, at_once: u32, each: u32) -> Round {
    round(at_once * each, || {
        runtime.block_on(async {
            let tasks = (0..at_once).map(|_| {
                let system = system.clone();
                tokio::spawn(async move {
                    for _ in 0..each {
                        in_process(&system).await;
                    }
                })
            });
            join_all(tasks).await.into_iter().for_each(Result::unwrap);
        });
    })
}

fn ours(runtime: &Runtime, clients: &mut Vec<Client>, each: u32, interface: Interface) -> Round {
    let turns = clients.len() as u32 * each;
    round(turns, || {
        runtime.block_on(async {
            let tasks = clients.drain(..).map(|mut client| {
                tokio::spawn(async move {
                    for _ in 0..each {
                        over_http(&mut client, interface).await;
                    }
                    client
                })
            });
            let back = join_all(tasks).await;
            clients.extend(back.into_iter().map(Result::unwrap));
        });
    })
}

fn turns(runtime: &Runtime) {
    for (store, sqlite) in [("memory", false), ("SQLite", true)] {
        for (name, interface) in [
            ("the JSON interface", Interface::Json),
            ("chat completions", Interface::Chat),
        ] {
            for (at_once, each, rounds) in [(1, 100, 31), (100, 4, 15)] {
                let desk = stepping::default_agent("desk").into_team().unwrap();
                let serving = Served::start(sqlite, SystemOptions::default(), vec![desk]);
                let served = runtime.block_on(serving);
                let mut clients = runtime.block_on(async {
                    let clients = (0..at_once).map(|_| Client::connect(served.address));
                    join_all(clients).await
                });
                let compared = alternately(
                    rounds,
                    || floor(runtime, &served.system, at_once, each),
                    || ours(runtime, &mut clients, each, interface),
                );
                compared.print(&format!(
                    "a turn, {store}, {at_once} at once: in process (floor), over HTTP by {name}"
                ));
                runtime.block_on(served.system.stop()).unwrap();
            }
        }
    }
}

fn main() {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let asked: Vec<String> = std::env::args().skip(1).collect();
    if asked.iter().any(|word| word == streams::SERVE) {
        runtime.block_on(streams::serve());
        return;
    }
    if asked.iter().any(|word| word == streams::SERVE_BARE) {
        runtime.block_on(streams::serve_bare());
        return;
    }
    let named: Vec<&String> = asked.iter().filter(|word| !word.starts_with('-')).collect();
    let wanted = |name: &str| named.is_empty() || named.iter().any(|asked| *asked == name);
    if wanted("turns") {
        turns(&runtime);
    }
    if wanted("streams") {
        streams::measure(&runtime);
    }
    if wanted("load") {
        load::measure(&runtime);
    }
}
