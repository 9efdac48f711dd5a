//! A team over HTTP: keys, a turn that is sent twice, and events that are broken off and resumed (takes 1 s).
//!
//! `cargo run --example serve --features server`
#![allow(clippy::print_stdout)]

use ghostlight::{
    prelude::*,
    server::{KeyFile, Scope, Server},
    testing::InMemoryStore,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::oneshot,
};

/// An agent that counts, and tells how far it is.
async fn count(cx: RunContext) -> Result<Outcome, AgentError> {
    for number in 1..=3 {
        cx.emit("counted", &number);
    }
    Ok(Outcome::answer("one, two, three"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let team = Agent::from_fn("counter", count).into_team()?;
    let system = System::builder(InMemoryStore::new())
        .team(team)
        .start()
        .await?;

    // Keys stand in a file, as hashes; `ghostlight key add ada` does the same.
    let file = std::env::temp_dir().join(format!("serve-{}.keys.json", std::process::id()));
    let keys = KeyFile::open(&file);
    let ada = keys.add("ada", &[Scope::Read, Scope::Run], None)?.secret;
    let eve = keys.add("eve", &[Scope::Read, Scope::Run], None)?.secret;

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let at = listener.local_addr()?;
    let (stop, stopped) = oneshot::channel::<()>();
    // In an axum service of your own: `Router::new().merge(server.router())`.
    let server = Server::new(system.clone()).keys(keys);
    let served = tokio::spawn(server.serve(listener, stopped));

    let turn = r#"{"text": "count", "id": "turn-1"}"#;
    let path = "/api/v1/sessions/counter/s/turns?wait=10";
    for _ in 0..2 {
        let said: serde_json::Value = serde_json::from_str(&ask(at, &ada, path, turn, "").await?)?;
        println!("run {} says {}", said["run"]["id"], said["end"]["answer"]);
    }

    let run = system
        .sessions()
        .list(Default::default())
        .await?
        .sessions
        .len();
    println!("{run} session, in spite of two requests");

    let path = "/api/v1/sessions/counter/s/turns";
    let stream = "Accept: text/event-stream\r\n";
    let events = ask(at, &ada, path, turn, stream).await?;
    let ids: Vec<&str> = events
        .lines()
        .filter_map(|line| line.strip_prefix("id: "))
        .collect();
    println!("events {}", ids.join(", "));

    let of_ada = ask(at, &ada, "/api/v1/runs", "", "").await?;
    let of_eve = ask(at, &eve, "/api/v1/runs", "", "").await?;
    println!(
        "ada sees her run: {}, eve sees {of_eve}",
        of_ada.contains("counter")
    );

    let _ = stop.send(());
    served.await??;
    system.stop().await?;
    std::fs::remove_file(file)?;
    Ok(())
}

/// One request; a POST where there is a body.
async fn ask(
    at: std::net::SocketAddr,
    key: &str,
    path: &str,
    body: &str,
    more: &str,
) -> std::io::Result<String> {
    let method = if body.is_empty() { "GET" } else { "POST" };
    let length = body.len();
    let mut stream = TcpStream::connect(at).await?;
    let request = format!(
        "{method} {path} HTTP/1.0\r\nHost: {at}\r\nAuthorization: Bearer {key}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n{more}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer
        .split_once("\r\n\r\n")
        .map_or_else(String::new, |(_, body)| body.to_owned()))
}
