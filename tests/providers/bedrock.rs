//! Amazon Bedrock's Converse, against a server of our own that frames as Amazon's does.

use std::{
    io::Write as _,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use ghostlight::models::{
    Bedrock, CredentialError, CredentialSource, FreshCredential, Secret, anthropic::Thinking,
};
use ghostlight_actors::{
    contract::{ModelContext, ModelHandle},
    vocabulary::{
        Data, Delta, ErrorKind, FinishReason, Message, ModelRequest, ModelSettings, OutputSchema,
        Part, ToolCall, ToolChoice, ToolResult, ToolSet, ToolStatus, Transcript,
    },
};
use serde_json::{Value, json};

use crate::{
    after_a_call, ask, double,
    fake::{Act, Fake, json as whole, piece, reply, stream_end},
    respond, stream,
};

const MODEL: &str = "us.anthropic.claude-sonnet-4-6-v1:0";

/// Keys in the form of a `credential_process`, each with another token.
struct Keys(AtomicU32);

impl CredentialSource for Keys {
    async fn fetch(&self) -> Result<FreshCredential, CredentialError> {
        let number = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        let keys = json!({"AccessKeyId": "AKID", "SecretAccessKey": "hunter2", "SessionToken": format!("token{number}")});
        Ok(FreshCredential::new(keys.to_string()))
    }
}

pub(crate) fn model(fake: &Fake) -> Bedrock {
    let address = fake.model().settings().base_url.clone();
    Bedrock::new(MODEL)
        .region("eu-west-1")
        .base_url(address)
        .api_key(Secret::changing(Keys(AtomicU32::new(0))))
}

fn end(stop: &str, content: Value) -> Value {
    json!({
        "metrics": {"latencyMs": 5},
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": stop,
        "usage": {"inputTokens": 3, "outputTokens": 12, "totalTokens": 1963, "cacheReadInputTokens": 1712,
            "cacheWriteInputTokens": 236, "serverToolUsage": {}},
    })
}

fn text(text: &str) -> Value {
    end("end_turn", json!([{"text": text}]))
}

/// A frame with these headers of texts, written after the specification and not with the code that reads it.
fn frame(headers: &[(&str, &str)], payload: &Value) -> Vec<u8> {
    fn crc(bytes: &[u8]) -> [u8; 4] {
        let mut crc = flate2::Crc::new();
        crc.update(bytes);
        crc.sum().to_be_bytes()
    }
    let mut told = Vec::new();
    for (name, value) in headers {
        told.push(u8::try_from(name.len()).unwrap());
        told.extend(name.bytes());
        told.push(7);
        told.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
        told.extend(value.bytes());
    }
    let payload = payload.to_string();
    let length = u32::try_from(12 + told.len() + payload.len() + 4).unwrap();
    let mut frame = length.to_be_bytes().to_vec();
    frame.extend(u32::try_from(told.len()).unwrap().to_be_bytes());
    frame.extend(crc(&frame));
    frame.write_all(&told).unwrap();
    frame.extend(payload.bytes());
    frame.extend(crc(&frame));
    frame
}

pub(crate) fn event(kind: &str, payload: Value) -> Vec<u8> {
    let headers = [
        (":event-type", kind),
        (":content-type", "application/json"),
        (":message-type", "event"),
    ];
    frame(&headers, &payload)
}

pub(crate) fn delta(index: u64, delta: Value) -> Vec<u8> {
    event(
        "contentBlockDelta",
        json!({"contentBlockIndex": index, "delta": delta, "p": "abc"}),
    )
}

pub(crate) fn start(index: u64, start: Value) -> Vec<u8> {
    event(
        "contentBlockStart",
        json!({"contentBlockIndex": index, "start": start, "p": "ab"}),
    )
}

fn stop(index: u64) -> Vec<u8> {
    event("contentBlockStop", json!({"contentBlockIndex": index}))
}

pub(crate) fn head() -> Act {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/vnd.amazon.eventstream\r\n\
                transfer-encoding: chunked\r\n\r\n";
    Act::Send(head.into())
}

/// An answer with a thought, a hidden one, a tool of the provider's, a text and a call.
fn frames() -> Vec<Vec<u8>> {
    let thought = |more: Value| json!({ "reasoningContent": more });
    vec![
        event("messageStart", json!({"role": "assistant"})),
        delta(0, thought(json!({"text": "Seven, "}))),
        delta(0, thought(json!({"text": "hm."}))),
        delta(0, thought(json!({"signature": "c2ln"}))),
        stop(0),
        delta(1, thought(json!({"redactedContent": "aGlk"}))),
        stop(1),
        start(
            2,
            json!({"toolUse": {"name": "nova_code_interpreter", "toolUseId": "s1", "type": "server_tool_use"}}),
        ),
        delta(2, json!({"toolUse": {"input": "{\"snippet\":\"7*2\"}"}})),
        stop(2),
        start(
            3,
            json!({"toolResult": {"status": "success", "toolUseId": "s1", "type": "nova_code_interpreter_result"}}),
        ),
        delta(3, json!({"toolResult": [{"json": {"stdOut": "14"}}]})),
        stop(3),
        delta(4, json!({"text": "I double"})),
        delta(4, json!({"text": " it: ü."})),
        stop(4),
        start(
            5,
            json!({"toolUse": {"name": "double", "toolUseId": "tooluse_a", "type": "tool_use"}}),
        ),
        delta(5, json!({"toolUse": {"input": "{\"n\":"}})),
        delta(5, json!({"toolUse": {"input": "7}"}})),
        stop(5),
        event("messageStop", json!({"stopReason": "tool_use"})),
        event(
            "metadata",
            json!({"metrics": {"latencyMs": 1}, "usage": {"inputTokens": 20, "outputTokens": 35, "totalTokens": 55}}),
        ),
    ]
}

fn back() -> Value {
    json!([
        {"reasoningContent": {"reasoningText": {"text": "Seven, hm.", "signature": "c2ln"}}},
        {"reasoningContent": {"redactedContent": "aGlk"}},
        {"toolUse": {"name": "nova_code_interpreter", "toolUseId": "s1", "type": "server_tool_use", "input": {"snippet": "7*2"}}},
        {"toolResult": {"status": "success", "toolUseId": "s1", "type": "nova_code_interpreter_result",
            "content": [{"json": {"stdOut": "14"}}]}},
        {"text": "I double it: ü."},
        {"toolUse": {"name": "double", "toolUseId": "tooluse_a", "input": {"n": 7}}},
    ])
}

#[tokio::test]
async fn a_stream_of_frames_is_shown_and_goes_back_as_it_came() {
    let bytes = frames().concat();
    for size in [1, 7, bytes.len()] {
        let mut acts = vec![head()];
        acts.extend(bytes.chunks(size).map(piece));
        acts.push(stream_end());
        let fake = Fake::start([acts]).await;
        let (response, shown) = stream(&model(&fake), ask("Double 7.")).await;
        let response = response.unwrap();
        let path = "POST /v1/model/us.anthropic.claude-sonnet-4-6-v1%3A0/converse-stream HTTP/1.1";
        assert!(fake.received()[0].head.starts_with(path));
        assert_eq!(response.content(), "I double it: ü.");
        assert_eq!(response.finish, FinishReason::ToolCalls);
        let usage = response.usage;
        assert_eq!((usage.input_tokens, usage.output_tokens), (20, 35));
        assert_eq!(usage.estimated_tokens, 0);
        assert_eq!(response.model, MODEL);
        let expected = [
            Delta::Reasoning("Seven, ".into()),
            Delta::Reasoning("hm.".into()),
            Delta::Text("I double".into()),
            Delta::Text(" it: ü.".into()),
        ];
        assert_eq!(shown[..4], expected);
        assert_eq!(shown.len(), 7);

        let fake = Fake::json(text("14")).await;
        let call = response.calls()[0].clone();
        let conversation = Transcript::from_iter([
            std::sync::Arc::new(Message::user("Double 7.")),
            response.message.clone(),
            std::sync::Arc::new(Message::results([ToolResult::new(
                &call,
                ToolStatus::Success,
                "14",
            )])),
        ]);
        let request = ModelRequest::new(conversation).tools(ToolSet::from_iter([double()]));
        respond(&model(&fake), request).await.unwrap();
        let messages = &fake.only_body()["messages"];
        assert_eq!(messages[1], json!({"role": "assistant", "content": back()}));
    }
}

#[tokio::test]
async fn an_answer_in_one_piece_is_the_same_as_its_stream() {
    let fake = Fake::json(end("tool_use", back())).await;
    let response = respond(&model(&fake), ask("Double 7.")).await.unwrap();
    assert!(fake.received()[0].head.contains("/converse HTTP/1.1"));
    let mut acts = vec![head()];
    acts.extend(frames().iter().map(piece));
    acts.push(stream_end());
    let fake = Fake::start([acts]).await;
    let (streamed, _) = stream(&model(&fake), ask("Double 7.")).await;
    assert_eq!(response.message, streamed.unwrap().message);
    let usage = response.usage;
    assert_eq!(
        (
            usage.input_tokens,
            usage.cached_tokens,
            usage.cache_write_tokens
        ),
        (1951, 1712, 236)
    );
}

#[tokio::test]
async fn a_stream_that_is_cut_at_any_byte_is_an_error_or_whole() {
    let all = frames();
    // Its thought, its text and its call.
    let kept = [0, 3, 4, 13, 15, 16, 17, 18, 20, 21].map(|place: usize| all[place].clone());
    let bytes = kept.concat();
    // Behind the stop reason only the counts of tokens are missing.
    let end = bytes.len() - kept[9].len();
    let acts = (1..bytes.len()).map(|at| {
        let last = match at % 2 {
            0 => stream_end(),
            _ => Act::Close,
        };
        vec![head(), piece(&bytes[..at]), last]
    });
    let fake = Fake::start(acts).await;
    let model = model(&fake);
    for at in 1..bytes.len() {
        let (response, _) = stream(&model, ask("Double 7.")).await;
        match response {
            Ok(response) => {
                assert!(at >= end, "{at} of {}", bytes.len());
                assert_eq!(response.content(), "I double");
                assert_eq!(response.calls()[0].arguments.text(), "{\"n\":7}");
            }
            Err(error) => {
                assert!(at < end, "{at}: {error}");
                let is_cut = error.message.contains("cut off");
                assert!(error.retryable && is_cut, "{error}");
            }
        }
    }
}

#[tokio::test]
async fn a_frame_that_was_changed_on_its_way_is_no_answer() {
    let bytes = frames().concat();
    for at in (0..bytes.len()).step_by(41) {
        let mut bent = bytes.clone();
        bent[at] ^= 4;
        let fake = Fake::start([vec![head(), piece(bent), stream_end()]]).await;
        let (response, _) = stream(&model(&fake), ask("Double 7.")).await;
        let error = response.unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Malformed), "{at}: {error}");
        assert!(
            error.retryable && error.message.contains("checksum"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn an_exception_in_a_stream_is_known_for_what_it_is() {
    for (kind, expected, retryable, status) in [
        ("throttlingException", ErrorKind::RateLimited, true, 429),
        ("modelStreamErrorException", ErrorKind::Model, true, 424),
        ("validationException", ErrorKind::InvalidInput, false, 400),
        ("internalServerException", ErrorKind::Model, true, 500),
    ] {
        let headers = [(":exception-type", kind), (":message-type", "exception")];
        let failed = frame(&headers, &json!({"message": "too much"}));
        let begun = [frames()[0].clone(), failed].concat();
        let fake = Fake::start([vec![head(), piece(begun), stream_end()]]).await;
        let (response, _) = stream(&model(&fake), ask("hi")).await;
        let error = response.unwrap_err();
        assert_eq!(
            (&error.kind, error.retryable),
            (&expected, retryable),
            "{error}"
        );
        assert_eq!(error.status, Some(status));
    }
}

#[tokio::test]
async fn each_refusal_is_known_for_what_it_is() {
    for (status, message, kind, retryable) in [
        (
            400,
            "The provided model identifier is invalid.",
            ErrorKind::InvalidInput,
            false,
        ),
        (
            400,
            "Input is too long for requested model.",
            ErrorKind::ContextOverflow,
            false,
        ),
        (
            403,
            "The security token included in the request is invalid.",
            ErrorKind::Authentication,
            false,
        ),
        (
            429,
            "Too many requests, please wait before trying again.",
            ErrorKind::RateLimited,
            true,
        ),
        (424, "The model failed.", ErrorKind::Model, true),
        (
            503,
            "Bedrock is unable to process your request.",
            ErrorKind::Model,
            true,
        ),
    ] {
        let body = json!({"message": message}).to_string();
        let fake = Fake::start([vec![whole(status, &body)]]).await;
        let error = respond(&model(&fake), ask("hello")).await.unwrap_err();
        assert_eq!(
            (&error.kind, error.retryable),
            (&kind, retryable),
            "{error}"
        );
        assert!(!error.message.contains("hunter2"), "{error}");
        if status == 400 {
            assert!(
                error.message.contains(message.trim_end_matches('.')),
                "{error}"
            );
        }
    }
}

#[tokio::test]
async fn requests_are_signed_and_keys_whose_time_is_over_are_fetched_anew() {
    let over = [(
        "x-amzn-errortype",
        "ExpiredTokenException:http://internal.amazon.com/",
    )];
    let refusal = r#"{"message": "The security token included in the request is expired"}"#;
    let fake = Fake::start([
        vec![reply(403, &over, refusal)],
        vec![whole(200, &text("ok").to_string())],
    ])
    .await;
    let signing = model(&fake);
    respond(&signing, ask("hi")).await.unwrap();
    for (received, token) in fake.received().iter().zip(["token1", "token2"]) {
        let head = received.head.to_lowercase();
        assert!(
            head.contains("authorization: aws4-hmac-sha256 credential=akid/20"),
            "{head}"
        );
        assert!(head.contains("/eu-west-1/bedrock/aws4_request, signedheaders=content-type;host;x-amz-date;x-amz-security-token, signature="), "{head}");
        assert!(
            head.contains(&format!("x-amz-security-token: {token}\r\n")),
            "{head}"
        );
        assert!(!head.contains("hunter2"));
    }
    assert_eq!(fake.received().len(), 2);
    assert!(!format!("{signing:?} {:?}", signing.settings()).contains("hunter2"));

    let fake = Fake::json(text("ok")).await;
    let bearing = model(&fake).api_key(Secret::value("bedrock-api-key-hunter3"));
    respond(&bearing, ask("hi")).await.unwrap();
    let head = fake.received()[0].head.to_lowercase();
    assert!(
        head.contains("authorization: bearer bedrock-api-key-hunter3\r\n"),
        "{head}"
    );
}

#[tokio::test]
async fn a_request_says_all_that_the_provider_asks_for() {
    let fake = Fake::json(text("ok")).await;
    let mut settings = ModelSettings::default();
    settings.stop = vec!["END".into(), " ".into()];
    settings.max_tokens = Some(100);
    settings.tool_choice = Some(ToolChoice::Tool("double".into()));
    settings.reasoning_effort = Some("low".into());
    let call = ToolCall::new("call.1", "double", json!({"n": 7}));
    let request = ModelRequest::new(after_a_call(&call))
        .instructions("Be brief.")
        .tools(ToolSet::from_iter([double()]))
        .settings(settings);
    let model = model(&fake).with(|settings| {
        settings.thinking = Thinking::Budget(2_000);
        settings.cache = true;
        let further = json!({"anthropic_beta": ["x"]});
        settings.extra = [
            ("additionalModelRequestFields".to_owned(), further),
            ("messages".to_owned(), json!([])),
        ]
        .into();
    });
    respond(&model, request.clone()).await.unwrap();
    let point = json!({"cachePoint": {"type": "default"}});
    assert_eq!(
        fake.only_body(),
        json!({
            "system": [{"text": "Be brief."}, point],
            "messages": [
                {"role": "user", "content": [{"text": "Double 7."}, point]},
                {"role": "assistant", "content": [
                    {"toolUse": {"toolUseId": "call_2e_1", "name": "double", "input": {"n": 7}}},
                ]},
                {"role": "user", "content": [
                    {"toolResult": {"toolUseId": "call_2e_1", "content": [{"text": "14"}], "status": "success"}},
                    point,
                ]},
            ],
            "inferenceConfig": {"maxTokens": 2100, "stopSequences": ["END"]},
            "additionalModelRequestFields": {
                "thinking": {"type": "enabled", "budget_tokens": 2000},
                "output_config": {"effort": "low"},
                "anthropic_beta": ["x"],
            },
            "toolConfig": {
                "tools": [
                    {"toolSpec": {"name": "double", "description": "Doubles a number.", "inputSchema": {"json": {
                        "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
                    }}}},
                    point,
                ],
            },
        })
    );
    // A model that thinks refuses a forced call, and is left to choose.
    let calm = model.with(|settings| settings.thinking = Thinking::Default);
    respond(&calm, request).await.unwrap();
    let forced = json!({"tool": {"name": "double"}});
    let received = fake.received();
    assert_eq!(received[1].body["toolConfig"]["toolChoice"], forced);
}

#[tokio::test]
async fn a_typed_answer_is_asked_for_in_words_where_the_model_is_not_held() {
    for (name, is_held) in [(MODEL, true), ("us.amazon.nova-2-lite-v1:0", false)] {
        let fake = Fake::json(text("{}")).await;
        let request = ask("n?").output(OutputSchema {
            name: "N".into(),
            schema: json!({"type": "object", "properties": {"n": {"type": "integer"}}}),
            strict: true,
        });
        let model = model(&fake).with(|settings| settings.model = name.into());
        respond(&model, request).await.unwrap();
        let body = fake.only_body();
        let schema = &body["outputConfig"]["textFormat"]["structure"]["jsonSchema"]["schema"];
        assert_eq!(schema.is_string(), is_held, "{name}");
        assert_eq!(
            body["system"].to_string().contains("JSON Schema"),
            !is_held,
            "{name}"
        );
    }
}

#[tokio::test]
async fn files_go_in_their_own_form_and_documents_have_names_of_their_own() {
    let fake = Fake::json(text("ok")).await;
    let file = |name: &str, kind: &str| {
        let mut data = Data::from_bytes(name, "x").unwrap();
        data.media_type = kind.to_owned();
        data
    };
    let message = Message::user("")
        .attach(file("a_b.pdf", "application/pdf"))
        .attach(file("a_b.pdf", "application/pdf"))
        .attach(file("c.png", "image/png"));
    let request = ModelRequest::new(Transcript::from_iter([message]));
    respond(&model(&fake), request).await.unwrap();
    let source = json!({"bytes": "eA=="});
    assert_eq!(
        fake.only_body()["messages"][0]["content"],
        json!([
            {"text": "See the attached document."},
            {"document": {"format": "pdf", "name": "a b pdf", "source": source}},
            {"document": {"format": "pdf", "name": "a b pdf (2)", "source": source}},
            {"image": {"format": "png", "source": source}},
        ])
    );
    let sound = Message::user("hear").attach(file("a.mp3", "audio/mpeg"));
    let request = ModelRequest::new(Transcript::from_iter([sound]));
    let error = respond(&model(&fake), request).await.unwrap_err();
    assert!(error.message.contains("does not take a.mp3"), "{error}");
}

#[tokio::test]
async fn what_the_provider_holds_back_or_cannot_read_is_told() {
    for (word, expected) in [
        ("end_turn", Ok(FinishReason::Stop)),
        ("max_tokens", Ok(FinishReason::Length)),
        ("guardrail_intervened", Ok(FinishReason::ContentFilter)),
        ("content_filtered", Ok(FinishReason::ContentFilter)),
        ("newer", Ok(FinishReason::Other("newer".into()))),
        ("malformed_tool_use", Err(ErrorKind::Malformed)),
    ] {
        let fake = Fake::json(end(word, json!([{"text": "a"}]))).await;
        match (respond(&model(&fake), ask("hello")).await, expected) {
            (Ok(response), Ok(finish)) => assert_eq!(response.finish, finish),
            (Err(error), Err(kind)) => assert_eq!(error.kind, kind),
            (response, _) => panic!("{word}: {response:?}"),
        }
    }
    let cited = json!([{"citationsContent": {"content": [{"text": "So."}], "citations": [{"title": "A"}]}}]);
    let fake = Fake::json(end("end_turn", cited)).await;
    let response = respond(&model(&fake), ask("hello")).await.unwrap();
    assert_eq!(response.content(), "So.");
    let Some(Part::Provider(note)) = response.message.parts.last() else {
        panic!("{response:?}");
    };
    assert_eq!(note.content, json!({"citations": [{"title": "A"}]}));
}

#[tokio::test]
async fn a_team_file_names_it_with_its_settings() {
    let fake = Fake::json(text("From Bedrock.")).await;
    let address = fake.model().settings().base_url.clone();
    let printed = json!({"AccessKeyId": "AKID", "SecretAccessKey": "s"}).to_string();
    let settings = json!({
        "provider": "bedrock", "model": MODEL, "region": "eu-west-1", "base_url": address,
        "api_key": {"command": ["echo", printed]}, "thinking": "adaptive",
    });
    let team = json!({"name": "desk", "models": {"default": settings}, "agent": {"name": "desk"}});
    let team = serde_json::from_value(team).unwrap();
    let registry = ghostlight::builtin().resolve(&team).unwrap();
    let (_, model): (_, &ModelHandle) = registry.models().next().unwrap();
    let answer = model.respond(ask("hi"), ModelContext::detached());
    let answer = tokio::time::timeout(Duration::from_secs(20), answer).await;
    assert_eq!(answer.unwrap().unwrap().content(), "From Bedrock.");
    let received = &fake.received()[0];
    assert!(received.head.contains("AWS4-HMAC-SHA256 Credential=AKID/"));
    let thinking = &received.body["additionalModelRequestFields"]["thinking"];
    assert_eq!(*thinking, json!({"type": "adaptive"}));
}
