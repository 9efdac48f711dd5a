//! OpenAI's and Anthropic's interfaces, without their clients.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use ghostlight_actors::{
    actor::{System, SystemOptions},
    contract::{Model, ModelContext, ModelError},
    run::{Agent, RunContext},
    testing::InMemoryStore,
    vocabulary::{AgentError, Delta, ErrorKind, ModelRequest, ModelResponse, Outcome},
};
use ghostlight_server::{Scope, Server};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::{
    client::Client,
    desk::{Desk, text_at},
};

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
        "an answer is not a turn: {log}"
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

/// Says a message, fails after the first two words of every other call, and then says its second text.
struct Stutters {
    first: &'static str,
    second: &'static str,
    calls: Arc<AtomicUsize>,
}

impl Model for Stutters {
    async fn respond(
        &self,
        _: ModelRequest,
        cx: ModelContext,
    ) -> Result<ModelResponse, ModelError> {
        let fails = self.calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
        let text = if fails { self.first } else { self.second };
        let most = if fails { 2 } else { usize::MAX };
        for word in text.split_inclusive(' ').take(most) {
            cx.delta(Delta::Text(word.to_owned()));
        }
        if fails {
            return Err(ModelError::new(ErrorKind::Overloaded, "cut off").retryable());
        }
        Ok(ModelResponse::text(text))
    }
}

async fn answers(cx: RunContext) -> Result<Outcome, AgentError> {
    let said = cx.model(cx.model_request(cx.conversation())).await?;
    Ok(Outcome::answer(said.message.content()))
}

