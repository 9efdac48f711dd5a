//! Servers that refuse what each of them is known to refuse, and the profiles that keep requests legal for them.

use std::collections::BTreeSet;

use ghostlight::models::{
    OpenAi, Secret,
    openai::{Profile, ProfileChoice},
};
use ghostlight_actors::vocabulary::{
    Data, ErrorKind, Message, ModelRequest, ModelSettings, OutputSchema, Part, ProviderPart,
    Reasoning, Role, ToolCall, ToolDefinition, ToolResult, ToolSet, ToolStatus, Transcript,
};
use serde_json::{Value, json};

use crate::{fake::Fake, respond};

/// A request with all that a server may refuse.
fn asked() -> ModelRequest {
    let call = ToolCall::new("call_0123456789-of-another-server", "find", "{\"a\": 1}");
    let thought = Part::Reasoning(Reasoning {
        text: "hm".into(),
        signature: None,
    });
    let field = json!({"field": "reasoning_content"});
    let answer = Message {
        role: Role::Assistant,
        author: None,
        parts: vec![
            thought,
            Part::Provider(ProviderPart::fields("another.example", field)),
            Part::ToolCall(call.clone()),
        ],
        synthetic: false,
    };
    let mut settings = ModelSettings::default();
    settings.max_tokens = Some(10);
    settings.seed = Some(3);
    settings.stop = vec!["END".into()];
    ModelRequest::new(Transcript::from_iter([
        Message::user("hi"),
        answer,
        Message::results([ToolResult::new(&call, ToolStatus::Success, "1")]),
    ]))
    .tools(ToolSet::from_iter([ToolDefinition::new("find", "finds")]))
    .settings(settings)
    .output(OutputSchema {
        name: "a".into(),
        schema: json!({"type": "object", "properties": {"a": {"type": "string"}}}),
        strict: true,
    })
    .streaming()
}

/// What a server says of a request that it refuses.
fn fault(name: &str, body: &Value) -> Option<String> {
    let fields = body.as_object()?.keys().map(String::as_str);
    let fields: BTreeSet<&str> = fields.collect();
    let refused: &[&str] = match name {
        "mistral" => &["seed", "stream_options", "max_completion_tokens"],
        "openai" | "azure" | "cerebras" | "groq" | "xai" => &["max_tokens"],
        "cohere" => &[
            "max_completion_tokens",
            "random_seed",
            "parallel_tool_calls",
        ],
        _ => &["max_completion_tokens", "random_seed"],
    };
    if let Some(field) = refused.iter().find(|field| fields.contains(**field)) {
        return Some(format!("{field}: extra fields are not permitted"));
    }
    let format = body["response_format"]["type"].as_str();
    match (name, format) {
        ("deepseek" | "moonshot", Some("json_schema")) => return Some("no json_schema".into()),
        ("groq" | "cohere", Some(_)) => return Some("no response_format beside tools".into()),
        _ => {}
    }
    let thinking: &[&str] = match name {
        "groq" | "cerebras" => &["reasoning"],
        "deepseek" | "moonshot" | "xai" => &["reasoning_content"],
        "cohere" | "mistral" | "openai" | "azure" => &[],
        _ => &["reasoning", "reasoning_content"],
    };
    let roles = body["messages"].as_array()?.iter();
    let roles: Vec<&str> = roles
        .filter_map(|message| message["role"].as_str())
        .collect();
    if name == "mistral" && roles.windows(2).any(|pair| pair == ["tool", "user"]) {
        return Some("Unexpected role 'user' after role 'tool'".into());
    }
    if name == "mistral" && roles.last() == Some(&"assistant") {
        return Some("Expected last role User or Tool".into());
    }
    for message in body["messages"].as_array()? {
        let is_call = message["tool_calls"].is_array() && message["reasoning_content"].is_null();
        if matches!(name, "deepseek" | "moonshot") && is_call {
            return Some("reasoning_content is missing".into());
        }
        for field in ["reasoning", "reasoning_content"] {
            if !message[field].is_null() && !thinking.contains(&field) {
                return Some(format!("property '{field}' is unsupported"));
            }
        }
        if message["content"].is_array() && name != "mistral" && message["role"] == "assistant" {
            return Some("content of the assistant is a text".into());
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let id = call["id"].as_str()?;
            let fits = match name {
                "mistral" => id.len() == 9 && id.chars().all(|c| c.is_ascii_alphanumeric()),
                _ => id.len() <= 40,
            };
            if !fits {
                return Some(format!("Tool call id was {id}"));
            }
        }
    }
    None
}

