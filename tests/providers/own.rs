//! What only its provider can read: it is kept in its place, goes back unchanged, and never to another provider.

use ghostlight::models::{Anthropic, Gemini, Secret};
use ghostlight_actors::vocabulary::{
    DataSource, FinishReason, Message, ModelRequest, ModelResponse, ModelSettings, Part, Reasoning,
    ToolCall, ToolChoice, ToolDefinition, ToolResult, ToolSet, ToolStatus, Transcript,
};
use serde_json::{Value, json};

use crate::{
    ask, double,
    fake::{Act, Fake, events, json as whole, piece, stream_end, stream_head},
    respond, said, stream,
};

fn anthropic(fake: &Fake) -> Anthropic {
    Anthropic::new("claude-test")
        .base_url(fake.model().settings().base_url.clone())
        .api_key(Secret::value("sk-ant-hunter2"))
        .with(|settings| settings.cache = false)
}

fn gemini(fake: &Fake) -> Gemini {
    Gemini::new("gemini-3-pro")
        .base_url(fake.model().settings().base_url.clone())
        .api_key(Secret::value("AIza-hunter2"))
}

fn answer(content: &Value, stop: &str) -> Value {
    json!({"type": "message", "role": "assistant", "model": "claude-test", "content": content,
        "stop_reason": stop, "usage": {"input_tokens": 3, "output_tokens": 4}})
}

/// The same answer as the events of a stream, in which text, input and citations come in pieces.
fn streamed(content: &Value, stop: &str) -> Vec<Act> {
    let mut sent = vec![json!({"type": "message_start", "message": answer(&json!([]), "")})];
    for (index, block) in content.as_array().unwrap().iter().enumerate() {
        let mut begun = block.clone();
        let mut pieces = Vec::new();
        match block["type"].as_str().unwrap() {
            "text" => {
                begun = json!({"type": "text", "text": ""});
                let text = block["text"].as_str().unwrap();
                pieces.push(json!({"type": "text_delta", "text": text}));
                for citation in block["citations"].as_array().into_iter().flatten() {
                    pieces.push(json!({"type": "citations_delta", "citation": citation}));
                }
            }
            "server_tool_use" | "tool_use" => {
                begun["input"] = json!({});
                let input = block["input"].to_string();
                let (one, two) = input.split_at(input.len() / 2);
                for part in ["", one, two] {
                    pieces.push(json!({"type": "input_json_delta", "partial_json": part}));
                }
            }
            "compaction" => {
                begun = json!({"type": "compaction", "content": ""});
                let content = &block["content"];
                pieces.push(json!({"type": "compaction_delta", "content": content}));
            }
            _ => {}
        }
        sent.push(json!({"type": "content_block_start", "index": index, "content_block": begun}));
        for delta in pieces {
            sent.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        sent.push(json!({"type": "content_block_stop", "index": index}));
    }
    let end = json!({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 4}});
    sent.extend([end, json!({"type": "message_stop"})]);
    let mut acts = vec![stream_head()];
    for event in sent {
        let kind = event["type"].as_str().unwrap();
        acts.push(piece(format!("event: {kind}\ndata: {event}\n\n")));
    }
    acts.push(stream_end());
    acts
}

/// The request of the next turn.
fn next(response: &ModelResponse) -> ModelRequest {
    let messages = [
        std::sync::Arc::new(Message::user("go")),
        response.message.clone(),
        std::sync::Arc::new(Message::user("and now?")),
    ];
    ModelRequest::new(Transcript::from_iter(messages))
}

fn searched() -> Value {
    json!([
        {"type": "compaction", "content": "They said hello."},
        {"type": "text", "text": "I look "},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "runs"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1",
            "content": [{"type": "web_search_result", "url": "https://a.example", "encrypted_content": "Eq=="}]},
        {"type": "text", "text": "it up: runs can "},
        {"type": "text", "text": "be cancelled",
            "citations": [{"type": "web_search_result_location", "url": "https://a.example", "cited_text": "can be"}]},
        {"type": "text", "text": "."},
    ])
}

