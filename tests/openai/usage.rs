//! What a call consumed, where its server does not tell.

use ghostlight::{behaviors, tools::tool_fn};
use ghostlight_actors::{
    actor::System,
    contract::ToolError,
    run::{Agent, Registry},
    session::Turn,
    testing::InMemoryStore,
    vocabulary::{Budget, Resource, StopReason, ToolDefinition},
};
use serde_json::{Value, json};

use crate::{ask, fake::Fake, respond};

#[tokio::test]
async fn what_a_server_does_not_tell_of_its_usage_is_estimated_and_marked_so() {
    let said = "The parcel was sent on Monday and is in Lyon since yesterday evening.";
    let untold = json!({"choices": [{"message": {"content": said}, "finish_reason": "stop"}]});
    let mut half = untold.clone();
    half["usage"] = json!({"prompt_tokens": 9, "completion_tokens": null});
    let mut told = untold.clone();
    told["usage"] = json!({"prompt_tokens": 9, "completion_tokens": 14});
    let usage = async |body: Value| {
        let server = Fake::json(body).await;
        let answer = respond(&server.model(), ask("Where is my parcel?")).await;
        answer.unwrap().usage
    };
    let whole = usage(untold).await;
    assert!((5..30).contains(&whole.input_tokens), "{whole:?}");
    assert!((12..40).contains(&whole.output_tokens), "{whole:?}");
    assert_eq!(whole.estimated_tokens, whole.total_tokens());
    let half = usage(half).await;
    assert_eq!(half.input_tokens, 9);
    assert_eq!(
        (half.output_tokens, half.estimated_tokens),
        (whole.output_tokens, half.output_tokens)
    );
    assert_eq!(usage(told).await.estimated_tokens, 0);
}

#[tokio::test]
async fn a_budget_of_tokens_holds_with_a_server_that_tells_no_usage() {
    let call = json!([{"id": "a", "function": {"name": "again", "arguments": "{}"}}]);
    let message = json!({"content": "I look once more.", "tool_calls": call});
    let body = json!({"choices": [{"message": message, "finish_reason": "tool_calls"}]});
    let server = Fake::json(body).await;
    let again = ToolDefinition::new("again", "Looks again.");
    let again = tool_fn(again, |_: Value| async {
        Ok::<_, ToolError>(String::from("nothing"))
    });
    let registry = behaviors::register(Registry::new());
    let team = Agent::new("desk").tool(again).into_team();
    let system = System::builder(InMemoryStore::new())
        .registry(registry)
        .model("default", server.model())
        .team(team.unwrap())
        .start()
        .await
        .unwrap();
    let budget = Budget {
        tokens: Some(200),
        ..Default::default()
    };
    let turn = Turn::text("Where is my parcel?").budget(budget);
    let run = system.session("desk", "s").send(turn).await.unwrap();
    let outcome = run.outcome().await.unwrap();
    let reason = StopReason::BudgetExhausted(Resource::Tokens);
    assert_eq!(outcome.stop_reason(), Some(&reason));
    let spent = run.budget().await.unwrap().spent.usage;
    assert!(spent.total_tokens() >= 200 && spent.estimated_tokens == spent.total_tokens());
}