#[tokio::test]
async fn what_each_server_is_known_to_refuse_is_not_sent_to_it() {
    for profile in Profile::all() {
        let name = profile.name.as_str();
        let fake = Fake::json(json!({"choices": [{"message": {"content": "ok"}}]})).await;
        let model = fake.model().with(|settings| {
            settings.profile = Some(ProfileChoice::like(name).unwrap());
        });
        respond(&model, asked()).await.unwrap();
        let body = fake.only_body();
        assert_eq!(fault(name, &body), None, "{name}: {body}");
        let is_told = body["response_format"].is_object()
            || body["messages"][0]["content"]
                .as_str()
                .unwrap()
                .contains("JSON Schema");
        assert!(is_told, "{name}: {body}");
        let answer = &body["messages"]
            .as_array()
            .unwrap()
            .iter()
            .find(|message| message["role"] == "assistant");
        let (call, result) = (
            answer.unwrap()["tool_calls"][0]["id"].clone(),
            body["messages"].as_array().unwrap().last().unwrap()["tool_call_id"].clone(),
        );
        assert_eq!(call, result, "{name}");
    }
    // Without the profiles the same request is refused by most.
    let fake = Fake::json(json!({"choices": [{"message": {"content": "ok"}}]})).await;
    respond(&fake.model(), asked()).await.unwrap();
    let body = fake.only_body();
    let refusing = Profile::all();
    let refusing = refusing
        .iter()
        .filter(|profile| fault(&profile.name, &body).is_some());
    assert!(refusing.count() >= 7);
}

#[tokio::test]
async fn mistral_gets_turns_in_an_order_that_it_takes_and_others_get_them_as_they_are() {
    let call = ToolCall::new("D681PevKs", "find", "{}");
    let calls = || Message {
        parts: vec![Part::ToolCall(call.clone())],
        ..Message::assistant("")
    };
    let found = || ToolResult::new(&call, ToolStatus::Success, "1");
    let mut seen = found();
    let picture = Data::from_bytes("a.png", b"\x89PNG\r\n\x1a\n").unwrap();
    seen.attachments.push(picture);
    for (messages, plain, strict) in [
        (
            vec![calls(), Message::results([found()]), Message::user("stop")],
            "user assistant tool user",
            "user assistant tool assistant user",
        ),
        (
            vec![calls(), Message::results([seen])],
            "user assistant tool user",
            "user assistant tool assistant user",
        ),
        (
            vec![calls(), Message::results([found()])],
            "user assistant tool",
            "user assistant tool",
        ),
        (
            vec![Message::assistant("Half of ")],
            "user assistant",
            "user assistant user",
        ),
    ] {
        let conversation = Transcript::from_iter([vec![Message::user("hi")], messages].concat());
        let model = |fake: &Fake, profile: &str| {
            let choice = ProfileChoice::like(profile).unwrap();
            fake.model()
                .with(|settings| settings.profile = Some(choice))
        };
        for (profile, order) in [("mistral", strict), ("ollama", plain)] {
            let fake = Fake::json(json!({"choices": [{"message": {"content": "ok"}}]})).await;
            let request = ModelRequest::new(conversation.clone());
            respond(&model(&fake, profile), request).await.unwrap();
            let body = fake.only_body();
            let roles = body["messages"].as_array().unwrap().iter();
            let roles: Vec<&str> = roles
                .map(|message| message["role"].as_str().unwrap())
                .collect();
            assert_eq!(roles.join(" "), order, "{profile}");
            assert_eq!(fault(profile, &body), None, "{profile}: {body}");
        }
    }
}