#[tokio::test]
async fn blocks_of_anthropics_own_tools_go_back_in_their_place_and_to_nobody_else() {
    for is_streamed in [false, true] {
        let fake = Fake::start([match is_streamed {
            true => streamed(&searched(), "end_turn"),
            false => vec![whole(200, &answer(&searched(), "end_turn").to_string())],
        }])
        .await;
        let response = match is_streamed {
            true => stream(&anthropic(&fake), ask("go")).await.0.unwrap(),
            false => respond(&anthropic(&fake), ask("go")).await.unwrap(),
        };
        assert_eq!(response.content(), "I look it up: runs can be cancelled.");
        // As a journal keeps it.
        let kept = serde_json::to_string(&response).unwrap();
        let response: ModelResponse = serde_json::from_str(&kept).unwrap();

        let fake = Fake::json(answer(&json!([{"type": "text", "text": "ok"}]), "end_turn")).await;
        respond(&anthropic(&fake), next(&response)).await.unwrap();
        assert_eq!(fake.only_body()["messages"][1]["content"], searched());

        let fake = Fake::json(json!({"choices": [{"message": {"content": "ok"}}]})).await;
        respond(&fake.model(), next(&response)).await.unwrap();
        let expected =
            json!({"role": "assistant", "content": "I look it up: runs can be cancelled."});
        assert_eq!(fake.only_body()["messages"][1], expected);

        let fake = Fake::json(gemini_answer(json!([{"text": "ok"}]))).await;
        respond(&gemini(&fake), next(&response)).await.unwrap();
        let parts = fake.only_body()["contents"][1]["parts"].clone();
        let texts = ["I look ", "it up: runs can ", "be cancelled", "."];
        assert_eq!(parts, json!(texts.map(|text| json!({"text": text}))));
    }
}

#[tokio::test]
async fn who_called_a_tool_goes_back_with_the_call_and_a_dropped_call_takes_it_along() {
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "double", "input": {"n": 7},
        "caller": {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"}});
    let fake = Fake::json(answer(&json!([call]), "tool_use")).await;
    let response = respond(&anthropic(&fake), ask("go")).await.unwrap();
    let result = ToolResult::new(&response.calls()[0], ToolStatus::Success, "14");
    let conversation = [
        Message::user("go"),
        Message::clone(&response.message),
        Message::results([result]),
    ];
    let request = ModelRequest::new(conversation.into_iter().collect());
    respond(&anthropic(&fake), request).await.unwrap();
    let sent = &fake.received()[1].body["messages"][1]["content"];
    assert_eq!(*sent, json!([call]));

    let mut message = Message::clone(&response.message);
    message.retain_parts(|part| !matches!(part, Part::ToolCall(_)));
    assert_eq!(message.parts, []);
}

#[tokio::test]
async fn a_paused_answer_goes_on_and_is_one_answer() {
    let first = json!([
        {"type": "text", "text": "I look. "},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "runs"}},
    ]);
    let second = json!([
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
        {"type": "text", "text": "Found."},
    ]);
    for is_streamed in [false, true] {
        let replies = [(&first, "pause_turn"), (&second, "end_turn")];
        let replies = replies.map(|(content, stop)| match is_streamed {
            true => streamed(content, stop),
            false => vec![whole(200, &answer(content, stop).to_string())],
        });
        let fake = Fake::start(replies).await;
        let response = match is_streamed {
            true => stream(&anthropic(&fake), ask("go")).await.0.unwrap(),
            false => respond(&anthropic(&fake), ask("go")).await.unwrap(),
        };
        assert_eq!(response.content(), "I look. Found.");
        assert_eq!(response.finish, FinishReason::Stop);
        let usage = response.usage;
        assert_eq!((usage.input_tokens, usage.output_tokens), (6, 8));
        let sent = fake.received()[1].body["messages"].clone();
        assert_eq!(sent.as_array().unwrap().len(), 2);
        assert_eq!(sent[1], json!({"role": "assistant", "content": first}));
    }
}

#[tokio::test]
async fn a_container_is_named_again_as_long_as_it_lasts() {
    for (expires, is_named) in [
        ("2999-01-01T00:00:00Z", true),
        ("2020-01-01T00:00:00Z", false),
    ] {
        let mut body = answer(&json!([{"type": "text", "text": "ok"}]), "end_turn");
        body["container"] = json!({"id": "container_1", "expires_at": expires});
        let fake = Fake::json(body).await;
        let response = respond(&anthropic(&fake), ask("go")).await.unwrap();
        respond(&anthropic(&fake), next(&response)).await.unwrap();
        let sent = &fake.received()[1].body;
        assert_eq!(sent["container"] == "container_1", is_named, "{sent}");
    }
}

fn gemini_answer(parts: Value) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 2, "candidatesTokenCount": 3}, "modelVersion": "m"})
}

