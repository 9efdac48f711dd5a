//! What servers are sent.

use ghostlight::models::{Secret, openai::ReturnReasoning};
use ghostlight_actors::vocabulary::{
    Data, DataSource, Message, ModelRequest, ModelSettings, OutputSchema, Part, Reasoning, Role,
    ToolCall, ToolChoice, ToolDefinition, ToolResult, ToolSet, ToolStatus, Transcript,
};
use serde_json::{Value, json};

use crate::{
    fake::{Fake, Received},
    respond,
};

async fn sent_by(
    change: impl FnOnce(ghostlight::models::OpenAi) -> ghostlight::models::OpenAi,
    request: ModelRequest,
) -> Received {
    let fake = Fake::json(json!({"choices": [{"message": {"content": "ok"}}]})).await;
    respond(&change(fake.model()), request).await.unwrap();
    fake.received().remove(0)
}

async fn sent(request: ModelRequest) -> Value {
    sent_by(|model| model, request).await.body
}

fn settings(change: impl FnOnce(&mut ModelSettings)) -> ModelSettings {
    let mut settings = ModelSettings::default();
    change(&mut settings);
    settings
}

fn assistant(parts: Vec<Part>) -> Message {
    Message {
        role: Role::Assistant,
        author: None,
        parts,
        synthetic: false,
    }
}

fn data(media_type: &str, name: Option<&str>, source: DataSource) -> Data {
    Data {
        media_type: media_type.into(),
        name: name.map(str::to_owned),
        source,
    }
}

#[tokio::test]
async fn a_plain_request_holds_what_was_asked_and_nothing_else() {
    let conversation = Transcript::from_iter([Message::user("hi")]);
    let body = sent(ModelRequest::new(conversation).instructions("Be kind.")).await;
    let expected = json!({"model": "test-model", "stream": false, "messages": [
        {"role": "system", "content": "Be kind."}, {"role": "user", "content": "hi"}]});
    assert_eq!(body, expected);
}

