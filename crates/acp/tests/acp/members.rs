//! Members whose agents are in processes that do not know prompts by name, so that a process waits while a person thinks.

use std::time::Duration;

use ghostlight_acp::{ProcessAgent, ProcessOptions};
use ghostlight_actors::{
    actor::{Run, System},
    contract::RunStatus,
    testing::InMemoryStore,
};
use serde_json::json;

/// An agent that has one session, asks about one call, and says what came of it.
const AGENT: &str = r#"
says() { printf '{"jsonrpc":"2.0",%s}\n' "$1"; }
read -r line; says '"id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}'
read -r line; says '"id":2,"result":{"sessionId":"one"}'
read -r line || exit 0
case "$line" in *letter*) what=letter ;; *) what=parcel ;; esac
says '"id":"q","method":"session/request_permission","params":{"sessionId":"one","toolCall":{"toolCallId":"call","title":"May I send the '$what'?"},"options":[{"optionId":"y","name":"Allow","kind":"allow_once"},{"optionId":"n","name":"Deny","kind":"reject_once"}]}'
read -r answer
case "$answer" in *'"y"'*) came=sent ;; *) came=kept ;; esac
says '"method":"session/update","params":{"sessionId":"one","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'"$what $came"'"}}}'
says '"id":3,"result":{"stopReason":"end_turn"}'
"#;

async fn system(agent: &str) -> System {
    let settings = ProcessOptions::new("sh").argument("-c").argument(agent);
    let agent = ProcessAgent::new("far", settings).into_agent();
    let system = System::builder(InMemoryStore::new()).team(agent.into_team().unwrap());
    system.start().await.unwrap()
}

/// Begins a run, and waits for its question.
async fn asking(system: &System, session: &str, text: &str) -> Run {
    let run = system.session("far", session).send(text).await.unwrap();
    for _ in 0..600 {
        if !run.questions().await.unwrap().is_empty() {
            return run;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{session} asks nothing: {:?}", run.status().await);
}

async fn answer(run: &Run, answer: &str) -> String {
    let (_, operation, _) = run.questions().await.unwrap().remove(0);
    run.answer(operation, json!(answer)).await.unwrap();
    run.outcome().await.unwrap().text().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_reaches_the_process_that_asked_where_session_ids_are_the_same() {
    let system = system(AGENT).await;
    let letter = asking(&system, "a", "the letter").await;
    let parcel = asking(&system, "b", "the parcel").await;
    let other = asking(&system, "c", "the parcel").await;
    other.cancel("enough").await.unwrap();
    other.quiet().await.unwrap();
    assert_eq!(other.status().await.unwrap().status, RunStatus::Cancelled);
    assert_eq!(answer(&letter, "Allow").await, "letter sent");
    assert_eq!(answer(&parcel, "Deny").await, "parcel kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_that_nobody_answers_hold_up_nobody() {
    // Here each session has an id of its own.
    let system = system(&AGENT.replace("one", "'$$'")).await;
    for number in 0..16 {
        asking(&system, &format!("s{number}"), "the parcel").await;
    }
    let letter = asking(&system, "last", "the letter").await;
    assert_eq!(answer(&letter, "Allow").await, "letter sent");
}
