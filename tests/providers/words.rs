//! An error is told in the words of the server that reports it.

use ghostlight::{
    models::{Anthropic, Gemini, Secret},
    prelude::*,
    vocabulary::ErrorKind,
};
use serde_json::json;

use crate::{
    ask,
    fake::{Fake, events, json as whole, piece, stream_end, stream_head},
    respond, stream,
};

async fn told(status: u16, body: &str) -> ModelError {
    let fake = Fake::start([vec![whole(status, body)]]).await;
    respond(&fake.model(), ask("go")).await.unwrap_err()
}

#[tokio::test]
async fn the_words_of_each_form_of_error_are_told() {
    let raw = json!({"error": {"message": "Provider returned error", "code": 400, "metadata": {
        "raw": "{\"error\":{\"message\":\"top_k must be positive\"}}", "provider_name": "X"}}});
    let detail = json!({"detail": [
        {"type": "missing", "loc": ["body", "messages", 0, "content"], "msg": "Field required", "input": {}},
        {"loc": ["body", "n"], "msg": "not an integer"},
    ]});
    let mistral = json!({"object": "error", "message": {"detail": [
        {"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted"},
    ]}, "type": "invalid_request_error"});
    let minimax =
        json!({"base_resp": {"status_code": 2013, "status_msg": "invalid params, no messages"}});
    for (status, body, words) in [
        (400, raw, "top_k must be positive"),
        (
            422,
            detail,
            "body.messages.0.content: Field required; body.n: not an integer",
        ),
        (422, mistral, "body.seed: Extra inputs are not permitted"),
        (400, minimax, "invalid params, no messages"),
    ] {
        let error = told(status, &body.to_string()).await;
        assert!(error.message.contains(words), "{error}");
    }
}

#[tokio::test]
async fn an_error_of_minimax_with_a_good_status_is_an_error_and_its_good_code_is_none() {
    let body = |code: u32| {
        json!({
            "choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}],
            "base_resp": {"status_code": code, "status_msg": "insufficient balance"},
        })
    };
    let error = told(200, &body(1008).to_string()).await;
    assert!(!error.retryable, "{error}");
    let fake = Fake::json(body(0)).await;
    assert_eq!(
        respond(&fake.model(), ask("go")).await.unwrap().content(),
        "yes"
    );
}

#[tokio::test]
async fn an_empty_account_that_is_reported_as_a_failure_is_told_and_not_asked_again() {
    let error = told(
        500,
        r#"{"error":{"message":"Insufficient Balance, please recharge","type":"unknown_error"}}"#,
    )
    .await;
    assert!(!error.retryable, "{error}");
    assert_eq!(error.kind, ErrorKind::Model);
    assert!(
        error
            .message
            .contains("Insufficient Balance, please recharge"),
        "{error}"
    );
    assert!(
        told(500, r#"{"error":{"message":"try later"}}"#)
            .await
            .retryable
    );
}

#[tokio::test]
async fn a_session_hears_the_reason_again_at_its_second_turn() {
    let body = r#"{"error":{"message":"Unsupported value: 'temperature' does not support 0.2 with this model."}}"#;
    let fake = Fake::start([vec![whole(400, body)]]).await;
    let team = Agent::new("desk").model(fake.model()).into_team().unwrap();
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .team(team)
        .start()
        .await
        .unwrap();
    let session = system.session("desk", "ada");
    for turn in ["hello", "hello again"] {
        let error = session.ask(turn).await.unwrap_err().to_string();
        assert!(
            error.contains("does not support 0.2 with this model"),
            "{turn}: {error}"
        );
    }
    system.stop().await.unwrap();
}

#[tokio::test]
async fn a_call_that_groqs_server_refused_is_malformed_and_asked_for_again() {
    let body = json!({"error": {
        "message": "Tool call validation failed: parameters did not match schema",
        "type": "invalid_request_error",
        "code": "tool_use_failed",
        "failed_generation": "{\"name\": \"f\"}",
        "status_code": 400,
    }});
    let error = told(400, &body.to_string()).await;
    assert_eq!((error.kind, error.retryable), (ErrorKind::Malformed, true));
    let fake = Fake::start([events([&*body.to_string()])]).await;
    let error = stream(&fake.model(), ask("go")).await.0.unwrap_err();
    assert_eq!((error.kind, error.retryable), (ErrorKind::Malformed, true));
    assert_eq!(error.status, Some(400));
}

#[tokio::test]
async fn a_stream_that_ends_in_the_middle_of_an_event_was_cut() {
    let acts = vec![
        stream_head(),
        piece("data: {\"candidates\":[{\"content\":{\"par"),
        stream_end(),
    ];
    let fake = Fake::start([acts]).await;
    let model = Gemini::new("gemini-3-pro").base_url(fake.model().settings().base_url.clone());
    let model = model.api_key(Secret::value("AIza-hunter2"));
    let error = stream(&model, ask("go")).await.0.unwrap_err();
    assert!(error.message.contains("cut off"), "{error}");
}

#[tokio::test]
async fn what_mistral_and_anthropic_tell_of_their_caches_and_thoughts_is_counted() {
    let fake = Fake::json(json!({
        "choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 64, "completion_tokens": 6, "num_cached_tokens": 32, "total_tokens": 70},
    }))
    .await;
    assert_eq!(
        respond(&fake.model(), ask("go"))
            .await
            .unwrap()
            .usage
            .cached_tokens,
        32
    );
    let fake = Fake::json(json!({
        "type": "message", "content": [{"type": "text", "text": "yes"}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 51, "output_tokens": 162, "output_tokens_details": {"thinking_tokens": 112}},
    }))
    .await;
    let model = Anthropic::new("claude-test").base_url(fake.model().settings().base_url.clone());
    let usage = respond(&model.api_key(Secret::value("sk-ant-hunter2")), ask("go"))
        .await
        .unwrap()
        .usage;
    assert_eq!((usage.output_tokens, usage.reasoning_tokens), (162, 112));
}
