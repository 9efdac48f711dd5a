//! Streams: whole or an error, shown as they come, the same in the end as one whole answer.

use ghostlight_actors::vocabulary::{Delta, ErrorKind, FinishReason};
use serde_json::{Value, json};

use crate::{
    ask,
    fake::{Act, Fake, events, json, piece, stream_end, stream_head},
    respond, stream,
};

fn delta(delta: Value) -> String {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]}).to_string()
}

fn finish(word: &str) -> String {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": word}]}).to_string()
}

#[tokio::test]
async fn a_stream_is_shown_as_it_comes_and_whole_at_the_end() {
    let pieces = [
        delta(json!({"role": "assistant", "content": ""})),
        delta(json!({"reasoning_content": "Hm."})),
        delta(json!({"content": "He"})),
        delta(json!({"content": "llo"})),
        delta(json!({"tool_calls": [
            {"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}]})),
        delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"a\":"}}]})),
        delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]})),
        finish("tool_calls"),
        json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 9}}).to_string(),
        "[DONE]".to_owned(),
    ];
    let fake = Fake::start([events(pieces.iter().map(String::as_str))]).await;
    let (response, shown) = stream(&fake.model(), ask("hello")).await;
    let response = response.unwrap();
    let call = |name: Option<&str>, arguments: &str| Delta::ToolCall {
        index: 0,
        name: name.map(str::to_owned),
        arguments: arguments.to_owned(),
    };
    assert_eq!(
        shown,
        [
            Delta::Reasoning("Hm.".into()),
            Delta::Text("He".into()),
            Delta::Text("llo".into()),
            call(Some("f"), ""),
            call(None, "{\"a\":"),
            call(None, "1}"),
        ]
    );
    assert_eq!(response.content(), "Hello");
    assert_eq!(response.calls()[0].arguments.text(), "{\"a\":1}");
    assert_eq!(response.finish, FinishReason::ToolCalls);
    assert_eq!(
        (response.usage.input_tokens, response.usage.output_tokens),
        (3, 9)
    );
    let body = fake.only_body();
    assert_eq!(
        (&body["stream"], &body["stream_options"]),
        (&json!(true), &json!({"include_usage": true}))
    );
}

