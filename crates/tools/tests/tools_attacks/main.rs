//! What a hostile model, file, process or server tries against the built-in tools: each attempt is refused
//! or contained, and none hangs.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    missing_docs
)]

#[cfg(target_os = "linux")]
mod bubblewrap;
#[cfg(all(feature = "code", target_os = "linux"))]
mod code;
mod files;
#[cfg(target_os = "linux")]
mod growth;
mod html;
#[cfg(target_os = "linux")]
mod launcher;
#[cfg(feature = "openapi")]
mod openapi;
#[cfg(target_os = "linux")]
mod outside;
#[cfg(unix)]
mod permissions;
#[cfg(target_os = "linux")]
mod processes;
mod server;
mod skills;
mod terminal;
mod web;

use std::time::Duration;

use ghostlight_actors::{
    contract::{Origin, ToolContext, ToolHandle, Toolset},
    vocabulary::{Arguments, OperationId, RunId},
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// The longest that any attack may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// The tool of this name.
fn tool(toolset: &impl Toolset, name: &str) -> ToolHandle {
    let mut tools = toolset.tools().unwrap().into_iter();
    let found = tools.find(|tool| tool.definition().name == name);
    found.unwrap_or_else(|| panic!("there is no {name}"))
}

/// Calls a tool as the n-th call of a run, and gives what the model reads.
async fn call_as(tool: &ToolHandle, number: u32, arguments: Value) -> Result<String, String> {
    let operation = OperationId {
        number,
        ..OperationId::default()
    };
    let cx = ToolContext::new(
        RunId::from_random(1),
        operation,
        "model",
        CancellationToken::new(),
    );
    let cx = cx.with_origin(std::sync::Arc::new(Origin::default()));
    let called = tokio::time::timeout(PATIENCE, tool.call(Arguments::from(arguments), cx)).await;
    let ended = called.expect("the call hangs");
    ended
        .map(|output| output.text)
        .map_err(|error| error.message)
}

/// Calls a tool outside of a run.
async fn call(tool: &ToolHandle, arguments: Value) -> Result<String, String> {
    let cx = ToolContext::detached();
    let called = tokio::time::timeout(PATIENCE, tool.call(Arguments::from(arguments), cx)).await;
    let ended = called.expect("the call hangs");
    ended
        .map(|output| output.text)
        .map_err(|error| error.message)
}
