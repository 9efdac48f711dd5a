//! Our clients for Python and TypeScript, below `clients/`, against a running server.

use std::{net::SocketAddr, process::Command, time::Duration};

use ghostlight_actors::{
    actor::{System, SystemOptions},
    definition::{ApprovalRule, WhileBusy},
    run::{Agent, RunContext},
    testing::{EffectLog, InMemoryStore},
    vocabulary::{AgentError, Outcome, ToolCall, ToolDefinition},
};
use ghostlight_server::Scope;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::desk::{Desk, obey};

/// How many bytes of the server's a connection carries until it breaks: the heads of a stream and some events.
const BREAKS_AFTER: usize = 2_500;

#[tokio::test(flavor = "multi_thread")]
async fn the_client_for_python_resumes_streams_answers_and_branches_sessions() {
    let client = "/../../clients/python/src";
    drives(
        "GHOSTLIGHT_SDK_PYTHON",
        "python3",
        "client_of_python.py",
        client,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_for_typescript_resumes_streams_answers_and_branches_sessions() {
    let client = "/../../clients/typescript/index.js";
    drives(
        "GHOSTLIGHT_SDK_NODE",
        "node",
        "client_of_typescript.mjs",
        client,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_for_python_keeps_its_key_its_time_and_its_streams_where_servers_fail() {
    let script = "client_of_python_faults.py";
    let client = "/../../clients/python/src";
    runs("GHOSTLIGHT_SDK_PYTHON", "python3", script, client, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_for_typescript_keeps_its_key_its_time_and_its_streams_where_servers_fail() {
    let script = "client_of_typescript_faults.mjs";
    let client = "/../../clients/typescript/index.js";
    runs("GHOSTLIGHT_SDK_NODE", "node", script, client, &[]).await;
}

/// Runs a script against a server.
async fn drives(variable: &str, interpreter: &str, script: &str, client: &str) {
    let desk = Desk::of(system().await, |server, keys| server.keys(keys.clone())).await;
    let ada = desk.client_of("ada", &[Scope::Read, Scope::Run]);
    let flaky = flaky(desk.client.to).await;
    let [server, flaky] = [desk.client.to, flaky].map(|to| format!("http://{to}"));
    let key = ada.key.unwrap();
    runs(variable, interpreter, script, client, &[server, flaky, key]).await;
}

/// Runs a script with the interpreter that a variable names, or that is on the path.
async fn runs(variable: &str, interpreter: &str, script: &str, client: &str, more: &[String]) {
    if std::env::var_os("GHOSTLIGHT_SKIP_SDKS").is_some_and(|skip| skip == "1") {
        eprintln!("GHOSTLIGHT_SKIP_SDKS=1: our clients were not tried");
        return;
    }
    let here = env!("CARGO_MANIFEST_DIR");
    let mut command =
        Command::new(std::env::var_os(variable).unwrap_or_else(|| interpreter.into()));
    command
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .args([
            format!("{here}/tests/server/{script}"),
            format!("{here}{client}"),
        ])
        .args(more);
    let told = tokio::task::spawn_blocking(move || command.output().unwrap());
    let told = told.await.unwrap();
    assert!(
        told.status.success(),
        "{}",
        String::from_utf8_lossy(&told.stderr)
    );
}

/// The desk, and a shop whose refunds a person approves.
async fn system() -> System {
    let log = EffectLog::new();
    let refund =
        ToolDefinition::new("refund", "gives money back").parameters(json!({ "type": "object" }));
    let shop = Agent::from_fn("shop", |cx: RunContext| async move {
        let result = cx
            .tool(ToolCall::new("1", "refund", json!({ "order": 7 })))
            .await?;
        let told = format!("{:?}: {}", result.status, result.text);
        Ok::<_, AgentError>(Outcome::answer(told))
    });
    let shop = shop
        .tool(log.tool(refund, Duration::ZERO))
        .approval("refund", ApprovalRule::required());
    let desk = Agent::from_fn("desk", obey);
    let system = System::builder(InMemoryStore::new()).options(SystemOptions::default());
    // It hears nothing while it works.
    let steered = Agent::from_fn("steered", obey).into_team().unwrap();
    let steered = steered.define(|team| team.while_busy = WhileBusy::Steer);
    let system = system
        .team(desk.into_team().unwrap())
        .team(shop.into_team().unwrap())
        .team(steered);
    system.start().await.unwrap()
}

/// The address of a proxy that breaks each connection after [`BREAKS_AFTER`] bytes of the server's.
async fn flaky(to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            tokio::spawn(carry(near, to));
        }
    });
    at
}

async fn carry(near: TcpStream, to: SocketAddr) -> std::io::Result<()> {
    let (mut from_near, mut to_near) = near.into_split();
    let (mut from_far, mut to_far) = TcpStream::connect(to).await?.into_split();
    let up = tokio::spawn(async move { tokio::io::copy(&mut from_near, &mut to_far).await });
    let mut left = BREAKS_AFTER;
    let mut bytes = vec![0; 512];
    while left > 0 {
        let read = from_far.read(&mut bytes[..left.min(512)]).await?;
        if read == 0 {
            break;
        }
        to_near.write_all(&bytes[..read]).await?;
        left -= read;
    }
    up.abort();
    Ok(())
}
