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
use serde_json::json;

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
const TEAMS: [&str; 13] = [
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_error_handling",
    "test_tool_with_progress",
    "test_elicitation",
    "test_input_required_result_elicitation",
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
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
        "test_tool_with_progress" => {
            for _ in 0..3 {
                cx.tool(ToolCall::new("1", "steps", json!({}))).await?;
            }
        }
        "test_input_required_result_multi_round" => {
            cx.ask(Question::new("What is your name?")).await?;
            cx.ask(Question::new("What is your favorite color?"))
                .await?;
        }
        asks if asks.starts_with("test_input_required") || asks == "test_elicitation" => {
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
