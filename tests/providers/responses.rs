//! OpenAI's Responses, against a server that refuses what the provider refuses.

use std::collections::HashSet;

use ghostlight::models::{OpenAiResponses, Secret, responses::History};
use ghostlight_actors::{
    contract::ModelError,
    vocabulary::{
        Data, DataSource, Delta, ErrorKind, FinishReason, Message, ModelRequest, ModelResponse,
        ModelSettings, OutputSchema, Part, ToolCall, ToolResult, ToolSet, ToolStatus, Transcript,
    },
};
use serde_json::{Value, json};

use crate::{
    after_a_call, ask, double,
    fake::{Act, Fake, json as whole, piece, stream_end, stream_head},
    respond, stream,
};

pub(crate) fn model(fake: &Fake) -> OpenAiResponses {
    OpenAiResponses::new("gpt-5")
        .base_url(fake.model().settings().base_url.clone())
        .api_key(Secret::value("sk-hunter2"))
        .with(|settings| settings.encrypted_reasoning = Some(true))
}

/// A response with these items.
fn response(output: Value) -> Value {
    json!({"id": "resp_1", "object": "response", "status": "completed", "model": "gpt-5-2025",
        "error": null, "incomplete_details": null, "output": output,
        "usage": {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 60},
            "output_tokens": 40, "output_tokens_details": {"reasoning_tokens": 30}}})
}

pub(crate) fn reasoning(id: &str) -> Value {
    json!({"type": "reasoning", "id": id, "status": null, "encrypted_content": "gAAA-secret",
        "summary": [{"type": "summary_text", "text": "Let me see."},
            {"type": "summary_text", "text": "Twice."}]})
}

pub(crate) fn text(id: &str, text: &str) -> Value {
    json!({"type": "message", "id": id, "status": "completed", "role": "assistant", "phase": "final_answer",
        "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]})
}

pub(crate) fn call(id: &str) -> Value {
    json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": "double",
        "arguments": "{\"n\": 7}", "status": "completed"})
}

fn search() -> Value {
    json!({"type": "web_search_call", "id": "ws_1", "status": "completed",
        "action": {"type": "search", "query": "seven"}})
}

pub(crate) fn answer(output: Value) -> Vec<Act> {
    vec![whole(200, &response(output).to_string())]
}

/// The events of a response with these items, in the order that the provider publishes.
fn events_of(output: &[Value]) -> Vec<Value> {
    let mut events = Vec::new();
    let mut begun = response(json!([]));
    begun["status"] = json!("in_progress");
    for kind in ["response.created", "response.in_progress"] {
        events.push(json!({"type": kind, "response": begun}));
    }
    for (place, item) in output.iter().enumerate() {
        let mut bare = item.clone();
        let id = item["id"].clone();
        match item["type"].as_str().unwrap() {
            "message" => bare["content"] = json!([]),
            "function_call" => bare["arguments"] = json!(""),
            "reasoning" => bare["summary"] = json!([]),
            _ => {}
        }
        events.push(
            json!({"type": "response.output_item.added", "output_index": place, "item": bare}),
        );
        let mut cut = |kind: &str, text: &str, index: (&str, usize)| {
            let half = text.len() / 2;
            for delta in [&text[..half], &text[half..]] {
                let mut event =
                    json!({"type": kind, "output_index": place, "item_id": id, "delta": delta});
                event[index.0] = json!(index.1);
                events.push(event);
            }
        };
        match item["type"].as_str().unwrap() {
            "message" => {
                let text = item["content"][0]["text"].as_str().unwrap();
                cut("response.output_text.delta", text, ("content_index", 0));
            }
            "function_call" => {
                let text = item["arguments"].as_str().unwrap();
                cut("response.function_call_arguments.delta", text, ("x", 0));
            }
            "reasoning" => {
                for (number, part) in item["summary"].as_array().unwrap().iter().enumerate() {
                    let text = part["text"].as_str().unwrap();
                    cut(
                        "response.reasoning_summary_text.delta",
                        text,
                        ("summary_index", number),
                    );
                }
            }
            kind => {
                events.push(json!({"type": format!("response.{kind}.searching"), "output_index": place, "item_id": id}));
            }
        }
        events.push(
            json!({"type": "response.output_item.done", "output_index": place, "item": item}),
        );
    }
    events.push(json!({"type": "response.completed", "response": response(json!(output))}));
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = json!(number);
    }
    events
}

