//! What each server sends, in bodies written after what they are known to send.

use ghostlight::models::{OpenAi, openai::Prices};
use ghostlight_actors::vocabulary::{
    FinishReason, Message, ModelRequest, ModelResponse, Part, Reasoning, ToolResult, ToolStatus,
    Transcript,
};
use serde_json::{Value, json};

use crate::{
    ask,
    fake::{Fake, events, json},
    respond, stream,
};

async fn whole(body: Value) -> ModelResponse {
    let fake = Fake::json(body).await;
    respond(&fake.model(), ask("hello")).await.unwrap()
}

async fn streamed(pieces: &[&str]) -> ModelResponse {
    let fake = Fake::start([events(pieces.iter().copied())]).await;
    stream(&fake.model(), ask("hello")).await.0.unwrap()
}

fn reasoning(response: &ModelResponse) -> Reasoning {
    match &response.message.parts[0] {
        Part::Reasoning(reasoning) => reasoning.clone(),
        other => panic!("{other:?}"),
    }
}

/// The conversation goes on: the answer, a result for each of its calls, and the next request.
async fn next_request(model: &OpenAi, response: &ModelResponse) {
    let results = response.calls();
    let results = results
        .iter()
        .map(|call| ToolResult::new(call, ToolStatus::Success, "done"));
    let mut conversation = Transcript::from_iter([Message::user("hello")]);
    conversation.push(response.message.clone());
    conversation.push(Message::results(results));
    respond(model, ModelRequest::new(conversation))
        .await
        .unwrap();
}

#[tokio::test]
async fn openai_whole_answer_with_cached_and_reasoning_tokens() {
    let fake = Fake::json(json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1_790_000_000,
        "model": "gpt-5-mini-2025-08-07", "service_tier": "default", "system_fingerprint": null,
        "choices": [{"index": 0, "finish_reason": "stop", "logprobs": null,
            "message": {"role": "assistant", "content": "Hi.", "refusal": null, "annotations": []}}],
        "usage": {"prompt_tokens": 1_000, "completion_tokens": 300, "total_tokens": 1_300,
            "prompt_tokens_details": {"cached_tokens": 600, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 256, "accepted_prediction_tokens": 0}},
    }))
    .await;
    let prices = Prices {
        input: 0.25,
        cached_input: Some(0.025),
        cache_write: None,
        output: 2.0,
    };
    let response = respond(&fake.model().prices(prices), ask("hello"))
        .await
        .unwrap();
    assert_eq!(response.content(), "Hi.");
    assert_eq!(response.finish, FinishReason::Stop);
    assert_eq!(response.model, "gpt-5-mini-2025-08-07");
    assert_eq!(
        (
            response.usage.cached_tokens,
            response.usage.reasoning_tokens
        ),
        (600, 256)
    );
    assert_eq!(response.usage.cost_micros, 100 + 15 + 600);
}

/// Pitfall 5 of async-openai: types that reject what other servers send.
#[tokio::test]
async fn sloppy_whole_answers_are_read() {
    let call = |call: Value| json!({"choices": [{"message": {"tool_calls": [call]}}]});
    let text = |mut body: Value| {
        body["choices"] = json!([{"message": {"content": "ok"}, "finish_reason": ""}]);
        body
    };
    for body in [
        text(json!({})),
        text(json!({"created": 1.5})),
        text(json!({"created": 1_790_000_000_000_i64})),
        text(json!({"service_tier": "on_demand"})),
        text(json!({"usage": {"prompt_tokens": 3, "completion_tokens": 1}})),
        text(json!({"usage": null})),
        text(json!({"error": null})),
        json!({"choices": [{"message": {"content": "ok", "role": "", "annotations": [{"x": 1}]},
            "finish_reason": "abort_by_vendor"}]}),
    ] {
        assert_eq!(whole(body.clone()).await.content(), "ok", "{body}");
    }
    for body in [
        call(json!({"function": {"name": "f", "arguments": {"a": 1}}})),
        call(json!({"type": "", "id": "", "function": {"name": "f", "arguments": "{\"a\":1}"}})),
        call(json!({"id": null, "type": "function", "index": 0,
            "function": {"name": "f", "arguments": "{\"a\":1}"}})),
    ] {
        let calls = whole(body.clone()).await.calls();
        assert_eq!((&*calls[0].id, &*calls[0].name), ("call_0", "f"), "{body}");
        assert_eq!(calls[0].arguments.text(), "{\"a\":1}", "{body}");
    }
}

