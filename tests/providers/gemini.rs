//! Google's `generateContent`.

use std::time::Duration;

use ghostlight::models::{Gemini, Secret};
use ghostlight_actors::vocabulary::{
    Delta, ErrorKind, FinishReason, Message, ModelRequest, ModelSettings, OutputSchema, ToolCall,
    ToolChoice, ToolResult, ToolSet, ToolStatus, Transcript,
};
use serde_json::{Value, json};

use crate::{
    after_a_call, ask, double,
    fake::{Act, Fake, events, json as whole, piece, reply, stream_end, stream_head},
    respond, stream,
};

fn model(fake: &Fake) -> Gemini {
    Gemini::new("gemini-3-pro")
        .base_url(fake.model().settings().base_url.clone())
        .api_key(Secret::value("AIza-hunter2"))
}

fn parts(parts: Value) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}],
        "modelVersion": "gemini-3-pro-001"})
}

fn end(reason: &str) -> Value {
    json!({
        "candidates": [{"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": reason}],
        "usageMetadata": {"promptTokenCount": 20, "cachedContentTokenCount": 8,
            "candidatesTokenCount": 5, "thoughtsTokenCount": 30, "totalTokenCount": 55},
        "modelVersion": "gemini-3-pro-001",
    })
}

fn texts(events: &[Value]) -> Vec<String> {
    events.iter().map(Value::to_string).collect()
}

fn stream_of(sent: &[Value]) -> Vec<Act> {
    let texts = texts(sent);
    events(texts.iter().map(String::as_str))
}

#[tokio::test]
async fn a_stream_of_thoughts_text_and_calls_is_shown_and_whole() {
    let sent = [
        parts(json!([{"text": "Seven, hm.", "thought": true}])),
        parts(json!([{"text": "I dou"}])),
        parts(json!([{"text": "ble it."}])),
        parts(json!([
            {"functionCall": {"name": "double", "args": {"n": 7}}, "thoughtSignature": "c2ln"},
            {"functionCall": {"name": "double", "args": {"n": 8}, "id": "f2"}},
        ])),
        end("STOP"),
    ];
    let fake = Fake::start([stream_of(&sent)]).await;
    let (response, shown) = stream(&model(&fake), ask("Double 7 and 8.")).await;
    let response = response.unwrap();
    assert!(
        fake.received()[0]
            .head
            .starts_with("POST /v1/models/gemini-3-pro:streamGenerateContent?alt=sse ")
    );
    assert_eq!(response.content(), "I double it.");
    assert_eq!(response.finish, FinishReason::ToolCalls);
    let calls = response.calls();
    let ids: Vec<&str> = calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["call_0", "f2"]);
    let usage = response.usage;
    assert_eq!(
        (
            usage.input_tokens,
            usage.output_tokens,
            usage.cached_tokens,
            usage.reasoning_tokens
        ),
        (20, 35, 8, 30)
    );
    assert_eq!(shown[0], Delta::Reasoning("Seven, hm.".into()));
    assert_eq!(
        shown[1..3],
        [Delta::Text("I dou".into()), Delta::Text("ble it.".into())]
    );
    assert_eq!(shown.len(), 5);

    // Signatures and ids go back with the calls that they came with.
    let fake = Fake::json(end("STOP")).await;
    let results = calls
        .iter()
        .map(|call| ToolResult::new(call, ToolStatus::Success, "x"));
    let conversation = Transcript::from_iter([
        std::sync::Arc::new(Message::user("Double 7 and 8.")),
        response.message.clone(),
        std::sync::Arc::new(Message::results(results)),
    ]);
    let request = ModelRequest::new(conversation).tools(ToolSet::from_iter([double()]));
    respond(&model(&fake), request).await.unwrap();
    assert_eq!(
        fake.only_body()["contents"],
        json!([
            {"role": "user", "parts": [{"text": "Double 7 and 8."}]},
            {"role": "model", "parts": [
                {"text": "I double it."},
                {"functionCall": {"name": "double", "args": {"n": 7}}, "thoughtSignature": "c2ln"},
                {"functionCall": {"name": "double", "args": {"n": 8}, "id": "f2"}},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "double", "response": {"output": "x"}}},
                {"functionResponse": {"name": "double", "response": {"output": "x"}, "id": "f2"}},
            ]},
        ])
    );
}

