//! `ghostlight mcp` to its clients.

use std::{path::PathBuf, process::Command};

use ghostlight::{
    contract::{RunFilter, StoreHandle, ToolContext, Toolset},
    mcp::{McpToolset, ServerSettings},
    prelude::SqliteStore,
    vocabulary::Arguments,
};
use serde_json::json;

use crate::peer::Peer;

pub(crate) const TEAM: &str = "
models: { default: { provider: offline } }
agent: { name: clerk, description: Adds numbers., tools: [calculator] }
";

fn command(folder: &std::path::Path) -> ServerSettings {
    std::fs::write(folder.join("team.yaml"), TEAM).unwrap();
    ServerSettings::command(env!("CARGO_BIN_EXE_ghostlight"))
        .arg("mcp")
        .arg(folder.join("team.yaml").to_str().unwrap())
        .arg("--store")
        .arg(folder.join("store.db").to_str().unwrap())
}

#[tokio::test]
async fn the_command_serves_a_team_and_a_call_made_again_after_its_death_is_one_run() {
    let folder = Peer::new("command", &[]).folder;
    let mut texts = Vec::new();
    for _ in 0..2 {
        let toolset = McpToolset::new("clerk", command(&folder)).unwrap();
        toolset.connect().await.unwrap();
        assert_eq!(
            toolset.protocol_version().await.as_deref(),
            Some("2026-07-28")
        );
        let tool = toolset.tools().unwrap().remove(0);
        assert_eq!(
            (
                tool.definition().name.as_str(),
                tool.definition().description.as_str()
            ),
            ("clerk", "Adds numbers.")
        );
        let call = json!({ "message": "What is 17% of 2340?", "session": "s", "turn_id": "t" });
        let answered = tool
            .call(Arguments::from(call), ToolContext::detached())
            .await
            .unwrap();
        texts.push(answered.text);
        toolset.disconnect().await;
    }
    assert!(
        texts[0].contains("397.8") && texts[0] == texts[1],
        "{texts:?}"
    );
    let store = StoreHandle::new(SqliteStore::open(folder.join("store.db")).unwrap());
    assert_eq!(store.runs(RunFilter::default()).await.unwrap().len(), 1);
}

/// What the official client for Python does with the command: both lifecycles, a call, a resource.
const PYTHON: &str = r#"
import asyncio, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

async def main():
    server = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:])
    async with stdio_client(server) as (read, write):
        async with ClientSession(read, write) as session:
            await session.initialize()
            tools = (await session.list_tools()).tools
            print("tools", [tool.name for tool in tools])
            told = []
            async def progress(done, total, message):
                told.append(message)
            result = await session.call_tool(
                "clerk", {"message": "What is 17% of 2340?", "session": "py"}, progress_callback=progress)
            print("answer", result.content[0].text)
            print("progress", told)
            resources = (await session.list_resources()).resources
            print("resources", [str(resource.uri) for resource in resources])
            read = await session.read_resource(resources[0].uri)
            print("read", "2340" in read.contents[0].text)

asyncio.run(main())
"#;

#[test]
fn the_official_client_for_python_uses_the_command() {
    if std::env::var_os("GHOSTLIGHT_SKIP_MCP_PEERS").is_some_and(|skip| skip == "1") {
        println!("left out: GHOSTLIGHT_SKIP_MCP_PEERS=1");
        return;
    }
    let peers = std::env::var_os("GHOSTLIGHT_MCP_PEERS");
    let peers = PathBuf::from(
        peers.expect("GHOSTLIGHT_MCP_PEERS names the folder into which ./test installs the client"),
    );
    let folder = Peer::new("python", &[]).folder;
    let server = command(&folder);
    let mut python = Command::new("timeout");
    python
        .arg("60")
        .arg(peers.join("venv/bin/python"))
        .args(["-c", PYTHON])
        .arg(env!("CARGO_BIN_EXE_ghostlight"));
    let output = python.args(&server.args).output().unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{out}\n{err}");
    for line in [
        "tools ['clerk']",
        "397.8",
        "progress ['calls calculator'",
        "resources ['ghostlight://sessions/clerk/py']",
        "read True",
    ] {
        assert!(out.contains(line), "no {line:?} in {out}\n{err}");
    }
}