fn streamed(events: &[Value]) -> Vec<Act> {
    let mut acts = vec![stream_head()];
    acts.extend(events.iter().map(|event| {
        let kind = event["type"].as_str().unwrap();
        piece(format!("event: {kind}\ndata: {event}\n\n"))
    }));
    acts.push(stream_end());
    acts
}

/// What the provider says of a request that it refuses.
fn fault(body: &Value) -> Option<String> {
    const KNOWN: [&str; 16] = [
        "model",
        "input",
        "stream",
        "store",
        "previous_response_id",
        "instructions",
        "include",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "max_output_tokens",
        "temperature",
        "top_p",
        "reasoning",
        "text",
        "metadata",
    ];
    for field in body.as_object()?.keys() {
        if !KNOWN.contains(&field.as_str()) {
            return Some(format!("Unknown parameter: '{field}'."));
        }
    }
    let store = body["store"].as_bool().unwrap_or(true);
    let mut called = HashSet::new();
    let mut needs_follower = None;
    let items = body["input"].as_array()?;
    if items.is_empty() {
        return Some("One of \"input\" or \"previous_response_id\" must be provided.".into());
    }
    for (place, item) in items.iter().enumerate() {
        let kind = item["type"].as_str().unwrap_or("message");
        let own = item["id"].as_str();
        if let Some(id) = needs_follower.take()
            && (own.is_none() && item["role"] != "assistant" && kind != "function_call")
        {
            return Some(format!(
                "Item '{id}' of type 'reasoning' was provided without its required following item."
            ));
        }
        match kind {
            "message" => {
                let parts = match &item["content"] {
                    Value::String(text) => vec![json!({"text": text})],
                    content => content.as_array()?.clone(),
                };
                if parts.is_empty() || parts.iter().any(|part| part["text"] == "") {
                    return Some(format!("input[{place}].content is empty"));
                }
                let said = if item["role"] == "assistant" {
                    "output_text"
                } else {
                    "input_"
                };
                let fits = |part: &Value| {
                    part["type"]
                        .as_str()
                        .is_none_or(|kind| kind.starts_with(said))
                };
                if !parts.iter().all(fits) {
                    return Some(format!("Invalid value: input[{place}].content"));
                }
            }
            "function_call" => {
                let id = item["call_id"].as_str()?.to_owned();
                let arguments: Value = serde_json::from_str(item["arguments"].as_str()?).ok()?;
                if id.len() > 64 || !arguments.is_object() || !called.insert(id.clone()) {
                    return Some(format!("Invalid call {id}"));
                }
            }
            "function_call_output" => {
                let id = item["call_id"].as_str()?;
                if !called.remove(id) && body["previous_response_id"].is_null() {
                    return Some(format!(
                        "No tool call found for function call output with call_id {id}."
                    ));
                }
            }
            "reasoning" => {
                if !store && item["encrypted_content"].is_null() {
                    return Some(format!("Item with id '{}' not found.", own?));
                }
                needs_follower = own.map(str::to_owned);
            }
            "web_search_call" | "image_generation_call" => {}
            other => return Some(format!("Invalid value: '{other}'")),
        }
    }
    if let Some(id) = called.iter().next() {
        return Some(format!("No tool output found for function call {id}."));
    }
    None
}

/// Asks a strict server with this answer, and tells what it was sent.
async fn sent(
    change: impl FnOnce(OpenAiResponses) -> OpenAiResponses,
    request: ModelRequest,
) -> (ModelResponse, Value) {
    let fake = Fake::start([answer(json!([text("msg_9", "ok")]))]).await;
    let response = respond(&change(model(&fake)), request).await.unwrap();
    let body = fake.only_body();
    assert_eq!(fault(&body), None, "{body}");
    (response, body)
}

fn parts(response: &ModelResponse) -> (String, String, Vec<ToolCall>) {
    let message = &response.message;
    let thought = message.parts.iter().filter_map(|part| match part {
        Part::Reasoning(reasoning) => Some(reasoning.text.as_str()),
        _ => None,
    });
    (
        message.content(),
        thought.collect(),
        message.tool_calls().cloned().collect(),
    )
}

