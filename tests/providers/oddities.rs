//! Answers in forms that no provider documents and some servers send: each is read as it is meant, or asked for again.

use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use ghostlight::{
    models::{Anthropic, Gemini, Secret},
    prelude::*,
    vocabulary::ErrorKind,
};
use ghostlight_actors::vocabulary::{Message, ModelRequest, ToolResult, ToolStatus};
use serde_json::{Value, json};

use crate::{
    ask,
    fake::{Act, Fake, events, json as whole, piece, reply, stream_end, stream_head},
    respond, stream,
};

/// The name and arguments of each call in an answer.
pub(crate) fn calls(response: &ModelResponse) -> Vec<(String, String)> {
    let calls = response.calls().into_iter();
    calls
        .map(|call| (call.name.clone(), call.arguments.text().to_owned()))
        .collect()
}

pub(crate) fn called(name: &str, arguments: &str) -> (String, String) {
    (name.to_owned(), arguments.to_owned())
}

/// The calls of a stream with these pieces of calls.
async fn streamed(pieces: &[Value]) -> Vec<(String, String)> {
    let pieces: Vec<String> = pieces
        .iter()
        .map(|piece| {
            json!({"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]}).to_string()
        })
        .collect();
    let end = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#;
    let all = pieces.iter().map(String::as_str).chain([end, "[DONE]"]);
    let fake = Fake::start([events(all)]).await;
    calls(&stream(&fake.model(), ask("go")).await.0.unwrap())
}

#[tokio::test]
async fn a_call_that_a_server_sends_twice_is_one_call() {
    let call = json!({"id": "a", "type": "function", "function": {"name": "pay", "arguments": "{\"n\":1}"}});
    let body = json!({"choices": [{"message": {"tool_calls": [call, call]}, "finish_reason": "tool_calls"}]});
    let fake = Fake::json(body).await;
    let answer = respond(&fake.model(), ask("go")).await.unwrap();
    assert_eq!(calls(&answer), [called("pay", "{\"n\":1}")]);

    let block = json!({"type": "tool_use", "id": "a", "name": "pay", "input": {"n": 1}});
    let body = json!({"type": "message", "content": [block, block], "stop_reason": "tool_use"});
    let fake = Fake::json(body).await;
    let answer = respond(&anthropic(&fake), ask("go")).await.unwrap();
    assert_eq!(calls(&answer), [called("pay", "{\"n\":1}")]);

    let part = json!({"functionCall": {"id": "a", "name": "pay", "args": {"n": 1}}});
    let own = json!({"functionCall": {"name": "roll", "args": {}}});
    let fake = Fake::json(gemini_body(json!([part, part, own, own]), "STOP")).await;
    let answer = respond(&gemini(&fake), ask("go")).await.unwrap();
    // Calls without an id are calls of their own: dice may be rolled twice.
    let expected = [
        called("pay", "{\"n\":1}"),
        called("roll", "{}"),
        called("roll", "{}"),
    ];
    assert_eq!(calls(&answer), expected);
}

#[tokio::test]
async fn arguments_that_repeat_what_was_sent_are_read_once() {
    let begun = |arguments: &str| json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": arguments}});
    let more = |arguments: &str| json!({"index": 0, "function": {"arguments": arguments}});
    let expected = [called("f", "{\"x\":12}")];
    let growing = [
        begun("{"),
        more("{\"x\":"),
        more("{\"x\":1"),
        more("{\"x\":12}"),
    ];
    assert_eq!(streamed(&growing).await, expected);
    let repeated = [begun(""), more("{\"x\""), more(":12}"), more("{\"x\":12}")];
    assert_eq!(streamed(&repeated).await, expected);
    let begun_again = [begun("{\"x\":12}"), begun("{\"x\":12}")];
    assert_eq!(streamed(&begun_again).await, expected);
    // Pieces that only look alike are pieces.
    let nested = [begun("{\"x\":"), more("{\"x\":"), more("1}}")];
    assert_eq!(streamed(&nested).await, [called("f", "{\"x\":{\"x\":1}}")]);
}

#[tokio::test]
async fn pieces_under_a_wrong_index_belong_to_the_call_that_is_open() {
    let begin = |index: u32, id: &str, name: &str, arguments: &str| json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}});
    let more =
        |index: u32, arguments: &str| json!({"index": index, "function": {"arguments": arguments}});
    let one = [called("f", "{\"x\":1}")];
    assert_eq!(
        streamed(&[begin(0, "a", "f", ""), more(1, "{\"x\""), more(2, ":1}")]).await,
        one
    );
    let two = [called("f", "{}"), called("g", "{\"y\":2}")];
    assert_eq!(
        streamed(&[
            begin(0, "a", "f", "{}"),
            begin(1, "b", "g", ""),
            more(0, "{\"y\""),
            more(0, ":2}")
        ])
        .await,
        two
    );
    assert_eq!(
        streamed(&[
            begin(0, "a", "f", "{}"),
            begin(1, "b", "g", ""),
            json!({"index": 9, "id": "b", "function": {"arguments": "{\"y\":2}"}}),
        ])
        .await,
        two
    );
}

