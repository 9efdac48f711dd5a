//! Artifacts: files that agents keep, with versions, and instructions that read them.
//!
//!     cargo run --example artifacts
#![allow(clippy::print_stdout)]

use ghostlight::{
    instructions::Instructions,
    prelude::*,
    run::operations::Scope,
    testing::Reply,
    tools::{list_artifacts, load_artifact, save_artifact},
    vocabulary::ToolCall,
};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), ghostlight::Error> {
    // What is agreed stands in the instructions of every turn, as data.
    let clerk = Agent::new("clerk")
        .instructions("Keep to what was agreed: {artifact.agreement.md?}")
        .tool(save_artifact())
        .tool(load_artifact())
        .tool(list_artifacts())
        .policy("instructions", Instructions::new);
    let save = |content: &str| {
        let arguments = json!({ "name": "agreement.md", "content": content });
        ToolCall::new("1", "save_artifact", arguments)
    };
    // A model that is scripted, so that the example needs no key: it saves twice, and reads.
    let model = ScriptedModel::replies([
        Reply::from(save("Delivery on Monday.")),
        "Agreed.".into(),
        save("Delivery on Tuesday.").into(),
        "Changed.".into(),
    ]);
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .model("default", model.clone())
        .team(clerk.into_team()?)
        .start()
        .await?;
    let session = system.session("clerk", "order-7");
    for turn in ["When do you deliver?", "Make it Tuesday."] {
        let run = session.send(turn).await?;
        println!("{turn} {}", run.outcome().await?.text());
    }
    if let Some(request) = model.requests().last() {
        println!("told: {}", request.instructions);
    }
    for version in [1, 2] {
        let found = session
            .artifact(Scope::Session, "agreement.md", Some(version))
            .await?;
        if let Some(artifact) = found {
            println!("{}: {}", artifact.info, artifact.text().unwrap_or_default());
        }
    }
    system.stop().await
}
