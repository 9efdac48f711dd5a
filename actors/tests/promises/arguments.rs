//! What a model writes as arguments is held to the tool's schema before the tool runs.

use std::{sync::Arc, time::Duration};

use ghostlight_actors::{
    contract::{Tool, ToolContext, ToolError, ToolOutput},
    definition::ApprovalRule,
    run::{Agent, RunContext},
    testing::ScriptedModel,
    vocabulary::{Arguments, Effect, Message, Outcome, ToolCall, ToolDefinition},
};
use parking_lot::Mutex;
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

#[tokio::test(start_paused = true)]
async fn a_null_for_what_may_be_left_out_counts_as_left_out_on_every_path() {
    let given = [
        r#"{"euro": 2.0, "to": null}"#,
        r#"{"euro": null}"#,
        r#"{"euro": 2.0, "note": null}"#,
        r#"{"euro": 2.0, "unknown": null}"#,
        r#"{"euro": 2.0, "to": null, "note": null}"#,
    ];
    let made = [
        r#"{"euro":2.0}"#,
        r#"{"euro": 2.0, "note": null}"#,
        r#"{"euro":2.0,"note":null}"#,
    ];
    for asked in [false, true] {
        let stage = Stage::new();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let agent = Agent::from_fn("payer", move |cx: RunContext| async move {
            let calls = given.iter().enumerate();
            let calls = calls.map(|(at, text)| ToolCall::new(at.to_string(), "pay", *text));
            let results = cx.tools(calls.collect::<Vec<_>>()).await?;
            let told = results.iter().map(|result| format!("{:?}", result.status));
            Ok(Outcome::answer(told.collect::<Vec<_>>().join(" ")))
        });
        let agent = agent.tool(Hears(heard.clone()));
        let agent = match asked {
            true => agent.approval("*", ApprovalRule::required()),
            false => agent,
        };
        let system = stage.start(agent).await;
        let run = ask(&system, "payer", "go").await;
        if asked {
            run.wait().await.unwrap();
            let questions = run.questions().await.unwrap();
            assert_eq!(questions.len(), 3, "nobody is asked about what is not made");
            for (_, operation, _) in questions {
                run.answer(operation, json!(true)).await.unwrap();
            }
        }
        let told = text(&run).await;
        assert_eq!(told, "Success Error Success Error Success", "{asked}");
        let mut heard = heard.lock().clone();
        heard.sort();
        let mut expected = made.map(str::to_owned);
        expected.sort();
        assert_eq!(heard, expected, "{asked}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_a_model_gives_twice_in_one_answer_is_made_once() {
    let stage = Stage::new();
    let pay = stage.tool("pay", Effect::Once, 3);
    let call = |id: &str, euro: u32| ToolCall::new(id, "pay", json!({ "euro": euro }));
    let twice = [call("a", 1), call("a", 1), call("a", 2), call("b", 1)];
    let model = ScriptedModel::turns([twice.to_vec()]);
    let agent = Agent::from_fn("payer", |cx: RunContext| async move {
        let answer = cx.think().await?;
        let calls = Message::clone(&answer.message).name_calls(1);
        let results = cx.tools(calls).await?;
        Ok(Outcome::answer(results.len().to_string()))
    });
    let system = stage.start_with(agent.tool(pay), model).await;
    let told = text(&ask(&system, "payer", "go").await).await;
    assert_eq!((told.as_str(), stage.log.count("pay")), ("3", 3));
}

/// Notes the arguments with which it is called.
struct Hears(Arc<Mutex<Vec<String>>>);

impl Tool for Hears {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new("pay", "pays").parameters(json!({
            "type": "object",
            "properties": {
                "euro": {"type": "integer", "minimum": 1},
                "to": {"type": "string", "default": "all"},
                "note": {"type": ["string", "null"]},
            },
            "required": ["euro"],
            "additionalProperties": false,
        }))
    }

    async fn call(&self, arguments: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
        self.0.lock().push(arguments.text().to_owned());
        let euro: Euro = arguments.parse()?;
        Ok(ToolOutput::text(euro.euro.to_string()))
    }

    fn reads(&self, arguments: &Arguments) -> Result<(), ToolError> {
        Ok(arguments.parse::<Euro>().map(drop)?)
    }
}

#[derive(serde::Deserialize)]
struct Euro {
    euro: u32,
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_about_a_call_that_its_tool_cannot_read() {
    let stage = Stage::new();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let agent = Agent::from_fn("payer", |cx: RunContext| async move {
        // The schema has no upper bound, and the type has one.
        let call = ToolCall::new("1", "pay", json!({ "euro": 5_000_000_000_u64 }));
        let results = cx.tools([call]).await?;
        Ok(Outcome::answer(results[0].text.clone()))
    });
    let agent = agent.tool(Hears(heard.clone()));
    let agent = agent.approval("*", ApprovalRule::required());
    let system = stage.start(agent).await;
    let run = ask(&system, "payer", "go").await;
    let told = text(&run).await;
    assert!(
        told.starts_with("The arguments do not fit the tool: invalid value"),
        "{told}"
    );
    assert!(told.ends_with("Send the call again."), "{told}");
    assert!(heard.lock().is_empty());
}
