//! What a team with servers of the Model Context Protocol promises: from a team file to the model, over a
//! kill of the process, and from the definition that a run was begun with.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    missing_docs
)]

#[cfg(feature = "full")]
mod bfcl;
#[cfg(feature = "full")]
mod dojo;
mod foreign_clients;
#[cfg(feature = "full")]
mod household;
#[cfg(feature = "full")]
mod over_http;
#[path = "../../../mcp/tests/mcp/peer.rs"]
#[allow(dead_code)]
mod peer;
#[cfg(feature = "full")]
mod reading;
mod serving;
mod shop;

use std::{path::Path, process::Command, time::Duration};

use ghostlight::{
    actor::{Run, pinned_team},
    config,
    contract::{RunFilter, StoreHandle},
    prelude::*,
    run::Team,
    vocabulary::{Role, ToolCall},
};
use peer::Peer;
use serde_json::json;

/// The folder of the peer of a process that is to be killed.
const SUBJECT: &str = "GHOSTLIGHT_TEST_MCP_SUBJECT";

#[test]
fn peer_process() {
    peer::run_if_asked();
}

#[tokio::test]
async fn subject_of_the_kill() {
    let Some(folder) = std::env::var_os(SUBJECT) else {
        return;
    };
    let peer = Peer {
        folder: folder.into(),
    };
    let system = system(&peer, team(&peer)).await;
    let run = system.session("desk", "one").send("Go.").await.unwrap();
    run.outcome().await.unwrap();
}

/// Two calls, one after the other, and an answer that tells what the second brought.
fn model() -> ScriptedModel {
    ScriptedModel::from_fn(|request, _| {
        let conversation = &request.conversation;
        let messages = (0..conversation.len()).filter_map(|index| conversation.get(index));
        let results = messages.filter(|message| message.role == Role::Tool);
        let call = |name: &str| {
            ModelResponse::tool_calls([ToolCall::new(name, name, json!({ "text": "hello" }))])
        };
        Ok(match results.count() {
            0 => call("p_echo"),
            1 => call("p_slow"),
            _ => ModelResponse::text(format!("{:?}", conversation.get(conversation.len() - 1))),
        })
    })
}

/// A team file with the peer, whose tools have the effect that a file in its folder names.
fn team(peer: &Peer) -> Team {
    let effect = std::fs::read_to_string(peer.folder.join("effect")).unwrap();
    let text = format!(
        "
mcp:
  peer:
    command: [{program}, peer_process, --exact, --nocapture]
    env: {{ GHOSTLIGHT_TEST_MCP_PEER: {folder} }}
    effects: {{ '*': {effect} }}
    pins: {folder}/pins.json
    prefix: p_
    only: {{ not: die }}
agent:
  name: desk
  tools: [peer, calculator]
",
        program = std::env::current_exe().unwrap().display(),
        folder = peer.folder.display(),
    );
    let file = config::parse(text, "team.yaml").unwrap_or_else(|error| panic!("{error}"));
    Team::new(file.into_spec())
}

async fn system(peer: &Peer, team: Team) -> System {
    let system = System::open(peer.folder.join("store.db")).unwrap();
    system
        .model("default", model())
        .team(team)
        .start()
        .await
        .unwrap()
}

