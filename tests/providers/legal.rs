//! Whatever stands in a conversation or in a list of tools, the request that leaves is one that the provider accepts.

use std::collections::HashMap;

use ghostlight::models::{Anthropic, Gemini, Secret};
use ghostlight_actors::{
    testing::check_sent,
    vocabulary::{
        Data, DataSource, Message, ModelRequest, Part, Reasoning, Role, ToolCall, ToolDefinition,
        ToolResult, ToolSet, ToolStatus, Transcript,
    },
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    after_a_call, ask,
    fake::{Act, Fake, json as whole},
    respond, responses,
};

const PICTURE: &str = "image/png";

fn openai_answer() -> Vec<Act> {
    vec![whole(200, r#"{"choices":[{"message":{"content":"ok"}}]}"#)]
}

fn anthropic_answer() -> Vec<Act> {
    let body = json!({"type": "message", "content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn"});
    vec![whole(200, &body.to_string())]
}

fn gemini_answer() -> Vec<Act> {
    let body =
        json!({"candidates": [{"content": {"parts": [{"text": "ok"}]}, "finishReason": "STOP"}]});
    vec![whole(200, &body.to_string())]
}

#[cfg(feature = "bedrock")]
async fn sent_to_bedrock(request: &ModelRequest) -> Option<Value> {
    let body = json!({"output": {"message": {"role": "assistant", "content": [{"text": "ok"}]}}, "stopReason": "end_turn"});
    let fake = Fake::start([vec![whole(200, &body.to_string())]]).await;
    respond(&crate::bedrock::model(&fake), request.clone())
        .await
        .unwrap();
    Some(fake.only_body())
}

#[cfg(not(feature = "bedrock"))]
async fn sent_to_bedrock(_: &ModelRequest) -> Option<Value> {
    None
}

/// What each adapter sends for this request: OpenAI's, Anthropic's, Gemini's, that of Responses, Bedrock's.
async fn sent(request: &ModelRequest) -> Vec<Value> {
    let (openai, anthropic, gemini) = (
        Fake::start([openai_answer()]).await,
        Fake::start([anthropic_answer()]).await,
        Fake::start([gemini_answer()]).await,
    );
    let key = || Secret::value("sk-hunter2");
    let address = |fake: &Fake| fake.model().settings().base_url.clone();
    let claude = Anthropic::new("claude-haiku-4-5").base_url(address(&anthropic));
    let google = Gemini::new("gemini-3-pro").base_url(address(&gemini));
    respond(&openai.model(), request.clone()).await.unwrap();
    respond(&claude.api_key(key()), request.clone())
        .await
        .unwrap();
    respond(&google.api_key(key()), request.clone())
        .await
        .unwrap();
    let items = Fake::start([responses::answer(json!([responses::text("m", "ok")]))]).await;
    respond(&responses::model(&items), request.clone())
        .await
        .unwrap();
    let mut bodies = vec![
        openai.only_body(),
        anthropic.only_body(),
        gemini.only_body(),
        items.only_body(),
    ];
    bodies.extend(sent_to_bedrock(request).await);
    bodies
}

fn text_of(value: &Value) -> Vec<Part> {
    match value {
        Value::String(text) => vec![Part::Text(text.clone())],
        Value::Array(parts) => parts.iter().map(part_of).collect(),
        _ => Vec::new(),
    }
}

fn part_of(part: &Value) -> Part {
    match part["text"].as_str() {
        Some(text) => Part::Text(text.to_owned()),
        None => Part::Data(Data {
            media_type: PICTURE.into(),
            name: None,
            source: DataSource::Base64("AAAA".into()),
        }),
    }
}

fn message(role: Role, parts: Vec<Part>) -> Message {
    Message {
        role,
        author: None,
        parts,
        synthetic: false,
    }
}

fn result(id: &str, name: &str, text: &str) -> ToolResult {
    ToolResult::new(&ToolCall::new(id, name, "{}"), ToolStatus::Success, text)
}

fn word(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// The conversation in the body of a request to OpenAI.
fn of_openai(body: &Value) -> Vec<Message> {
    let mut names: HashMap<String, String> = HashMap::new();
    let messages = body["messages"].as_array().unwrap().iter();
    let read = |message_: &Value| match message_["role"].as_str().unwrap() {
        "tool" => {
            let id = word(&message_["tool_call_id"]);
            let name = names.get(&id).cloned().unwrap_or_default();
            Message::results([result(&id, &name, message_["content"].as_str().unwrap())])
        }
        "assistant" => {
            let mut parts = text_of(&message_["content"]);
            for call in message_["tool_calls"].as_array().into_iter().flatten() {
                let (id, name) = (word(&call["id"]), word(&call["function"]["name"]));
                let arguments = word(&call["function"]["arguments"]);
                assert!(
                    serde_json::from_str::<Value>(&arguments)
                        .unwrap()
                        .is_object()
                );
                names.insert(id.clone(), name.clone());
                parts.push(Part::ToolCall(ToolCall::new(id, name, arguments)));
            }
            message(Role::Assistant, parts)
        }
        "system" => message(Role::System, text_of(&message_["content"])),
        _ => message(Role::User, text_of(&message_["content"])),
    };
    messages.map(read).collect()
}

/// The conversation in the body of a request to Anthropic, whose turns must alternate.
fn of_anthropic(body: &Value) -> Vec<Message> {
    let mut names: HashMap<String, String> = HashMap::new();
    let mut read = Vec::new();
    for (turn, expected) in body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .zip(["user", "assistant"].into_iter().cycle())
    {
        assert_eq!(turn["role"], expected);
        let (mut parts, mut results) = (Vec::new(), Vec::new());
        for block in turn["content"].as_array().unwrap() {
            match block["type"].as_str().unwrap() {
                "tool_use" => {
                    let (id, name) = (word(&block["id"]), word(&block["name"]));
                    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                    assert!(id.chars().all(plain), "{id}");
                    names.insert(id.clone(), name.clone());
                    parts.push(Part::ToolCall(ToolCall::new(
                        id,
                        name,
                        block["input"].clone(),
                    )));
                }
                "tool_result" => {
                    assert!(parts.is_empty(), "results come first");
                    let id = word(&block["tool_use_id"]);
                    let name = names.get(&id).cloned().unwrap_or_default();
                    let text = block["content"][0]["text"].as_str().unwrap_or_default();
                    results.push(result(&id, &name, text));
                }
                "thinking" | "redacted_thinking" => {}
                _ => parts.push(part_of(block)),
            }
        }
        let role = if expected == "user" {
            Role::User
        } else {
            Role::Assistant
        };
        read.extend((!results.is_empty()).then(|| Message::results(results)));
        read.extend((!parts.is_empty()).then(|| message(role, parts)));
    }
    assert_ne!(read.last().unwrap().role, Role::Assistant);
    read
}

/// The conversation in the body of a request to Gemini, where calls and results are matched by their order.
fn of_gemini(body: &Value) -> Vec<Message> {
    let (mut calls, mut answered) = (0, 0);
    let mut read = Vec::new();
    for turn in body["contents"].as_array().unwrap() {
        let (mut parts, mut results) = (Vec::new(), Vec::new());
        for part in turn["parts"].as_array().unwrap() {
            if part["functionCall"].is_object() {
                let id = calls.to_string();
                calls += 1;
                assert!(part["functionCall"]["args"].is_object());
                parts.push(Part::ToolCall(ToolCall::new(
                    id,
                    word(&part["functionCall"]["name"]),
                    "{}",
                )));
            } else if part["functionResponse"].is_object() {
                let id = answered.to_string();
                answered += 1;
                let (name, response) = (
                    word(&part["functionResponse"]["name"]),
                    &part["functionResponse"]["response"],
                );
                let text = response.as_object().unwrap().values().next().unwrap();
                results.push(result(&id, &name, text.as_str().unwrap()));
            } else {
                parts.push(part_of(part));
            }
        }
        let role = if turn["role"] == "user" {
            Role::User
        } else {
            Role::Assistant
        };
        read.extend((!results.is_empty()).then(|| Message::results(results)));
        read.extend((!parts.is_empty()).then(|| message(role, parts)));
    }
    read
}

/// The conversation in the body of a request to Responses, where calls and texts of one answer are items of their own.
fn of_responses(body: &Value) -> Vec<Message> {
    let mut names: HashMap<String, String> = HashMap::new();
    let mut read: Vec<Message> = Vec::new();
    for item in body["input"].as_array().unwrap() {
        let (role, parts) = match item["type"].as_str() {
            Some("function_call") => {
                let (id, name) = (word(&item["call_id"]), word(&item["name"]));
                let arguments = word(&item["arguments"]);
                let value: Value = serde_json::from_str(&arguments).unwrap();
                assert!(value.is_object());
                names.insert(id.clone(), name.clone());
                let call = ToolCall::new(id, name, arguments);
                (Role::Assistant, vec![Part::ToolCall(call)])
            }
            Some("function_call_output") => {
                let id = word(&item["call_id"]);
                let name = names.get(&id).cloned().unwrap_or_default();
                let output = &item["output"];
                let text = output.as_str().or_else(|| output[0]["text"].as_str());
                let result = result(&id, &name, text.unwrap());
                (Role::Tool, vec![Part::ToolResult(result)])
            }
            _ => {
                let role = match item["role"].as_str().unwrap() {
                    "assistant" => Role::Assistant,
                    "system" => Role::System,
                    _ => Role::User,
                };
                (role, text_of(&item["content"]))
            }
        };
        match read.last_mut().filter(|last| last.role == role) {
            Some(last) => last.parts.extend(parts),
            None => read.push(message(role, parts)),
        }
    }
    read
}

/// The conversation in the body of a request to Bedrock, whose turns must alternate.
fn of_bedrock(body: &Value) -> Vec<Message> {
    let mut names: HashMap<String, String> = HashMap::new();
    let mut read = Vec::new();
    let turns = body["messages"].as_array().unwrap().iter();
    for (turn, expected) in turns.zip(["user", "assistant"].into_iter().cycle()) {
        assert_eq!(turn["role"], expected);
        let (mut parts, mut results) = (Vec::new(), Vec::new());
        for block in turn["content"].as_array().unwrap() {
            let (call, of_call) = (&block["toolUse"], &block["toolResult"]);
            if call.is_object() {
                let (id, name) = (word(&call["toolUseId"]), word(&call["name"]));
                let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                assert!(id.chars().all(plain) && call["input"].is_object(), "{call}");
                names.insert(id.clone(), name.clone());
                let call = ToolCall::new(id, name, call["input"].clone());
                parts.push(Part::ToolCall(call));
            } else if of_call.is_object() {
                let id = word(&of_call["toolUseId"]);
                let name = names.get(&id).cloned().unwrap_or_default();
                let text = of_call["content"][0]["text"].as_str().unwrap_or_default();
                results.push(result(&id, &name, text));
            } else if !block["cachePoint"].is_object() && !block["reasoningContent"].is_object() {
                parts.push(part_of(block));
            }
        }
        let role = match expected {
            "user" => Role::User,
            _ => Role::Assistant,
        };
        read.extend((!results.is_empty()).then(|| Message::results(results)));
        read.extend((!parts.is_empty()).then(|| message(role, parts)));
    }
    assert_ne!(read.last().unwrap().role, Role::Assistant);
    read
}

fn tools_of(list: &Value, schema: &str) -> ToolSet {
    let list = list.as_array().into_iter().flatten();
    let tools = list
        .map(|tool| ToolDefinition::new(word(&tool["name"]), "").parameters(tool[schema].clone()));
    tools.collect()
}

/// The first breach of the rules in what each adapter sends.
fn breaches(bodies: &[Value]) -> Vec<String> {
    let [openai, anthropic, gemini, responses, bedrock @ ..] = bodies else {
        panic!("{bodies:?}");
    };
    let openai_tools = openai["tools"]
        .as_array()
        .map(|tools| tools.iter().map(|tool| tool["function"].clone()).collect());
    let gemini_tools = &gemini["tools"][0]["functionDeclarations"];
    // Tools that are only named, because they were called before, need no schema of their own.
    let anthropic_tools = match anthropic["tool_choice"]["type"] == "none" {
        true => ToolSet::default(),
        false => tools_of(&anthropic["tools"], "input_schema"),
    };
    let mut all = vec![
        (
            of_openai(openai),
            tools_of(&openai_tools.unwrap_or_default(), "parameters"),
            40,
        ),
        (of_anthropic(anthropic), anthropic_tools, 64),
        (
            of_gemini(gemini),
            tools_of(gemini_tools, "parametersJsonSchema"),
            64,
        ),
        (
            of_responses(responses),
            tools_of(&responses["tools"], "parameters"),
            64,
        ),
    ];
    all.extend(bedrock.iter().map(|body| {
        let tools = body["toolConfig"]["tools"].as_array().into_iter().flatten();
        let tools = tools.map(|tool| &tool["toolSpec"]).filter(|tool| {
            tool.is_object() && tool["inputSchema"]["json"] != json!({"type": "object"})
        });
        let tools = tools.map(|tool| {
            ToolDefinition::new(word(&tool["name"]), "")
                .parameters(tool["inputSchema"]["json"].clone())
        });
        (of_bedrock(body), tools.collect(), 64)
    }));
    let checked = all.into_iter().filter_map(|(messages, tools, longest)| {
        let messages: Vec<_> = messages.into_iter().map(Into::into).collect();
        check_sent(&messages, &tools, longest).err()
    });
    checked.collect()
}

#[tokio::test]
async fn a_call_under_a_name_that_no_provider_takes_goes_back_under_a_legal_one() {
    for (name, expected) in [
        ("functions.calculator:0", "functions_calculator_0"),
        (
            "calculator<|channel|>commentary",
            "calculator__channel__commentary",
        ),
        ("double", "double"),
    ] {
        let call = ToolCall::new("c1", name, "{}");
        let bodies = sent(&ModelRequest::new(after_a_call(&call))).await;
        assert_eq!(breaches(&bodies), Vec::<String>::new());
        assert_eq!(
            bodies[0]["messages"][1]["tool_calls"][0]["function"]["name"],
            expected
        );
        assert_eq!(bodies[1]["messages"][1]["content"][0]["name"], expected);
        assert_eq!(
            bodies[2]["contents"][1]["parts"][0]["functionCall"]["name"],
            expected
        );
        assert_eq!(
            bodies[2]["contents"][2]["parts"][0]["functionResponse"]["name"],
            expected
        );
    }
}

#[tokio::test]
async fn an_id_that_is_too_long_is_the_same_for_a_call_and_its_result_in_every_request() {
    let long = format!("call_{}", "0123456789abcdef".repeat(3));
    let request = ModelRequest::new(after_a_call(&ToolCall::new(&long, "double", "{}")));
    let ids = async |request: &ModelRequest| {
        let bodies = sent(request).await;
        let (openai, anthropic) = (&bodies[0], &bodies[1]);
        let of_call = &openai["messages"][1]["tool_calls"][0]["id"];
        assert!(of_call.as_str().unwrap().len() <= 40);
        assert_eq!(*of_call, openai["messages"][2]["tool_call_id"]);
        let own = &anthropic["messages"][1]["content"][0]["id"];
        assert_eq!(*own, anthropic["messages"][2]["content"][0]["tool_use_id"]);
        of_call.clone()
    };
    let first = ids(&request).await;
    assert_eq!(first, ids(&request).await);
    let other = ModelRequest::new(after_a_call(&ToolCall::new(
        format!("{long}x"),
        "double",
        "{}",
    )));
    assert_ne!(first, ids(&other).await);
}

#[tokio::test]
async fn a_result_without_words_says_so() {
    let call = ToolCall::new("c1", "draw", "{}");
    for attachments in [0, 1] {
        let mut drawn = ToolResult::new(&call, ToolStatus::Success, " ");
        drawn.attachments = vec![picture(); attachments];
        let asked = message(Role::Assistant, vec![Part::ToolCall(call.clone())]);
        let conversation = [Message::user("Draw."), asked, Message::results([drawn])];
        let bodies = sent(&ModelRequest::new(conversation.into_iter().collect())).await;
        assert_eq!(breaches(&bodies), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_tool_that_no_provider_takes_is_mended_or_left_out_and_the_others_stay() {
    let of = |name: &str, schema: Value| ToolDefinition::new(name, "").parameters(schema);
    let tools = ToolSet::from_iter([
        of("bare", json!({})),
        of("null", json!({"type": "object", "properties": null})),
        of(
            "inner",
            json!({"type": "object", "properties": {"a": {"type": "string"}, "required": ["a"]}}),
        ),
        of(
            "untyped",
            json!({"type": "object", "properties": {"a": {"type": null}}}),
        ),
        of(
            "either",
            json!({"anyOf": [
                {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
                {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]},
            ]}),
        ),
        of(
            "nested",
            json!({"type": "object", "properties": {
                "a": {"anyOf": [{"type": "object", "properties": null, "required": true}]},
                "b": {"type": ["array", "any"]},
                "c": {"type": "array"},
            }}),
        ),
        of(
            "list",
            json!({"type": "array", "items": {"type": "string"}}),
        ),
        of(&"n".repeat(65), json!({"type": "object", "properties": {}})),
    ]);
    let bodies = sent(&ask("Go.").tools(tools)).await;
    assert_eq!(breaches(&bodies), Vec::<String>::new());
    let list = bodies[0]["tools"].as_array().unwrap();
    let names: Vec<_> = list
        .iter()
        .map(|tool| word(&tool["function"]["name"]))
        .collect();
    assert_eq!(
        names,
        ["bare", "null", "inner", "untyped", "either", "nested"]
    );
    assert_eq!(list[2]["function"]["parameters"]["required"], json!(["a"]));
    let either = &list[4]["function"]["parameters"];
    assert_eq!(either["properties"].as_object().unwrap().len(), 2);
    assert!(either.get("required").is_none(), "{either}");
}

fn picture() -> Data {
    Data {
        media_type: PICTURE.into(),
        name: None,
        source: DataSource::Base64("AAAA".into()),
    }
}

fn any_call() -> impl Strategy<Value = ToolCall> {
    let ids = ["", "a", "b", "call.1", "call_2e_1", "ü", &*"x".repeat(47)].map(str::to_owned);
    let names = [
        "f",
        "g",
        "",
        "functions.f:0",
        "f<|channel|>",
        &*"n".repeat(70),
    ]
    .map(str::to_owned);
    let arguments = ["", "{}", "{\"x\":1}", "no json", "[1]"].map(str::to_owned);
    let parts = (
        prop::sample::select(ids.to_vec()),
        prop::sample::select(names.to_vec()),
        prop::sample::select(arguments.to_vec()),
    );
    parts.prop_map(|(id, name, arguments)| ToolCall::new(id, name, arguments))
}

fn any_part() -> impl Strategy<Value = Part> {
    let text = prop::sample::select(vec!["", " \n", "hi", "yes"]);
    prop_oneof![
        1 => text.clone().prop_map(|text| Part::Text(text.into())),
        3 => any_call().prop_map(Part::ToolCall),
        3 => (any_call(), text.clone(), 0_usize..2).prop_map(|(call, text, pictures)| {
            let mut result = ToolResult::new(&call, ToolStatus::Success, text);
            result.attachments = vec![picture(); pictures];
            Part::ToolResult(result)
        }),
        1 => text.prop_map(|text| Part::Reasoning(Reasoning { text: text.into(), signature: None })),
        1 => Just(Part::Data(picture())),
    ]
}

fn any_message() -> impl Strategy<Value = Message> {
    let roles = prop_oneof![
        1 => Just(Role::System),
        1 => Just(Role::User),
        3 => Just(Role::Assistant),
        3 => Just(Role::Tool),
    ];
    (roles, prop::collection::vec(any_part(), 0..4)).prop_map(|(role, parts)| message(role, parts))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn any_conversation_goes_out_as_one_that_providers_accept(
        messages in prop::collection::vec(any_message(), 0..7),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let request = ModelRequest::new(Transcript::from_iter(messages));
        let bodies = runtime.block_on(sent(&request));
        prop_assert_eq!(breaches(&bodies), Vec::<String>::new());
    }
}
