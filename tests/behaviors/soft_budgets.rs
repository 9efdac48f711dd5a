//! Bounds that end nothing by themselves: the model is told, and goes on or answers.

use std::time::Duration;

use ghostlight::{
    behaviors,
    policies::{self, SoftBudget},
};
use ghostlight_actors::{
    actor::System,
    run::{Agent, Registry},
    testing::{CrashOptions, InMemoryStore, Reply, Scenario, ScriptedModel, crash_everywhere},
    vocabulary::{
        Budget, Effect, Event, ModelResponse, Outcome, ToolChoice, ToolDefinition, Usage,
    },
};
use serde_json::json;

use crate::stage::{Stage, call, desk, echo, echo_call};

fn calls(most: u64) -> Budget {
    Budget {
        model_calls: Some(most),
        ..Budget::default()
    }
}

/// An agent with this soft budget of two model calls, which never has enough by itself.
fn curious(then: &str) -> Agent {
    let soft = SoftBudget::new(calls(2));
    let soft = match then {
        "finish" => soft.finish(),
        _ => soft,
    };
    desk("function_calling", json!({}))
        .tool(echo())
        .policy("soft_budget", move || soft.clone())
}

fn replies() -> Vec<Reply> {
    vec![
        echo_call("a", "1").into(),
        echo_call("b", "2").into(),
        echo_call("c", "3").into(),
        "what I have".into(),
    ]
}

const TOLD: &str = "was to take no more than 2 model calls, and has taken 2 model calls";

#[tokio::test(start_paused = true)]
async fn a_model_that_is_told_goes_on_or_answers_as_the_policy_says() {
    for (then, result) in [
        ("warn", "echo=success:3"),
        ("finish", "echo=blocked:not called"),
    ] {
        let stage = Stage::of(curious(then), replies()).await;
        let run = stage.say("go").await;
        assert_eq!(run.outcome().await.unwrap(), Outcome::answer("what I have"));
        stage.check();
        // It is told with the third request, and with no other.
        for request in 0..4 {
            let said = stage.said(request);
            let told = said.iter().any(|said| said.contains(TOLD));
            assert_eq!(told, request == 2, "{then}, request {request}: {said:?}");
        }
        assert!(stage.last(3).contains(result), "{}", stage.last(3));
        // Its tools stay listed, and none is to be called.
        let settings = |request| stage.request(request).settings.tool_choice.clone();
        let choice = (then == "finish").then_some(ToolChoice::None);
        assert_eq!((settings(1), settings(2)), (None, choice));
        assert_eq!(stage.request(2).tools.len(), 1);
        let events = run.events().recorded().so_far().await.unwrap();
        let reached: Vec<_> = events
            .iter()
            .filter_map(|record| match &record.event {
                Event::Custom { name, data } if name == "soft_budget_reached" => Some(data.clone()),
                _ => None,
            })
            .collect();
        let wanted = json!({ "resource": "model_calls", "used": 2, "bound": 2, "then": then });
        assert_eq!(reached, [wanted]);
    }
}

#[tokio::test(start_paused = true)]
async fn who_finishes_by_a_tool_is_to_call_that_one() {
    let agent = desk("function_calling", json!({ "completion": "tool" }))
        .tool(echo())
        .policy("soft_budget", || SoftBudget::new(calls(1)).finish());
    let finish = call("f", "finish", json!({ "answer": "enough" }));
    let replies: Vec<Reply> = vec![
        echo_call("a", "1").into(),
        ModelResponse::tool_calls([finish]).into(),
    ];
    let stage = Stage::of(agent, replies).await;
    assert_eq!(stage.ask("go").await.text(), "enough");
    let choice = stage.request(1).settings.tool_choice.clone();
    assert_eq!(choice, Some(ToolChoice::Tool("finish".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn a_bound_in_tokens_or_in_time_is_told_too() {
    for (budget, told) in [
        (json!({ "tokens": 1 }), "no more than 1 tokens"),
        (json!({ "wall_time_s": 0.001 }), "no more than 0.001 s"),
    ] {
        let usage = Usage {
            input_tokens: 1,
            ..Usage::default()
        };
        let settings = json!({ "budget": budget, "then": "finish" });
        let agent = desk("function_calling", json!({}))
            .tool(echo())
            .policy("soft_budget", settings);
        let model = ScriptedModel::from_fn(move |request, number| {
            let said = request.conversation.messages();
            match said.iter().any(|said| said.content().contains(told)) {
                true => Ok(ModelResponse::text("told")),
                false => Ok(ModelResponse::tool_calls([echo_call(
                    "a",
                    &number.to_string(),
                )])),
            }
        })
        .usage(usage)
        .delay(Duration::from_millis(5));
        let registry = policies::register(behaviors::register(Registry::new()));
        let system = System::builder(InMemoryStore::new())
            .registry(registry)
            .model("default", model.clone())
            .team(agent.into_team().unwrap())
            .start()
            .await
            .unwrap();
        let run = system.session("desk", "s").send("go").await.unwrap();
        assert_eq!(run.outcome().await.unwrap().text(), "told");
        assert_eq!(model.calls(), 2);
    }
}

#[tokio::test]
async fn a_soft_budget_without_a_bound_is_refused() {
    let agent = desk("function_calling", json!({})).policy("soft_budget", json!({}));
    let builder = System::builder(InMemoryStore::new())
        .registry(policies::register(behaviors::register(Registry::new())))
        .model("default", ScriptedModel::replies(["done"]));
    let refused = builder.team(agent.into_team().unwrap()).start().await;
    let told = refused.unwrap_err().to_string();
    assert!(told.contains("at least one bound"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn no_bound_is_told_twice_wherever_the_process_dies() {
    let scenario = Scenario::new("desk", move |builder, log| {
        let tool = ToolDefinition::new("echo", "is logged").effect(Effect::Once);
        let agent = Agent::new("desk")
            .tool(log.tool(tool, Duration::from_millis(5)))
            .policy("soft_budget", || SoftBudget::new(calls(2)).finish());
        builder
            .registry(behaviors::register(Registry::new()))
            .model("default", ScriptedModel::turns(replies()))
            .team(agent.into_team().unwrap())
    });
    let scenario = scenario.turn("go");
    let report = crash_everywhere(&scenario, CrashOptions::default()).await;
    assert!(report.violations.is_empty(), "{report}");
    assert!(report.commits >= 8, "{report}");
}
