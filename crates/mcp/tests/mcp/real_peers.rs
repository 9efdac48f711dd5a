//! Servers that none of us wrote. `./test` installs them and says where they are.

use std::path::PathBuf;

use ghostlight_actors::{
    contract::{ToolContext, ToolHandle, Toolset},
    vocabulary::{Arguments, DataSource},
};
use ghostlight_mcp::{McpToolset, ServerSpec};
use serde_json::{Value, json};

/// The folder with the servers; `None` where they are to be left out.
fn servers() -> Option<PathBuf> {
    if std::env::var_os("GHOSTLIGHT_SKIP_MCP_PEERS").is_some_and(|skip| skip == "1") {
        println!("left out: GHOSTLIGHT_SKIP_MCP_PEERS=1");
        return None;
    }
    let folder = std::env::var_os("GHOSTLIGHT_MCP_PEERS");
    Some(PathBuf::from(folder.expect(
        "GHOSTLIGHT_MCP_PEERS names the folder into which ./test installs the servers; \
         GHOSTLIGHT_SKIP_MCP_PEERS=1 leaves these tests out",
    )))
}

async fn connect(settings: ServerSpec, version: &str) -> McpToolset {
    let toolset = McpToolset::new("real", settings).unwrap();
    toolset.connect().await.unwrap();
    assert_eq!(toolset.protocol_version().await.as_deref(), Some(version));
    toolset
}

async fn call(
    toolset: &McpToolset,
    name: &str,
    arguments: Value,
) -> ghostlight_actors::contract::ToolOutput {
    let tools: Vec<ToolHandle> = toolset.tools().unwrap();
    let tool = tools.iter().find(|tool| tool.definition().name == name);
    let tool = tool.unwrap_or_else(|| panic!("no tool {name} in {tools:?}"));
    let called = tool
        .call(Arguments::from(arguments), ToolContext::detached())
        .await;
    called.unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn program(path: PathBuf) -> ServerSpec {
    ServerSpec::command(path.to_str().unwrap())
}

#[tokio::test]
async fn the_time_and_git_servers_are_spoken_to_on_the_new_wire() {
    let Some(servers) = servers() else { return };
    let time = program(servers.join("venv/bin/mcp-server-time")).arg("--local-timezone=UTC");
    let time = connect(time, "2026-07-28").await;
    let asked = json!({ "source_timezone": "Europe/Berlin", "time": "12:00", "target_timezone": "Asia/Tokyo" });
    let converted = call(&time, "convert_time", asked).await.text;
    assert!(
        converted.contains("Asia/Tokyo") && converted.contains("+0"),
        "{converted}"
    );
    time.disconnect().await;

    let folder =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("mcp-git-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let made = std::process::Command::new("git")
        .arg("init")
        .arg("-q")
        .arg(&folder)
        .status()
        .unwrap();
    assert!(made.success());
    std::fs::write(folder.join("new.txt"), "new").unwrap();
    let git = connect(
        program(servers.join("venv/bin/mcp-server-git")),
        "2026-07-28",
    )
    .await;
    let status = call(&git, "git_status", json!({ "repo_path": folder }))
        .await
        .text;
    assert!(status.contains("new.txt"), "{status}");
    git.disconnect().await;
}

#[tokio::test]
async fn the_everything_and_filesystem_servers_are_spoken_to_on_the_old_wire() {
    let Some(servers) = servers() else { return };
    let everything = program(servers.join("mcp-server-everything"));
    let everything = connect(everything, "2025-11-25").await;
    assert_eq!(
        call(&everything, "echo", json!({ "message": "hello" }))
            .await
            .text,
        "Echo: hello"
    );
    let image = call(&everything, "get-tiny-image", json!({})).await;
    let [image] = &image.attachments[..] else {
        panic!("{image:?}")
    };
    assert!(image.media_type == "image/png" && matches!(image.source, DataSource::Base64(_)));
    let structured = call(
        &everything,
        "get-structured-content",
        json!({ "location": "New York" }),
    )
    .await;
    assert!(structured.text.contains("temperature"), "{structured:?}");
    everything.disconnect().await;

    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("mcp-files-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let files = program(servers.join("mcp-server-filesystem")).arg(folder.to_str().unwrap());
    let files = connect(files, "2025-11-25").await;
    let path = folder.join("a.txt");
    call(
        &files,
        "write_file",
        json!({ "path": path, "content": "written by a tool" }),
    )
    .await;
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "written by a tool");
    let read = call(&files, "read_text_file", json!({ "path": path }))
        .await
        .text;
    assert!(read.contains("written by a tool"), "{read}");
    files.disconnect().await;
}
