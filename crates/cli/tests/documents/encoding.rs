//! A sentence encoder in a folder makes the vectors, for the command and in a team file.

use std::process::{Command, Output};

use ghostlight::{
    builtin, models::EmbedderSpec, prelude::*, testing::ScriptedModel, vocabulary::ToolCall,
};
use serde_json::json;

use crate::{folder::Folder, started, tiny_model};

const TEAM: &str = "
tools:
  handbook:
    kind: document_search
    folder: ./docs
    index: ./the.index
    embedder: { provider: local, path: ./model }
agent:
  name: desk
  tools: [handbook]
";

fn ghostlight(folder: &Folder, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ghostlight"))
        .args(arguments)
        .current_dir(folder.path())
        .env_remove("GHOSTLIGHT_EMBEDDER")
        .env("XDG_DATA_HOME", folder.path())
        .output()
        .unwrap()
}

fn team(folder: &Folder) -> ghostlight::config::TeamFile {
    std::fs::write(folder.path().join("team.yaml"), TEAM).unwrap();
    ghostlight::config::load(folder.path().join("team.yaml")).unwrap()
}

#[tokio::test]
async fn a_team_and_the_command_search_one_index_by_the_vectors_of_a_model_in_a_folder() {
    let folder = Folder::new("encoding");
    folder.write("cat.md", "The cats are running!\n");
    folder.write("dog.md", "The dog.\n");
    tiny_model::write(&folder.path().join("model"));
    let model = ScriptedModel::from_fn(|_, number| {
        let search = ToolCall::new("1", "handbook", json!({ "query": "dog", "limit": 1 }));
        Ok(match number {
            0 => ModelResponse::tool_calls([search]),
            _ => ModelResponse::text("done"),
        })
    });
    let team = team(&folder);
    let system = started(team, &model).await;
    let run = system.session("desk", "ada").send("dog?").await.unwrap();
    run.outcome().await.unwrap();
    let found = model.requests()[1].conversation.messages();
    let found = found
        .last()
        .unwrap()
        .tool_results()
        .next()
        .unwrap()
        .text
        .clone();
    assert!(found.contains("dog.md"), "{found}");
    system.stop().await.unwrap();

    let place = ["--index", "the.index", "--embedder", "local:model"];
    let known = ghostlight(&folder, &[&["docs", "index", "docs"][..], &place].concat());
    let told = String::from_utf8_lossy(&known.stderr);
    // The numbers of the model are made up, so only a passage in its own words is sure to be near.
    assert!(told.contains("0 indexed (0 chunks), 2 unchanged"), "{told}");
    let found = ghostlight(
        &folder,
        &[
            &["docs", "search", "dog.md The dog.", "--vectors", "-n1"][..],
            &place,
        ]
        .concat(),
    );
    assert!(
        String::from_utf8_lossy(&found.stdout).contains("dog.md"),
        "{found:?}"
    );
    let other = ghostlight(&folder, &["docs", "search", "dog", "--index", "the.index"]);
    assert_eq!(other.status.code(), Some(2));
    let told = String::from_utf8_lossy(&other.stderr);
    assert!(told.contains("encoder-1/model/"), "{told}");
}

#[test]
fn a_model_is_read_once_and_a_missing_one_is_told_with_its_file() {
    let folder = Folder::new("encoding-missing");
    let settings = EmbedderSpec::from_text(&format!("local:{}", folder.path().display()));
    let settings = settings.unwrap();
    let error = settings.embedder().unwrap_err();
    assert!(
        error.contains("config.json") && error.contains("model.safetensors"),
        "{error}"
    );
    tiny_model::write(folder.path());
    let embedder = settings.embedder().unwrap();
    assert!(embedder.is(&settings.embedder().unwrap()));
    folder.write("a.md", "The dog.\n");
    let team = team(&folder);
    let faults = team.resolve(builtin().model(
        "default",
        ScriptedModel::from_fn(|_, _| Ok(ModelResponse::text("x"))).into(),
    ));
    assert!(
        faults
            .unwrap_err()
            .to_string()
            .contains("model/config.json")
    );
}
