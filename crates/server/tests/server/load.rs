//! Many readers at once, some of them slow.

use std::time::Duration;

use ghostlight_actors::{contract::StoreError, vocabulary::RunId};
use ghostlight_server::{
    Problem, ServerLimits,
    axum::{http::header, response::IntoResponse as _},
};
use tokio::io::AsyncWriteExt as _;

use crate::{
    client::PATIENCE,
    desk::{Desk, text_at},
};

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
    let mut limits = ServerLimits::default();
    limits.stall = Duration::from_millis(300);
    let desk = Desk::limited(limits).await;
    // More than the buffers of two sockets hold.
    let said = desk
        .say(&desk.client, "s", "say 30000000")
        .await
        .is(200)
        .json();
    let path = format!("/api/v1/runs/{}/events", text_at(&said, "/run/id"));
    let mut stream = tokio::net::TcpStream::connect(desk.client.to)
        .await
        .unwrap();
    let head = desk
        .client
        .head("GET", &path, "Accept: text/event-stream\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let open = |metrics: &str| metrics.contains("ghostlight_http_streams 1");
    let mut let_go = false;
    for _ in 0..100 {
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
    let mut limits = ServerLimits::default();
    limits.connections = 2;
    limits.header_time = Duration::from_millis(500);
    let desk = Desk::limited(limits).await;
    let mut held = Vec::new();
    for _ in 0..6 {
        held.push(
            tokio::net::TcpStream::connect(desk.client.to)
                .await
                .unwrap(),
        );
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
