//! What a model writes as arguments is held to the tool's schema before the tool runs.

use std::time::Duration;

use ghostlight_actors::{
    run::{Agent, RunContext},
    vocabulary::{Effect, Outcome, ToolCall, ToolDefinition},
};
use serde_json::json;

use crate::stage::{Stage, ask, text};

#[tokio::test(start_paused = true)]
async fn arguments_that_do_not_fit_never_reach_the_tool_whatever_its_effect() {
    for effect in [Effect::Read, Effect::Idempotent, Effect::Once] {
        let stage = Stage::new();
        let definition = ToolDefinition::new("pay", "pays").effect(effect);
        let definition = definition.parameters(json!({
            "type": "object",
            "properties": {"euro": {"type": "integer", "minimum": 1}},
            "required": ["euro"],
            "additionalProperties": false,
        }));
        let pay = stage.log.tool(definition, Duration::from_millis(5));
        let agent = Agent::from_fn("payer", |cx: RunContext| async move {
            let given = [
                r#"{"euro": "three"}"#,
                r#"{"euro": 0}"#,
                r#"{"euro": 3, "to": "me"}"#,
                "{}",
                "[3]",
                r#"{"euro": 3"#,
                "",
                r#"{"euro": 3}"#,
            ];
            let calls = given.iter().enumerate();
            let calls = calls.map(|(at, text)| ToolCall::new(at.to_string(), "pay", *text));
            let results = cx.tools(calls.collect::<Vec<_>>()).await?;
            let told = results.iter().map(|result| format!("{:?}", result.status));
            Ok(Outcome::answer(told.collect::<Vec<_>>().join(" ")))
        });
        let system = stage.start(agent.tool(pay)).await;
        let told = text(&ask(&system, "payer", "go").await).await;
        let seven_errors = "Error ".repeat(7);
        assert_eq!(told, seven_errors + "Success", "{effect:?}");
        assert_eq!(
            stage.log.count("pay"),
            1,
            "{effect:?}: only the one that fits"
        );
    }
}
