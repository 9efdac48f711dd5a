//! The Messages API.

use std::time::Duration;

use ghostlight::models::{Anthropic, Secret, anthropic::Thinking};
use ghostlight_actors::vocabulary::{
    Delta, ErrorKind, FinishReason, Message, ModelRequest, ModelSettings, OutputSchema, Part,
    Reasoning, ToolCall, ToolChoice, ToolResult, ToolSet, ToolStatus, Transcript,
};
use serde_json::{Value, json};

use crate::{
    after_a_call, ask, double,
    fake::{Act, Fake, json as whole, piece, reply, stream_end, stream_head},
    respond, said, stream,
};

fn model(fake: &Fake) -> Anthropic {
    Anthropic::new("claude-test")
        .base_url(fake.model().settings().base_url.clone())
        .api_key(Secret::value("sk-ant-hunter2"))
}

/// A stream of these events, each under its type.
fn events(events: &[Value]) -> Vec<Act> {
    let mut acts = vec![stream_head()];
    acts.extend(events.iter().map(event));
    acts.push(stream_end());
    acts
}

fn event(event: &Value) -> Act {
    let kind = event["type"].as_str().unwrap();
    piece(format!("event: {kind}\ndata: {event}\n\n"))
}

fn start() -> Value {
    json!({"type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "content": [],
        "model": "claude-test-20260101", "stop_reason": null,
        "usage": {"input_tokens": 10, "cache_creation_input_tokens": 5,
            "cache_read_input_tokens": 100, "output_tokens": 1},
    }})
}

fn block(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn stop(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn end(reason: &str) -> [Value; 2] {
    [
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
            "usage": {"output_tokens": 42}}),
        json!({"type": "message_stop"}),
    ]
}

fn message(content: Value, stop: &str) -> Vec<Act> {
    let body = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test",
        "content": content, "stop_reason": stop,
        "usage": {"input_tokens": 3, "output_tokens": 4}});
    vec![whole(200, &body.to_string())]
}