#[tokio::test]
async fn settings_tools_and_schema_are_sent() {
    let tool = ToolDefinition::new("f", "does f").parameters(json!({"type": "object"}));
    let request = ModelRequest::new(Transcript::from_iter([Message::user("hi")]))
        .tools(ToolSet::from_iter([tool]))
        .settings(settings(|s| {
            s.temperature = Some(0.2);
            s.top_p = Some(0.9);
            s.max_tokens = Some(100);
            s.stop = vec!["END".into()];
            s.seed = Some(-7);
            s.reasoning_effort = Some("low".into());
            s.tool_choice = Some(ToolChoice::Tool("f".into()));
            s.parallel_tool_calls = Some(false);
        }))
        .output(OutputSchema {
            name: "my answer".into(),
            schema: json!({"type": "object"}),
            strict: true,
        });
    let received = sent_by(|model| model, request).await;
    let body = &received.body;
    // As text, because 0.2 must not become 0.20000000298.
    assert!(
        received.text.contains(r#""temperature":0.2,"top_p":0.9,"#),
        "{}",
        received.text
    );
    assert_eq!(body["max_tokens"], 100);
    assert_eq!(body["stop"], json!(["END"]));
    assert_eq!(body["seed"], -7);
    assert_eq!(body["reasoning_effort"], "low");
    assert_eq!(body["parallel_tool_calls"], false);
    assert_eq!(
        body["tool_choice"],
        json!({"type": "function", "function": {"name": "f"}})
    );
    assert_eq!(
        body["tools"],
        json!([{"type": "function", "function":
        {"name": "f", "description": "does f", "parameters": {"type": "object", "properties": {}}}}])
    );
    assert_eq!(
        body["response_format"],
        json!({"type": "json_schema", "json_schema":
        {"name": "my_answer", "schema": {"type": "object"}, "strict": true}})
    );
}

#[tokio::test]
async fn each_tool_choice_is_sent_and_none_without_tools() {
    let tools = || ToolSet::from_iter([ToolDefinition::new("f", "")]);
    for (choice, expected) in [
        (ToolChoice::Auto, json!("auto")),
        (ToolChoice::None, json!("none")),
        (ToolChoice::Required, json!("required")),
    ] {
        let set = settings(|s| s.tool_choice = Some(choice));
        let request = ModelRequest::new(Transcript::from_iter([Message::user("hi")]));
        let with = sent(request.clone().tools(tools()).settings(set.clone())).await;
        assert_eq!(with["tool_choice"], expected);
        assert_eq!(sent(request.settings(set)).await.get("tool_choice"), None);
    }
}

/// Pitfall 8 of async-openai: no place for fields that it does not know.
#[tokio::test]
async fn further_fields_reach_the_server_and_null_takes_one_out() {
    let request = ModelRequest::new(Transcript::from_iter([Message::user("hi")]))
        .settings(settings(|s| {
            s.temperature = Some(0.5);
            s.extra.insert("top_k".into(), json!(5));
            s.extra.insert("messages".into(), json!([]));
        }))
        .streaming();
    let fake = Fake::json(json!({"choices": [{"message": {"content": "ok"}}]})).await;
    let model = fake
        .model()
        .extra("top_k", 3)
        .extra("guided_choice", json!(["a", "b"]))
        .extra("temperature", 0.75)
        .extra("stream_options", Value::Null);
    respond(&model, request).await.unwrap();
    let received = fake.received().remove(0);
    let expected = json!({"model": "test-model", "stream": true, "top_k": 5, "temperature": 0.75,
        "guided_choice": ["a", "b"], "messages": [{"role": "user", "content": "hi"}]});
    assert_eq!(received.body, expected);
    assert_eq!(
        received.text.matches("temperature").count(),
        1,
        "{}",
        received.text
    );
}

#[tokio::test]
async fn key_and_headers_are_sent_and_no_key_without_one() {
    let request = || ModelRequest::new(Transcript::from_iter([Message::user("hi")]));
    let with = sent_by(
        |m| m.api_key(Secret::value("k1")).header("x-title", "desk"),
        request(),
    )
    .await;
    let head = with.head.to_lowercase();
    assert!(
        head.starts_with("post /v1/chat/completions http/1.1"),
        "{head}"
    );
    assert!(head.contains("authorization: bearer k1\r\n") && head.contains("x-title: desk\r\n"));
    assert!(
        head.contains("content-type: application/json\r\n"),
        "{head}"
    );
    let without = sent_by(|m| m, request()).await.head.to_lowercase();
    assert!(!without.contains("authorization"), "{without}");
}

#[tokio::test]
async fn calls_and_results_are_sent_in_pairs_and_attachments_after_them() {
    let (one, two) = (
        ToolCall::new("a", "f", "{\"x\":1}"),
        ToolCall::new("b", "g", ""),
    );
    let mut picture = ToolResult::new(&one, ToolStatus::Success, "see picture");
    picture.attachments = vec![data("image/png", None, DataSource::Base64("AAAA".into()))];
    let conversation = Transcript::from_iter([
        Message::user("go"),
        assistant(vec![Part::ToolCall(one), Part::ToolCall(two.clone())]),
        Message::results([picture]),
        Message::results([ToolResult::new(&two, ToolStatus::Error, "no g")]),
        Message::user("and?"),
    ]);
    let messages = sent(ModelRequest::new(conversation)).await["messages"].clone();
    let expected = json!([
        {"role": "user", "content": "go"},
        {"role": "assistant", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}},
            {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "see picture"},
        {"role": "tool", "tool_call_id": "b", "content": "no g"},
        {"role": "user", "content": [
            {"type": "text", "text": "Attached to the result of f:"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]},
        {"role": "user", "content": "and?"},
    ]);
    assert_eq!(messages, expected);
}

/// A danger: vLLM and others parse the arguments of past calls, and would refuse the
/// conversation for ever.
#[tokio::test]
async fn arguments_that_are_no_object_do_not_spoil_the_conversation() {
    for text in ["{\"x\": 1", "not json", "[1]", "null", "7"] {
        let call = ToolCall::new("a", "f", text);
        let conversation = Transcript::from_iter([assistant(vec![Part::ToolCall(call)])]);
        let body = sent(ModelRequest::new(conversation)).await;
        let call = &body["messages"][0]["tool_calls"][0];
        let arguments = call["function"]["arguments"].as_str().unwrap();
        let arguments: Value = serde_json::from_str(arguments).unwrap();
        assert_eq!(arguments, json!({"unreadable_arguments": text}));
    }
}

#[tokio::test]
async fn attachments_are_sent_in_their_kind() {
    let base64 = || DataSource::Base64("AAAA".into());
    let url = || DataSource::Url("https://example.com/x".into());
    let parts = vec![
        Part::Text("look".into()),
        Part::Data(data("image/jpeg", None, base64())),
        Part::Data(data("image/png", None, url())),
        Part::Data(data("audio/mpeg", None, base64())),
        Part::Data(data("application/pdf", Some("a.pdf"), base64())),
        Part::Data(data("application/pdf", Some("b.pdf"), url())),
    ];
    let conversation = Transcript::from_iter([Message {
        role: Role::User,
        author: None,
        parts,
        synthetic: false,
    }]);
    let body = sent(ModelRequest::new(conversation)).await;
    let expected = json!([
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,AAAA"}},
        {"type": "image_url", "image_url": {"url": "https://example.com/x"}},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"}},
        {"type": "text", "text": "[b.pdf (application/pdf): https://example.com/x]"},
    ]);
    assert_eq!(body["messages"][0]["content"], expected);
}

#[tokio::test]
async fn reasoning_goes_back_as_the_setting_says() {
    let thought = || {
        Part::Reasoning(Reasoning {
            text: "hm".into(),
            signature: None,
        })
    };
    let call = Part::ToolCall(ToolCall::new("a", "f", "{}"));
    let conversation = Transcript::from_iter([
        assistant(vec![thought(), Part::Text("plain".into())]),
        assistant(vec![thought(), call]),
    ]);
    for (setting, expected) in [
        (ReturnReasoning::WithToolCalls, [false, true]),
        (ReturnReasoning::Always, [true, true]),
        (ReturnReasoning::Never, [false, false]),
    ] {
        let request = ModelRequest::new(conversation.clone());
        let body = sent_by(|model| model.return_reasoning(setting), request)
            .await
            .body;
        let has = |index: usize| body["messages"][index]["reasoning_content"] == "hm";
        assert_eq!([has(0), has(1)], expected, "{setting:?}");
    }
}

#[tokio::test]
async fn a_message_that_says_nothing_is_not_sent() {
    let conversation = Transcript::from_iter([assistant(vec![])]);
    let body = sent(ModelRequest::new(conversation)).await;
    assert_eq!(
        body["messages"],
        json!([{"role": "user", "content": "Go on."}])
    );
}
