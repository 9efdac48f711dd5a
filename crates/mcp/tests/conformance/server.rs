//! Our server with teams under the names that the scenarios call. They are teams like any other: what they answer, save,
//! report and ask goes through the server's own code.

use std::sync::Arc;

use ghostlight_actors::{
    actor::System,
    contract::{Tool, ToolContext, ToolError, ToolOutput},
    run::{Agent, RunContext},
    testing::InMemoryStore,
    vocabulary::{
        AgentError, Arguments, Effect, Outcome, Question, Scope, ToolCall, ToolDefinition,
    },
};
use ghostlight_mcp::{HttpOptions, McpServer, PromptTemplate};
use serde_json::{Value, json};

/// A picture of one red point, and a sound of no length.
const PNG: &[u8] = &[
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52,
    0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x02, 0x00, 0x00, 0x00, 0x90, 0x77, 0x53,
    0xde, 0x00, 0x00, 0x00, 0x0c, 0x49, 0x44, 0x41, 0x54, 0x08, 0xd7, 0x63, 0xf8, 0xcf, 0xc0, 0x00,
    0x00, 0x03, 0x01, 0x01, 0x00, 0x18, 0xdd, 0x8d, 0xb0, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e,
    0x44, 0xae, 0x42, 0x60, 0x82,
];
const WAV: &[u8] =
    b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0data\0\0\0\0";

/// The teams: their names, and what their agents do.
const TEAMS: [&str; 17] = [
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_error_handling",
    "test_tool_with_progress",
    "test_tool_with_logging",
    "test_logging_tool",
    "test_elicitation",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_streaming_elicitation",
    "test_input_required_result_elicitation",
    "test_input_required_result_request_state",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
];

/// Says how far it is.
struct Steps;

impl Tool for Steps {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new("steps", "Takes three steps.").effect(Effect::Read)
    }

    async fn call(&self, _: Arguments, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        for step in 1..=3 {
            cx.progress(Some(f64::from(step) / 3.0), format!("step {step}"));
            tokio::task::yield_now().await;
        }
        Ok(ToolOutput::text("three steps"))
    }
}

async fn asks(cx: &RunContext, prompt: &str, schema: Value) -> Result<(), AgentError> {
    cx.ask(Question::form(prompt, schema)).await?;
    Ok(())
}

/// A form of one text under a name of its own.
fn one_field(title: &str, field: &str) -> Value {
    let properties = json!({ field: { "type": "string" } });
    json!({ "title": title, "type": "object", "properties": properties, "required": [field] })
}

/// A form with every kind of value that is set beforehand.
fn defaults() -> Value {
    json!({ "type": "object", "properties": {
        "name": { "type": "string", "default": "John Doe" },
        "age": { "type": "integer", "default": 30 },
        "score": { "type": "number", "default": 95.5 },
        "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
        "verified": { "type": "boolean", "default": true },
    } })
}

/// A form with every kind of choice.
fn choices() -> Value {
    let titled = |name: &str| {
        json!([
            { "const": "value1", "title": format!("First {name}") },
            { "const": "value2", "title": format!("Second {name}") },
            { "const": "value3", "title": format!("Third {name}") },
        ])
    };
    let options = json!(["option1", "option2", "option3"]);
    json!({ "type": "object", "properties": {
        "untitledSingle": { "type": "string", "enum": options },
        "titledSingle": { "type": "string", "oneOf": titled("Option") },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": { "type": "array", "items": { "type": "string", "enum": options } },
        "titledMulti": { "type": "array", "items": { "anyOf": titled("Choice") } },
    } })
}

