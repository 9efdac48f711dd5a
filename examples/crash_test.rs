//! Kills a team at every commit of its work, and sees that nothing is lost or done twice.
//!
//! This is what a test of your own looks like; `docs/guide/testing.md` has the rest of the kit.
#![allow(clippy::print_stdout, clippy::expect_used)]

use std::time::Duration;

use ghostlight::{
    run::{Agent, RunContext},
    testing::{CrashOptions, Scenario, ScriptedModel, crash_everywhere},
    vocabulary::{Effect, Outcome, ToolCall, ToolDefinition},
};
use serde_json::json;

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    let scenario = Scenario::new("shop", |builder, log| {
        let tool = |name: &str, effect| {
            let definition = ToolDefinition::new(name, "Is logged.").effect(effect);
            log.tool(definition, Duration::from_millis(30))
        };
        let shop = Agent::from_fn("shop", |cx: RunContext| async move {
            let said = cx.model(cx.model_request(cx.conversation())).await?;
            let calls = ["look_up", "reserve", "charge"];
            let calls = calls.map(|name| ToolCall::new(name, name, json!({"item": "lamp"})));
            let results = cx.tools(calls).await?;
            cx.sleep(Duration::from_secs(20)).await?;
            let done = results.iter().map(|result| result.text.as_str());
            let done: Vec<_> = done.collect();
            Ok(Outcome::answer(format!(
                "{} {}",
                said.content(),
                done.join(", ")
            )))
        })
        .tool(tool("look_up", Effect::Read))
        .tool(tool("reserve", Effect::Idempotent))
        .tool(tool("charge", Effect::Once));
        builder
            .model("default", ScriptedModel::turns(["At your service."]))
            .team(shop.into_team().expect("the team is whole"))
    })
    .turn("I take the lamp.");

    let report = crash_everywhere(&scenario, CrashOptions::default().again(1)).await;
    println!("{report}");
    println!("undisturbed it comes to {}", report.outcomes.join(", "));
    assert!(report.violations.is_empty(), "a promise was broken");
}
