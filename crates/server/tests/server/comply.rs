//! The public kit llm-comply: what clients of OpenAI's and Anthropic's may expect of a server.

use std::{path::Path, process::Command};

use ghostlight_actors::{
    actor::System,
    run::{Agent, RunContext},
    testing::InMemoryStore,
    vocabulary::{AgentError, Outcome, ToolCall, ToolDefinition},
};
use ghostlight_server::Server;
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;

/// A call of a tool, with something for each of its arguments.
fn call_of(tool: &ToolDefinition) -> ToolCall {
    let mut arguments = Map::new();
    let properties = tool.parameters["properties"].as_object();
    for (name, schema) in properties.into_iter().flatten() {
        let value = match (schema["enum"].get(0), schema["type"].as_str()) {
            (Some(first), _) => first.clone(),
            (None, Some("string")) => json!("Paris"),
            (None, Some("integer" | "number")) => json!(1),
            (None, Some("boolean")) => json!(true),
            _ => continue,
        };
        arguments.insert(name.clone(), value);
    }
    ToolCall::new("1", tool.name.clone(), Value::Object(arguments))
}

/// Calls a tool where its caller has one, and answers.
async fn assist(cx: RunContext) -> Result<Outcome, AgentError> {
    let offered = cx.tools_offered();
    if let Some(tool) = offered.iter().next() {
        cx.tools([call_of(tool)]).await?;
    }
    Ok(Outcome::answer("It is 555."))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_public_kit_finds_nothing_to_mend_in_chat_responses_and_messages() {
    if std::env::var_os("GHOSTLIGHT_SKIP_SDKS").is_some_and(|skip| skip == "1") {
        println!("GHOSTLIGHT_SKIP_SDKS=1: the kit was not tried");
        return;
    }
    let python = std::env::var_os("GHOSTLIGHT_SDK_PYTHON").expect(
        "GHOSTLIGHT_SDK_PYTHON names no Python with the package llm-comply: run ./test once, and set it to \
         target/sdks/bin/python, or set GHOSTLIGHT_SKIP_SDKS=1",
    );
    let kit = Path::new(&python).with_file_name("llm-comply");
    let system = System::builder(InMemoryStore::new())
        .team(Agent::from_fn("assistant", assist).into_team().unwrap());
    let server = Server::new(system.start().await.unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = format!("http://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(server.serve(listener, std::future::pending::<()>()));
    for (form, tests) in [("openai-chat", 9), ("open-responses", 13), ("anthropic", 9)] {
        let mut command = Command::new(&kit);
        command.args([
            "-u",
            &at,
            "-k",
            "none",
            "-m",
            "assistant",
            "--format",
            form,
            "--json",
        ]);
        let told = tokio::task::spawn_blocking(move || command.output())
            .await
            .unwrap();
        let told = told.unwrap_or_else(|error| panic!("{} cannot be run: {error}", kit.display()));
        let text = String::from_utf8_lossy(&told.stdout);
        let report: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{told:?}"));
        let results = report["results"].as_array().unwrap();
        assert_eq!(results.len(), tests, "{form}: the kit has other tests now");
        for result in results {
            let status = result["status"].as_str().unwrap();
            // What only models that reason can do is skipped by the kit.
            assert!(matches!(status, "passed" | "skipped"), "{form}: {result:#}");
        }
    }
}
