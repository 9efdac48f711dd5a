//! How much memory connections and streams hold on which nothing happens.

use std::{
    alloc::System as Allocator,
    convert::Infallible,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    process::Command,
    thread::sleep,
    time::Duration,
};

use futures_util::{StreamExt as _, stream};
use ghostlight_server::axum::{
    self, Router,
    response::sse::{Event, KeepAlive, Sse},
    routing::get,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tokio::net::TcpListener;

use crate::desk::Desk;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<Allocator> = &INSTRUMENTED_SYSTEM;

/// How many connections there are.
const MANY: usize = 200;
/// How many bytes one may hold on the heap. A connection has two buffers of 8 KiB, which are hyper's.
const CONNECTION: usize = 22_000;
const STREAM: usize = 27_000;

/// The bytes on the heap of this process.
fn held() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// A connection that has sent a request and read the response up to this word.
fn asked(to: SocketAddr, path: &str, until: &str) -> TcpStream {
    let mut stream = TcpStream::connect(to).unwrap();
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let (mut read, mut buffer) = (String::new(), [0; 1024]);
    while !read.contains(until) {
        let length = stream.read(&mut buffer).unwrap();
        assert!(length > 0, "{read}");
        read += &String::from_utf8_lossy(&buffer[..length]);
    }
    stream
}

/// The bytes that each of many connections holds.
fn each(to: SocketAddr, path: &str, until: &str) -> usize {
    // What the first ones leave behind belongs to none of them.
    let _first: Vec<_> = (0..20).map(|_| asked(to, path, until)).collect();
    sleep(Duration::from_millis(100));
    let before = held();
    let _open: Vec<_> = (0..MANY).map(|_| asked(to, path, until)).collect();
    sleep(Duration::from_millis(100));
    (held() - before) / MANY
}

/// A server that does nothing but answer, and stream one event.
async fn bare() -> SocketAddr {
    let stream = async || {
        let first = stream::iter([Ok::<_, Infallible>(Event::default().data("question_asked"))]);
        Sse::new(first.chain(stream::pending())).keep_alive(KeepAlive::default())
    };
    let router = Router::new()
        .route("/health", get(async || "ok"))
        .route("/events", get(stream));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    tokio::spawn(axum::serve(listener, router).into_future());
    to
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "is run by the test below, in a process of its own"]
async fn measured_alone() {
    let desk = Desk::open().await;
    let to = desk.client.to;
    let run = desk.begin(&desk.client, "s", "ask which?").await;
    let events = format!("/api/v1/runs/{run}/events");
    let bare = bare().await;
    let measured = tokio::task::spawn_blocking(move || {
        let bare = (
            each(bare, "/health", "ok"),
            each(bare, "/events", "question_asked"),
        );
        let ours = (
            each(to, "/health", "ok"),
            each(to, &events, "question_asked"),
        );
        (bare, ours)
    });
    let (bare, (connection, stream)) = measured.await.unwrap();
    println!(
        "a connection {connection} bytes over {}, a stream {stream} over {}",
        bare.0, bare.1
    );
    assert!(connection < CONNECTION && stream < STREAM);
}

#[test]
fn an_idle_stream_holds_little_more_than_the_buffers_of_its_connection() {
    let this = std::env::current_exe().unwrap();
    let test = Command::new(this)
        .args([
            "--exact",
            "idle::measured_alone",
            "--ignored",
            "--nocapture",
        ])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&test.stdout);
    assert!(
        test.status.success() && said.contains("a stream"),
        "{said} {}",
        String::from_utf8_lossy(&test.stderr)
    );
    println!(
        "{said} {}",
        String::from_utf8_lossy(&test.stderr)
            .lines()
            .take(8)
            .collect::<Vec<_>>()
            .join("\n")
    );
}