#[tokio::test]
async fn a_stream_of_thinking_text_and_calls_is_shown_and_whole() {
    let input = ["", "{\"n\"", ": 7", "}"];
    let mut sent = vec![
        start(),
        json!({"type": "ping"}),
        block(
            0,
            json!({"type": "thinking", "thinking": "", "signature": ""}),
        ),
        delta(0, json!({"type": "thinking_delta", "thinking": "Hm, "})),
        delta(0, json!({"type": "thinking_delta", "thinking": "seven."})),
        delta(0, json!({"type": "signature_delta", "signature": "c2ln"})),
        stop(0),
        block(1, json!({"type": "redacted_thinking", "data": "b3BhcXVl"})),
        stop(1),
        // Events that are not known yet are left out.
        json!({"type": "weather_report", "index": 1, "delta": {"text": "no"}}),
        block(
            2,
            json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
        ),
        delta(2, json!({"type": "input_json_delta", "partial_json": "{}"})),
        stop(2),
        block(3, json!({"type": "text", "text": ""})),
        delta(3, json!({"type": "text_delta", "text": "I dou"})),
        delta(3, json!({"type": "text_delta", "text": "ble it."})),
        delta(
            3,
            json!({"type": "citations_delta", "citation": {"cited_text": "no"}}),
        ),
        stop(3),
        block(
            4,
            json!({"type": "tool_use", "id": "toolu_1", "name": "double", "input": {}}),
        ),
    ];
    sent.extend(
        input.map(|text| delta(4, json!({"type": "input_json_delta", "partial_json": text}))),
    );
    sent.extend([
        stop(4),
        block(
            5,
            json!({"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}}),
        ),
        stop(5),
    ]);
    sent.extend(end("tool_use"));
    let fake = Fake::start([events(&sent)]).await;
    let (response, shown) = stream(&model(&fake), ask("Double 7.")).await;
    let response = response.unwrap();
    assert_eq!(response.content(), "I double it.");
    assert_eq!(response.finish, FinishReason::ToolCalls);
    let calls = response.calls();
    assert_eq!(calls[0].arguments.value().unwrap(), &json!({"n": 7}));
    assert_eq!(
        (calls[1].name.as_str(), calls[1].arguments.text()),
        ("now", "{}")
    );
    let usage = response.usage;
    assert_eq!(
        (
            usage.input_tokens,
            usage.cached_tokens,
            usage.output_tokens,
            usage.estimated_tokens
        ),
        (115, 100, 42, 0)
    );
    assert_eq!(response.model, "claude-test-20260101");
    let said: String = shown
        .iter()
        .map(|delta| match delta {
            Delta::Text(text) => text.clone(),
            Delta::Reasoning(text) => format!("<{text}>"),
            Delta::ToolCall {
                index,
                name,
                arguments,
            } => {
                format!(
                    "[{index}{}{arguments}]",
                    name.as_deref().unwrap_or_default()
                )
            }
            _ => String::new(),
        })
        .collect();
    assert_eq!(
        said,
        "<Hm, ><seven.>I double it.[0double][0{\"n\"][0: 7][0}][1now]"
    );

    // What was signed goes back unchanged and in its place.
    let fake = Fake::start([message(json!([{"type": "text", "text": "14"}]), "end_turn")]).await;
    let results = calls
        .iter()
        .map(|call| ToolResult::new(call, ToolStatus::Success, "14"));
    let conversation = Transcript::from_iter([
        std::sync::Arc::new(Message::user("Double 7.")),
        response.message.clone(),
        std::sync::Arc::new(Message::results(results)),
    ]);
    let request = ModelRequest::new(conversation).tools(ToolSet::from_iter([double()]));
    respond(&model(&fake), request).await.unwrap();
    let content = fake.only_body()["messages"][1]["content"].clone();
    assert_eq!(
        content,
        json!([
            {"type": "thinking", "thinking": "Hm, seven.", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "b3BhcXVl"},
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
            {"type": "text", "text": "I double it.", "citations": [{"cited_text": "no"}]},
            {"type": "tool_use", "id": "toolu_1", "name": "double", "input": {"n": 7}},
            {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}},
        ])
    );
}

#[tokio::test]
async fn a_request_says_all_that_the_provider_asks_for() {
    let fake = Fake::start([message(json!([{"type": "text", "text": "ok"}]), "end_turn")]).await;
    let mut settings = ModelSettings::default();
    settings.stop = vec!["END".into(), "\n".into()];
    settings.temperature = Some(0.5);
    settings.reasoning_effort = Some("low".into());
    settings.tool_choice = Some(ToolChoice::Required);
    settings.parallel_tool_calls = Some(false);
    let request = ask("Double 7.")
        .instructions("Be brief.")
        .tools(ToolSet::from_iter([double()]))
        .settings(settings);
    let model = model(&fake).with(|settings| {
        settings.thinking = Thinking::Budget(2_000);
        settings.max_tokens = 1_000;
        settings
            .extra
            .insert("metadata".into(), json!({"user_id": "u"}));
    });
    respond(&model, request).await.unwrap();
    let received = fake.received();
    let head = received[0].head.to_lowercase();
    assert!(head.starts_with("post /v1/messages "), "{head}");
    assert!(head.contains("x-api-key: sk-ant-hunter2"), "{head}");
    assert!(head.contains("anthropic-version: 2023-06-01"), "{head}");
    let cached = json!({"type": "ephemeral"});
    assert_eq!(
        received[0].body,
        json!({
            "model": "claude-test",
            "max_tokens": 3_000,
            "stream": false,
            "temperature": 0.5,
            "stop_sequences": ["END"],
            "thinking": {"type": "enabled", "budget_tokens": 2_000},
            "output_config": {"effort": "low"},
            "system": [{"type": "text", "text": "Be brief.", "cache_control": cached}],
            "tools": [{"name": "double", "description": "Doubles a number.", "input_schema": {
                "type": "object",
                "properties": {"n": {"type": "integer"}},
                "required": ["n"],
            }}],
            // The provider refuses a forced call where the model thinks.
            "tool_choice": {"type": "auto", "disable_parallel_tool_use": true},
            "messages": [{"role": "user", "content": [
                {"type": "text", "text": "Double 7.", "cache_control": cached},
            ]}],
            "metadata": {"user_id": "u"},
        })
    );
}

#[tokio::test]
async fn any_conversation_is_one_that_the_provider_takes() {
    let fake = Fake::start([message(json!([{"type": "text", "text": "ok"}]), "end_turn")]).await;
    let call = ToolCall::new("call.1", "double", "no json");
    let foreign = Reasoning {
        text: "Of another provider.".into(),
        signature: Some("{\"reasoning_details\": []}".into()),
    };
    let mut conversation = vec![
        Message::assistant("Welcome. "),
        Message::user("  "),
        said(vec![
            Part::Reasoning(foreign),
            Part::Text(" ".into()),
            Part::ToolCall(call.clone()),
        ]),
        Message::user("Hurry."),
    ];
    conversation.extend(
        after_a_call(&call)
            .messages()
            .iter()
            .skip(2)
            .map(|message| Message::clone(message)),
    );
    conversation.push(Message::assistant("Done."));
    let request = ModelRequest::new(conversation.into_iter().collect());
    respond(
        &model(&fake).with(|settings| settings.cache = false),
        request,
    )
    .await
    .unwrap();
    let body = fake.only_body();
    assert_eq!(
        body["messages"],
        json!([
            {"role": "user", "content": [{"type": "text", "text": "Go on."}]},
            {"role": "assistant", "content": [
                {"type": "text", "text": "Welcome."},
                {"type": "tool_use", "id": "call_2e_1", "name": "double",
                    "input": {"unreadable_arguments": "no json"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "call_2e_1",
                    "content": [{"type": "text", "text": "14"}]},
                {"type": "text", "text": "Hurry."},
            ]},
            {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
            {"role": "user", "content": [{"type": "text", "text": "Go on."}]},
        ])
    );
    // Tools were called, and none are offered: they are named, and may not be called.
    assert_eq!(
        (&body["tools"], &body["tool_choice"]),
        (
            &json!([{"name": "double", "input_schema": {"type": "object"}}]),
            &json!({"type": "none"})
        )
    );
}

#[tokio::test]
async fn a_typed_answer_is_asked_for_in_the_providers_form_or_in_words() {
    let ok = message(json!([{"type": "text", "text": "{}"}]), "end_turn");
    let schema = json!({
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 1}},
        "required": ["n"],
    });
    for strict in [true, false] {
        let fake = Fake::start([ok.clone()]).await;
        let output = OutputSchema {
            name: "N".into(),
            schema: schema.clone(),
            strict,
        };
        respond(&model(&fake), ask("n?").output(output))
            .await
            .unwrap();
        let body = fake.only_body();
        let format = &body["output_config"]["format"];
        let told = body["system"].to_string();
        match strict {
            true => {
                assert_eq!(format["type"], "json_schema");
                assert_eq!(format["schema"]["additionalProperties"], false);
                assert_eq!(
                    format["schema"]["properties"]["n"],
                    json!({"type": "integer"})
                );
                assert!(!told.contains("Schema"), "{told}");
            }
            false => {
                assert!(format.is_null());
                assert!(
                    told.contains("JSON Schema") && told.contains("minimum"),
                    "{told}"
                );
            }
        }
    }
}

#[tokio::test]
async fn each_refusal_is_known_for_what_it_is() {
    let cases = [
        (
            400,
            "invalid_request_error",
            "bad field",
            ErrorKind::InvalidInput,
            false,
        ),
        (
            400,
            "invalid_request_error",
            "prompt is too long: 210000 tokens > 200000 maximum",
            ErrorKind::ContextOverflow,
            false,
        ),
        (
            400,
            "invalid_request_error",
            "Your credit balance is too low",
            ErrorKind::InvalidInput,
            false,
        ),
        (
            401,
            "authentication_error",
            "invalid x-api-key",
            ErrorKind::Authentication,
            false,
        ),
        (
            403,
            "permission_error",
            "no",
            ErrorKind::Authentication,
            false,
        ),
        (
            404,
            "not_found_error",
            "model: claude-nope",
            ErrorKind::NotFound,
            false,
        ),
        (
            413,
            "request_too_large",
            "too large",
            ErrorKind::ContextOverflow,
            false,
        ),
        (
            429,
            "rate_limit_error",
            "slow down",
            ErrorKind::RateLimited,
            true,
        ),
        (500, "api_error", "oops", ErrorKind::Model, true),
        (
            529,
            "overloaded_error",
            "Overloaded",
            ErrorKind::Model,
            true,
        ),
    ];
    for (status, kind, text, expected, retryable) in cases {
        let body =
            json!({"type": "error", "error": {"type": kind, "message": text}, "request_id": "r"});
        let headers = [("content-type", "application/json"), ("retry-after", "7")];
        let fake = Fake::start([vec![reply(status, &headers, &body.to_string())]]).await;
        let error = respond(&model(&fake), ask("hello")).await.unwrap_err();
        assert_eq!(
            (&error.kind, error.retryable),
            (&expected, retryable),
            "{error}"
        );
        assert_eq!(error.status, Some(status));
        assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
        assert!(!error.message.contains("hunter2"), "{error}");
    }
}

#[tokio::test]
async fn an_error_in_the_middle_of_a_stream_is_an_error() {
    let overloaded = json!({"type": "error",
        "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let begun = [
        start(),
        block(0, json!({"type": "text", "text": ""})),
        delta(0, json!({"type": "text_delta", "text": "Half an ans"})),
    ];
    let fake = Fake::start([events(&[begun.as_slice(), &[overloaded]].concat())]).await;
    let (response, shown) = stream(&model(&fake), ask("hello")).await;
    let error = response.unwrap_err();
    assert_eq!((error.kind, error.retryable), (ErrorKind::Model, true));
    assert!(
        error.message.contains("overloaded_error"),
        "{}",
        error.message
    );
    assert!(!error.message.contains("Half"), "{}", error.message);
    assert_eq!(shown.len(), 1);
    // As an answer with a good status, too.
    let body = json!({"type": "error", "error": {"type": "rate_limit_error", "message": "x"}});
    let fake = Fake::start([vec![whole(200, &body.to_string())]]).await;
    let error = respond(&model(&fake), ask("hello")).await.unwrap_err();
    assert_eq!(
        (error.kind, error.retryable),
        (ErrorKind::RateLimited, true)
    );
}

#[tokio::test]
async fn a_stream_that_is_cut_off_is_an_error_wherever_it_is_cut() {
    let mut sent = vec![
        start(),
        block(
            0,
            json!({"type": "tool_use", "id": "t", "name": "double", "input": {}}),
        ),
        delta(
            0,
            json!({"type": "input_json_delta", "partial_json": "{\"n\": 7}"}),
        ),
        stop(0),
    ];
    sent.extend(end("tool_use"));
    for kept in 0..sent.len() {
        for broken in [false, true] {
            let mut acts = vec![stream_head()];
            acts.extend(sent[..kept].iter().map(event));
            acts.push(if broken { Act::Close } else { stream_end() });
            let fake = Fake::start([acts]).await;
            let (response, _) = stream(&model(&fake), ask("hello")).await;
            // With the reason why the model stopped nothing of the answer is missing.
            if kept == sent.len() - 1 {
                assert_eq!(response.unwrap().calls().len(), 1);
                continue;
            }
            let error = response.unwrap_err();
            assert!(error.retryable, "{kept} {error}");
            assert!(error.message.contains("cut off"), "{kept} {error}");
        }
    }
}

#[tokio::test]
async fn the_cuts_between_bytes_do_not_matter_and_lines_may_be_huge() {
    let long = "grün ".repeat(60_000);
    let mut sent = vec![
        start(),
        block(0, json!({"type": "text", "text": ""})),
        delta(0, json!({"type": "text_delta", "text": long})),
        stop(0),
    ];
    sent.extend(end("end_turn"));
    let text: String = sent
        .iter()
        .map(|event| {
            format!(
                "event: {}\r\ndata: {event}\r\n\r\n",
                event["type"].as_str().unwrap()
            )
        })
        .collect();
    for size in [1_000, 4_096, text.len()] {
        let mut acts = vec![stream_head()];
        acts.extend(text.as_bytes().chunks(size).map(piece));
        acts.push(stream_end());
        let fake = Fake::start([acts]).await;
        let (response, _) = stream(&model(&fake), ask("hello")).await;
        assert_eq!(response.unwrap().content(), long);
    }
    let fake = Fake::start([events(&sent)]).await;
    let small = model(&fake).with(|settings| settings.max_response_bytes = 10_000);
    let (response, _) = stream(&small, ask("hello")).await;
    let error = response.unwrap_err();
    assert!(error.message.contains("max_response_bytes"), "{error}");
    assert!(!error.retryable);
}

#[tokio::test]
async fn each_reason_to_stop_is_known_and_half_a_call_is_told_as_cut() {
    let text = json!([{"type": "text", "text": "x"}]);
    let cases = [
        ("end_turn", FinishReason::Stop),
        ("stop_sequence", FinishReason::Stop),
        ("tool_use", FinishReason::Stop),
        ("max_tokens", FinishReason::Length),
        ("model_context_window_exceeded", FinishReason::Length),
        ("refusal", FinishReason::ContentFilter),
        ("pause_turn", FinishReason::Other("pause_turn".into())),
    ];
    for (word, expected) in cases {
        let fake = Fake::start([message(text.clone(), word)]).await;
        let response = respond(&model(&fake), ask("hello")).await.unwrap();
        assert_eq!(response.finish, expected);
    }
    let mut sent = vec![
        start(),
        block(
            0,
            json!({"type": "tool_use", "id": "t", "name": "double", "input": {}}),
        ),
        delta(
            0,
            json!({"type": "input_json_delta", "partial_json": "{\"n\": "}),
        ),
        stop(0),
    ];
    sent.extend(end("max_tokens"));
    let fake = Fake::start([events(&sent)]).await;
    let (response, _) = stream(&model(&fake), ask("hello")).await;
    let response = response.unwrap();
    assert_eq!(response.finish, FinishReason::Length);
    assert!(response.calls()[0].arguments.value().is_err());
}

#[tokio::test]
async fn silence_ends_in_time_and_a_key_is_needed() {
    let fake = Fake::start([vec![stream_head(), event(&start()), Act::Silence]]).await;
    let hasty = model(&fake).with(|settings| settings.timeouts.idle = Duration::from_millis(50));
    let (response, _) = stream(&hasty, ask("hello")).await;
    let error = response.unwrap_err();
    assert_eq!((error.kind, error.retryable), (ErrorKind::Timeout, true));

    let keyless =
        Anthropic::new("claude-test").api_key(Secret::variable("GHOSTLIGHT_NO_SUCH_VARIABLE"));
    let error = respond(&keyless, ask("hello")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Authentication);
    let clear = Anthropic::new("claude-test")
        .base_url("http://192.0.2.1/v1")
        .api_key(Secret::value("hunter2"));
    let error = clear.check().unwrap_err();
    assert!(error.message.contains("plain http"), "{error}");
}
