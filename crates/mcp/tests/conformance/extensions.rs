//! What the kit runs without counting it: the extensions for tasks and skills, and ways of signing in without a person. The file of
//! expected failures says what is not played.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use ghostlight_actors::{
    actor::System,
    run::{Agent, RunContext},
    testing::InMemoryStore,
    vocabulary::{AgentError, Outcome, Question},
};
use ghostlight_mcp::{HttpOptions, McpServer};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::process::Command;

/// The scenarios against a server.
pub(crate) const SERVER: [&str; 13] = [
    "sep-2640-skills-enumeration",
    "sep-2640-skills-manifest",
    "sep-2640-skills-directory",
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-status-notifications",
    "tasks-required-task-error",
    "tasks-mrtr-composition",
];
/// The scenarios against a client.
pub(crate) const CLIENT: [&str; 8] = [
    "sep-2640-client-no-prefetch",
    "sep-2640-client-verify-digest",
    "sep-2640-client-verify-size",
    "sep-2640-client-verify-frontmatter",
    "auth/client-credentials-basic",
    "auth/client-credentials-jwt",
    "auth/enterprise-managed-authorization",
    "auth/wif-jwt-bearer",
];
/// How many scenarios are played at once.
const AT_ONCE: usize = 4;
/// A call that takes longer is a task. A call of a tool that answers at once must not, also on a busy machine.
const TASKS_AFTER: Duration = Duration::from_millis(700);

/// Plays scenarios one by one, and fails where one ends otherwise than the file of expected failures says.
pub(crate) async fn play(kit: &Path, side: &str, scenarios: &[&'static str], arguments: &[&str]) {
    let baseline = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/conformance/expected_failures_extensions.yaml");
    let mut playing = tokio::task::JoinSet::new();
    let mut wrong = Vec::new();
    for scenario in scenarios.iter().copied() {
        while playing.len() >= AT_ONCE {
            wrong.extend(playing.join_next().await.unwrap().unwrap());
        }
        let mut command = Command::new(kit);
        command
            .args([side, "--scenario", scenario, "--expected-failures"])
            .arg(&baseline)
            .args(arguments)
            .env(super::CLIENT, "1")
            .stdin(Stdio::null());
        playing.spawn(async move {
            let played = command.output().await.unwrap();
            let said = [played.stdout, played.stderr].concat();
            let said = String::from_utf8_lossy(&said).into_owned();
            (!played.status.success()).then(|| format!("{scenario}: {said}"))
        });
    }
    wrong.extend(playing.join_all().await.into_iter().flatten());
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    name: String,
    #[serde(default)]
    seconds: u64,
}

/// The teams under the names that the scenarios call.
const TEAMS: [&str; 7] = [
    "greet",
    "slow_compute",
    "failing_job",
    "protocol_error_job",
    "confirm_delete",
    "multi_input",
    "test_tool_with_task",
];

async fn act(team: &str, cx: &RunContext) -> Result<Outcome, AgentError> {
    let asked: Asked = cx.input_as()?;
    let form = |prompt: &str, field: &str, kind: &str| {
        let properties = json!({ field: { "type": kind } });
        let schema = json!({ "type": "object", "properties": properties, "required": [field] });
        Question::form(prompt, schema)
    };
    // Long enough to become a task.
    let takes_long = || cx.sleep(TASKS_AFTER * 2);
    match team {
        "greet" => return Ok(Outcome::answer(format!("Hello, {}!", asked.name))),
        "slow_compute" => cx.sleep(Duration::from_secs(asked.seconds)).await?,
        "failing_job" | "protocol_error_job" => {
            takes_long().await?;
            return Err(AgentError::failed("the job fails, as it is meant to"));
        }
        "confirm_delete" => {
            takes_long().await?;
            cx.ask(form("Delete it?", "confirm", "boolean")).await?;
        }
        "multi_input" => {
            takes_long().await?;
            let first = cx.ask(form("Who are you?", "name", "string"));
            let second = cx.ask(form("Who else is there?", "name", "string"));
            let (first, second) = tokio::join!(first, second);
            first?;
            second?;
        }
        _ => {
            let mut asked = form("What is your name?", "name", "string");
            if let Some(schema) = asked.schema.as_mut() {
                schema["title"] = json!("user_name");
            }
            let answer = cx.ask(asked).await?;
            takes_long().await?;
            return Ok(Outcome::answer(format!("Hello, {answer:?}!")));
        }
    }
    Ok(Outcome::answer("It is computed."))
}

/// A folder of two skills. The kit looks at the first one, which has a folder.
fn skills() -> PathBuf {
    let below = format!("conformance-skills-{}", std::process::id());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(below);
    for (path, content) in [
        (
            "pdf-forms/SKILL.md",
            "---\nname: pdf-forms\ndescription: Fills forms\nmetadata: { version: \"1.0\" }\n---\nAsk for each field.\n",
        ),
        ("pdf-forms/references/fields.md", "The fields.\n"),
        (
            "writing/SKILL.md",
            "---\nname: writing\ndescription: Writes\n---\nWrite it.\n",
        ),
    ] {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    folder
}

/// Serves the teams at an address of this machine, for as long as the process lives.
pub(crate) async fn start() -> String {
    let mut builder = System::builder(InMemoryStore::new());
    let schema: Value = json!({ "type": "object" });
    for team in TEAMS {
        let work = move |cx: RunContext| async move { act(team, &cx).await };
        let agent = Agent::from_fn(team, work).define(|spec| spec.input = Some(schema.clone()));
        builder = builder.team(agent.into_team().unwrap());
    }
    let system = builder.start().await.unwrap();
    let server = McpServer::new(system).tasks_after(Some(TASKS_AFTER));
    let mut server = server.skills(skills()).unwrap();
    for team in TEAMS {
        server = server.team(team, "What a scenario of the kit calls.");
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let router = axum::Router::new().nest_service("/mcp", server.http(&HttpOptions::default()));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    url
}
