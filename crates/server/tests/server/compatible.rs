//! OpenAI's and Anthropic's interfaces, without their clients.

use ghostlight_server::Scope;
use serde_json::json;

use crate::desk::{Desk, text_at};

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_sent_again_under_its_key_is_one_run() {
    let desk = Desk::open().await;
    let body = json!({ "model": "desk", "messages": [{ "role": "user", "content": "well" }] });
    let body = body.to_string();
    let mut ids = Vec::new();
    for _ in 0..3 {
        let key = "Idempotency-Key: k\r\n";
        let said = desk
            .client
            .request("POST", "/v1/chat/completions", key, Some(&body))
            .await;
        ids.push(text_at(&said.is(200).json(), "/id"));
    }
    ids.dedup();
    assert_eq!(ids.len(), 1);
    let runs = desk.client.get("/api/v1/runs").await.is(200).json();
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_said_and_the_next_message_of_the_session_answers_it() {
    let desk = Desk::open().await;
    let say = |text: &str| {
        let content = [json!({ "role": "user", "content": text })];
        json!({ "model": "desk", "max_tokens": 9, "messages": content }).to_string()
    };
    let session = "X-Session-Id: s\r\n";
    for (said, answered) in [
        ("choose red blue", "Which? (red, blue)"),
        ("blue", "chose \"blue\""),
    ] {
        let answer = desk
            .client
            .request("POST", "/v1/messages", session, Some(&say(said)))
            .await;
        assert_eq!(text_at(&answer.is(200).json(), "/content/0/text"), answered);
    }
    let log = desk
        .client
        .get("/api/v1/sessions/desk/s")
        .await
        .is(200)
        .json();
    assert_eq!(
        log["turns"].as_array().unwrap().len(),
        1,
        "an answer is no turn: {log}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_have_the_form_of_each_interface() {
    let desk = Desk::locked().await;
    let body = json!({ "model": "desk", "messages": [] });
    let openai = desk
        .client
        .post("/v1/chat/completions", body.clone())
        .await
        .is(401)
        .json();
    assert_eq!(text_at(&openai, "/error/type"), "authentication_error");
    let anthropic = desk
        .client
        .post("/v1/messages", body.clone())
        .await
        .is(401)
        .json();
    assert_eq!(text_at(&anthropic, "/type"), "error");
    assert_eq!(text_at(&anthropic, "/error/type"), "authentication_error");
    let ada = desk.client_of("ada", &[Scope::Read, Scope::Run]);
    for wrong in [
        json!({}),
        json!({ "model": "desk" }),
        json!({ "model": "desk", "messages": [] }),
        json!({ "model": "desk", "messages": "hello" }),
        json!({ "model": "desk", "messages": [{ "role": "assistant", "content": "x" }] }),
        json!({ "model": "desk", "messages": [{ "role": "user", "content": [{ "type": "audio" }] }] }),
        json!({ "model": "desk", "messages": [{ "role": "user", "content": "x" }], "tools": [{}] }),
        json!({ "model": "desk", "messages": [{ "role": "user", "content": "x" }], "n": 2 }),
    ] {
        let refused = ada
            .post("/v1/chat/completions", wrong.clone())
            .await
            .is(422)
            .json();
        assert_eq!(
            text_at(&refused, "/error/type"),
            "invalid_request_error",
            "{wrong}"
        );
    }
    let body = json!({ "model": "secret", "messages": [{ "role": "user", "content": "x" }] });
    ada.post("/v1/chat/completions", body).await.is(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_of_another_is_not_there() {
    let desk = Desk::locked().await;
    let all = [Scope::Read, Scope::Run];
    let (ada, eve) = (desk.client_of("ada", &all), desk.client_of("eve", &all));
    let said = ada
        .post("/v1/responses", json!({ "model": "desk", "input": "well" }))
        .await;
    let id = text_at(&said.is(200).json(), "/id");
    eve.get(&format!("/v1/responses/{id}")).await.is(404);
    eve.request("POST", &format!("/v1/responses/{id}/cancel"), "", None)
        .await
        .is(404);
    let next = json!({ "model": "desk", "input": "so", "previous_response_id": id });
    eve.post("/v1/responses", next.clone()).await.is(404);
    let next = ada.post("/v1/responses", next).await.is(200).json();
    assert_eq!(text_at(&next, "/output/0/content/0/text"), "did so");
}
