//! Many sessions, and many streams at once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use ghostlight_actors::{
    actor::{System, SystemOptions},
    run::{Agent, RunContext},
    session::Turn,
    vocabulary::{AgentError, EventRecord, Outcome, RunId},
};
use serde_json::json;
use tokio::{io::AsyncWriteExt as _, net::TcpStream, runtime::Runtime};

use crate::{
    Served,
    client::Client,
    fresh_key,
    shared::{Quartiles, stepping},
};

const SESSIONS: usize = 1_000;
const AT_ONCE: usize = 100;
const ROUNDS: usize = 9;

/// Tells more than the buffers of two sockets hold.
async fn chatter(cx: RunContext) -> Result<Outcome, AgentError> {
    let long = "x".repeat(500_000);
    for _ in 0..40 {
        cx.emit("long", &long);
    }
    Ok(Outcome::answer("done"))
}

/// The turns of one side.
#[derive(Default)]
struct Side {
    turns_a_second: Vec<f64>,
    took_ms: Vec<f64>,
}

impl Side {
    fn print(&mut self, what: &str) {
        self.took_ms.sort_by(f64::total_cmp);
        let at = |share: f64| self.took_ms[(share * (self.took_ms.len() - 1) as f64) as usize];
        println!(
            "load, {AT_ONCE} streams at once over {SESSIONS} sessions, {what}: {} turns a second; a turn p50 {:.1} ms, \
             p99 {:.1} ms; every stream as its journal",
            Quartiles::of(self.turns_a_second.iter().copied()),
            at(0.5),
            at(0.99),
        );
    }
}

/// A turn that was followed: its session, the ids of its events, and its duration.
type Followed = (String, Vec<String>, Duration);

/// Says turns and follows them, until so many were said.
async fn follow(client: &mut Client, said: &AtomicUsize) -> Vec<Followed> {
    let mut followed = Vec::new();
    let body = json!({ "text": stepping::QUESTION, "id": "turn" }).to_string();
    while said.fetch_add(1, Ordering::Relaxed) < SESSIONS {
        let (key, began) = (fresh_key(), Instant::now());
        let path = format!("/api/v1/sessions/desk/{key}/turns");
        client.open("POST", &path, &body).await;
        let mut ids = Vec::new();
        while let Some((id, _)) = client.recorded().await {
            ids.push(id);
        }
        followed.push((key, ids, began.elapsed()));
    }
    followed
}

/// The ids of a turn's events, as its journal has them.
async fn recorded(system: &System, key: &str) -> Vec<String> {
    let session = system.session("desk", key);
    let run = system.run(RunId::of_turn(session.id(), "turn"));
    let events = run.events().recorded().so_far().await.unwrap();
    let id = |record: &EventRecord| match (record.position.unwrap(), record.part) {
        (position, 0) => position.to_string(),
        (position, part) => format!("{position}.{part}"),
    };
    events.iter().map(id).collect()
}

async fn round(served: &Served, clients: &mut Vec<Client>, side: &mut Side) {
    let said = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    let tasks = clients.drain(..).map(|mut client| {
        let said = said.clone();
        tokio::spawn(async move {
            let followed = follow(&mut client, &said).await;
            (client, followed)
        })
    });
    let back = join_all(tasks).await;
    side.turns_a_second
        .push(SESSIONS as f64 / began.elapsed().as_secs_f64());
    for back in back {
        let (client, followed) = back.unwrap();
        clients.push(client);
        for (key, ids, took) in followed {
            side.took_ms.push(took.as_secs_f64() * 1e3);
            let recorded = recorded(&served.system, &key).await;
            assert_eq!(ids, recorded, "a stream unlike its journal");
        }
    }
}

/// A client that asks for events and reads nothing.
async fn unread(served: &Served, run: RunId) -> TcpStream {
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let (path, host) = (format!("/api/v1/runs/{run}/events"), served.address);
    let request =
        format!("GET {path} HTTP/1.1\r\nhost: {host}\r\naccept: text/event-stream\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

pub(crate) fn measure(runtime: &Runtime) {
    runtime.block_on(async {
        let desk = stepping::default_agent("desk").into_team().unwrap();
        let chatty = Agent::from_fn("chatty", chatter).into_team().unwrap();
        let served = Served::start(true, SystemOptions::default(), vec![desk, chatty]).await;
        let told = served.system.session("chatty", "one");
        let told = told.send(Turn::text("Tell.")).await.unwrap();
        told.outcome().await.unwrap();
        let mut clients = join_all((0..AT_ONCE).map(|_| Client::connect(served.address))).await;
        let (mut without, mut with) = (Side::default(), Side::default());
        round(&served, &mut clients, &mut Side::default()).await;
        for _ in 0..ROUNDS {
            round(&served, &mut clients, &mut without).await;
            let unread = unread(&served, told.id()).await;
            round(&served, &mut clients, &mut with).await;
            drop(unread);
        }
        without.print("all read");
        with.print("one more client reads nothing");
        served.system.stop().await.unwrap();
    });
}
