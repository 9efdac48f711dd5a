//! An agent that speaks, does what must not be done twice, and keeps it, again and again, for tests that kill it.

use std::{fs, io::Write as _, time::Duration};

use ghostlight::tools::tool_fn;
use ghostlight_actors::{
    run::{BehaviorHandle, Registry, RunContext},
    vocabulary::{AgentError, Effect, Outcome, Scope, ToolCall, ToolDefinition},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema)]
struct Note {
    run: String,
    number: u64,
}

/// The behavior `toils`, whose input says how often, and the tool `note`, which writes a line into the file `effects`.
pub(crate) fn register(registry: Registry) -> Registry {
    let note = ToolDefinition::new("note", "Writes a line.").effect(Effect::Once);
    registry
        .tool(tool_fn(note, |asked: Note| async move {
            let mut options = fs::OpenOptions::new();
            let mut file = options.create(true).append(true).open("effects")?;
            file.write_all(format!("{} {}\n", asked.run, asked.number).as_bytes())?;
            tokio::time::sleep(Duration::from_millis(4)).await;
            Ok("noted".to_owned())
        }))
        .behavior("toils", |_: &Value| {
            Ok(BehaviorHandle::from_fn(|cx| Box::pin(toils(cx))))
        })
}

async fn toils(cx: RunContext) -> Result<Outcome, AgentError> {
    let told = cx.input().content();
    for number in 0..told.parse().map_err(AgentError::failed)? {
        cx.model(cx.model_request(cx.conversation())).await?;
        let line = json!({ "run": cx.run(), "number": number });
        // A call that is in doubt is not made again.
        let _ = cx.tool(ToolCall::new("c", "note", line)).await;
        cx.emit("noted", &number);
        let text = u64::to_string(&number);
        let artifacts = cx.artifacts(Scope::Session);
        artifacts
            .save("note.txt", "text/plain", text.as_bytes())
            .await?;
        cx.state(Scope::Session).set("number", &number).await?;
    }
    if &*cx.agent().name == "desk" {
        let (left, right) = tokio::join!(cx.delegate("left", &told), cx.delegate("right", &told));
        left?;
        right?;
    }
    Ok(Outcome::answer("toiled"))
}
