//! The behaviors side by side on one task: the requests of each to its model, and its answer (takes 1 s).
//!
//!     cargo run --example behaviors
//!
//! The models are scripted, so that the differences are those of the behaviors.
#![allow(clippy::print_stdout)]

use ghostlight::{
    definition::BehaviorSpec,
    prelude::*,
    vocabulary::{Event, ToolCall},
};
use serde_json::json;

/// Adds VAT to a net price.
#[tool(effect = "read")]
fn add_vat(net: f64, percent: f64) -> f64 {
    (net * (100.0 + percent)).round() / 100.0
}

const TASK: &str = "What is a net price of 80 euro with 19% VAT?";
const ANSWER: &str = "It is 95.20 euro.";

/// The model's answers, one for each time that the behavior asks it.
fn replies(behavior: &str) -> Vec<ModelResponse> {
    let text = |text: &str| ModelResponse::text(text);
    let arguments = json!({"net": 80.0, "percent": 19.0});
    let call = || ModelResponse::tool_calls([ToolCall::new("1", "add_vat", arguments.clone())]);
    match behavior {
        // One call, no tools.
        "simple" => vec![text(ANSWER)],
        // Tools by text, for models that know no tool calling.
        "react" => vec![
            text(&format!(
                "Thought: I calculate.\nAction: add_vat\nArgs: {arguments}"
            )),
            text(&format!("Thought: That is it.\nFinal: {ANSWER}")),
        ],
        // A draft, a verdict that is a value, and a revision.
        "reflection" => vec![
            call(),
            text("95.2"),
            text(r#"{"approved": false, "score": 5, "critique": "Name the currency."}"#),
            text(ANSWER),
            text(r#"{"approved": true, "score": 9, "critique": ""}"#),
        ],
        // A plan, its steps one after the other, and an answer from their results.
        "plan_and_solve" => vec![
            text(r#"{"steps": ["Add the VAT.", "Put it in words."]}"#),
            call(),
            text("95.2"),
            text("95.20 euro"),
            text(ANSWER),
        ],
        // All calls planned at once, and one answer from the evidence: the fewest model calls.
        "rewoo" => vec![
            text(
                &json!({"steps": [{"id": "E1", "tool": "add_vat", "input": arguments}]})
                    .to_string(),
            ),
            text(ANSWER),
        ],
        // Native tool calling, which is also what `adaptive` takes for a short task.
        _ => vec![call(), text(ANSWER)],
    }
}

#[tokio::main]
async fn main() -> Result<(), ghostlight::Error> {
    println!("{TASK}\n");
    let registry = ghostlight::behaviors::register(ghostlight::run::Registry::new());
    for behavior in registry.behavior_names() {
        let model = ScriptedModel::replies(replies(behavior));
        let clerk = Agent::new("clerk")
            .tool(add_vat)
            .behavior(BehaviorSpec::new(behavior));
        let system = System::builder(InMemoryStore::new())
            .registry(registry.clone())
            .model("default", model.clone())
            .team(clerk.into_team()?)
            .start()
            .await?;
        let run = system.session("clerk", "ada").send(TASK).await?;
        let outcome = run.outcome().await?;
        let mut told = Vec::new();
        for record in run.events().so_far().await? {
            match record.event {
                Event::ToolCalled { result, .. } => {
                    told.push(format!("add_vat -> {}", result.text))
                }
                Event::Custom { name, .. } => told.push(name),
                _ => {}
            }
        }
        let (calls, told) = (model.calls(), told.join(", "));
        println!(
            "{behavior:<16} {calls} model calls  {:<20} {told}",
            outcome.text()
        );
        system.stop().await?;
    }
    Ok(())
}
