//! A definition that is edited while a run sleeps applies from the next run; what code makes of it is
//! drift or divergence (`divergence.rs`).

use std::time::Duration;

use ghostlight_actors::{
    actor::System,
    contract::{Tool, ToolContext, ToolError, ToolOutput},
    run::{Agent, RunContext},
    testing::ScriptedModel,
    vocabulary::{Arguments, Effect, Entry, ModelRequest, ModelResponse, Outcome, ToolDefinition},
};
use serde_json::{Value, json};

use crate::stage::{Stage, ask, call, pause, text};

/// A tool whose schema can be edited.
struct Look(Value);

impl Tool for Look {
    fn definition(&self) -> ToolDefinition {
        let definition = ToolDefinition::new("look", "looks").effect(Effect::Read);
        definition.parameters(self.0.clone())
    }

    async fn call(&self, _: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text("seen"))
    }
}

/// Looks, sleeps for a minute, and asks its model.
fn sleeper(instructions: &str, schema: &Value) -> Agent {
    Agent::from_fn("a", |cx: RunContext| async move {
        let seen = cx.tools([call("1", "look")]).await?.remove(0).text;
        cx.sleep(Duration::from_secs(60)).await?;
        let request = cx.model_request(cx.conversation());
        cx.model(request).await?;
        let again = cx.tools([call("2", "look")]).await?.remove(0).text;
        Ok(Outcome::answer(format!("{seen}; {again}")))
    })
    .instructions(instructions)
    .tool(Look(schema.clone()))
}

async fn start(stage: &Stage, agent: Agent, model: &ScriptedModel) -> System {
    stage.start_with(agent, model.clone()).await
}

fn offered(request: &ModelRequest) -> (String, Value) {
    let look = request.tools.get("look").unwrap();
    (request.instructions.to_string(), look.parameters.clone())
}

#[tokio::test(start_paused = true)]
async fn instructions_and_schemas_that_are_edited_while_a_run_sleeps_apply_from_the_next_run() {
    let model = ScriptedModel::from_fn(|_, _| Ok(ModelResponse::text("ok")));
    let mut stage = Stage::new();
    let old = json!({"type": "object", "properties": {}});
    let new = json!({
        "type": "object", "properties": {"where": {"type": "string"}}, "required": ["where"]
    });
    let system = start(&stage, sleeper("be old", &old), &model).await;
    let run = ask(&system, "a", "go").await.id();
    pause(1000).await;
    stage.crash(&system).await;
    let system = start(&stage, sleeper("be new", &new), &model).await;
    // The pinned schema takes the call without arguments, before and after the edit.
    assert_eq!(text(&system.run(run)).await, "seen; seen");
    assert_eq!(offered(&model.requests()[0]), ("be old".to_owned(), old));
    let entries = stage.entries(run).await;
    assert!(!entries.iter().any(|e| matches!(e, Entry::Drifted { .. })));
    let said = text(&ask(&system, "a", "again").await).await;
    assert!(
        said.contains("where"),
        "the next run has the new schema: {said}"
    );
    assert_eq!(offered(&model.requests()[1]), ("be new".to_owned(), new));
}