#[tokio::test]
async fn the_cuts_between_pieces_do_not_matter() {
    let body = format!(
        "data: {}\r\n\r\n: comment\n\ndata: {}\n\ndata: [DONE]\n\n",
        delta(json!({"content": "grün, "})),
        delta(json!({"content": "зелёный"})),
    );
    for size in [1, 2, 3, 7, 50, body.len()] {
        let mut acts = vec![stream_head()];
        acts.extend(body.as_bytes().chunks(size).map(piece));
        acts.push(stream_end());
        let fake = Fake::start([acts]).await;
        let (response, _) = stream(&fake.model(), ask("hello")).await;
        assert_eq!(response.unwrap().content(), "grün, зелёный", "{size}");
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_off_is_worth_another_attempt() {
    let text = format!("data: {}\n\n", delta(json!({"content": "half"})));
    let cut_by_error = vec![stream_head(), piece(&text), Act::Close];
    let ends_early = vec![stream_head(), piece(&text), stream_end()];
    let half_event = vec![
        stream_head(),
        piece(&text),
        piece("data: {\"cho"),
        stream_end(),
    ];
    let nothing = vec![stream_head(), stream_end()];
    for acts in [cut_by_error, ends_early, half_event, nothing] {
        let fake = Fake::start([acts]).await;
        let error = stream(&fake.model(), ask("hello")).await.0.unwrap_err();
        assert_eq!((error.kind, error.retryable), (ErrorKind::Model, true));
        assert!(error.message.contains("cut off"), "{}", error.message);
        assert_eq!(fake.received().len(), 1, "it was repeated");
    }
}

#[tokio::test]
async fn a_stream_that_said_why_it_stopped_is_whole_without_its_last_event() {
    let body = format!(
        "data: {}\n\ndata: {}\n\n",
        delta(json!({"content": "all"})),
        finish("stop")
    );
    for last in [stream_end(), Act::Close] {
        let fake = Fake::start([vec![stream_head(), piece(&body), last]]).await;
        let (response, _) = stream(&fake.model(), ask("hello")).await;
        assert_eq!(response.unwrap().content(), "all");
    }
}

#[tokio::test]
async fn an_error_in_the_middle_of_a_stream_is_an_error() {
    let text = delta(json!({"content": "half"}));
    let cases = [
        (
            r#"{"error":{"code":502,"message":"Provider disconnected"}}"#,
            ErrorKind::Model,
            true,
            Some(502),
        ),
        (
            r#"{"error":{"code":"429","message":"slow down"}}"#,
            ErrorKind::RateLimited,
            true,
            Some(429),
        ),
        (
            r#"{"error":"context","code":"x"}"#,
            ErrorKind::Model,
            true,
            None,
        ),
        (
            r#"{"object":"error","message":"This model's maximum context length is 4096 tokens","code":400}"#,
            ErrorKind::ContextOverflow,
            false,
            Some(400),
        ),
    ];
    for (event, kind, retryable, status) in cases {
        let fake = Fake::start([events([&*text, event, "[DONE]"])]).await;
        let error = stream(&fake.model(), ask("hello")).await.0.unwrap_err();
        assert_eq!(
            (error.kind, error.retryable, error.status),
            (kind, retryable, status),
            "{event}"
        );
    }
}

#[tokio::test]
async fn a_piece_that_is_not_json_is_malformed() {
    let text = delta(json!({"content": "half"}));
    let fake = Fake::start([events([&*text, "{\"choices\": oops}", "[DONE]"])]).await;
    let error = stream(&fake.model(), ask("hello")).await.0.unwrap_err();
    assert_eq!((error.kind, error.retryable), (ErrorKind::Malformed, true));
}

#[tokio::test]
async fn a_whole_answer_in_the_place_of_a_stream_is_read() {
    let body =
        json!({"choices": [{"message": {"content": "all at once"}, "finish_reason": "stop"}]});
    let pretty = serde_json::to_string_pretty(&body).unwrap();
    let fake = Fake::start([vec![json(200, &pretty)]]).await;
    let (response, shown) = stream(&fake.model(), ask("hello")).await;
    assert_eq!(response.unwrap().content(), "all at once");
    assert_eq!(shown, [Delta::Text("all at once".into())]);
}

/// Pitfall 9 of async-openai: between the network and the reader is a queue without a bound.
#[tokio::test]
async fn a_stream_without_end_is_stopped_at_its_bound() {
    let text = format!("data: {}\n\n", delta(json!({"content": "x".repeat(1_000)})));
    let mut acts = vec![stream_head()];
    acts.extend((0..200).map(|_| piece(&text)));
    acts.push(Act::Silence);
    let mut fake = Fake::start([acts]).await;
    let model = fake.model().max_response_bytes(50_000);
    let (response, shown) = stream(&model, ask("hello")).await;
    let error = response.unwrap_err();
    assert_eq!((error.kind, error.retryable), (ErrorKind::TooLarge, false));
    assert!(error.message.contains("50000 bytes"), "{}", error.message);
    assert!(shown.len() < 50, "{}", shown.len());
    fake.client_left().await;
}

#[tokio::test]
async fn one_endless_line_is_stopped_at_the_bound_as_well() {
    let mut acts = vec![stream_head(), piece("data: {\"x\": \"")];
    acts.extend((0..200).map(|_| piece("y".repeat(1_000))));
    acts.push(Act::Silence);
    let fake = Fake::start([acts]).await;
    let error = stream(&fake.model().max_response_bytes(50_000), ask("x"))
        .await
        .0
        .unwrap_err();
    assert!(error.message.contains("50000 bytes"), "{}", error.message);
}

#[tokio::test]
async fn a_stream_and_a_whole_answer_come_to_the_same() {
    let whole = json!({"model": "m", "usage": {"prompt_tokens": 1, "completion_tokens": 2},
        "choices": [{"finish_reason": "tool_calls", "message": {
            "reasoning_content": "why", "content": "text", "tool_calls": [
                {"function": {"name": "f", "arguments": "{}"}},
                {"function": {"name": "g", "arguments": {"a": 1}}}]}}]});
    let pieces = [
        delta(json!({"reasoning_content": "w"})),
        delta(json!({"reasoning_content": "hy"})),
        delta(json!({"content": "text"})),
        delta(json!({"tool_calls": [{"function": {"name": "f", "arguments": "{"}}]})),
        delta(json!({"tool_calls": [{"function": {"arguments": "}"}}]})),
        delta(
            json!({"tool_calls": [{"index": 1, "function": {"name": "g", "arguments": {"a": 1}}}]}),
        ),
        finish("stop"),
        json!({"model": "m", "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}})
            .to_string(),
        "[DONE]".to_owned(),
    ];
    let streamed = events(pieces.iter().map(String::as_str));
    let fake = Fake::start([vec![json(200, &whole.to_string())], streamed]).await;
    let model = fake.model();
    let mut one = respond(&model, ask("hello")).await.unwrap();
    let mut other = stream(&model, ask("hello")).await.0.unwrap();
    (one.latency_ms, other.latency_ms) = (0, 0);
    assert_eq!(one, other);
    let ids: Vec<String> = one.calls().into_iter().map(|call| call.id).collect();
    assert_eq!(ids, ["call_0", "call_1"]);
}