fn anthropic(fake: &Fake) -> Anthropic {
    let model = Anthropic::new("claude-test").base_url(fake.model().settings().base_url.clone());
    model.api_key(Secret::value("sk-ant-hunter2"))
}

async fn anthropic_stream(blocks: &[Value], stop: &str) -> ModelResponse {
    let mut all = vec![json!({"type": "message_start", "message": {"model": "m", "usage": {}}})];
    all.extend(blocks.iter().cloned());
    all.push(json!({"type": "message_delta", "delta": {"stop_reason": stop}}));
    all.push(json!({"type": "message_stop"}));
    let all: Vec<String> = all.iter().map(Value::to_string).collect();
    let fake = Fake::start([events(all.iter().map(String::as_str))]).await;
    stream(&anthropic(&fake), ask("go")).await.0.unwrap()
}

fn block(index: u32, block: &Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u32, delta: &Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

#[tokio::test]
async fn blocks_of_anthropic_are_kept_under_whatever_index_they_come() {
    let text = |words: &str| json!({"type": "text_delta", "text": words});
    let input = |json: &str| json!({"type": "input_json_delta", "partial_json": json});
    let answer = anthropic_stream(
        &[
            block(0, &json!({"type": "text", "text": ""})),
            delta(0, &text("First ")),
            block(
                0,
                &json!({"type": "tool_use", "id": "a", "name": "f", "input": {}}),
            ),
            delta(0, &input("{\"x\":1}")),
            block(
                0,
                &json!({"type": "tool_use", "id": "b", "name": "g", "input": {}}),
            ),
            block(
                0,
                &json!({"type": "tool_use", "id": "b", "name": "g", "input": {}}),
            ),
            delta(0, &text("and then.")),
            delta(0, &input("{\"y\":2}")),
        ],
        "tool_use",
    )
    .await;
    assert_eq!(answer.content(), "First and then.");
    assert_eq!(
        calls(&answer),
        [called("f", "{\"x\":1}"), called("g", "{\"y\":2}")]
    );
}

fn gemini(fake: &Fake) -> Gemini {
    let model = Gemini::new("gemini-3-pro").base_url(fake.model().settings().base_url.clone());
    model.api_key(Secret::value("AIza-hunter2"))
}

fn gemini_body(parts: Value, finish: &str) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": finish}]})
}

#[tokio::test]
async fn a_call_beside_one_that_geminis_server_could_not_read_is_not_made() {
    let call = json!([{"functionCall": {"name": "f", "args": {}}}]);
    let fake = Fake::json(gemini_body(call, "MALFORMED_FUNCTION_CALL")).await;
    let error = respond(&gemini(&fake), ask("go")).await.unwrap_err();
    assert_eq!((error.kind, error.retryable), (ErrorKind::Malformed, true));
}

