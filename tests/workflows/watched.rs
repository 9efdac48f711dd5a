//! Policies watch over the tool steps of workflows too.

use ghostlight::{
    tools::tool_fn,
    workflows::{GraphSpec, Orchestrator, ToolChain},
};
use ghostlight_actors::{
    actor::System,
    contract::ToolHandle,
    run::{Agent, BeforeTool, Behavior, Policy, PolicyContext},
    testing::{InMemoryStore, ScriptedModel},
    vocabulary::{
        AgentError, Arguments, Effect, Outcome, StopReason, ToolCall, ToolDefinition, ToolResult,
    },
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Blocks what is forbidden, puts other arguments in the place of loud ones, and stops when it is
/// told to.
struct Guard;

impl Policy for Guard {
    async fn before_tool(
        &mut self,
        _: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        Ok(match call.arguments.value().unwrap()["text"].as_str() {
            Some("forbidden") => BeforeTool::blocked(call, "that is forbidden"),
            Some("loud") => BeforeTool::GoWith(Arguments::from(json!({"text": "quiet"}))),
            _ => BeforeTool::Go,
        })
    }

    async fn after_tools(
        &mut self,
        cx: &PolicyContext<'_>,
        _: &[ToolCall],
        results: &[ToolResult],
    ) -> Result<(), AgentError> {
        if results.iter().any(|result| result.text.contains("halt")) {
            cx.stop(StopReason::Other("halted".into()));
        }
        Ok(())
    }
}

fn says(name: &'static str) -> ToolHandle {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Says {
        text: String,
    }
    let definition = ToolDefinition::new(name, "Says it.").effect(Effect::Read);
    tool_fn(definition, move |says: Says| async move {
        Ok(format!("{name}: {}", says.text))
    })
}

async fn outcome<B: Behavior + DeserializeOwned>(
    settings: Value,
    plan: &str,
) -> Result<Outcome, String> {
    let workflow: B = serde_json::from_value(settings).unwrap();
    let desk = Agent::new("desk").behavior(workflow);
    let desk = desk
        .tool(says("a"))
        .tool(says("b"))
        .policy("guard", || Guard);
    let system = System::builder(InMemoryStore::new())
        .model("default", ScriptedModel::turns([plan]))
        .team(desk.into_team().unwrap())
        .start()
        .await
        .unwrap();
    let run = system.session("desk", "s").send("go").await.unwrap();
    let outcome = run.outcome().await.map_err(|error| error.to_string());
    system.stop().await.unwrap();
    outcome
}

fn chain(first: &str, on_failure: &str) -> Value {
    let step = |tool: &str, text: &str| json!({"tool": tool, "arguments": {"text": text}});
    json!({
        "steps": [step("a", first), step("b", "{previous}")],
        "on_failure": on_failure,
    })
}

#[tokio::test(start_paused = true)]
async fn a_policy_holds_back_and_changes_the_steps_of_a_tool_chain() {
    let quiet = outcome::<ToolChain>(chain("loud", "stop"), "").await;
    assert_eq!(quiet.unwrap().text(), "b: a: quiet");
    let held = outcome::<ToolChain>(chain("forbidden", "stop"), "").await;
    let told = held.unwrap_err();
    assert!(
        told.contains("step 1, the tool \"a\": that is forbidden"),
        "{told}"
    );
    // A denial is a result like any other: the chain goes on where its settings say so.
    let gone_on = outcome::<ToolChain>(chain("forbidden", "go_on"), "").await;
    assert_eq!(gone_on.unwrap().text(), "b: go");
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_stops_a_tool_chain_keeps_what_was_done() {
    let stopped = outcome::<ToolChain>(chain("halt", "stop"), "")
        .await
        .unwrap();
    let reason = StopReason::Other("halted".into());
    assert_eq!(stopped.stop_reason(), Some(&reason));
    assert_eq!(stopped.text(), "a: halt");
}

#[tokio::test(start_paused = true)]
async fn a_policy_holds_back_and_changes_the_tool_nodes_of_a_graph() {
    let graph = |text: &str| {
        json!({
            "entry": "a",
            "nodes": {
                "a": {"tool": "a", "arguments": {"text": text}, "then": "b", "on_failure": "no"},
                "b": {"tool": "b", "arguments": {"text": "{a}"}, "then": "end"},
                "no": {"tool": "b", "arguments": {"text": "{a.failed}"}, "then": "end"},
            },
        })
    };
    let quiet = outcome::<GraphSpec>(graph("loud"), "").await;
    assert_eq!(quiet.unwrap().text(), "b: a: quiet");
    let held = outcome::<GraphSpec>(graph("forbidden"), "").await;
    assert_eq!(held.unwrap().text(), "b: [failed: that is forbidden]");
    let stopped = outcome::<GraphSpec>(graph("halt"), "").await.unwrap();
    let reason = StopReason::Other("halted".into());
    assert_eq!(stopped.stop_reason(), Some(&reason));
}

#[tokio::test(start_paused = true)]
async fn a_policy_holds_back_and_changes_the_tool_tasks_of_an_orchestrator() {
    let task = |id: &str, text: &str| json!({"id": id, "processor": "a", "description": "d", "metadata": {"text": text}});
    let plan = json!({"tasks": [task("1", "loud"), task("2", "forbidden"), task("3", "plain")]});
    let done = outcome::<Orchestrator>(json!({}), &plan.to_string()).await;
    let done: Value = serde_json::from_str(done.unwrap().text()).unwrap();
    let completed = json!({"1": "a: quiet", "3": "a: plain"});
    assert_eq!(done["completed"], completed, "{done}");
    let failed = json!({"2": "[failed: that is forbidden]"});
    assert_eq!(done["failed"], failed, "{done}");
}