/// All text that a stream of each interface shows, and what it says the whole answer is.
async fn streamed(first: &'static str, second: &'static str) -> [String; 4] {
    let calls = Arc::default();
    let model = Stutters {
        first,
        second,
        calls,
    };
    let team = Agent::from_fn("desk", answers).model(model).into_team();
    let mut limits = SystemOptions::default();
    limits.gateway.base_pause = std::time::Duration::from_millis(1);
    let system = System::builder(InMemoryStore::new()).options(limits);
    let server = Server::new(system.team(team.unwrap()).start().await.unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    let serving = tokio::spawn(server.serve(listener, std::future::pending::<()>()));
    let client = Client { to, key: None };
    let said = json!([{ "role": "user", "content": "hello" }]);
    let chat = json!({ "model": "desk", "messages": said, "max_tokens": 9, "stream": true });
    let response = json!({ "model": "desk", "input": "hello", "stream": true });
    let mut texts = [(); 4].map(|()| String::new());
    for (place, (path, body, delta)) in [
        (
            "/v1/chat/completions",
            chat.clone(),
            "/choices/0/delta/content",
        ),
        ("/v1/messages", chat, "/delta/text"),
        ("/v1/responses", response, "/delta"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut events = client.events(path, None, Some(body)).await;
        while let Some(event) = events.next().await {
            let piece = event.data.pointer(delta).and_then(Value::as_str);
            texts[place] += piece.unwrap_or_default();
            if event.name == "response.output_text.done" {
                texts[3] = text_at(&event.data, "/text");
            }
        }
    }
    serving.abort();
    texts
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_a_model_that_is_tried_again_says_nothing_twice() {
    for (first, second, whole) in [
        (
            "Hello dear reader.",
            "Hello dear reader.",
            "Hello dear reader.",
        ),
        ("Hello dear reader.", "Hello dear all.", "Hello dear all."),
        // What was sent cannot be taken back: the answer follows it whole.
        (
            "Hello dear reader.",
            "Good day.",
            "Hello dear \n\nGood day.",
        ),
        ("Hello dear reader.", "Hello", "Hello dear \n\nHello"),
    ] {
        let texts = streamed(first, second).await;
        assert_eq!(texts, [whole; 4], "{first} {second}");
    }
}

/// The parts of the message that a run was given: its texts, and what else it holds by its media type.
async fn parts_of(desk: &Desk, path: &str, body: Value) -> Vec<String> {
    let mut body = body;
    body["model"] = "desk".into();
    body["max_tokens"] = 9.into();
    desk.client.post(path, body).await.is(200);
    let runs = desk.client.get("/api/v1/runs?limit=1").await.is(200).json();
    let session = text_at(&runs, "/runs/0/session/key");
    let path = format!("/api/v1/sessions/desk/{session}/messages");
    let said = desk.client.get(&path).await.is(200).json();
    let parts = said[0]["parts"].as_array().unwrap().iter();
    let part = |part: &Value| {
        let text = part.get("text").or_else(|| part.get("media_type"));
        let found = text.or_else(|| part.pointer("/data/media_type"));
        found
            .and_then(Value::as_str)
            .unwrap_or_else(|| panic!("{part}"))
            .to_owned()
    };
    parts.map(part).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn pictures_of_earlier_messages_are_seen_with_the_last() {
    let desk = Desk::open().await;
    let url = json!({ "url": "data:image/png;base64,AAAA" });
    let messages = json!([
        { "role": "user", "content": [
            { "type": "text", "text": "look" }, { "type": "image_url", "image_url": url },
        ] },
        { "role": "assistant", "content": [{ "type": "refusal", "refusal": "I would rather not." }] },
        { "role": "assistant", "content": null, "refusal": "No." },
        { "role": "assistant", "content": [{ "type": "hologram" }] },
        { "role": "user", "content": "what is it?" },
    ]);
    let body = json!({ "messages": messages });
    let parts = parts_of(&desk, "/v1/chat/completions", body).await;
    assert_eq!(parts[1], "image/png", "{parts:?}");
    assert!(parts[0].contains("user: look"), "{parts:?}");
    for told in [
        "I would rather not.",
        "assistant: No.",
        "(left out: hologram)",
    ] {
        assert!(parts[2].contains(told), "{told} in {parts:?}");
    }
    assert_eq!(parts[3], "what is it?");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_last_message_of_the_system_goes_with_the_users() {
    let desk = Desk::open().await;
    let messages = json!([
        { "role": "user", "content": "well" },
        { "role": "system", "content": "Be brief." },
    ]);
    for path in ["/v1/messages", "/v1/chat/completions"] {
        let body = json!({ "messages": messages });
        let parts = parts_of(&desk, path, body).await;
        assert_eq!(parts, ["well", "system: Be brief."]);
    }
    // It is no part of an answer to a question.
    let session = "X-Session-Id: s\r\n";
    let mut body = json!({ "model": "desk", "max_tokens": 9, "messages": [{ "role": "user", "content": "choose red blue" }] });
    for (said, answered) in [
        ("choose red blue", "Which? (red, blue)"),
        ("blue", "chose \"blue\""),
    ] {
        body["messages"] = json!([
            { "role": "user", "content": said }, { "role": "system", "content": "Be brief." },
        ]);
        if said.starts_with("choose") {
            body["messages"].as_array_mut().unwrap().pop();
        }
        let text = body.to_string();
        let answer = desk
            .client
            .request("POST", "/v1/messages", session, Some(&text));
        let answer = answer.await.is(200).json();
        assert_eq!(text_at(&answer, "/content/0/text"), answered);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_of_text_is_text_and_one_without_a_type_is_no_picture() {
    let desk = Desk::open().await;
    let plain = json!({ "type": "text", "media_type": "text/plain", "data": "Grüße" });
    let content = json!({ "type": "content", "content": [{ "type": "text", "text": "in parts" }] });
    let pdf = json!({ "type": "url", "url": "https://example.org/a.pdf" });
    let messages = json!([{ "role": "user", "content": [
        { "type": "document", "title": "A letter", "source": plain },
        { "type": "document", "source": content },
        { "type": "document", "source": pdf },
    ] }]);
    let parts = parts_of(&desk, "/v1/messages", json!({ "messages": messages })).await;
    assert_eq!(parts, ["A letter\n\nGrüße", "in parts", "application/pdf"]);
    let broken = json!({ "type": "base64", "media_type": "image/png", "data": "Grüße" });
    let messages = json!([{ "role": "user", "content": [{ "type": "image", "source": broken }] }]);
    let body = json!({ "model": "desk", "max_tokens": 9, "messages": messages });
    desk.client.post("/v1/messages", body).await.is(422);
    for url in ["./chart.png", "file:///etc/passwd"] {
        let picture = json!({ "type": "image_url", "image_url": { "url": url } });
        let messages = json!([{ "role": "user", "content": [picture] }]);
        let body = json!({ "model": "desk", "messages": messages });
        let refused = desk.client.post("/v1/chat/completions", body).await;
        let told = refused.is(422).json().to_string();
        assert!(told.contains("cannot open the address"), "{url}: {told}");
    }
}
