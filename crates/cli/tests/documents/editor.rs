//! Agents that put texts into an index, and find them there.

use ghostlight::{prelude::*, testing::ScriptedModel, vocabulary::ToolCall};
use serde_json::{Value, json};

use crate::{folder::Folder, started};

/// Calls the tool and the arguments that a person says as JSON, and answers with the result.
fn obedient() -> ScriptedModel {
    ScriptedModel::from_fn(|request, number| {
        let last = request.conversation.last().unwrap();
        if let Some(result) = last.tool_results().next() {
            return Ok(ModelResponse::text(result.text.as_str()));
        }
        let said: Value = serde_json::from_str(&last.content()).unwrap();
        let name = said["tool"].as_str().unwrap();
        let call = ToolCall::new(format!("c{number}"), name, said["with"].clone());
        Ok(ModelResponse::tool_calls([call]))
    })
}

#[tokio::test]
async fn what_an_agent_puts_into_an_index_is_found_changed_counted_and_removed() {
    let folder = Folder::new("editor");
    let index = folder.path().join("notes.index");
    let index = index.to_str().unwrap();
    let text = format!(
        "tools:\n  notes: {{ kind: document_search, added: true, index: {index} }}\n\
           \x20 keep: {{ kind: document_editor, index: {index}, chunks: {{ size: 200, overlap: 20 }} }}\n\
         agent: {{ name: desk, tools: [notes, keep] }}\n"
    );
    let model = obedient();
    let system = started(
        ghostlight::config::parse(text, "team.yaml").unwrap(),
        &model,
    )
    .await;
    let session = system.session("desk", "s");
    let call = async |tool: &str, with: Value| {
        let said = json!({ "tool": tool, "with": with }).to_string();
        session.ask(said).await.unwrap().text
    };
    let found = async |query: &str| call("notes", json!({ "query": query })).await;
    let keep = async |with: Value| call("keep", with).await;
    assert!(
        keep(json!({ "action": "list" }))
            .await
            .contains("nothing yet")
    );
    let put = json!({ "action": "put", "name": "key", "text": "The key lies under the mat." });
    assert_eq!(keep(put).await, "kept as key");
    assert!(found("key mat").await.contains("under the mat"));
    let put = json!({ "action": "put", "name": "key", "text": "The key is with Ada." });
    keep(put).await;
    let told = found("key mat").await;
    assert!(
        told.contains("with Ada") && !told.contains("under the mat"),
        "{told}"
    );
    assert_eq!(keep(json!({ "action": "list" })).await, "key");
    let told = keep(json!({ "action": "statistics" })).await;
    assert!(told.starts_with("1 documents in 1 passages"), "{told}");
    assert_eq!(
        keep(json!({ "action": "remove", "name": "key" })).await,
        "removed key"
    );
    assert!(found("key").await.contains("Nothing was found"));
    for wrong in [
        json!({ "action": "put", "text": "no name" }),
        json!({ "action": "put", "name": "empty", "text": "  " }),
        json!({ "action": "put", "name": "two\nlines", "text": "x" }),
        json!({ "action": "remove" }),
    ] {
        let told = keep(wrong.clone()).await;
        assert!(
            !told.starts_with("kept") && !told.starts_with("removed"),
            "{wrong}: {told}"
        );
    }
    system.stop().await.unwrap();
}
