//! Policies on, killed at every commit: the run comes to the same outcome, and nothing is done
//! twice.

use std::time::Duration;

use ghostlight::{
    behaviors,
    policies::{self, EvidenceItem, Planning, Recovery, Verification},
};
use ghostlight_actors::{
    run::{Agent, BeforeTool, Policy, PolicyContext, Registry, operations::Scope},
    testing::{CrashOptions, Reply, Scenario, ScriptedModel, crash_everywhere},
    vocabulary::{AgentError, Effect, Question, ToolCall, ToolDefinition},
};
use serde_json::json;

use crate::stage::call;

/// Counts calls in the session, and asks a person about every charge: of the first inside of the
/// hook, of the others beside the rest of the batch.
#[derive(Default)]
struct Cashier {
    charges: u32,
}

impl Policy for Cashier {
    async fn before_tool(
        &mut self,
        cx: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        if call.name != "charge" {
            return Ok(BeforeTool::Go);
        }
        self.charges += 1;
        let counted = cx.state(Scope::Session);
        let counted = counted.update("charges", |n: Option<u32>| n.unwrap_or(0) + 1);
        cx.emit("charge", &json!(counted.await?));
        let question = Question::approval(format!("Charge {}?", call.id), call.clone());
        if self.charges > 1 {
            return Ok(BeforeTool::ask(question));
        }
        let answer = cx.ask(question).await?;
        Ok(BeforeTool::decided(call, answer.into()))
    }
}

fn scenario() -> Scenario {
    let plan = |id: &str, status: &str| {
        let tasks = json!({"tasks": [{"content": "charge them", "status": status}]});
        call(id, "create_tasks", tasks)
    };
    let todo = json!({"todos": [{"id": "a", "content": "charge", "status": "pending"}]});
    let charge = |id: &str| call(id, "charge", json!({"id": id}));
    let look = |id: &str| call(id, "look", json!({"id": id}));
    let replies: Vec<Reply> = vec![
        vec![
            call("1", "todo_write", todo),
            plan("2", "pending"),
            look("3"),
        ]
        .into(),
        vec![charge("4"), look("5"), charge("6"), charge("7")].into(),
        call("8", "nothing", json!({})).into(),
        "There is no such tool; I go on without it.".into(),
        "an early answer".into(),
        vec![
            plan("9", "completed"),
            call("10", "look", json!({"id": "nothing"})),
        ]
        .into(),
        "an answer without the tool called nothing".into(),
        "the answer; the tool called nothing failed".into(),
        "the answer again; the tool called nothing failed".into(),
        "once more: nothing failed".into(),
        "and once more: nothing failed".into(),
    ];
    Scenario::new("desk", move |builder, log| {
        let (slow, brief) = (Duration::from_millis(40), Duration::from_millis(10));
        let tool = |name, effect| ToolDefinition::new(name, "is logged").effect(effect);
        let agent = Agent::new("desk")
            .tool(log.tool(tool("charge", Effect::Once), slow))
            .tool(log.tool(tool("look", Effect::Read), brief))
            .policy("cashier", Cashier::default)
            .policy("planning", Planning::default)
            .policy("recovery", Recovery::default)
            .policy("verification", || {
                // The tools here name no sources.
                Verification::default()
                    .min_sources(2)
                    .evidence_by(|call, result| {
                        let source = format!("{} {}", call.name, call.arguments.text());
                        vec![EvidenceItem::new(source, result.text.as_str())]
                    })
            })
            .policy("todos", json!({}))
            .policy("repetition", json!({}));
        builder
            .registry(policies::register(behaviors::register(Registry::new())))
            .model("default", ScriptedModel::turns(replies.clone()))
            .team(agent.into_team().unwrap())
    })
    .turn("charge them")
    .answers(|question| json!(!question.prompt.contains('6')))
}

#[tokio::test(start_paused = true)]
async fn killed_at_any_commit_policies_are_where_they_were() {
    let report = crash_everywhere(&scenario(), CrashOptions::default()).await;
    assert!(report.violations.is_empty(), "{report}");
    assert!(report.commits > 20, "{report}");
}