#[tokio::test]
async fn a_request_says_all_that_the_provider_asks_for() {
    let fake = Fake::json(end("STOP")).await;
    let mut settings = ModelSettings::default();
    settings.stop = vec!["END".into()];
    settings.max_tokens = Some(100);
    settings.tool_choice = Some(ToolChoice::Tool("double".into()));
    // Another provider's call has no signature, and newer models want one.
    let call = ToolCall::new("c1", "double", json!({"n": 7}));
    let request = ModelRequest::new(after_a_call(&call))
        .instructions("Be brief.")
        .tools(ToolSet::from_iter([double()]))
        .settings(settings);
    let model = model(&fake).with(|settings| settings.thinking_budget = Some(0));
    respond(&model, request).await.unwrap();
    let received = fake.received();
    let head = received[0].head.to_lowercase();
    assert!(
        head.starts_with("post /v1/models/gemini-3-pro:generatecontent "),
        "{head}"
    );
    assert!(head.contains("x-goog-api-key: aiza-hunter2"), "{head}");
    assert_eq!(
        received[0].body,
        json!({
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "contents": [
                {"role": "user", "parts": [{"text": "Double 7."}]},
                {"role": "model", "parts": [
                    {"functionCall": {"name": "double", "args": {"n": 7}},
                        "thoughtSignature": "skip_thought_signature_validator"},
                ]},
                {"role": "user", "parts": [
                    {"functionResponse": {"name": "double", "response": {"output": "14"}}},
                ]},
            ],
            "tools": [{"functionDeclarations": [{
                "name": "double",
                "description": "Doubles a number.",
                "parametersJsonSchema": {
                    "type": "object",
                    "properties": {"n": {"type": "integer"}},
                    "required": ["n"],
                },
            }]}],
            "toolConfig": {"functionCallingConfig": {
                "mode": "ANY", "allowedFunctionNames": ["double"],
            }},
            "generationConfig": {
                "maxOutputTokens": 100,
                "stopSequences": ["END"],
                "thinkingConfig": {"thinkingBudget": 0},
            },
        })
    );
}

#[tokio::test]
async fn a_typed_answer_with_tools_is_asked_for_in_words_where_the_model_is_older() {
    let output = || OutputSchema {
        name: "N".into(),
        schema: json!({"type": "object", "properties": {"n": {"type": "integer"}}}),
        strict: true,
    };
    for (name, tools, in_words) in [
        ("gemini-2.5-flash", true, true),
        ("gemini-2.5-flash", false, false),
        ("gemini-3-pro", true, false),
    ] {
        let fake = Fake::json(end("STOP")).await;
        let mut request = ask("n?").output(output());
        if tools {
            request = request.tools(ToolSet::from_iter([double()]));
        }
        let model = model(&fake).with(|settings| settings.model = name.into());
        respond(&model, request).await.unwrap();
        let body = fake.only_body();
        let told = body["systemInstruction"]
            .to_string()
            .contains("JSON Schema");
        let held = body["generationConfig"]["responseJsonSchema"].is_object();
        assert_eq!((told, held), (in_words, !in_words), "{name} {tools}");
    }
}

