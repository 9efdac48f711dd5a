//! No lines of a client make the MCP server panic or hang; each line that it sends is JSON-RPC.
#![no_main]

use std::{sync::LazyLock, time::Duration};

use ghostlight_actors::{
    actor::System,
    run::{Agent, RunContext},
    testing::InMemoryStore,
    vocabulary::Outcome,
};
use ghostlight_mcp::McpServer;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    runtime::{Builder, Runtime},
};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.unwrap_or_else(|error| panic!("{error}"))
});

const OLD: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"f","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
"#;

fuzz_target!(|input: (bool, &[u8])| {
    let (is_old, lines) = input;
    RUNTIME.block_on(async {
        let desk = Agent::from_fn("desk", |cx: RunContext| async move {
            Ok(Outcome::answer(cx.input().content()))
        });
        let team = desk.into_team().unwrap_or_else(|error| panic!("{error}"));
        let system = System::builder(InMemoryStore::new()).team(team).start().await;
        let system = system.unwrap_or_else(|error| panic!("{error}"));
        let server = McpServer::new(system.clone())
            .team("desk", "Repeats what it is told.")
            .document("file:///d", "text/plain", *b"document");
        let (mut ours, theirs) = tokio::io::duplex(1 << 20);
        let (read, write) = tokio::io::split(theirs);
        let serving = tokio::spawn(async move { server.serve(read, write).await });
        let begin = if is_old { OLD.as_bytes() } else { b"" };
        let mut told = Vec::new();
        let speaking = async {
            // A server that ends early closes its side.
            let _ = ours.write_all(&[begin, lines, b"\n"].concat()).await;
            let _ = ours.shutdown().await;
            let _ = ours.read_to_end(&mut told).await;
        };
        let ended = tokio::time::timeout(Duration::from_secs(5), speaking).await;
        ended.unwrap_or_else(|_| panic!("the server does not end"));
        let ended = tokio::time::timeout(Duration::from_secs(5), serving).await;
        let _ = ended.unwrap_or_else(|_| panic!("the server does not end"));
        let _ = system.stop().await;
        let lines = told.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        for line in lines {
            let line: Value = serde_json::from_slice(line).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(line["jsonrpc"], "2.0");
        }
    });
});
