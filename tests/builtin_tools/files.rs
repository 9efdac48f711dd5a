//! The tools for files in a team.

use std::{fs, time::Duration};

use ghostlight::{
    definition::ApprovalRule,
    prelude::*,
    testing::{CrashOptions, Scenario, crash_everywhere},
    tools::{Files, FilesSpec},
    vocabulary::{ToolCall, ToolDefinition},
};
use parking_lot::Mutex;
use serde_json::json;

#[test]
fn a_team_file_gives_an_agent_the_files_of_a_folder() {
    let team = ghostlight::config::load("examples/teams/notebook.yaml").unwrap();
    let registry = team.resolve(ghostlight::builtin()).unwrap();
    let pinned = registry.pin(team.spec()).agent("notebook", None).unwrap();
    let names: Vec<&str> = pinned.tools.iter().map(|tool| tool.name.as_str()).collect();
    for name in [
        "read_file",
        "patch_files",
        "undo_file",
        "library_grep_files",
    ] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(!names.contains(&"library_write_file"));
    let undo = pinned.tools.get("undo_file").unwrap();
    assert!(pinned.approval_of(undo).is_some());
    assert_eq!(pinned.tools.get("grep_files").unwrap().output_limit, 8_000);
}

#[test]
fn what_a_folder_cannot_be_is_told_with_its_place() {
    for (settings, told) in [
        ("root: ./does-not-exist", "cannot be opened"),
        ("root: ./, rights: all", "unknown key `rights`"),
        ("root: ./, exclude: ['[']", "pattern"),
    ] {
        let text = format!(
            "models: {{ default: {{ provider: offline }} }}\n\
             tools: {{ notes: {{ kind: files, {settings} }} }}\nagent: {{ name: desk, tools: [notes] }}"
        );
        let team = ghostlight::config::parse(text, "team.yaml").unwrap();
        let fault = team.resolve(ghostlight::builtin()).unwrap_err().to_string();
        assert!(
            fault.contains(told) && fault.contains("team.yaml:2"),
            "{fault}"
        );
    }
}

/// An edit that adds a line would add it twice if it were made twice.
#[tokio::test(start_paused = true)]
async fn a_run_that_is_killed_anywhere_changes_a_file_once() {
    let folders: Mutex<Vec<tempfile::TempDir>> = Mutex::default();
    let scenario = Scenario::new("keeper", move |builder, log| {
        // One folder for all lives of one history.
        let mut folders = folders.lock();
        if log.effects().is_empty() || folders.is_empty() {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("list.md"), "- milk\n").unwrap();
            folders.push(folder);
        }
        let root = folders.last().unwrap().path().to_owned();
        let files = Files::open(FilesSpec::writing(&root)).unwrap();
        // Logged, so that the next life of a history is told from the first one of the next.
        let begin = ToolDefinition::new("begin", "Is logged.").effect(Effect::Read);
        let begin = log.tool(begin, Duration::ZERO);
        let keeper = Agent::from_fn("keeper", |cx: RunContext| async move {
            let said = cx.model(cx.model_request(cx.conversation())).await?;
            cx.tools([ToolCall::new("0", "begin", json!({}))]).await?;
            let bread = json!({ "path": "list.md", "old": "- milk\n", "new": "- milk\n- bread\n" });
            cx.tools([ToolCall::new("1", "edit_file", bread)]).await?;
            cx.sleep(Duration::from_secs(5)).await?;
            let page = json!({ "patch": "--- a/list.md\n+++ b/list.md\n@@ -1,2 +1,3 @@\n - milk\n+- tea\n - bread\n" });
            cx.tools([ToolCall::new("2", "patch_files", page)]).await?;
            let read = ToolCall::new("3", "read_file", json!({ "path": "list.md", "numbers": false }));
            let read = cx.tools([read]).await?;
            Ok(Outcome::answer(format!("{} {}", said.content(), read[0].text)))
        })
        .tool(begin)
        .toolset("files", files)
        .approval("files", ApprovalRule::not_needed());
        builder
            .model("default", ScriptedModel::turns(["Done:"]))
            .team(keeper.into_team().unwrap())
    })
    .turn("Bread and tea.");
    let report = crash_everywhere(&scenario, CrashOptions::default().again(1)).await;
    assert!(
        report.outcomes[0].contains(r"Done: - milk\n- tea\n- bread\n"),
        "{:?}",
        report.outcomes
    );
    assert!(report.crashes > 10, "{report}");
    assert!(report.violations.is_empty(), "{report}");
}