/// Pitfall 6 of async-openai: pieces of a stream that it rejects.
#[tokio::test]
async fn sloppy_pieces_of_a_stream_are_read() {
    let response = streamed(&[
        r#"{"choices":[{"delta":{"role":"","content":"o"},"finish_reason":""}]}"#,
        r#"{"choices":[{"delta":{"content":"k","tool_calls":null}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"type":"","function":{"name":"f","arguments":"{}"}}]}}]}"#,
        r#"{"choices":[{"delta":null,"finish_reason":"whatever"}]}"#,
        r#"{"usage":{"prompt_tokens":1,"completion_tokens":2}}"#,
        "[DONE]",
    ])
    .await;
    assert_eq!(
        (response.content(), response.calls().len()),
        ("ok".into(), 1)
    );
    assert_eq!(response.usage.output_tokens, 2);
}

/// Pitfall 7 of async-openai: reasoning is dropped. DeepSeek wants it back with tool calls.
#[tokio::test]
async fn deepseek_reasoning_is_kept_apart_and_goes_back_with_tool_calls() {
    let body = json!({
        "id": "x", "object": "chat.completion", "model": "deepseek-reasoner",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant",
            "content": "", "reasoning_content": "I need the weather.",
            "tool_calls": [{"index": 0, "id": "call_00_a", "type": "function",
                "function": {"name": "weather", "arguments": "{\"city\": \"Oslo\"}"}}]}}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 40, "total_tokens": 60,
            "prompt_cache_hit_tokens": 16, "prompt_cache_miss_tokens": 4,
            "completion_tokens_details": {"reasoning_tokens": 30}},
    });
    let fake = Fake::json(body).await;
    let response = respond(&fake.model(), ask("hello")).await.unwrap();
    let expected = Reasoning {
        text: "I need the weather.".into(),
        signature: None,
    };
    assert_eq!(reasoning(&response), expected);
    assert_eq!(response.content(), "");
    assert_eq!(
        (
            response.usage.cached_tokens,
            response.usage.reasoning_tokens
        ),
        (16, 30)
    );
    next_request(&fake.model(), &response).await;
    let sent = &fake.received()[1].body["messages"];
    assert_eq!(sent[1]["reasoning_content"], "I need the weather.");
    assert_eq!(sent[1]["tool_calls"][0]["id"], "call_00_a");
    assert_eq!(
        sent[2],
        json!({"role": "tool", "tool_call_id": "call_00_a", "content": "done"})
    );
}

#[tokio::test]
async fn openrouter_reasoning_with_signatures_goes_back_unchanged() {
    let fake = Fake::start([
        events([
            r#"{"choices":[{"delta":{"content":"","reasoning":"Let me ","reasoning_details":[{"type":"reasoning.text","text":"Let me ","index":0,"format":"anthropic-claude-v1"}]}}]}"#,
            r#"{"choices":[{"delta":{"content":"","reasoning":"see.","reasoning_details":[{"type":"reasoning.text","text":"see.","index":0}]}}]}"#,
            r#"{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","signature":"SIG==","index":0}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"toolu_1","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls","native_finish_reason":"tool_use"}]}"#,
            "[DONE]",
        ]),
        vec![json(200, &json!({"choices": [{"message": {"content": "ok"}}]}).to_string())],
    ])
    .await;
    let response = stream(&fake.model(), ask("hello")).await.0.unwrap();
    let kept = reasoning(&response);
    assert_eq!(kept.text, "Let me see.");
    assert!(kept.signature.unwrap().contains("SIG=="));
    next_request(&fake.model(), &response).await;
    let sent = &fake.received()[1].body["messages"][1];
    let details = json!([{"type": "reasoning.text", "text": "Let me see.", "index": 0,
        "format": "anthropic-claude-v1", "signature": "SIG=="}]);
    assert_eq!(sent["reasoning_details"], details);
    assert_eq!(sent.get("reasoning_content"), None);
}

#[tokio::test]
async fn google_signatures_of_tool_calls_go_back_with_their_calls() {
    let fake = Fake::json(json!({"choices": [{"message": {"tool_calls": [
        {"id": "", "type": "function", "function": {"name": "f", "arguments": "{}"},
            "extra_content": {"google": {"thought_signature": "SIG"}}},
        {"id": "", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ]}, "finish_reason": "stop"}]}))
    .await;
    let response = respond(&fake.model(), ask("hello")).await.unwrap();
    next_request(&fake.model(), &response).await;
    let sent = &fake.received()[1].body["messages"][1]["tool_calls"];
    assert_eq!(
        sent[0]["extra_content"],
        json!({"google": {"thought_signature": "SIG"}})
    );
    assert_eq!(sent[0]["id"], "call_0");
    assert_eq!(sent[1].get("extra_content"), None);
}

#[tokio::test]
async fn ollama_calls_and_reasoning() {
    let response = streamed(&[
        r#"{"id":"chatcmpl-7","object":"chat.completion.chunk","created":1,"model":"qwen3:4b","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning":"two calls"},"finish_reason":null}]}"#,
        r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":"","tool_calls":[{"id":"call_x1","index":0,"type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},"finish_reason":null}]}"#,
        r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":"","tool_calls":[{"id":"call_x2","index":0,"type":"function","function":{"name":"f","arguments":"{\"a\":2}"}}]},"finish_reason":null}]}"#,
        r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"stop"}]}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":6,"total_tokens":11}}"#,
        "[DONE]",
    ])
    .await;
    let arguments: Vec<_> = response
        .calls()
        .iter()
        .map(|c| c.arguments.text().to_owned())
        .collect();
    assert_eq!(arguments, ["{\"a\":1}", "{\"a\":2}"]);
    assert_eq!(response.finish, FinishReason::ToolCalls);
    assert_eq!(reasoning(&response).text, "two calls");
}

