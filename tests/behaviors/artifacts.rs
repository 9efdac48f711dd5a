//! The tools with which a model keeps files.

use ghostlight::{
    builtin,
    tools::{list_artifacts, load_artifact, save_artifact},
};
use ghostlight_actors::{
    definition::PolicySpec,
    session::Turn,
    testing::Reply,
    vocabulary::{Data, DataSource, Message, Part, Scope},
};
use serde_json::{Value, json};

use crate::stage::{Stage, call, desk, told};

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

#[tokio::test(start_paused = true)]
async fn the_files_that_a_turn_brings_are_kept_once_and_the_model_is_told() {
    let data = |name: Option<&str>, media_type: &str, source: DataSource| {
        Part::Data(Data {
            media_type: media_type.to_owned(),
            name: name.map(str::to_owned),
            source,
        })
    };
    let base64 = |text: &str| DataSource::Base64(text.to_owned());
    let url = DataSource::Url("https://example.com/a.png".to_owned());
    let clerk = desk("function_calling", json!({})).define(|clerk| {
        clerk.name = "clerk".to_owned();
        clerk.policies.push(PolicySpec::new("input_files"));
    });
    let agent = desk("function_calling", json!({}))
        .define(|desk| desk.policies.push(PolicySpec::new("input_files")))
        .agent(clerk)
        .registry(builtin());
    let replies: Vec<Reply> = vec![
        call("t", "transfer_to_clerk", json!({"request": "look at it"})).into(),
        "seen".into(),
        "again".into(),
    ];
    let stage = Stage::of(agent, replies).await;
    let mut turn = Message::user("What is this?");
    turn.parts.extend([
        data(Some("a.bin"), "image/png", base64("AQID")),
        data(None, "text/plain", base64("aGk=")),
        data(Some("far.png"), "image/png", url),
        data(Some("broken"), "image/png", base64("***")),
    ]);
    let run = stage.say(Turn::from(turn.clone())).await;
    assert_eq!(run.outcome().await.unwrap().text(), "seen");
    let session = stage.system.session("desk", "session");
    let kept = session.artifacts(Scope::Session).await.unwrap();
    let names: Vec<String> = kept.iter().map(ToString::to_string).collect();
    let wanted = [
        "a.bin, version 1 (image/png, 3 bytes)",
        "input-2, version 1 (text/plain, 2 bytes)",
    ];
    assert_eq!(
        names, wanted,
        "the agent that took over saved nothing again"
    );
    let file = session
        .artifact(Scope::Session, "a.bin", None)
        .await
        .unwrap();
    assert_eq!(*file.unwrap().content, [1, 2, 3]);
    let told = told(&run).await;
    let refused: Vec<_> = told
        .iter()
        .filter(|(name, _)| name == "input_file_not_saved")
        .collect();
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0].1["name"], "broken");
    let asked = stage.said(0).join("\n");
    assert!(
        asked.contains(&format!("saved as artifacts: {}", wanted.join("; "))),
        "{asked}"
    );
    // The next turn's files are further versions.
    stage.ask(Turn::from(turn)).await;
    let kept = session.artifacts(Scope::Session).await.unwrap();
    assert_eq!(kept[0].version, 2);
}