#[tokio::test]
async fn a_named_profile_brings_its_address_and_its_keys_variable() {
    let groq = OpenAi::new("openai/gpt-oss-20b").with(|settings| {
        settings.profile = Some(ProfileChoice::like("groq").unwrap());
    });
    let error = groq.check().unwrap_err();
    assert!(error.message.contains("GROQ_API_KEY"), "{error}");
    let told = format!("{groq:?}");
    assert!(told.contains("api.groq.com"), "{told}");
    let elsewhere = groq.base_url("http://127.0.0.1:9/v1");
    elsewhere.check().unwrap();
    let local = OpenAi::new("qwen3").with(|settings| {
        settings.profile = Some(ProfileChoice::like("ollama").unwrap());
    });
    local.check().unwrap();
}

#[tokio::test]
async fn a_file_that_a_model_does_not_take_is_refused_before_the_call() {
    let fake = Fake::json(json!({"choices": [{"message": {"content": "ok"}}]})).await;
    let model = |correct: bool| {
        fake.model().with(|settings| {
            let choice = ProfileChoice::like("deepseek").unwrap();
            settings.profile = Some(match correct {
                true => choice.with("images", true).unwrap(),
                false => choice,
            });
        })
    };
    let picture = Data::from_bytes("a.png", b"\x89PNG\r\n\x1a\n").unwrap();
    let message = Message::user("see").attach(picture);
    let request = ModelRequest::new(Transcript::from_iter([message]));
    let error = respond(&model(false), request.clone()).await.unwrap_err();
    assert_eq!(
        (error.kind.clone(), error.retryable),
        (ErrorKind::InvalidInput, false)
    );
    for words in ["a.png (image/png)", "profile", "test-model"] {
        assert!(error.message.contains(words), "{error}");
    }
    assert!(fake.received().is_empty());
    respond(&model(true), request).await.unwrap();
    let content = &fake.only_body()["messages"][0]["content"];
    assert_eq!(content[1]["type"], "image_url");
}

#[tokio::test]
async fn azure_gets_its_key_its_version_and_either_form_of_address() {
    let fake = Fake::json(json!({"choices": [{"message": {"content": "ok"}}]})).await;
    let at = |path: &str, version: Option<&str>| {
        let base = fake.model().settings().base_url.replace("/v1", path);
        fake.model().base_url(base).with(|settings| {
            settings.profile = Some(ProfileChoice::like("azure").unwrap());
            settings.api_key = Some(Secret::value("k1"));
            settings.api_version = version.map(str::to_owned);
        })
    };
    for (path, version, asked) in [
        (
            "",
            None,
            "/openai/deployments/test-model/chat/completions?api-version=2024-10-21",
        ),
        (
            "/openai/deployments/other",
            Some("2025-01-01-preview"),
            "/openai/deployments/other/chat/completions?api-version=2025-01-01-preview",
        ),
        ("/openai/v1", None, "/openai/v1/chat/completions"),
        (
            "/openai/v1",
            Some("preview"),
            "/openai/v1/chat/completions?api-version=preview",
        ),
    ] {
        let request = ModelRequest::new(Transcript::from_iter([Message::user("hi")]));
        respond(&at(path, version), request).await.unwrap();
        let head = fake.received().pop().unwrap().head;
        assert!(head.starts_with(&format!("POST {asked} HTTP")), "{head}");
        let head = head.to_lowercase();
        assert!(head.contains("api-key: k1\r\n"), "{head}");
        assert!(!head.contains("authorization"), "{head}");
    }
}