#[tokio::test]
async fn each_refusal_is_known_for_what_it_is() {
    let error = |code: u16, status: &str, message: &str, details: Value| json!({"error": {"code": code, "status": status, "message": message, "details": details}});
    let quota = "You exceeded your current quota, please check your plan and billing details.";
    let retry =
        json!([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}]);
    let cases = [
        (
            error(
                400,
                "INVALID_ARGUMENT",
                "API key not valid. Please pass a valid API key.",
                json!([]),
            ),
            ErrorKind::Authentication,
            false,
            None,
        ),
        (
            error(
                400,
                "INVALID_ARGUMENT",
                "Request contains an invalid argument.",
                json!([]),
            ),
            ErrorKind::InvalidInput,
            false,
            None,
        ),
        (
            error(
                400,
                "INVALID_ARGUMENT",
                "The input token count (9) exceeds the maximum number of tokens allowed (8).",
                json!([]),
            ),
            ErrorKind::ContextOverflow,
            false,
            None,
        ),
        (
            error(404, "NOT_FOUND", "models/x is not found", json!([])),
            ErrorKind::NotFound,
            false,
            None,
        ),
        // A limit of a minute, and a quota that is used up, in the same words.
        (
            error(429, "RESOURCE_EXHAUSTED", quota, retry),
            ErrorKind::RateLimited,
            true,
            Some(Duration::from_millis(34_500)),
        ),
        (
            error(429, "RESOURCE_EXHAUSTED", quota, json!([])),
            ErrorKind::RateLimited,
            false,
            None,
        ),
        (
            error(503, "UNAVAILABLE", "The model is overloaded.", json!([])),
            ErrorKind::Model,
            true,
            None,
        ),
    ];
    for (body, kind, retryable, pause) in cases {
        let status = u16::try_from(body["error"]["code"].as_u64().unwrap()).unwrap();
        for body in [body.clone(), json!([body])] {
            let headers = [("content-type", "application/json")];
            let fake = Fake::start([vec![reply(status, &headers, &body.to_string())]]).await;
            let error = respond(&model(&fake), ask("hello")).await.unwrap_err();
            assert_eq!(
                (&error.kind, error.retryable),
                (&kind, retryable),
                "{error}"
            );
            assert_eq!((error.status, error.retry_after), (Some(status), pause));
            assert!(!error.message.contains("hunter2"), "{error}");
        }
    }
}

#[tokio::test]
async fn a_stream_that_fails_or_ends_early_is_an_error() {
    let begun = parts(json!([{"text": "Half an ans"}]));
    let failed = json!({"error": {"code": 503, "status": "UNAVAILABLE", "message": "overloaded"}});
    let fake = Fake::start([stream_of(&[begun.clone(), failed])]).await;
    let (response, _) = stream(&model(&fake), ask("hello")).await;
    let error = response.unwrap_err();
    assert_eq!(
        (error.kind, error.retryable, error.status),
        (ErrorKind::Model, true, Some(503))
    );
    for last in [stream_end(), Act::Close] {
        let acts = vec![stream_head(), piece(format!("data: {begun}\n\n")), last];
        let fake = Fake::start([acts]).await;
        let (response, _) = stream(&model(&fake), ask("hello")).await;
        let error = response.unwrap_err();
        assert!(
            error.retryable && error.message.contains("cut off"),
            "{error}"
        );
    }
    let fake = Fake::start([vec![
        stream_head(),
        piece("data: {\"cand\n\n"),
        stream_end(),
    ]])
    .await;
    let (response, _) = stream(&model(&fake), ask("hello")).await;
    assert_eq!(response.unwrap_err().kind, ErrorKind::Malformed);
}

#[tokio::test]
async fn what_the_provider_holds_back_or_cannot_read_is_told() {
    let cases = [
        ("STOP", Ok(FinishReason::Stop)),
        ("MAX_TOKENS", Ok(FinishReason::Length)),
        ("SAFETY", Ok(FinishReason::ContentFilter)),
        ("RECITATION", Ok(FinishReason::ContentFilter)),
        ("LANGUAGE", Ok(FinishReason::Other("LANGUAGE".into()))),
        ("MALFORMED_FUNCTION_CALL", Err(ErrorKind::Malformed)),
    ];
    for (word, expected) in cases {
        let fake = Fake::json(end(word)).await;
        let response = respond(&model(&fake), ask("hello")).await;
        match expected {
            Ok(finish) => assert_eq!(response.unwrap().finish, finish),
            Err(kind) => assert_eq!(response.unwrap_err().kind, kind),
        }
    }
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"},
        "usageMetadata": {"promptTokenCount": 3}});
    let fake = Fake::json(blocked).await;
    let response = respond(&model(&fake), ask("hello")).await.unwrap();
    assert_eq!(response.finish, FinishReason::ContentFilter);
    let fake = Fake::start([vec![whole(200, "{\"hello\": 1}")]]).await;
    let error = respond(&model(&fake), ask("hello")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Malformed);
}
