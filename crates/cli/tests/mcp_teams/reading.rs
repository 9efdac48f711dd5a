//! Documents that a tool of a server reads.

use std::time::Duration;

use ghostlight::{
    documents::{DocumentSpec, IndexedFolder, McpReader},
    mcp::McpToolset,
    retrieval::{
        index::{Index, Query, SyncOptions},
        readers::{ReaderError, Readers, SourceFile},
    },
};
use serde_json::json;

use crate::peer::Peer;

#[tokio::test]
async fn files_of_a_kind_are_read_by_a_tool_of_a_server_and_its_failures_are_those_of_the_file() {
    let peer = Peer::new("reads", &[]);
    let folder = tempfile::tempdir().unwrap();
    let file =
        |name: &str, content: &[u8]| std::fs::write(folder.path().join(name), content).unwrap();
    file("lamps.lamp", b"\0\xff");
    file("rain.wet", b"x");
    file("plain.md", b"# Chairs\n\nThey stand in the hall.");
    let settings = peer.settings();
    let server = McpToolset::new("peer", settings).unwrap();
    let reader = |tool: &str, ending: &str| {
        let text = "# Lamps\n\nThe tool was given {name} with [{base64}].";
        McpReader::new(server.clone(), tool, [ending]).argument("text", text)
    };
    let readers = Readers::default()
        .with(reader("echo", ".LAMP"))
        .with(reader("fail", "wet"));
    let mut options = SyncOptions::default();
    options.readers = readers;
    let index = Index::in_memory(None).await.unwrap();
    let report = index.sync(folder.path(), &options, |_| {}).await.unwrap();
    assert_eq!(report.indexed, 2, "{report:?}");
    let found = index
        .search(&Query::new("what was the tool given"))
        .await
        .unwrap();
    assert!(
        found[0].text.contains("given lamps.lamp with [AP8=]"),
        "{found:?}"
    );
    let failed: Vec<String> = report
        .failed
        .iter()
        .map(|(name, why)| format!("{name}: {why}"))
        .collect();
    let failed = failed.join("\n");
    assert!(
        failed.contains("rain.wet") && failed.contains("it is raining"),
        "{failed}"
    );
    // A server that takes too long holds up nothing.
    let slow = reader("slow", "slow").time(Duration::from_millis(200));
    let slow = Readers::none().with(slow);
    let read = slow.read(SourceFile::new("late.slow", b"x")).await;
    assert!(matches!(read, Err(ReaderError::TimedOut(_))), "{read:?}");
    let none = Readers::none().with(reader("none", "none"));
    let read = none
        .read(SourceFile::new("x.none", b"x"))
        .await
        .unwrap_err();
    assert!(read.to_string().contains("no tool \"none\""), "{read}");
    server.disconnect().await;
}

#[tokio::test]
async fn the_settings_of_a_document_search_name_a_reader() {
    let peer = Peer::new("reads-by-settings", &[]);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("lamps.lamp"), b"x").unwrap();
    let settings = |tool: &str| {
        json!({
            "folder": folder.path(),
            "readers": [{
                "files": ["lamp"],
                "mcp": {
                    "command": std::env::current_exe().unwrap(),
                    "args": ["peer_process", "--exact", "--nocapture"],
                    "env": { "GHOSTLIGHT_TEST_MCP_PEER": peer.folder },
                    "pins": peer.folder.join("pins.json"),
                },
                "tool": tool,
                "arguments": { "text": "The lamp of {name}" },
            }],
        })
    };
    let settings = |tool: &str| -> DocumentSpec { serde_json::from_value(settings(tool)).unwrap() };
    let lamps = IndexedFolder::new(settings("echo"), Readers::default()).unwrap();
    let index = lamps.searcher().await.unwrap().index();
    let found = index.search(&Query::new("lamp")).await.unwrap();
    assert!(
        found[0].text.contains("The lamp of lamps.lamp"),
        "{found:?}"
    );
    let refused = IndexedFolder::new(settings(""), Readers::default()).unwrap_err();
    assert!(refused.contains("`tool`"), "{refused}");
}