#[tokio::test]
async fn each_part_of_gemini_goes_back_with_its_own_signature() {
    let parts = json!([
        {"toolCall": {"id": "s1", "toolType": "FILE_SEARCH"}, "thoughtSignature": "c2lnMA=="},
        {"toolResponse": {"id": "s1", "toolType": "FILE_SEARCH"}, "thoughtSignature": "c2lnMQ=="},
        {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        {"text": "Runs can "},
        {"text": "be cancelled.", "thoughtSignature": "c2lnMg=="},
        {"functionCall": {"id": "f1", "name": "double", "args": {"n": 1}}, "thoughtSignature": "c2lnMw=="},
        {"text": "", "thoughtSignature": "c2lnNA=="},
    ]);
    for is_streamed in [false, true] {
        let fake = Fake::start([match is_streamed {
            false => vec![whole(200, &gemini_answer(parts.clone()).to_string())],
            true => {
                let mut pieces: Vec<String> = Vec::new();
                for part in parts.as_array().unwrap() {
                    pieces
                        .push(json!({"candidates": [{"content": {"parts": [part]}}]}).to_string());
                }
                pieces.push(gemini_answer(json!([])).to_string());
                events(pieces.iter().map(String::as_str))
            }
        }])
        .await;
        let response = match is_streamed {
            true => stream(&gemini(&fake), ask("go")).await.0.unwrap(),
            false => respond(&gemini(&fake), ask("go")).await.unwrap(),
        };
        assert_eq!(response.content(), "Runs can be cancelled.");
        let result = ToolResult::new(&response.calls()[0], ToolStatus::Success, "2");
        let conversation = || {
            Transcript::from_iter([
                Message::user("go"),
                Message::clone(&response.message),
                Message::results([result.clone()]),
            ])
        };
        let fake = Fake::json(gemini_answer(json!([{"text": "ok"}]))).await;
        respond(&gemini(&fake), ModelRequest::new(conversation()))
            .await
            .unwrap();
        let sent = fake.only_body()["contents"].clone();
        assert_eq!(sent[1]["parts"], parts);
        assert_eq!(sent[2]["parts"][0]["functionResponse"]["id"], "f1");

        let fake = Fake::json(answer(&json!([{"type": "text", "text": "ok"}]), "end_turn")).await;
        respond(&anthropic(&fake), ModelRequest::new(conversation()))
            .await
            .unwrap();
        let content = fake.only_body()["messages"][1]["content"].clone();
        let expected = json!([
            {"type": "text", "text": "Runs can "},
            {"type": "text", "text": "be cancelled."},
            {"type": "tool_use", "id": "f1", "name": "double", "input": {"n": 1}},
        ]);
        assert_eq!(content, expected);
    }
}

#[tokio::test]
async fn what_earlier_programs_kept_for_gemini_goes_back_as_it_did() {
    let signature = json!({"gemini": {"text": "dGV4dA==",
        "calls": {"f1": {"id": "f1", "thoughtSignature": "Y2FsbA=="}}}});
    let call = ToolCall::new("f1", "double", json!({"n": 1}));
    let thought = Reasoning {
        text: "hm".into(),
        signature: Some(signature.to_string()),
    };
    let parts = vec![
        Part::Reasoning(thought),
        Part::Text("so".into()),
        Part::ToolCall(call.clone()),
    ];
    let result = ToolResult::new(&call, ToolStatus::Success, "2");
    let conversation = [Message::user("go"), said(parts), Message::results([result])];
    let fake = Fake::json(gemini_answer(json!([{"text": "ok"}]))).await;
    let request = ModelRequest::new(conversation.into_iter().collect());
    respond(&gemini(&fake), request).await.unwrap();
    let sent = fake.only_body()["contents"].clone();
    let expected = json!([
        {"text": "so", "thoughtSignature": "dGV4dA=="},
        {"functionCall": {"id": "f1", "name": "double", "args": {"n": 1}}, "thoughtSignature": "Y2FsbA=="},
    ]);
    assert_eq!(sent[1]["parts"], expected);
    assert_eq!(sent[2]["parts"][0]["functionResponse"]["id"], "f1");
}

#[tokio::test]
async fn pictures_in_answers_are_kept_and_go_back_where_the_provider_takes_them() {
    let parts = json!([{"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}, "thoughtSignature": "c2ln"}]);
    let fake = Fake::json(gemini_answer(parts.clone())).await;
    let response = respond(&gemini(&fake), ask("draw")).await.unwrap();
    let Part::Data(picture) = &response.message.parts[0] else {
        panic!("{:?}", response.message.parts);
    };
    assert_eq!(picture.media_type, "image/png");
    assert_eq!(picture.source, DataSource::Base64("iVBORw0KGgo=".into()));
    respond(&gemini(&fake), next(&response)).await.unwrap();
    assert_eq!(fake.received()[1].body["contents"][1]["parts"], parts);

    let url = "data:image/png;base64,iVBORw0KGgo=";
    let image = json!([{"type": "image_url", "image_url": {"url": url}}]);
    let message = json!({"role": "assistant", "content": "", "images": image});
    let fake =
        Fake::json(json!({"choices": [{"message": message, "finish_reason": "stop"}]})).await;
    let drawn = respond(&fake.model(), ask("draw")).await.unwrap();
    assert_eq!(drawn.message.parts, [Part::Data(picture.clone())]);
    respond(&fake.model(), next(&drawn)).await.unwrap();
    let sent = &fake.received()[1].body["messages"][1];
    assert_eq!(
        *sent,
        json!({"role": "assistant", "content": "[file (image/png)]"})
    );
    let fake = Fake::json(answer(&json!([{"type": "text", "text": "ok"}]), "end_turn")).await;
    respond(&anthropic(&fake), next(&drawn)).await.unwrap();
    let sent = fake.only_body()["messages"][1]["content"].clone();
    assert_eq!(
        sent,
        json!([{"type": "text", "text": "[file (image/png)]"}])
    );
}

#[tokio::test]
async fn sources_and_probabilities_are_kept_beside_the_answer_and_go_back_to_nobody() {
    let note = |response: &ModelResponse| match response.message.parts.last() {
        Some(Part::Provider(own)) => own.content.clone(),
        other => panic!("{other:?}"),
    };
    let sources = json!([{"type": "url_citation", "url_citation": {"url": "https://a.example"}}]);
    let odds = json!({"content": [{"token": "o", "logprob": -0.1}]});
    let piece = |delta: Value, odds: Value| {
        json!({"choices": [{"delta": delta, "logprobs": odds}]}).to_string()
    };
    let fake = Fake::start([
        events([
            &*piece(json!({"content": "o"}), odds.clone()),
            &*piece(
                json!({"content": "k", "annotations": sources}),
                odds.clone(),
            ),
            r#"{"choices":[{"delta":{},"finish_reason":"stop","logprobs":null}]}"#,
            "[DONE]",
        ]),
        vec![whole(
            200,
            &json!({"choices": [{"message": {"content": "ok"}}]}).to_string(),
        )],
    ])
    .await;
    let response = stream(&fake.model(), ask("go")).await.0.unwrap();
    let both = json!([odds["content"][0], odds["content"][0]]);
    let expected = json!({"annotations": sources, "logprobs": {"content": both}});
    assert_eq!(note(&response), expected);
    respond(&fake.model(), next(&response)).await.unwrap();
    let sent = fake.received()[1].body["messages"][1].clone();
    assert_eq!(sent, json!({"role": "assistant", "content": "ok"}));

    let mut body = gemini_answer(json!([{"text": "ok"}]));
    let grounds = json!({"webSearchQueries": ["runs"], "groundingChunks": [{"web": {"uri": "https://a.example"}}]});
    body["candidates"][0]["groundingMetadata"] = grounds.clone();
    let fake = Fake::json(body).await;
    let response = respond(&gemini(&fake), ask("go")).await.unwrap();
    assert_eq!(note(&response), json!({"groundingMetadata": grounds}));
    respond(&gemini(&fake), next(&response)).await.unwrap();
    let sent = &fake.received()[1].body["contents"][1]["parts"];
    assert_eq!(*sent, json!([{"text": "ok"}]));
}

#[tokio::test]
async fn tools_of_the_provider_stand_beside_the_agents_own() {
    let request = || ask("go").tools(ToolSet::from_iter([double()]));
    let names = |body: &Value| -> Vec<String> {
        let tools = body["tools"].as_array().unwrap().iter();
        let name = |tool: &Value| {
            tool["name"]
                .as_str()
                .or(tool["function"]["name"].as_str())
                .map(str::to_owned)
        };
        tools
            .map(|tool| name(tool).unwrap_or_else(|| tool.to_string()))
            .collect()
    };
    let search = json!([{"type": "web_search_20250305", "name": "web_search"}]);
    let fake = Fake::json(answer(&json!([{"type": "text", "text": "ok"}]), "end_turn")).await;
    let model = anthropic(&fake).with(|settings| {
        settings.extra.insert("tools".into(), search.clone());
    });
    respond(&model, request()).await.unwrap();
    assert_eq!(names(&fake.only_body()), ["double", "web_search"]);

    let fake = Fake::json(gemini_answer(json!([{"text": "ok"}]))).await;
    let model = gemini(&fake).with(|settings| {
        settings.thinking_budget = Some(7);
        settings
            .extra
            .insert("tools".into(), json!([{"googleSearch": {}}]));
        let config = json!({"thinkingConfig": {"includeThoughts": true}, "topK": 3});
        settings.extra.insert("generationConfig".into(), config);
    });
    respond(&model, request()).await.unwrap();
    let body = fake.only_body();
    assert_eq!(
        body["tools"][0]["functionDeclarations"][0]["name"],
        "double"
    );
    assert_eq!(body["tools"][1], json!({"googleSearch": {}}));
    let thinking = json!({"thinkingBudget": 7, "includeThoughts": true});
    assert_eq!(
        body["generationConfig"],
        json!({"thinkingConfig": thinking, "topK": 3})
    );

    let fake = Fake::json(json!({"choices": [{"message": {"content": "ok"}}]})).await;
    let changed =
        json!({"type": "function", "function": {"name": "double", "description": "other"}});
    let model = fake
        .model()
        .extra("tools", json!([{"type": "web_search"}, changed]));
    respond(&model, request()).await.unwrap();
    let body = fake.only_body();
    assert_eq!(body["tools"].as_array().unwrap().len(), 2);
    assert_eq!(body["tools"][0], changed);
    assert_eq!(body["tools"][1], json!({"type": "web_search"}));
}

#[tokio::test]
async fn a_strict_tool_is_strict_where_its_schema_can_be_and_a_missing_one_is_not_forced() {
    let closed = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
        "additionalProperties": false});
    let tools = || {
        let open = ToolDefinition::new("open", "").parameters(json!({"type": "object",
            "properties": {"n": {"type": "integer"}}}));
        let strict = ToolDefinition::new("closed", "").parameters(closed.clone());
        ToolSet::from_iter([strict.strict(), open.strict(), double()])
    };
    let mut settings = ModelSettings::default();
    settings.tool_choice = Some(ToolChoice::Tool("no such tool".into()));
    let request = || ask("go").tools(tools()).settings(settings.clone());
    let fake = Fake::json(json!({"choices": [{"message": {"content": "ok"}}]})).await;
    respond(&fake.model(), request()).await.unwrap();
    let body = fake.only_body();
    let strict = [0, 1, 2].map(|at| body["tools"][at]["function"]["strict"] == true);
    assert_eq!(strict, [true, false, false]);
    assert_eq!(body.get("tool_choice"), None);
    let fake = Fake::json(answer(&json!([{"type": "text", "text": "ok"}]), "end_turn")).await;
    respond(&anthropic(&fake), request()).await.unwrap();
    let body = fake.only_body();
    assert_eq!(body["tools"][0]["strict"], true);
    assert_eq!(body["tools"][2].get("strict"), None);
    assert_eq!(body.get("tool_choice"), None);
    let fake = Fake::json(gemini_answer(json!([{"text": "ok"}]))).await;
    respond(&gemini(&fake), request()).await.unwrap();
    assert_eq!(fake.only_body().get("toolConfig"), None);
}

#[tokio::test]
async fn writes_to_a_cache_are_counted_and_priced() {
    let mut body = answer(&json!([{"type": "text", "text": "ok"}]), "end_turn");
    body["usage"] = json!({"input_tokens": 100, "cache_creation_input_tokens": 200,
        "cache_read_input_tokens": 300, "output_tokens": 10});
    let fake = Fake::json(body).await;
    let model = anthropic(&fake).with(|settings| {
        let prices = json!({"input": 4.0, "cached_input": 0.5, "cache_write": 5.0, "output": 20.0});
        settings.prices = Some(serde_json::from_value(prices).unwrap());
    });
    let usage = respond(&model, ask("go")).await.unwrap().usage;
    assert_eq!((usage.input_tokens, usage.cache_write_tokens), (600, 200));
    assert_eq!(usage.cost_micros, 100 * 4 + 200 * 5 + 150 + 200);
    let usage = json!({"prompt_tokens": 50, "completion_tokens": 1,
        "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 40}});
    let body = json!({"choices": [{"message": {"content": "ok"}}], "usage": usage});
    let fake = Fake::json(body).await;
    let usage = respond(&fake.model(), ask("go")).await.unwrap().usage;
    assert_eq!(usage.cache_write_tokens, 40);
}
