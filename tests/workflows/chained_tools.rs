//! A chain of tools as one tool of another agent.

use std::time::Duration;

use ghostlight::tools::tool_fn;
use ghostlight_actors::{
    actor::System,
    contract::{ToolError, ToolHandle},
    definition::BehaviorSpec,
    run::Agent,
    testing::{CrashOptions, InMemoryStore, Reply, Scenario, ScriptedModel, crash_everywhere},
    vocabulary::{Effect, ModelResponse, ToolCall, ToolDefinition},
};
use serde_json::{Value, json};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Price {
    /// Without VAT.
    net: f64,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Text {
    /// Any text.
    text: String,
}

fn add_vat() -> ToolHandle {
    let definition = ToolDefinition::new("add_vat", "Adds VAT.").effect(Effect::Read);
    tool_fn(definition, |price: Price| async move {
        match price.net < 0.0 {
            true => Err(ToolError::new("a price is not negative")),
            false => Ok(price.net * 1.25),
        }
    })
}

fn label() -> ToolHandle {
    let definition = ToolDefinition::new("label", "Prints a label.").effect(Effect::Read);
    tool_fn(definition, |text: Text| async move {
        Ok(format!("[{}]", text.text))
    })
}

fn chain(name: &str, steps: Value) -> Agent {
    Agent::new(name).behavior(BehaviorSpec::new("tool_chain").settings(json!({ "steps": steps })))
}

/// A desk whose tool `delegate_to_price` is a chain, the last step of which is a chain too.
fn desk() -> Agent {
    let frame = chain("frame", json!(["label", "label"])).tool(label());
    let steps = json!([
        "add_vat",
        { "tool": "label", "arguments": { "text": "{previous} euro" } },
        "delegate_to_frame",
    ]);
    let price = chain("price", steps)
        .tool(add_vat())
        .tool(label())
        .delegate_to(frame);
    Agent::new("desk").delegate_to(price.input::<Price>())
}

/// What the desk's model reads of these calls, and what the chain is to it.
async fn read(arguments: Vec<Value>) -> (Value, Vec<String>) {
    let mut turns: Vec<Reply> = Vec::new();
    for (place, arguments) in arguments.into_iter().enumerate() {
        let call = ToolCall::new(place.to_string(), "delegate_to_price", arguments);
        turns.push(ModelResponse::tool_calls([call]).into());
    }
    turns.push("Done.".into());
    let model = ScriptedModel::turns(turns);
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .model("default", model.clone())
        .team(desk().into_team().unwrap())
        .start()
        .await
        .unwrap();
    let run = system.session("desk", "s").send("go").await.unwrap();
    run.outcome().await.unwrap();
    system.stop().await.unwrap();
    let requests = model.requests();
    let offered = requests[0].tools.get("delegate_to_price").unwrap();
    let said = requests.last().unwrap().conversation.messages();
    let results = said.iter().flat_map(|message| message.tool_results());
    let results = results.map(|result| format!("{:?}: {}", result.status, result.text));
    (offered.parameters.clone(), results.collect())
}

#[tokio::test(start_paused = true)]
async fn a_chain_is_one_tool_with_the_arguments_of_its_first_and_the_result_of_its_last() {
    let calls = vec![json!({"net": 80}), json!({"net": -1}), json!({"gross": 80})];
    let (parameters, read) = read(calls).await;
    assert_eq!(parameters["required"], json!(["net"]));
    assert_eq!(read[0], "Success: [[[100.0 euro]]]");
    // The step that failed is named, and no later one is taken.
    assert!(
        read[1].starts_with("Error: ")
            && read[1].contains("step 1, the tool \"add_vat\": a price is not negative"),
        "{}",
        read[1]
    );
    // What does not fit its first tool begins nothing.
    assert!(
        read[2].starts_with("Error: ") && read[2].contains("net"),
        "{}",
        read[2]
    );
    assert!(!read[2].contains("step"), "{}", read[2]);
}

#[tokio::test(start_paused = true)]
async fn a_chain_that_is_killed_anywhere_repeats_no_step() {
    let scenario = Scenario::new("desk", |builder, log| {
        let tool = |name: &str, effect| {
            let definition = ToolDefinition::new(name, "Is logged.").effect(effect);
            log.tool(definition, Duration::from_secs(1))
        };
        let steps = json!([
            { "tool": "look", "arguments": {} },
            { "tool": "send", "arguments": {} },
            { "tool": "keep", "arguments": {} },
        ]);
        let line = chain("line", steps)
            .tool(tool("look", Effect::Read))
            .tool(tool("send", Effect::Once))
            .tool(tool("keep", Effect::Idempotent));
        let call = ToolCall::new("1", "delegate_to_line", json!({"task": "go"}));
        let model = ScriptedModel::turns([
            Reply::from(ModelResponse::tool_calls([call])),
            "Done.".into(),
        ]);
        builder
            .registry(ghostlight::builtin())
            .model("default", model)
            .team(Agent::new("desk").delegate_to(line).into_team().unwrap())
    })
    .turn("Go.");
    let report = crash_everywhere(&scenario, CrashOptions::default()).await;
    assert!(report.crashes > 10, "{report}");
    assert!(report.violations.is_empty(), "{report}");
}

/// Why a team of this agent is refused.
async fn refused(agent: Agent) -> Option<String> {
    let builder = System::builder(InMemoryStore::new()).registry(ghostlight::builtin());
    let builder = builder.model("default", ScriptedModel::replies(["x"]));
    let team = match agent.into_team() {
        Ok(team) => team,
        Err(error) => return Some(error.to_string()),
    };
    builder
        .team(team)
        .start()
        .await
        .err()
        .map(|error| error.to_string())
}

#[tokio::test(start_paused = true)]
async fn a_chain_that_collides_or_names_what_is_not_there_is_refused() {
    assert_eq!(refused(desk()).await, None);
    // Two tools of one name.
    let twice = chain("line", json!(["label"])).tool(label()).tool(label());
    let told = refused(twice).await.unwrap();
    assert!(told.contains("names the tool \"label\" twice"), "{told}");
    for unknown in ["nothing", "delegate_to_desk"] {
        let told = refused(chain("line", json!([unknown])).tool(label()))
            .await
            .unwrap();
        assert!(
            told.contains(unknown) && told.contains("it has: label"),
            "{told}"
        );
    }
}