#[tokio::test]
async fn an_answer_is_the_same_whole_and_streamed() {
    let output = vec![
        reasoning("rs_1"),
        search(),
        text("msg_1", "Twice seven:"),
        call("call_1"),
    ];
    let first = Fake::start([answer(json!(output))]).await;
    let one = respond(&model(&first), ask("Double 7.")).await.unwrap();
    let second = Fake::start([streamed(&events_of(&output))]).await;
    let (other, deltas) = stream(&model(&second), ask("Double 7.")).await;
    let other = other.unwrap();
    assert_eq!(one.message, other.message);
    let (said, thought, calls) = parts(&one);
    assert_eq!(
        (said.as_str(), thought.as_str()),
        ("Twice seven:", "Let me see.\n\nTwice.")
    );
    assert_eq!(calls, [ToolCall::new("call_1", "double", "{\"n\": 7}")]);
    for response in [&one, &other] {
        assert_eq!(response.finish, FinishReason::ToolCalls);
        assert_eq!(response.model, "gpt-5-2025");
        let usage = response.usage;
        assert_eq!((usage.input_tokens, usage.output_tokens), (100, 40));
        assert_eq!((usage.cached_tokens, usage.reasoning_tokens), (60, 30));
    }
    let mut shown = (String::new(), String::new(), String::new());
    for delta in deltas {
        match delta {
            Delta::Text(more) => shown.0.push_str(&more),
            Delta::Reasoning(more) => shown.1.push_str(&more),
            Delta::ToolCall {
                name, arguments, ..
            } => {
                shown.2.push_str(&name.unwrap_or_default());
                shown.2.push_str(&arguments);
            }
            _ => {}
        }
    }
    assert_eq!(shown, (said, thought, "double{\"n\": 7}".to_owned()));
}

#[tokio::test]
async fn each_item_goes_back_in_its_place_to_the_server_that_gave_it() {
    let output = json!([
        reasoning("rs_1"),
        search(),
        text("msg_1", "So:"),
        call("call_1")
    ]);
    let fake = Fake::start([answer(output), answer(json!([text("msg_2", "14")]))]).await;
    let model = model(&fake);
    let first = respond(&model, ask("Double 7.")).await.unwrap();
    let call = first.message.tool_calls().next().unwrap().clone();
    let mut conversation = Transcript::from_iter([Message::user("Double 7.")]);
    conversation.push(first.message.clone());
    conversation.push(Message::results([ToolResult::new(
        &call,
        ToolStatus::Success,
        "14",
    )]));
    let request = ModelRequest::new(conversation).tools(ToolSet::from_iter([double()]));
    respond(&model, request.clone()).await.unwrap();
    let body = fake.received().pop().unwrap().body;
    assert_eq!(fault(&body), None, "{body}");
    assert_eq!(
        body["input"],
        json!([
            {"role": "user", "content": "Double 7."},
            {"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA-secret",
                "summary": [{"type": "summary_text", "text": "Let me see."},
                    {"type": "summary_text", "text": "Twice."}]},
            search(),
            {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "phase": "final_answer",
                "content": [{"type": "output_text", "text": "So:", "annotations": []}]},
            {"type": "function_call", "id": "fc_call_1", "call_id": "call_1", "name": "double",
                "arguments": "{\"n\": 7}", "status": "completed"},
            {"type": "function_call_output", "call_id": "call_1", "output": "14"},
        ])
    );
    assert_eq!(
        (&body["store"], &body["include"]),
        (&json!(false), &json!(["reasoning.encrypted_content"]))
    );
    // Another server could read none of it; this one goes by another name.
    let elsewhere = model.clone();
    let address = model.settings().base_url.replace("127.0.0.1", "localhost");
    let elsewhere = elsewhere.base_url(address);
    respond(&elsewhere, request.clone()).await.unwrap();
    let elsewhere = fake.received().pop().unwrap().body;
    assert_eq!(fault(&elsewhere), None, "{elsewhere}");
    assert_eq!(
        elsewhere["input"],
        json!([
            {"role": "user", "content": "Double 7."},
            {"role": "assistant", "content": "So:"},
            {"type": "function_call", "call_id": "call_1", "name": "double", "arguments": "{\"n\": 7}"},
            {"type": "function_call_output", "call_id": "call_1", "output": "14"},
        ])
    );
    // A server that stores is told only what is new.
    let stored = model.with(|settings| settings.history = History::Stored);
    respond(&stored, request).await.unwrap();
    let body = fake.received().pop().unwrap().body;
    assert_eq!(fault(&body), None, "{body}");
    assert_eq!(
        (&body["store"], &body["previous_response_id"]),
        (&json!(true), &json!("resp_1"))
    );
    assert_eq!(
        body["input"],
        json!([{"type": "function_call_output", "call_id": "call_1", "output": "14"}])
    );
    assert_eq!(body.get("include"), None);
}

