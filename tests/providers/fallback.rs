//! One model in the place of another, in code and in a team file's words; and whole runs.

use std::time::Duration;

use ghostlight::{
    builtin,
    definition::TeamSpec,
    models::{Anthropic, Fallback, Gemini},
    prelude::*,
    vocabulary::ErrorKind,
};
use serde_json::json;

use crate::{
    ask,
    fake::{Fake, json as whole},
    respond,
};

fn failing(error: ModelError) -> ScriptedModel {
    ScriptedModel::from_fn(move |_, _| Err(error.clone()))
}

#[tokio::test]
async fn the_next_model_answers_where_one_fails_and_the_error_says_whether_to_try_again() {
    let mut limited = ModelError::new(ErrorKind::RateLimited, "slow down").retryable();
    limited.retry_after = Some(Duration::from_secs(3));
    let refused = ModelError::new(ErrorKind::Authentication, "no key");
    let down = failing(limited.clone());
    let model = Fallback::new(down.clone())
        .or(failing(refused.clone()))
        .or(ScriptedModel::replies(["at last"]));
    assert_eq!(
        respond(&model, ask("hello")).await.unwrap().content(),
        "at last"
    );
    assert_eq!(down.calls(), 1);

    let model = Fallback::new(failing(limited)).or(failing(refused.clone()));
    let error = respond(&model, ask("hello")).await.unwrap_err();
    assert_eq!(error.message, "no key");
    assert!(error.retryable, "the first may be well again");
    assert_eq!(error.retry_after, Some(Duration::from_secs(3)));
    let error = respond(&Fallback::new(failing(refused)), ask("hello")).await;
    assert!(!error.unwrap_err().retryable);
}

#[tokio::test]
async fn a_team_file_names_providers_and_fallbacks() {
    let team = |models: serde_json::Value| {
        let spec =
            json!({"name": "desk", "agent": {"name": "desk"}, "models": {"default": models}});
        let spec: TeamSpec = serde_json::from_value(spec).unwrap();
        System::builder(InMemoryStore::new())
            .registry(builtin())
            .team(spec)
            .start()
    };
    for models in [
        json!({"provider": "anthropic", "model": "claude-haiku-4-5", "thinking": {"budget": 2000}}),
        json!({"provider": "gemini", "model": "gemini-2.5-pro", "include_thoughts": true}),
        json!({"provider": "fallback", "models": [
            {"provider": "anthropic", "api_key": "${MY_KEY}"},
            {"provider": "openai", "model": "gpt-5-mini"},
        ]}),
    ] {
        team(models).await.unwrap().stop().await.unwrap();
    }
    for (models, told) in [
        (json!({"provider": "anthropic", "modell": "x"}), "modell"),
        (
            json!({"provider": "gemini", "api_key": "hunter2"}),
            "environment variable",
        ),
        (
            json!({"provider": "fallback", "models": []}),
            "at least one",
        ),
        (
            json!({"provider": "fallback", "models": [{"provider": "nope"}]}),
            "anthropic",
        ),
    ] {
        let error = team(models).await.unwrap_err().to_string();
        assert!(
            error.contains(told) && !error.contains("hunter2"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn an_agent_with_a_tool_works_on_each_provider() {
    /// Doubles a number.
    #[tool(effect = "read")]
    fn double(n: i64) -> i64 {
        n * 2
    }
    let fake = Fake::start(
        [
            json!({"type": "message", "model": "m", "stop_reason": "tool_use", "usage": {},
                "content": [{"type": "tool_use", "id": "t1", "name": "double", "input": {"n": 7}}]}),
            json!({"type": "message", "model": "m", "stop_reason": "end_turn", "usage": {},
                "content": [{"type": "text", "text": "It is 14."}]}),
        ]
        .map(|body| vec![whole(200, &body.to_string())]),
    )
    .await;
    let address = fake.model().settings().base_url.clone();
    let claude = Anthropic::new("claude-test").base_url(address);
    let answer = Agent::new("desk")
        .model(claude)
        .tool(double)
        .run("Double 7.")
        .await;
    assert_eq!(answer.unwrap().text, "It is 14.");
    let result = &fake.received()[1].body["messages"][2]["content"][0];
    assert_eq!(result["content"][0]["text"], "14");

    let fake = Fake::start(
        [
            json!({"candidates": [{"finishReason": "STOP", "content": {"parts": [
                {"functionCall": {"name": "double", "args": {"n": 7}}}]}}]}),
            json!({"candidates": [{"finishReason": "STOP", "content": {"parts": [
                {"text": "It is 14."}]}}]}),
        ]
        .map(|body| vec![whole(200, &body.to_string())]),
    )
    .await;
    let address = fake.model().settings().base_url.clone();
    let gemini = Gemini::new("gemini-2.5-flash").base_url(address);
    let answer = Agent::new("desk")
        .model(gemini)
        .tool(double)
        .run("Double 7.")
        .await;
    assert_eq!(answer.unwrap().text, "It is 14.");
    let response = &fake.received()[1].body["contents"][2]["parts"][0]["functionResponse"];
    assert_eq!(response["response"]["output"], "14");
}