fn zipped(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

/// A good answer of these bytes, said to be of this type.
fn bytes(kind: &str, encoding: &str, body: &[u8]) -> Vec<Act> {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n{encoding}content-length: {}\r\n\r\n",
        body.len()
    );
    vec![Act::Send([head.as_bytes(), body].concat())]
}

const ANSWER: &str = r#"{"choices":[{"message":{"content":"yes"},"finish_reason":"stop"}]}"#;
const PIECES: &str = concat!(
    "data: {\"choices\":[{\"delta\":{\"content\":\"ye\"}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"content\":\"s\"},\"finish_reason\":\"stop\"}]}\n\n",
    "data: [DONE]\n\n",
);

#[tokio::test]
async fn an_answer_that_is_compressed_without_being_asked_is_read() {
    for encoding in ["content-encoding: gzip\r\n", ""] {
        let fake = Fake::start([bytes(
            "application/json",
            encoding,
            &zipped(ANSWER.as_bytes()),
        )])
        .await;
        assert_eq!(
            respond(&fake.model(), ask("go")).await.unwrap().content(),
            "yes"
        );
        let fake = Fake::start([bytes(
            "text/event-stream",
            encoding,
            &zipped(PIECES.as_bytes()),
        )])
        .await;
        assert_eq!(
            stream(&fake.model(), ask("go")).await.0.unwrap().content(),
            "yes"
        );
    }
    let own = json!({"type": "message", "content": [{"type": "text", "text": "yes"}], "stop_reason": "end_turn"});
    let fake = Fake::start([bytes(
        "application/json",
        "content-encoding: gzip\r\n",
        &zipped(own.to_string().as_bytes()),
    )])
    .await;
    assert_eq!(
        respond(&anthropic(&fake), ask("go"))
            .await
            .unwrap()
            .content(),
        "yes"
    );

    let fake = Fake::start([bytes("application/json", "content-encoding: br\r\n", b"x")]).await;
    let error = respond(&fake.model(), ask("go")).await.unwrap_err();
    assert!(error.message.contains("compressed (br)"), "{error}");
}

#[tokio::test]
async fn a_compressed_answer_is_bounded_by_what_it_holds() {
    let huge = format!("{{\"choices\":\"{}\"}}", "a".repeat(4_000_000));
    let zipped = zipped(huge.as_bytes());
    assert!(zipped.len() < 100_000);
    let fake = Fake::start([bytes("application/json", "", &zipped)]).await;
    let model = fake.model().max_response_bytes(1_000_000);
    let error = respond(&model, ask("go")).await.unwrap_err();
    assert!(error.message.contains("larger than"), "{error}");
}

#[tokio::test]
async fn events_are_read_where_none_were_asked_for() {
    for kind in ["text/event-stream", "application/json"] {
        let fake = Fake::start([bytes(kind, "", PIECES.as_bytes())]).await;
        assert_eq!(
            respond(&fake.model(), ask("go")).await.unwrap().content(),
            "yes",
            "{kind}"
        );
        let cut = PIECES.replace("data: [DONE]\n\n", "");
        let fake = Fake::start([bytes(kind, "", cut.as_bytes())]).await;
        assert_eq!(
            respond(&fake.model(), ask("go")).await.unwrap().content(),
            "yes",
            "{kind}"
        );
        let half = PIECES.split_inclusive("\n\n").next().unwrap();
        let fake = Fake::start([bytes(kind, "", half.as_bytes())]).await;
        let error = respond(&fake.model(), ask("go")).await.unwrap_err();
        assert!(error.retryable, "{error}");
        let pieces = format!(
            "data: {}\n\n",
            gemini_body(json!([{"text": "yes"}]), "STOP")
        );
        let fake = Fake::start([bytes(kind, "", pieces.as_bytes())]).await;
        assert_eq!(
            respond(&gemini(&fake), ask("go")).await.unwrap().content(),
            "yes",
            "{kind}"
        );
    }
}

