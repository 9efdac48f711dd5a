//! An agent of somebody else in a child process: it speaks the Agent Client Protocol and does not know prompts by name.

use std::{
    env, fs,
    io::{self, BufRead as _, Write as _},
    path::{Path, PathBuf},
};

use ghostlight::{config, prelude::*, run::Team};
use serde_json::{Value, json};

use crate::processes::{answered, failure, say, system, team, until};

/// Makes a process the agent, and names the file into which it writes what it hears.
const HEARS: &str = "GHOSTLIGHT_TEST_FOREIGN_AGENT";

/// Is the agent where a test started it as such, and nothing otherwise. It asks twice about the same call before it answers.
#[test]
fn as_the_agent() {
    let Some(file) = env::var_os(HEARS) else {
        return;
    };
    let mut heard = fs::File::options()
        .create(true)
        .append(true)
        .open(file)
        .unwrap();
    let mut lines = io::stdin().lock().lines();
    // The harness of the tests may have begun a line.
    let tell = |message: Value| println!("\n{message}");
    let mut prompt = None;
    let mut chosen = Vec::new();
    while let Some(Ok(line)) = lines.next() {
        let message: Value = serde_json::from_str(&line).unwrap();
        let respond = |result: Value| {
            tell(json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }))
        };
        let session = json!({ "sessionId": "s1" });
        match message["method"].as_str() {
            Some("initialize") => respond(json!({
                "protocolVersion": 1, "agentCapabilities": { "loadSession": true },
            })),
            Some("session/new" | "session/load") => respond(session),
            Some("session/prompt") => {
                writeln!(heard, "prompt").unwrap();
                prompt = Some(message["id"].clone());
                ask(&tell, 1);
            }
            Some("session/cancel") => writeln!(heard, "cancel").unwrap(),
            Some(other) => writeln!(heard, "{other}").unwrap(),
            // The lines of the harness are no messages, which it is told.
            None if message["id"].is_null() => {}
            None => {
                let outcome = &message["result"]["outcome"];
                writeln!(heard, "{outcome}").unwrap();
                let end = |reason: &str| {
                    tell(
                        json!({ "jsonrpc": "2.0", "id": prompt, "result": { "stopReason": reason } }),
                    );
                };
                match outcome["optionId"].as_str() {
                    None => end("cancelled"),
                    Some(option) => {
                        chosen.push(option.to_owned());
                        if chosen.len() == 1 {
                            ask(&tell, 2);
                            continue;
                        }
                        tell(
                            json!({ "jsonrpc": "2.0", "method": "session/update", "params": {
                            "sessionId": "s1",
                            "update": {
                                "sessionUpdate": "agent_message_chunk",
                                "content": { "type": "text", "text": chosen.join(" and ") },
                            },
                        } }),
                        );
                        end("end_turn");
                    }
                }
            }
        }
    }
    writeln!(heard, "end").unwrap();
    std::process::exit(0);
}

fn ask(tell: &impl Fn(Value), number: u32) {
    tell(
        json!({ "jsonrpc": "2.0", "id": number, "method": "session/request_permission", "params": {
        "sessionId": "s1",
        "toolCall": { "toolCallId": "delete", "title": format!("Delete file {number}?") },
        "options": [
            { "optionId": "yes", "name": "Allow", "kind": "allow_once" },
            { "optionId": "no", "name": "Reject", "kind": "reject_once" },
        ],
    } }),
    );
}

/// A file that no other test has, for what the agent hears.
fn hears(test: &str) -> PathBuf {
    let name = format!("foreign-agent-{test}-{}", std::process::id());
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_file(&file);
    file
}

fn remote(hears: &Path) -> Value {
    json!({
        "command": [
            env::current_exe().unwrap(), "foreign_agent::as_the_agent", "--exact", "--quiet", "--nocapture",
        ],
        "env": { HEARS: hears },
    })
}

fn heard(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    // Each process that is only asked for a session ends, too.
    let lines = text.lines().filter(|line| *line != "end");
    lines.map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn its_permission_requests_are_asked_here_while_its_process_waits() {
    let file = hears("asks");
    let elsewhere = system(remote(&file)).await;
    let run = say(&elsewhere, "s").await;
    let first = answered(&run, "Allow").await;
    assert!(first.contains("Delete file 1?"), "{first}");
    // The answer to the first request is none to another about the same call.
    until("another question", async || {
        let asked = run.questions().await.unwrap();
        asked
            .iter()
            .any(|(_, _, question)| question.prompt.contains("Delete file 2?"))
    })
    .await;
    answered(&run, "Reject").await;
    assert_eq!(run.outcome().await.unwrap().text(), "yes and no");
    let chosen = |id: &str| json!({ "outcome": "selected", "optionId": id }).to_string();
    let heard = heard(&file).into_iter().map(sorted);
    assert_eq!(
        heard.collect::<Vec<_>>(),
        ["prompt".into(), chosen("yes"), chosen("no")]
    );
    elsewhere.stop().await.unwrap();
}

/// JSON with its keys in the order in which `json!` shows them.
fn sorted(line: String) -> String {
    serde_json::from_str::<Value>(&line).map_or(line, |value| value.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_answers_its_permission_request_as_cancelled() {
    let file = hears("cancelled");
    let elsewhere = system(remote(&file)).await;
    let run = say(&elsewhere, "s").await;
    until("a question", async || {
        !run.questions().await.unwrap().is_empty()
    })
    .await;
    run.cancel("enough").await.unwrap();
    run.quiet().await.unwrap();
    let cancelled = json!({ "outcome": "cancelled" }).to_string();
    until("the agent's end", async || {
        heard(&file) == ["prompt", "cancel", &*cancelled]
    })
    .await;
    elsewhere.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_whose_process_ended_while_a_person_was_asked_is_in_doubt_and_not_said_again() {
    let file = hears("lost");
    let store = InMemoryStore::new();
    let start = async |store: InMemoryStore| {
        let file = config::parse(team(remote(&file)), "team.yaml").unwrap();
        let system = System::builder(store).registry(ghostlight::builtin());
        system
            .team(Team::new(file.into_spec()))
            .start()
            .await
            .unwrap()
    };
    let elsewhere = start(store.clone()).await;
    let run = say(&elsewhere, "s").await;
    until("a question", async || {
        !run.questions().await.unwrap().is_empty()
    })
    .await;
    let run = run.id();
    elsewhere.stop().await.unwrap();

    let later = start(store.another_process()).await;
    let run = later.resume(run, true).await.unwrap();
    answered(&run, "Allow").await;
    let told = failure(run.outcome().await);
    assert!(told.contains("ended while a person was asked"), "{told}");
    assert_eq!(heard(&file), ["prompt"]);
}
