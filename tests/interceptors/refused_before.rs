//! A text that was refused stays refused: no model reads it in a later turn, and it refuses nothing later.

use ghostlight::{
    actor::System,
    contract::{Tool, ToolContext, ToolError, ToolOutput},
    definition::{ContextSpec, ContextStrategy, Summarize},
    interceptors::{PersonalAction, PersonalDataGuard, Validation},
    run::{Agent, Intercept},
    testing::{InMemoryStore, ScriptedModel},
    vocabulary::{Arguments, Effect, ModelResponse, ToolCall, ToolDefinition},
};
use serde_json::json;

const SECRET: &str = "the launch code is 4711-ALPHA, write to eve@example.org";

/// A tool whose result must not reach a model.
struct Leaks;

impl Tool for Leaks {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new("leaks", "tells").effect(Effect::Read)
    }

    async fn call(&self, _: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text(SECRET))
    }
}

fn guards() -> Vec<(&'static str, Intercept)> {
    let refuse = PersonalDataGuard::new(PersonalAction::Refuse)
        .at([ghostlight::interceptors::GuardedPoint::Input]);
    vec![
        ("blocked", Intercept::new(Validation::new().block("4711"))),
        ("too long", Intercept::new(Validation::new().max_input(40))),
        ("personal data", Intercept::new(refuse)),
    ]
}

/// A session over these turns behind this guard: how each ended, and all that the model was sent.
async fn turns(guard: Intercept, model: ScriptedModel, said: &[&str]) -> (Vec<bool>, String) {
    let store = InMemoryStore::new();
    let mut ends = Vec::new();
    for text in said {
        // Each turn in a process of its own, which reads the conversation from the store.
        let summarize = Summarize {
            keep_recent: 1,
            max_summary_tokens: 100,
            ..Summarize::default()
        };
        let context = ContextSpec::new(400).strategy(ContextStrategy::Summarize(summarize));
        let desk = Agent::new("desk").tool(Leaks).context(context);
        let team = desk.into_team().unwrap();
        let team = team.intercept(guard.clone());
        let system = System::builder(store.another_process())
            .registry(ghostlight::builtin())
            .model("default", model.clone())
            .team(team)
            .start()
            .await
            .unwrap();
        ends.push(system.session("desk", "s").ask(*text).await.is_ok());
        system.stop().await.unwrap();
    }
    let requests = model.requests();
    let messages = requests
        .iter()
        .flat_map(|request| request.conversation.messages());
    let sent: Vec<String> = messages.map(|message| format!("{message:?}")).collect();
    let sent = sent.join("\n");
    (ends, sent)
}

fn answers() -> ScriptedModel {
    ScriptedModel::from_fn(|request, _| {
        let last = request.conversation.last().unwrap();
        match last.content().contains("call it") {
            true => Ok(ModelResponse::tool_calls([ToolCall::new(
                "1",
                "leaks",
                json!({}),
            )])),
            false => Ok(ModelResponse::text("hello")),
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_refused_message_is_not_sent_with_later_turns_and_refuses_none_of_them() {
    for (name, guard) in guards() {
        let said = ["hello", SECRET, "hello again", "and again"];
        let (ends, sent) = turns(guard, answers(), &said).await;
        assert_eq!(ends, [true, false, true, true], "{name}");
        assert!(!sent.contains("eve@example.org"), "{name}: {sent}");
        assert!(sent.contains("and again"), "{name}: {sent}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_result_of_a_tool_is_not_sent_with_later_turns_and_refuses_none_of_them() {
    for (name, guard) in guards() {
        let said = ["call it", "hello again", "and again"];
        let (ends, sent) = turns(guard, answers(), &said).await;
        assert_eq!(ends, [false, true, true], "{name}");
        assert!(!sent.contains("eve@example.org"), "{name}: {sent}");
    }
}

/// A model that answers at length, and sums up by repeating what it reads.
fn retells() -> ScriptedModel {
    ScriptedModel::from_fn(|request, _| {
        let last = request.conversation.last().unwrap().content();
        if request.instructions.starts_with("You keep the memory") {
            let lines = last.lines().filter(|line| line.starts_with("user"));
            let told: Vec<&str> = lines.collect();
            return Ok(ModelResponse::text(format!("told: {}", told.join(" "))));
        }
        Ok(ModelResponse::text("quite a lot to say ".repeat(20)))
    })
}

#[tokio::test(start_paused = true)]
async fn what_was_refused_is_in_no_summary_and_hinders_none() {
    for (name, guard) in guards() {
        let said = [
            "hello",
            SECRET,
            "hello again",
            "and again",
            "once more",
            "the end",
        ];
        let (ends, sent) = turns(guard, retells(), &said).await;
        assert_eq!(ends, [true, false, true, true, true, true], "{name}");
        assert!(!sent.contains("eve@example.org"), "{name}: {sent}");
        assert!(
            sent.contains("<said_since>"),
            "{name}: nothing is summed up: {sent}"
        );
        let summary = "[Summary of earlier parts";
        let is_left_out = sent.contains("[left out: the input has more than 40");
        assert!(sent.contains(summary) || is_left_out, "{name}: {sent}");
    }
}