#[tokio::test]
async fn an_emoji_that_is_cut_between_two_pieces_is_whole_in_the_answer() {
    let of = |content: &[u8]| {
        [
            b"data: {\"choices\":[{\"delta\":{\"content\":\"",
            content,
            b"\"}}]}\n\n",
        ]
        .concat()
    };
    let halves: [[&[u8]; 2]; 2] = [[b"so \\ud83d", b"\\ude00!"], [b"so \xf0\x9f", b"\x98\x80!"]];
    for [first, second] in halves {
        let end =
            "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
        let acts = vec![
            stream_head(),
            piece(of(first)),
            piece(of(second)),
            piece(end),
            stream_end(),
        ];
        let fake = Fake::start([acts]).await;
        let (answer, deltas) = stream(&fake.model(), ask("go")).await;
        assert_eq!(answer.unwrap().content(), "so 😀!");
        assert_eq!(deltas.len(), 2, "{deltas:?}");
    }
    // A half that stays alone spoils nothing else.
    let fake = Fake::start([vec![whole(
        200,
        r#"{"choices":[{"message":{"content":"a\ud83db"}}]}"#,
    )]])
    .await;
    assert_eq!(
        respond(&fake.model(), ask("go")).await.unwrap().content(),
        "a\u{fffd}b"
    );
    let body = r#"{"type":"message","content":[{"type":"text","text":"a\ud83db"}],"stop_reason":"end_turn"}"#;
    let fake = Fake::start([vec![reply(
        200,
        &[("content-type", "application/json")],
        body,
    )]])
    .await;
    assert_eq!(
        respond(&anthropic(&fake), ask("go"))
            .await
            .unwrap()
            .content(),
        "a\u{fffd}b"
    );
    let half = |text: &str| {
        format!("{{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"{text}\"}}]}}}}]}}")
    };
    let end = gemini_body(json!([]), "STOP").to_string();
    let fake = Fake::start([events([&*half("so \\ud83d"), &*half("\\ude00!"), &*end])]).await;
    assert_eq!(
        stream(&gemini(&fake), ask("go")).await.0.unwrap().content(),
        "so 😀!"
    );
}

#[tokio::test]
async fn text_in_several_blocks_is_one_text_as_it_was_streamed() {
    let cited = json!([
        {"type": "text", "text": "Runs can "},
        {"type": "text", "text": "be cancelled", "citations": []},
        {"type": "text", "text": "."},
    ]);
    let body = json!({"type": "message", "content": cited, "stop_reason": "end_turn"});
    let fake = Fake::json(body).await;
    let answer = respond(&anthropic(&fake), ask("go")).await.unwrap();
    assert_eq!(answer.content(), "Runs can be cancelled.");
}

#[tokio::test]
async fn reasoning_goes_back_under_the_field_it_came_in() {
    let call =
        json!([{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]);
    let parts = json!([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]);
    for (field, value) in [
        ("reasoning", json!("hm")),
        ("reasoning_content", json!("hm")),
        ("content", parts),
    ] {
        let mut said = json!({"role": "assistant", "tool_calls": call});
        said[field] = value.clone();
        let body = json!({"choices": [{"message": said, "finish_reason": "tool_calls"}]});
        let fake = Fake::json(body).await;
        let answer = respond(&fake.model(), ask("go")).await.unwrap();
        let called = answer.calls().remove(0);
        let result = ToolResult::new(&called, ToolStatus::Success, "14");
        let conversation = [
            Message::user("go"),
            Message::clone(&answer.message),
            Message::results([result]),
        ];
        let next = ModelRequest::new(conversation.into_iter().collect());
        respond(&fake.model(), next).await.unwrap();
        let sent = fake.received()[1].body["messages"][1].clone();
        for known in ["reasoning", "reasoning_content", "content"] {
            assert_eq!(
                sent.get(known),
                (known == field).then_some(&value),
                "{sent}"
            );
        }
    }
}
