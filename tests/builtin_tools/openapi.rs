//! Operations of OpenAPI documents in a team file.

use ghostlight::{
    config::{self, ConfigError},
    prelude::*,
    run::Team,
    vocabulary::{Role, ToolCall},
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

const DOCUMENT: &str = "
openapi: 3.1.0
paths:
  /parcels/{number}:
    get:
      operationId: track
      parameters: [{ name: number, in: path, required: true, schema: { type: integer } }]
  /parcels:
    post: { operationId: send }
components:
  securitySchemes:
    key: { type: apiKey, in: header, name: x-api-key }
security: [{ key: [] }]
";

fn team_file(folder: &std::path::Path, settings: &str) -> Result<config::TeamFile, ConfigError> {
    std::fs::write(folder.join("parcels.yaml"), DOCUMENT).unwrap();
    let text = format!(
        "openapi: {{ parcels: {{ document: ./parcels.yaml, {settings} }} }}\n\
         agent: {{ name: desk, tools: [parcels] }}\n"
    );
    std::fs::write(folder.join("team.yaml"), text).unwrap();
    config::load(folder.join("team.yaml"))
}

#[tokio::test]
async fn a_team_file_makes_operations_tools_and_keeps_the_key_out_of_the_journal() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let served = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 8_192];
        let read = stream.read(&mut request).await.unwrap();
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\nconnection: close\r\n\r\nthe depot";
        stream.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8_lossy(&request[..read]).into_owned()
    });
    let folder = tempfile::tempdir().unwrap();
    // What cargo sets, as a variable that every test has.
    let key = std::env::var("CARGO_PKG_DESCRIPTION").unwrap();
    let file = team_file(
        folder.path(),
        &format!(
            "base_url: 'http://127.0.0.1:{port}/v1', allow_addresses: [127.0.0.1], prefix: p_, only: track, \
             credentials: {{ key: '${{CARGO_PKG_DESCRIPTION}}' }}, \
             headers: {{ authorization: 'Bearer ${{CARGO_PKG_NAME}}' }}"
        ),
    )
    .unwrap();
    let shown = serde_json::to_string(file.spec()).unwrap();
    assert!(
        !shown.contains(&key) && shown.contains("${CARGO_PKG_DESCRIPTION}"),
        "{shown}"
    );
    let model = ScriptedModel::from_fn(|request, _| {
        let last = request.conversation.last().unwrap();
        Ok(match last.role {
            Role::Tool => {
                let read: Vec<&str> = last
                    .tool_results()
                    .map(|result| result.text.as_str())
                    .collect();
                ModelResponse::text(read.join(" "))
            }
            _ => ModelResponse::tool_calls([ToolCall::new(
                "1",
                "p_track",
                json!({ "number": 4711 }),
            )]),
        })
    });
    let team = Team::from(file.into_spec());
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .model("default", model)
        .team(team)
        .start()
        .await
        .unwrap();
    let answer = system
        .session("desk", "ada")
        .ask("Where is 4711?")
        .await
        .unwrap();
    assert!(answer.text.contains("the depot"), "{}", answer.text);
    let asked = served.await.unwrap();
    assert!(asked.starts_with("GET /v1/parcels/4711 "), "{asked}");
    assert!(asked.contains(&format!("x-api-key: {key}\r\n")), "{asked}");
    assert!(
        asked.contains("authorization: Bearer ghostlight\r\n"),
        "{asked}"
    );
    system.stop().await.unwrap();
}

#[test]
fn settings_that_cannot_be_kept_are_told_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    for (settings, told) in [
        ("base_url: 'ftp://x'", "neither https nor http"),
        (
            "credentials: { key: '${CARGO_PKG_NAME}' }",
            "`base_url` is missing",
        ),
        (
            "base_url: 'https://x.example', credentials: { kay: '${CARGO_PKG_NAME}' }",
            "it has: key",
        ),
        (
            "base_url: 'https://x.example', headers: { Host: x }",
            "cannot be sent",
        ),
        (
            "base_url: 'https://x.example', effects: { send: never }",
            "unknown variant",
        ),
        ("base_url: 'https://x.example', bse: 1", "unknown key `bse`"),
        ("", "names no server"),
    ] {
        let error = match team_file(folder.path(), settings) {
            Ok(file) => file
                .resolve(ghostlight::builtin())
                .map(drop)
                .unwrap_err()
                .to_string(),
            Err(error) => error.to_string(),
        };
        assert!(error.contains(told), "{settings}: {error}");
    }
    let in_clear = team_file(
        folder.path(),
        "base_url: 'https://x.example', credentials: { key: hunter2 }",
    );
    let error = in_clear.map(drop).unwrap_err().to_string();
    assert!(
        error.contains("holds a secret itself") && !error.contains("hunter2"),
        "{error}"
    );
}

#[tokio::test]
async fn a_secret_is_looked_up_when_a_call_needs_it() {
    let folder = tempfile::tempdir().unwrap();
    let settings = "base_url: 'https://x.example', credentials: { key: '${GHOSTLIGHT_NOT_SET}' }";
    let file = team_file(folder.path(), settings).unwrap();
    let resolved = file.resolve(ghostlight::builtin()).unwrap();
    let (_, parcels) = resolved
        .toolsets()
        .find(|(name, _)| *name == "parcels")
        .unwrap();
    let tools = parcels.tools().unwrap();
    let track = tools
        .iter()
        .find(|tool| tool.definition().name == "track")
        .unwrap();
    let called = track
        .call(json!({ "number": 1 }).into(), ToolContext::detached())
        .await;
    let error = called.unwrap_err().to_string();
    assert!(error.contains("GHOSTLIGHT_NOT_SET is not set"), "{error}");
}