async fn act(team: &str, cx: &RunContext) -> Result<Outcome, AgentError> {
    let save = async |name: &str, media_type: &str, content: &[u8]| {
        let content: Arc<[u8]> = content.into();
        let kept = cx.artifacts(Scope::Session);
        kept.save(name, media_type, content).await.map(drop)
    };
    match team {
        "test_image_content" => save("red.png", "image/png", PNG).await?,
        "test_audio_content" => save("none.wav", "audio/wav", WAV).await?,
        "test_embedded_resource" => save("a.txt", "text/plain", b"A text.").await?,
        "test_multiple_content_types" => {
            save("red.png", "image/png", PNG).await?;
            save(
                "a.json",
                "application/json",
                br#"{"test":"data","value":123}"#,
            )
            .await?;
        }
        "test_error_handling" => {
            return Err(AgentError::failed(
                "This tool intentionally returns an error for testing",
            ));
        }
        "test_tool_with_progress" | "test_tool_with_logging" | "test_logging_tool" => {
            for _ in 0..3 {
                cx.tool(ToolCall::new("1", "steps", json!({}))).await?;
            }
        }
        "test_input_required_result_multi_round" => {
            asks(cx, "Step 1: What is your name?", one_field("step1", "name")).await?;
            let colour = one_field("step2", "color");
            asks(cx, "Step 2: What is your favorite color?", colour).await?;
        }
        "test_elicitation_sep1034_defaults" => asks(cx, "Who are you?", defaults()).await?,
        "test_elicitation_sep1330_enums" => asks(cx, "What do you choose?", choices()).await?,
        "test_input_required_result_request_state"
        | "test_input_required_result_tampered_state" => {
            let ok = json!({ "ok": { "type": "boolean" } });
            let schema = json!({ "title": "confirm", "type": "object", "properties": ok, "required": ["ok"] });
            asks(cx, "Please confirm", schema).await?;
        }
        "test_input_required_result_elicitation" => {
            asks(cx, "What is your name?", one_field("user_name", "name")).await?;
        }
        "test_elicitation" | "test_streaming_elicitation" => {
            cx.ask(Question::new("What is your name?")).await?;
        }
        _ => {}
    }
    Ok(Outcome::answer(
        "This is a simple text response for testing.",
    ))
}

/// Serves them at an address of this machine, for as long as the process lives.
pub(crate) async fn start() -> String {
    let mut builder = System::builder(InMemoryStore::new());
    for team in TEAMS {
        let mut agent = Agent::from_fn(
            team,
            move |cx: RunContext| async move { act(team, &cx).await },
        )
        .tool(Steps);
        agent = agent.define(|spec| spec.input = Some(json!({ "type": "object" })));
        builder = builder.team(agent.into_team().unwrap());
    }
    let system = builder.start().await.unwrap();
    let mut server = McpServer::new(system)
        .document(
            "test://static-text",
            "text/plain",
            &b"This is the content of the static text resource."[..],
        )
        .document("test://static-binary", "image/png", PNG)
        .document("test://watched-resource", "text/plain", &b"Watched."[..])
        .document("test://example-resource", "text/plain", &b"An example."[..])
        .document_template(
            "test://template/{id}/data",
            "application/json",
            |values| async move {
                let id = values.get("id")?;
                let data =
                    json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
                Some(data.to_string().into_bytes())
            },
        )
        .prompt(
            PromptTemplate::new(
                "test_prompt_with_embedded_resource",
                "A prompt with a resource",
                "Please process the embedded resource above.",
            )
            .resource("{resourceUri}"),
        )
        .prompt(
            PromptTemplate::new(
                "test_prompt_with_image",
                "A prompt with a picture",
                "Please analyze the image above.",
            )
            .resource("test://static-binary"),
        )
        .prompt(PromptTemplate::new(
            "test_input_required_result_prompt",
            "A prompt whose argument a person is asked for",
            "Consider {context}.",
        ))
        .prompt(PromptTemplate::new(
            "test_simple_prompt",
            "A prompt without arguments",
            "This is a simple prompt for testing.",
        ))
        .prompt(PromptTemplate::new(
            "test_prompt_with_arguments",
            "A prompt with arguments",
            "Prompt with arguments: arg1='{arg1}', arg2='{arg2}'",
        ));
    for team in TEAMS {
        server = server.team(team, "What a scenario of the kit calls.");
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut options = HttpOptions::default();
    options.origins = vec![
        format!("http://127.0.0.1:{port}"),
        format!("http://localhost:{port}"),
    ];
    let router = axum::Router::new().nest_service("/mcp", server.http(&options));
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    url
}
