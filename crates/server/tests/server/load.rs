//! Many readers at once, some of them slow.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use ghostlight_actors::{
    actor::System,
    contract::StoreError,
    run::{Agent, RunContext},
    testing::{InMemoryStore, ScriptedModel},
    vocabulary::{AgentError, ModelResponse, Outcome, RunId},
};
use ghostlight_server::{
    Problem, Server, ServerOptions,
    axum::{http::header, response::IntoResponse as _},
};
use serde_json::json;
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpListener, TcpStream},
};

use crate::{
    client::{Client, PATIENCE, Sent},
    desk::{Desk, obey, text_at},
};

/// Asks the model twice, and tells of it in between.
async fn ask_twice(cx: RunContext) -> Result<Outcome, AgentError> {
    let mut conversation = cx.conversation();
    let mut text = String::new();
    for number in 0..2 {
        let answer = cx.model(cx.model_request(conversation.clone())).await?;
        cx.emit("tick", &number);
        text = answer.content();
        conversation.push(answer.message.clone());
    }
    Ok(Outcome::answer(text))
}

/// Asks for the events of a run, and reads nothing.
async fn unread(client: &Client, run: &str) -> TcpStream {
    let path = format!("/api/v1/runs/{run}/events");
    let head = client.head("GET", &path, "Accept: text/event-stream\r\n\r\n");
    let mut stream = TcpStream::connect(client.to).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_sessions_with_a_hundred_streams_at_once_lose_no_event_beside_one_that_is_not_read()
 {
    const SESSIONS: usize = 1_000;
    let model = ScriptedModel::from_fn(|request, _| {
        let said = request.conversation.last().map(|said| said.content());
        let said = said.unwrap_or_default();
        Ok(ModelResponse::text(format!("heard {said}")))
    });
    let asker = Agent::from_fn("asker", ask_twice).into_team().unwrap();
    let desk = Agent::from_fn("desk", obey).into_team().unwrap();
    let builder = System::builder(InMemoryStore::new()).model("default", model);
    let system = builder.team(asker).team(desk).start().await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client {
        to: listener.local_addr().unwrap(),
        key: None,
    };
    let server = Server::new(system.clone());
    let serving = tokio::spawn(server.serve(listener, std::future::pending::<()>()));
    // More than the buffers of two sockets hold.
    let path = "/api/v1/sessions/desk/s/turns?wait=50";
    let long = client.post(path, json!({ "text": "say 30000000" })).await;
    let unread = unread(&client, &text_at(&long.is(200).json(), "/run/id")).await;
    let said = Arc::new(AtomicUsize::new(0));
    let tasks = (0..100).map(|_| {
        let (client, said) = (client.clone(), said.clone());
        tokio::spawn(async move {
            let mut heard: Vec<(usize, Vec<Sent>)> = Vec::new();
            loop {
                let number = said.fetch_add(1, Ordering::Relaxed);
                if number >= SESSIONS {
                    return heard;
                }
                let path = format!("/api/v1/sessions/asker/s{number}/turns");
                let body = json!({ "text": format!("turn {number}"), "id": "once" });
                let mut events = client.events(&path, None, Some(body)).await;
                heard.push((number, events.recorded().await));
            }
        })
    });
    let heard = join_all(tasks).await.into_iter().flat_map(Result::unwrap);
    let mut count = 0;
    for (number, sent) in heard {
        let session = system.session("asker", format!("s{number}"));
        let run = system.run(RunId::of_turn(session.id(), "once"));
        let events = run.events().recorded().so_far().await.unwrap();
        let recorded = events
            .iter()
            .map(|record| serde_json::to_value(record).unwrap());
        let sent: Vec<_> = sent.into_iter().map(|sent| sent.data).collect();
        assert_eq!(sent, recorded.collect::<Vec<_>>(), "session {number}");
        let end = sent.last().unwrap().to_string();
        let wanted = format!("heard heard turn {number}\"");
        assert!(end.contains("run_ended") && end.contains(&wanted), "{end}");
        count += 1;
    }
    assert_eq!(count, SESSIONS);
    drop(unread);
    serving.abort();
}

/// The resident memory of this process.
#[cfg(target_os = "linux")]
fn resident_mib() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.unwrap().split_whitespace().next().unwrap();
    kib.parse::<usize>().unwrap() / 1024
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_for_readers_that_read_nothing_is_a_small_part_of_the_run() {
    let desk = Desk::open().await;
    // 20 MB, of which a reader is given at most 16 entries at once.
    let told = desk.say(&desk.client, "s", "repeat 200 100000").await;
    let run = text_at(&told.is(200).json(), "/run/id");
    let before = resident_mib();
    let mut held = Vec::new();
    for _ in 0..24 {
        held.push(unread(&desk.client, &run).await);
    }
    let all_open = async || {
        let metrics = desk.client.get("/metrics").await.is(200).body;
        metrics.contains("ghostlight_http_streams 24")
    };
    while !all_open().await {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Beside them one reads all of it, twice.
    let path = format!("/api/v1/runs/{run}/events");
    for _ in 0..2 {
        let whole = desk.client.events(&path, None, None).await.recorded().await;
        assert_eq!(whole.last().unwrap().name, "run_ended");
    }
    let grown = resident_mib().saturating_sub(before);
    assert!(grown < 240, "{grown} MiB for 24 readers of 20 MB");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_readers_of_ten_runs_lose_no_event_and_a_slow_one_slows_nobody() {
    let desk = Desk::open().await;
    let mut runs = Vec::new();
    for number in 0..10 {
        runs.push(
            desk.begin(&desk.client, &format!("s{number}"), "count 40")
                .await,
        );
    }
    // Two readers that do not read.
    let mut slow = Vec::new();
    for run in &runs[..2] {
        let path = format!("/api/v1/runs/{run}/events");
        slow.push(desk.client.events(&path, None, None).await);
    }
    let mut readers = Vec::new();
    for number in 0..100 {
        let path = format!("/api/v1/runs/{}/events", runs[number % 10]);
        let client = desk.client.clone();
        readers.push(tokio::spawn(async move {
            client.events(&path, None, None).await.recorded().await
        }));
    }
    for reader in readers {
        let events = tokio::time::timeout(PATIENCE, reader)
            .await
            .unwrap()
            .unwrap();
        let ticks = events.iter().filter(|sent| sent.name == "custom").count();
        assert_eq!(
            (ticks, events.last().unwrap().name.as_str()),
            (40, "run_ended")
        );
    }
    for mut reader in slow {
        assert_eq!(reader.recorded().await.last().unwrap().name, "run_ended");
    }
    let metrics = desk.client.get("/metrics").await.is(200);
    assert!(
        metrics.body.contains("ghostlight_http_streams 0"),
        "{}",
        metrics.body
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_is_let_go() {
    let mut limits = ServerOptions::default();
    limits.stall = Duration::from_millis(300);
    let desk = Desk::limited(limits).await;
    // More than the buffers of two sockets hold.
    let said = desk
        .say(&desk.client, "s", "say 30000000")
        .await
        .is(200)
        .json();
    let _unread = unread(&desk.client, &text_at(&said, "/run/id")).await;
    let open = |metrics: &str| metrics.contains("ghostlight_http_streams 1");
    let mut let_go = false;
    for _ in 0..600 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let metrics = desk.client.get("/metrics").await.is(200).body;
        let_go = !open(&metrics);
        if let_go {
            break;
        }
    }
    assert!(let_go, "a client that does not read is still connected");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_past_the_bound_wait_for_one_to_end() {
    let mut limits = ServerOptions::default();
    limits.max_connections = 2;
    limits.header_time = Duration::from_millis(500);
    let desk = Desk::limited(limits).await;
    let mut held = Vec::new();
    for _ in 0..6 {
        held.push(TcpStream::connect(desk.client.to).await.unwrap());
    }
    // Those that say nothing are let go, two after two.
    desk.client.get("/health").await.is(200);
}

#[test]
fn what_passes_by_itself_is_to_be_asked_again() {
    let moved = StoreError::Stale {
        journal: RunId::from_random(1).into(),
        epoch: 1,
        current: 2,
    };
    let away = StoreError::Io {
        place: "postgres://db/agents".to_owned(),
        reason: "connection refused".to_owned(),
    };
    for error in [moved, away] {
        let response = Problem::from(error).into_response();
        assert_eq!(response.status(), 503);
        assert!(response.headers().contains_key(header::RETRY_AFTER));
    }
}