#[tokio::test]
async fn vllm_fresh_ids_with_each_piece_and_counts_that_go_on() {
    let response = streamed(&[
        r#"{"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":{"prompt_tokens":9,"completion_tokens":0}}"#,
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"id":"chatcmpl-tool-aa","type":"function","index":0,"function":{"name":"f"}}]}}],"usage":{"prompt_tokens":9,"completion_tokens":1}}"#,
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"id":"chatcmpl-tool-bb","type":"function","index":0,"function":{"arguments":"{\"a\": "}}]}}],"usage":{"prompt_tokens":9,"completion_tokens":2}}"#,
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"id":"chatcmpl-tool-cc","type":"function","index":0,"function":{"arguments":"1}"}}]}}],"usage":{"prompt_tokens":9,"completion_tokens":3}}"#,
        r#"{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"tool_calls","stop_reason":null}],"usage":{"prompt_tokens":9,"completion_tokens":4}}"#,
        "[DONE]",
    ])
    .await;
    let calls = response.calls();
    assert_eq!(calls.len(), 1);
    assert_eq!(
        (&*calls[0].id, calls[0].arguments.text()),
        ("chatcmpl-tool-aa", "{\"a\": 1}")
    );
    assert_eq!(
        (response.usage.input_tokens, response.usage.output_tokens),
        (9, 4)
    );
}

#[tokio::test]
async fn llama_cpp_answers_and_its_timings() {
    let response = streamed(&[
        r#"{"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"created":1,"id":"chatcmpl-z","model":"gpt-3.5-turbo","system_fingerprint":"b1-x","object":"chat.completion.chunk"}"#,
        r#"{"choices":[{"finish_reason":null,"index":0,"delta":{"reasoning_content":"hm"}}]}"#,
        r#"{"choices":[{"finish_reason":null,"index":0,"delta":{"content":"ok"}}]}"#,
        r#"{"choices":[{"finish_reason":"length","index":0,"delta":{}}]}"#,
        r#"{"choices":[],"usage":{"completion_tokens":4,"prompt_tokens":3,"total_tokens":7},"timings":{"prompt_n":3,"predicted_ms":1.5}}"#,
        "[DONE]",
    ])
    .await;
    assert_eq!(
        (response.content(), response.finish),
        ("ok".into(), FinishReason::Length)
    );
}

#[tokio::test]
async fn litellm_calls_with_finish_reason_stop_and_thinking_blocks() {
    let fake = Fake::json(json!({
        "id": "chatcmpl-l", "created": 1, "model": "claude", "object": "chat.completion",
        "choices": [{"finish_reason": "stop", "index": 0, "message": {"content": null,
            "role": "assistant", "function_call": null, "reasoning_content": "hm",
            "thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "SIG"}],
            "tool_calls": [{"function": {"arguments": "{}", "name": "f"}, "id": "toolu_2",
                "type": "function"}]}}],
        "usage": {"completion_tokens": 20, "prompt_tokens": 10, "total_tokens": 30,
            "completion_tokens_details": null, "prompt_tokens_details": null},
    }))
    .await;
    let response = respond(&fake.model(), ask("hello")).await.unwrap();
    assert_eq!(
        (response.calls().len(), &response.finish),
        (1, &FinishReason::ToolCalls)
    );
    next_request(&fake.model(), &response).await;
    let sent = &fake.received()[1].body["messages"][1];
    assert_eq!(sent["thinking_blocks"][0]["signature"], "SIG");
}

#[tokio::test]
async fn groq_usage_of_a_stream_stands_elsewhere() {
    let response = streamed(&[
        r#"{"choices":[{"index":0,"delta":{"content":"ok"}}],"x_groq":{"id":"req_1"}}"#,
        r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"x_groq":{"usage":{"prompt_tokens":4,"completion_tokens":2,"queue_time":0.1}}}"#,
        "[DONE]",
    ])
    .await;
    assert_eq!(
        (response.usage.input_tokens, response.usage.output_tokens),
        (4, 2)
    );
}
