//! `ghostlight protocol mcp` to its clients.

use ghostlight::{
    contract::{RunFilter, StoreHandle, ToolContext, Toolset},
    mcp::{McpToolset, ServerSpec},
    prelude::SqliteStore,
    vocabulary::Arguments,
};
use serde_json::json;

use crate::peer::Peer;

pub(crate) const TEAM: &str = "
models: { default: { provider: offline } }
agent: { name: clerk, description: Adds numbers., tools: [calculator] }
";

/// The command over standard streams, with its files in a folder.
pub(crate) fn command(folder: &std::path::Path) -> ServerSpec {
    std::fs::write(folder.join("team.yaml"), TEAM).unwrap();
    ServerSpec::command(env!("CARGO_BIN_EXE_ghostlight"))
        .arg("protocol")
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