fn killed_in_the_middle_of_the_second_call(peer: &Peer) {
    let mut subject = Command::new(std::env::current_exe().unwrap())
        .args(["subject_of_the_kill", "--exact", "--nocapture"])
        .env(SUBJECT, &peer.folder)
        .spawn()
        .unwrap();
    for _ in 0..3_000 {
        if peer.count("slow") > 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(peer.count("slow"), 1, "{:?}", peer.log());
    subject.kill().unwrap();
    subject.wait().unwrap();
}

/// The open run of the store, and the team that it was begun with.
async fn interrupted(folder: &Path) -> (ghostlight::vocabulary::RunId, Team) {
    let store = StoreHandle::new(SqliteStore::open(folder.join("store.db")).unwrap());
    let mut open = RunFilter::default();
    open.open = true;
    let run = store.runs(open).await.unwrap()[0].run;
    let spec = pinned_team(&store, run).await.unwrap();
    store.close().await.unwrap();
    (run, Team::new(spec))
}

async fn answer(run: Run) -> String {
    run.outcome().await.unwrap().text().to_owned()
}

#[tokio::test]
async fn a_run_that_was_killed_repeats_no_finished_call_and_treats_the_one_in_flight_by_its_class()
{
    for (effect, slow, told) in [
        ("once", 1, "outcome of this call is unknown"),
        ("idempotent", 2, "done"),
    ] {
        let peer = Peer::new(&format!("killed-{effect}"), &[("effect", effect)]);
        let folder = peer.folder.clone();
        let subject = Peer {
            folder: folder.clone(),
        };
        tokio::task::spawn_blocking(move || killed_in_the_middle_of_the_second_call(&subject))
            .await
            .unwrap();
        peer.set("be_quick", "");
        // As `ghostlight resume` does: without the file, from what the run keeps of its team.
        let (run, team) = interrupted(&folder).await;
        assert_eq!(
            team.spec.agent.tools,
            ["p_echo", "p_slow", "p_fail", "p_grow", "calculator"]
        );
        let system = system(&peer, team).await;
        let answer = answer(system.run(run)).await;
        assert!(answer.to_lowercase().contains(told), "{answer}");
        assert_eq!(
            (peer.count("echo"), peer.count("slow")),
            (1, slow),
            "{:?}",
            peer.log()
        );
        let keys: Vec<String> = peer
            .log()
            .into_iter()
            .filter(|line| line.starts_with("key "))
            .collect();
        if effect == "idempotent" {
            assert_eq!(keys.len(), 3);
            assert_eq!(keys[1], keys[2], "both tries of the call have one key");
        }
        system.stop().await.unwrap();
    }
}

#[tokio::test]
async fn a_team_without_its_server_starts_with_its_other_tools() {
    let text = "
mcp: { gone: { command: /no/such/server } }
agent: { name: desk, tools: [gone, calculator], approval: { delete: { required: true } } }
";
    let team = Team::new(config::parse(text, "team.yaml").unwrap().into_spec());
    let model = ScriptedModel::turns(["done"]);
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .model("default", model.clone())
        .team(team);
    let system = system.start().await.unwrap();
    let run = system.session("desk", "one").send("Hello.").await.unwrap();
    assert_eq!(answer(run).await, "done");
    let seen = model.seen();
    let names: Vec<&str> = seen[0]
        .request
        .tools
        .iter()
        .map(|tool| tool.name.as_str())
        .collect();
    assert_eq!(names, ["calculator"]);
    system.stop().await.unwrap();
}

#[test]
fn faults_of_servers_are_told_with_their_places() {
    let fault = |text: &str| {
        let file = config::parse(text, "team.yaml");
        let file = file.and_then(|file| file.resolve(ghostlight::builtin()).map(drop));
        file.unwrap_err().to_string()
    };
    let rest = "agent: { name: desk }";
    for (text, place, words) in [
        (
            "mcp: [time]",
            "team.yaml:1:6",
            "a mapping of names to settings",
        ),
        (
            "mcp: { time: mcp-server-time }",
            "team.yaml:1:14",
            "with `command` or `url`",
        ),
        (
            "mcp: { time: { comand: x } }",
            "team.yaml:1:16",
            "did you mean `command`?",
        ),
        (
            "mcp: { time: {} }",
            "team.yaml:1:8",
            "`command`, `url` and `from`",
        ),
        (
            "mcp: { time: { command: x, env: { API_KEY: hunter2 } } }",
            "team.yaml:1:35",
            "holds a secret itself",
        ),
        (
            "tools: { a: { kind: document_search, folder: . } }\nmcp: { a: { command: x } }",
            "team.yaml:2:8",
            "is the name of a tool, too",
        ),
    ] {
        let told = fault(&format!("{text}\n{rest}"));
        assert!(told.contains(place) && told.contains(words), "{told}");
    }
}

#[test]
fn secrets_of_a_server_stay_references_in_its_team() {
    let text = "
mcp:
  hub:
    url: https://example.com/mcp
    headers: { authorization: 'Bearer ${HUB_TOKEN}' }
  git:
    command: git-server
    env: { GIT_TOKEN: '${GIT_TOKEN}', COLOR: never }
agent: { name: desk, tools: [hub, git] }
";
    let file = config::parse_with(text, "team.yaml", |_| Some("hunter2".to_owned())).unwrap();
    file.resolve(ghostlight::builtin()).unwrap();
    let stored = serde_json::to_string(file.spec()).unwrap();
    assert!(!stored.contains("hunter2"), "{stored}");
    assert!(
        stored.contains("Bearer ${HUB_TOKEN}") && stored.contains("${GIT_TOKEN}"),
        "{stored}"
    );
}

/// The address of another program or team may hold a key: what is stored and shown has its name.
#[test]
fn a_variable_in_an_address_stays_a_reference() {
    let text = "
mcp:
  hub: { url: 'https://hub.example/${CARGO_PKG_NAME}/mcp', cwd: '${CARGO_PKG_NAME}' }
tools:
  desk: { kind: a2a, url: 'https://${CARGO_PKG_NAME}.example', card: 'https://hub.example/${NONE:-card}' }
agent: { name: clerk }
";
    let file = config::parse(text, "team.yaml").unwrap_or_else(|error| panic!("{error}"));
    let shown = serde_json::to_value(file.spec()).unwrap();
    let tools = &shown["tools"];
    assert_eq!(
        tools["hub"]["url"],
        "https://hub.example/${CARGO_PKG_NAME}/mcp"
    );
    assert_eq!(tools["hub"]["cwd"], env!("CARGO_PKG_NAME"));
    assert_eq!(tools["desk"]["url"], "https://${CARGO_PKG_NAME}.example");
    assert_eq!(tools["desk"]["card"], "https://hub.example/card");
    let unset = "mcp: { hub: { url: 'https://${NO_SUCH_VARIABLE}' } }\nagent: { name: clerk }";
    let error = config::parse(unset, "team.yaml").unwrap_err().to_string();
    assert!(error.contains("NO_SUCH_VARIABLE"), "{error}");
}

#[test]
fn a_server_is_given_the_variables_of_the_file_of_the_environment() {
    let peer = Peer::new("dot-env", &[("say_environment", "")]);
    let folder = peer.folder.display();
    let program = std::env::current_exe().unwrap();
    let text = format!(
        "
models: {{ default: {{ provider: offline }} }}
mcp:
  peer:
    command: [{program}, peer_process, --exact, --nocapture]
    env: {{ GHOSTLIGHT_TEST_MCP_PEER: {folder}, GIVEN: 'to ${{ONLY_IN_THE_FILE}}' }}
    pins: {folder}/pins.json
agent: {{ name: desk, tools: [peer] }}
",
        program = program.display(),
    );
    std::fs::write(peer.folder.join("team.yaml"), text).unwrap();
    std::fs::write(peer.folder.join(".env"), "ONLY_IN_THE_FILE=everybody\n").unwrap();
    let run = Command::new(env!("CARGO_BIN_EXE_ghostlight"))
        .args(["run", "team.yaml", "hello", "--store", "store.db"])
        .current_dir(&peer.folder)
        .output()
        .unwrap();
    let log = peer.log();
    assert!(log.contains(&"GIVEN=to everybody".to_owned()), "{run:?}");
}
