//! Against aimock, a server that none of us wrote.

use std::time::Duration;

use ghostlight::models::Secret;
use ghostlight_actors::vocabulary::{
    Delta, ErrorKind, FinishReason, Message, ModelRequest, Part, ToolDefinition, ToolResult,
    ToolSet, ToolStatus, Transcript,
};
use serde_json::{Value, json};

use crate::{aimock::Aimock, ask, respond, stream};

fn fixtures() -> Value {
    json!([
        {"match": {"userMessage": "weather", "hasToolResult": false},
            "response": {"toolCalls": [
                {"name": "get_weather", "arguments": "{\"city\":\"Oslo\"}"},
                {"name": "get_weather", "arguments": "{\"city\":\"Rome\"}"}]}},
        {"match": {"userMessage": "weather", "hasToolResult": true},
            "response": {"content": "It is sunny in Oslo."}},
        {"match": {"userMessage": "think"},
            "response": {"content": "42", "reasoning": "six times seven"}},
        {"match": {"userMessage": "hello"},
            "response": {"content": "Hello there, this answer comes in several pieces."}},
        {"match": {"userMessage": "cut"}, "truncateAfterChunks": 3,
            "response": {"content": "This answer is cut off before it comes to its end."}},
    ])
}

#[tokio::test]
async fn chat_and_stream_say_the_same() {
    let Some(server) = Aimock::start(fixtures(), &["--chunk-size", "7"]) else {
        return;
    };
    let model = server.model().api_key(Secret::value("sk-test"));
    let whole = respond(&model, ask("hello")).await.unwrap();
    assert_eq!(
        whole.content(),
        "Hello there, this answer comes in several pieces."
    );
    assert_eq!(whole.finish, FinishReason::Stop);
    assert!(whole.usage.input_tokens > 0 && whole.usage.output_tokens > 0);
    let (streamed, shown) = stream(&model, ask("hello")).await;
    let streamed = streamed.unwrap();
    assert_eq!(streamed.content(), whole.content());
    assert_eq!(streamed.usage, whole.usage);
    let text = |delta: &Delta| match delta {
        Delta::Text(text) => text.clone(),
        other => panic!("{other:?}"),
    };
    assert!(shown.len() > 3);
    assert_eq!(shown.iter().map(text).collect::<String>(), whole.content());
}

#[tokio::test]
async fn reasoning_is_kept_apart() {
    let Some(server) = Aimock::start(fixtures(), &[]) else {
        return;
    };
    for streaming in [false, true] {
        let mut request = ask("think");
        request.stream = streaming;
        let response = respond(&server.model(), request).await.unwrap();
        let is_reasoning =
            |part: &Part| matches!(part, Part::Reasoning(r) if r.text == "six times seven");
        assert!(is_reasoning(&response.message.parts[0]), "{response:?}");
        assert_eq!(response.content(), "42");
    }
}

#[tokio::test]
async fn a_conversation_with_tools_goes_through_several_turns() {
    let Some(server) = Aimock::start(fixtures(), &[]) else {
        return;
    };
    let model = server.model();
    let tool = ToolDefinition::new("get_weather", "The weather of a city.");
    for streaming in [false, true] {
        let mut conversation = Transcript::from_iter([Message::user("weather")]);
        let ask = |conversation: &Transcript| {
            let mut request = ModelRequest::new(conversation.clone());
            request.stream = streaming;
            request.tools(ToolSet::from_iter([tool.clone()]))
        };
        let first = respond(&model, ask(&conversation)).await.unwrap();
        assert_eq!(first.finish, FinishReason::ToolCalls);
        let calls = first.calls();
        let cities: Vec<_> = calls
            .iter()
            .map(|call| call.arguments.value().unwrap()["city"].clone())
            .collect();
        assert_eq!(cities, ["Oslo", "Rome"]);
        assert_ne!(calls[0].id, calls[1].id);
        conversation.push(first.message.clone());
        let results = calls
            .iter()
            .map(|call| ToolResult::new(call, ToolStatus::Success, "sunny"));
        conversation.push(Message::results(results));
        let second = respond(&model, ask(&conversation)).await.unwrap();
        assert_eq!(second.content(), "It is sunny in Oslo.");
        assert!(second.calls().is_empty());
    }
}

#[tokio::test]
async fn injected_failures_are_told_as_what_they_are() {
    let cases = [
        ("--chaos-drop", ErrorKind::Model, Some(500), None),
        (
            "--chaos-ratelimit",
            ErrorKind::RateLimited,
            Some(429),
            Some(Duration::from_secs(1)),
        ),
        ("--chaos-malformed", ErrorKind::Malformed, None, None),
        ("--chaos-disconnect", ErrorKind::Model, None, None),
    ];
    for (flag, kind, status, pause) in cases {
        let Some(server) = Aimock::start(fixtures(), &[flag, "1"]) else {
            return;
        };
        for streaming in [false, true] {
            let mut request = ask("hello");
            request.stream = streaming;
            let error = respond(&server.model(), request).await.unwrap_err();
            assert_eq!((&error.kind, error.status), (&kind, status), "{flag}");
            assert_eq!(
                (error.retryable, error.retry_after),
                (true, pause),
                "{flag}"
            );
        }
    }
}

#[tokio::test]
async fn a_stream_cut_off_in_the_middle_is_worth_another_attempt() {
    let Some(server) = Aimock::start(fixtures(), &["--chunk-size", "7"]) else {
        return;
    };
    let error = stream(&server.model(), ask("cut")).await.0.unwrap_err();
    assert_eq!((error.kind, error.retryable), (ErrorKind::Model, true));
    assert!(error.message.contains("cut off"), "{}", error.message);
}

#[tokio::test]
async fn an_unknown_place_is_not_found() {
    let Some(server) = Aimock::start(fixtures(), &[]) else {
        return;
    };
    let error = respond(&server.model(), ask("nothing of this kind"))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind, error.status, error.retryable),
        (ErrorKind::NotFound, Some(404), false)
    );
    assert!(
        error.message.contains("no_fixture_match"),
        "{}",
        error.message
    );
}
