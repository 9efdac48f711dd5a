//! The tools with which a model keeps files.

use ghostlight::tools::{list_artifacts, load_artifact, save_artifact};
use ghostlight_actors::{session::Turn, testing::Reply, vocabulary::Scope};
use serde_json::{Value, json};

use crate::stage::{Stage, call, desk};

#[tokio::test(start_paused = true)]
async fn a_model_saves_lists_and_loads_files_over_turns() {
    let agent = desk("function_calling", json!({}))
        .tool(save_artifact())
        .tool(load_artifact())
        .tool(list_artifacts());
    let save = |id: &str, content: &str| {
        let arguments =
            json!({"name": "plan.md", "content": content, "media_type": "text/markdown"});
        call(id, "save_artifact", arguments)
    };
    let load = |id: &str, arguments: Value| call(id, "load_artifact", arguments);
    let replies: Vec<Reply> = vec![
        save("1", "grüße").into(),
        save("2", "world, again").into(),
        call("3", "list_artifacts", json!({})).into(),
        "saved".into(),
        load("4", json!({"name": "plan.md"})).into(),
        load(
            "5",
            json!({"name": "plan.md", "version": 1, "from": 2, "length": 2}),
        )
        .into(),
        load("6", json!({"name": "plam.md"})).into(),
        load("7", json!({"name": "plan.md", "scope": "user"})).into(),
        "loaded".into(),
    ];
    let stage = Stage::of(agent, replies).await;
    stage.ask(Turn::text("save")).await;
    let saved = "tool: save_artifact=success:[saved as plan.md, version";
    assert_eq!(
        stage.last(1),
        format!("{saved} 1 (text/markdown, 7 bytes)]")
    );
    assert_eq!(
        stage.last(2),
        format!("{saved} 2 (text/markdown, 12 bytes)]")
    );
    assert_eq!(
        stage.last(3),
        "tool: list_artifacts=success:plan.md, version 2 (text/markdown, 12 bytes)"
    );
    stage.ask(Turn::text("load")).await;
    assert_eq!(stage.last(5), "tool: load_artifact=success:world, again");
    assert_eq!(
        stage.last(6),
        "tool: load_artifact=success:üß\n[characters 2 to 4 of 5]"
    );
    assert_eq!(
        stage.last(7),
        "tool: load_artifact=error:there is no artifact \"plam.md\"; there are: plan.md"
    );
    assert!(
        stage.last(8).contains("nobody owns this conversation"),
        "{}",
        stage.last(8)
    );
    let session = stage.system.session("desk", "session");
    let kept = session.artifacts(Scope::Session).await.unwrap();
    assert_eq!((kept.len(), kept[0].version), (1, 2));
}
