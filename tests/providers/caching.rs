//! Providers keep the beginning of a request that they have seen: each request begins as the one before, and says where it
//! may be kept.

use ghostlight::{
    actor::System,
    contract::{Tool, ToolContext, ToolError, ToolOutput},
    models::{Anthropic, Gemini, OpenAi, OpenAiResponses, Secret, anthropic::HourCache},
    run::{Agent, AgentModel},
    testing::InMemoryStore,
    vocabulary::{Arguments, Effect, Message, ModelRequest, ToolDefinition, Transcript},
};
use serde_json::{Value, json};

use crate::{
    double,
    fake::{Fake, json as whole},
    respond,
};

struct Double;

impl Tool for Double {
    fn definition(&self) -> ToolDefinition {
        double().effect(Effect::Read)
    }

    async fn call(&self, _: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text("14"))
    }
}

/// The bodies of the requests of two turns with two calls each: with these answers, a call and a text.
async fn bodies(model: impl FnOnce(&Fake) -> AgentModel, answers: [Value; 2]) -> Vec<Value> {
    let [call, text] = answers.map(|answer| vec![whole(200, &answer.to_string())]);
    let replies = [
        call.clone(),
        call.clone(),
        text.clone(),
        call.clone(),
        call,
        text,
    ];
    let fake = Fake::start(replies).await;
    let desk = Agent::new("desk")
        .instructions("Be brief.")
        .model(model(&fake))
        .tool(Double);
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .team(desk.into_team().unwrap())
        .start()
        .await
        .unwrap();
    let session = system.session("desk", "s");
    for said in ["Double 7, twice.", "And again."] {
        session.ask(said).await.unwrap();
    }
    system.stop().await.unwrap();
    let received = fake.received();
    received.into_iter().map(|received| received.body).collect()
}

/// Takes the marks for a cache out.
fn unmarked(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("cache_control");
            fields.values_mut().for_each(unmarked);
        }
        Value::Array(items) => items.iter_mut().for_each(unmarked),
        _ => {}
    }
}

/// Each request begins with all that the one before said.
#[track_caller]
fn begin_alike(mut bodies: Vec<Value>, conversation: &str) {
    assert_eq!(bodies.len(), 6);
    bodies.iter_mut().for_each(unmarked);
    for pair in bodies.windows(2) {
        let parts = |body: &Value| {
            let mut fields = body.as_object().unwrap().clone();
            let said = fields.remove(conversation).unwrap();
            (fields, said.as_array().unwrap().clone())
        };
        let ((before, said_before), (after, said_after)) = (parts(&pair[0]), parts(&pair[1]));
        assert_eq!(before, after, "tools, instructions and settings stay");
        assert!(said_before.len() < said_after.len());
        assert_eq!(said_before, said_after[..said_before.len()]);
    }
}

#[tokio::test]
async fn each_request_begins_as_the_one_before() {
    let anthropic = |content: Value| {
        json!({"id": "m", "type": "message", "role": "assistant", "model": "claude-test",
            "content": content, "stop_reason": "end_turn", "usage": {"input_tokens": 3, "output_tokens": 4}})
    };
    let answers = [
        anthropic(json!([{"type": "tool_use", "id": "c1", "name": "double", "input": {"n": 7}}])),
        anthropic(json!([{"type": "text", "text": "14"}])),
    ];
    let model = |fake: &Fake| {
        let model =
            Anthropic::new("claude-test").base_url(fake.model().settings().base_url.clone());
        AgentModel::from(model.api_key(Secret::value("sk")))
    };
    begin_alike(bodies(model, answers).await, "messages");

    let chat =
        |message: Value| json!({"choices": [{"index": 0, "message": message}], "model": "m"});
    let called = json!({"id": "c1", "type": "function",
        "function": {"name": "double", "arguments": "{\"n\": 7}"}});
    let answers = [
        chat(json!({"role": "assistant", "content": null, "tool_calls": [called]})),
        chat(json!({"role": "assistant", "content": "14"})),
    ];
    let model = |fake: &Fake| {
        let model = OpenAi::new("m").base_url(fake.model().settings().base_url.clone());
        AgentModel::from(model)
    };
    begin_alike(bodies(model, answers).await, "messages");

    let gemini = |part: Value| json!({"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}]});
    let answers = [
        gemini(json!({"functionCall": {"name": "double", "args": {"n": 7}}})),
        gemini(json!({"text": "14"})),
    ];
    let model = |fake: &Fake| {
        let model = Gemini::new("g").base_url(fake.model().settings().base_url.clone());
        AgentModel::from(model.api_key(Secret::value("AIza")))
    };
    begin_alike(bodies(model, answers).await, "contents");

    let response = |item: Value| json!({"id": "r", "object": "response", "status": "completed", "output": [item]});
    let answers = [
        response(
            json!({"type": "function_call", "id": "f", "call_id": "c1", "name": "double",
            "arguments": "{\"n\": 7}", "status": "completed"}),
        ),
        response(
            json!({"type": "message", "id": "t", "status": "completed", "role": "assistant",
            "content": [{"type": "output_text", "text": "14", "annotations": []}]}),
        ),
    ];
    let model = |fake: &Fake| {
        let model = OpenAiResponses::new("m").base_url(fake.model().settings().base_url.clone());
        AgentModel::from(model.api_key(Secret::value("sk")))
    };
    begin_alike(bodies(model, answers).await, "input");
}

/// The marks of a body: those of the instructions, and those of each message with its place.
fn marks(body: &Value) -> (Value, Vec<(usize, Value)>) {
    let messages = body["messages"].as_array().unwrap();
    let blocks = messages.iter().enumerate().flat_map(|(place, message)| {
        let blocks = message["content"].as_array().unwrap();
        blocks
            .iter()
            .map(move |block| (place, block["cache_control"].clone()))
    });
    let of_messages = blocks.filter(|(_, mark)| !mark.is_null()).collect();
    (body["system"][0]["cache_control"].clone(), of_messages)
}

#[tokio::test]
async fn marks_say_what_anthropic_keeps_and_for_how_long() {
    let (short, long) = (
        json!({"type": "ephemeral"}),
        json!({"type": "ephemeral", "ttl": "1h"}),
    );
    for (hour, of_system, of_messages) in [
        (HourCache::Nothing, &short, &short),
        (HourCache::Instructions, &long, &short),
        (HourCache::Everything, &long, &long),
    ] {
        let answer = json!({"id": "m", "type": "message", "role": "assistant", "model": "claude-test",
            "content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn"});
        let fake = Fake::json(answer).await;
        let model = Anthropic::new("claude-test")
            .base_url(fake.model().settings().base_url.clone())
            .api_key(Secret::value("sk"))
            .with(|settings| settings.hour_cache = hour);
        let said = ["one", "two", "three", "four", "five"];
        let said = said
            .into_iter()
            .enumerate()
            .map(|(place, text)| match place % 2 {
                0 => Message::user(text),
                _ => Message::assistant(text),
            });
        let request = ModelRequest::new(Transcript::from_iter(said)).instructions("Be brief.");
        respond(&model, request).await.unwrap();
        let (system, messages) = marks(&fake.only_body());
        assert_eq!(&system, of_system, "{hour:?}");
        // Where this request ends, and where the one before did.
        let expected = [(2, of_messages.clone()), (4, of_messages.clone())];
        assert_eq!(messages, expected, "{hour:?}");
    }
}