#[tokio::test]
async fn settings_tools_schema_and_files_are_sent_in_the_providers_form() {
    let mut settings = ModelSettings::default();
    settings.max_tokens = Some(100);
    settings.seed = Some(7);
    settings.stop = vec!["k".into()];
    settings.reasoning_effort = Some("low".into());
    settings.parallel_tool_calls = Some(false);
    let message = Message::user("Look.")
        .attach(Data::from_bytes("a.png", b"\x89PNG\r\n\x1a\n").unwrap())
        .attach(Data::link("https://example.com/b.png").unwrap())
        .attach(Data::from_bytes("c.pdf", b"%PDF-").unwrap())
        .attach(Data::link("https://example.com/d.pdf").unwrap())
        .attach(Data::from_bytes("e.md", "# hi").unwrap());
    let request = ModelRequest::new(Transcript::from_iter([message]))
        .instructions("Be kind.")
        .tools(ToolSet::from_iter([double()]))
        .settings(settings)
        .output(OutputSchema {
            name: "my answer".into(),
            schema: json!({"type": "object"}),
            strict: true,
        });
    let change = |model: OpenAiResponses| {
        model.tool(json!({"type": "web_search"})).with(|settings| {
            settings.reasoning_summary = Some("auto".into());
        })
    };
    let (answer, body) = sent(change, request).await;
    assert_eq!(answer.content(), "o", "cut at the text to stop at");
    assert_eq!(
        body,
        json!({
            "model": "gpt-5", "stream": false, "store": false, "instructions": "Be kind.",
            "include": ["reasoning.encrypted_content"], "max_output_tokens": 100,
            "reasoning": {"effort": "low", "summary": "auto"}, "parallel_tool_calls": false,
            "text": {"format": {"type": "json_schema", "name": "my_answer",
                "schema": {"type": "object"}, "strict": true}},
            "tools": [
                {"type": "function", "name": "double", "description": "Doubles a number.", "strict": false,
                    "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}},
                {"type": "web_search"},
            ],
            "input": [{"role": "user", "content": [
                {"type": "input_text", "text": "Look."},
                {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,iVBORw0KGgo="},
                {"type": "input_image", "detail": "auto", "image_url": "https://example.com/b.png"},
                {"type": "input_file", "filename": "c.pdf", "file_data": "data:application/pdf;base64,JVBERi0="},
                {"type": "input_file", "file_url": "https://example.com/d.pdf"},
                {"type": "input_text", "text": "[e.md (text/markdown)]\n# hi"},
            ]}],
        })
    );
}

#[tokio::test]
async fn a_picture_that_the_server_made_is_a_file_of_the_answer_and_goes_back() {
    let made = json!({"type": "image_generation_call", "id": "ig_1", "status": "completed",
        "output_format": "webp", "result": "AAAA"});
    let fake = Fake::start([answer(json!([made, text("msg_1", "Here.")]))]).await;
    let model = model(&fake);
    let first = respond(&model, ask("Draw.")).await.unwrap();
    let pictures: Vec<&Data> = first
        .message
        .parts
        .iter()
        .filter_map(|part| match part {
            Part::Data(data) => Some(data),
            _ => None,
        })
        .collect();
    assert_eq!(pictures.len(), 1);
    assert_eq!(pictures[0].media_type, "image/webp");
    assert_eq!(pictures[0].source, DataSource::Base64("AAAA".into()));
    let kept = serde_json::to_string(&*first.message).unwrap();
    assert_eq!(kept.matches("AAAA").count(), 1, "it is kept once");
    let mut conversation = Transcript::from_iter([Message::user("Draw.")]);
    conversation.push(first.message.clone());
    conversation.push(Message::user("Bigger."));
    respond(&model, ModelRequest::new(conversation))
        .await
        .unwrap();
    let body = fake.received().pop().unwrap().body;
    assert_eq!(fault(&body), None, "{body}");
    assert_eq!(body["input"][1], made);
}

async fn failed(acts: Vec<Act>) -> ModelError {
    let fake = Fake::start([acts]).await;
    stream(&model(&fake), ask("hi")).await.0.unwrap_err()
}

#[tokio::test]
async fn a_stream_that_is_cut_anywhere_is_an_error_and_never_a_short_answer() {
    let events = events_of(&[
        reasoning("rs_1"),
        text("msg_1", "Once upon a time"),
        call("c"),
    ]);
    for kept in 0..events.len() {
        let error = failed(streamed(&events[..kept])).await;
        assert!(error.retryable, "{kept}: {error}");
        assert!(matches!(error.kind, ErrorKind::Model), "{kept}: {error}");
    }
    // All of it came, and only the end of the body is missing.
    let mut acts = streamed(&events);
    acts.truncate(acts.len() - 1);
    acts.push(Act::Close);
    let fake = Fake::start([acts]).await;
    assert!(stream(&model(&fake), ask("hi")).await.0.is_ok());
}

#[tokio::test]
async fn failures_are_errors_in_the_servers_words() {
    let refusal = json!({"error": {"message": "Unsupported parameter: 'seed'.",
        "type": "invalid_request_error", "param": "seed", "code": "unsupported_parameter"}});
    let error = failed(vec![whole(400, &refusal.to_string())]).await;
    assert_eq!(
        (error.kind.clone(), error.status),
        (ErrorKind::InvalidInput, Some(400))
    );
    assert!(error.message.contains("Unsupported parameter"), "{error}");
    let ended = |status: &str, error: Value| {
        let mut whole = response(json!([]));
        whole["status"] = json!(status);
        whole["error"] = error;
        whole
    };
    let limited = json!({"code": "rate_limit_exceeded", "message": "Slow down."});
    let whole_failed = ended("failed", limited.clone());
    let error = failed(vec![whole(200, &whole_failed.to_string())]).await;
    assert_eq!(
        (error.kind.clone(), error.retryable),
        (ErrorKind::RateLimited, true)
    );
    let event = json!({"type": "response.failed", "response": whole_failed});
    let error = failed(streamed(&[event])).await;
    assert_eq!(
        (error.kind.clone(), error.retryable),
        (ErrorKind::RateLimited, true)
    );
    let event = json!({"type": "error", "code": "server_error", "message": "x", "param": null});
    let error = failed(streamed(&[event])).await;
    assert!(
        error.retryable && error.message.contains("server_error"),
        "{error}"
    );
    let queued = ended("queued", Value::Null);
    let error = failed(vec![whole(200, &queued.to_string())]).await;
    assert!(error.message.contains("cut off"), "{error}");
    let error = failed(vec![whole(200, "{\"choices\": []}")]).await;
    assert_eq!(error.kind, ErrorKind::Malformed);
    assert!(error.message.contains("Responses"), "{error}");
}

#[tokio::test]
async fn an_answer_that_a_bound_or_a_filter_ended_says_so() {
    for (reason, finish) in [
        ("max_output_tokens", FinishReason::Length),
        ("content_filter", FinishReason::ContentFilter),
    ] {
        let mut ended = response(json!([text("msg_1", "Once")]));
        ended["status"] = json!("incomplete");
        ended["incomplete_details"] = json!({"reason": reason});
        let event = json!({"type": "response.incomplete", "response": ended});
        let fake = Fake::start([streamed(&[event])]).await;
        let answer = stream(&model(&fake), ask("hi")).await.0.unwrap();
        assert_eq!((answer.content().as_str(), answer.finish), ("Once", finish));
    }
    let mut refusing = text("msg_1", "");
    refusing["content"] = json!([{"type": "refusal", "refusal": "I cannot."}]);
    let fake = Fake::start([answer(json!([refusing]))]).await;
    let answer = respond(&model(&fake), ask("hi")).await.unwrap();
    assert_eq!(answer.content(), "I cannot.");
    assert_eq!(answer.finish, FinishReason::ContentFilter);
}

#[tokio::test]
async fn whatever_stands_in_a_conversation_the_request_is_legal() {
    let long = "x".repeat(90);
    let calls = [
        ToolCall::new(long.clone(), "a b!", "not json"),
        ToolCall::new("", "double", ""),
        ToolCall::new("same", "double", "{}"),
    ];
    for call in &calls {
        let (_, body) = sent(|model| model, ModelRequest::new(after_a_call(call))).await;
        assert_eq!(body["input"][1]["type"], "function_call");
    }
    let orphan = ToolResult::new(&calls[2], ToolStatus::Success, "");
    let conversation = Transcript::from_iter([
        Message::results([orphan]),
        Message::user(" "),
        Message::assistant(""),
    ]);
    let (_, body) = sent(|model| model, ModelRequest::new(conversation)).await;
    assert_eq!(body["input"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn azure_gets_its_key_and_its_version() {
    let fake = Fake::start([answer(json!([text("msg_1", "ok")]))]).await;
    let plain = model(&fake).with(|settings| settings.api_version = Some("preview".into()));
    respond(&plain, ask("hi")).await.unwrap();
    let head = fake.received().pop().unwrap().head.to_lowercase();
    assert!(
        head.starts_with("post /v1/responses?api-version=preview http"),
        "{head}"
    );
    assert!(head.contains("authorization: bearer sk-hunter2"), "{head}");
}
