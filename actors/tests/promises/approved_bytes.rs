//! What is approved is what is done: a person sees every character that acts, or that something is not
//! shown, and what a person edited is exactly what runs.

use std::time::Duration;

use ghostlight_actors::{
    definition::ApprovalRule,
    vocabulary::{Effect, Event, ToolDefinition},
};
use serde_json::{Value, json};

use crate::{
    approvals::{caller, decide, questions, results},
    stage::{Stage, ask},
};

fn shell() -> ToolDefinition {
    ToolDefinition::new("shell", "runs").parameters(json!({ "type": "object" }))
}

/// The arguments as they are shown in the question, and the text of the event that tells of it.
async fn shown(arguments: Value) -> (Value, String) {
    let stage = Stage::new();
    let call = ghostlight_actors::vocabulary::ToolCall::new("1", "shell", arguments);
    let agent = caller(vec![call])
        .tool(stage.log.tool(shell(), Duration::ZERO))
        .approval("shell", ApprovalRule::required());
    let system = stage.start(agent).await;
    let run = ask(&system, "a", "go").await;
    let (_, question) = questions(&run).await.remove(0);
    let told = run.events().so_far().await.unwrap();
    let event = told
        .into_iter()
        .find_map(|record| match record.event {
            Event::QuestionAsked { question, .. } => Some(serde_json::to_string(&question)),
            _ => None,
        })
        .unwrap()
        .unwrap();
    let call = question.call.unwrap();
    (call.arguments.value().cloned().unwrap(), event)
}

/// Texts of which each part acts, and what of them must be seen.
const ACTING: [(&str, &[&str]); 10] = [
    (
        "echo ok \u{1b}]0;rm -rf ~;\u{7}true",
        &["\\u{1b}]0;rm -rf ~;\\u{7}true"],
    ),
    ("a\u{202e}txt.exe", &["a\\u{202e}txt.exe"]),
    ("rm\u{200b} -rf\u{a0}x", &["rm\\u{200b} -rf\\u{a0}x"]),
    ("x\u{e0041}\u{e0042}", &["x\\u{e0041}\\u{e0042}"]),
    ("# a comment\nrm -rf ~", &["# a comment\nrm -rf ~"]),
    ("echo password=\"$(rm -rf ~)\"", &["$(rm -rf ~)"]),
    ("password='`reboot`'", &["`reboot`"]),
    (
        "-----BEGIN RSA PRIVATE KEY-----\nrm -rf ~",
        &["-----BEGIN RSA PRIVATE KEY-----\nrm -rf ~"],
    ),
    ("curl http://a:$(reboot)@b", &["$(reboot)"]),
    ("cat /etc/passwd ../x", &["/etc/passwd ../x"]),
];

#[tokio::test(start_paused = true)]
async fn each_character_that_acts_is_seen_in_the_question_and_in_its_event() {
    for (command, parts) in ACTING {
        let (arguments, event) = shown(json!({ "command": command, "path": "/etc/x" })).await;
        let seen = arguments["command"].as_str().unwrap();
        for part in parts {
            assert!(seen.contains(part), "{seen:?} hides {part:?}");
            // The arguments are JSON within JSON.
            let part = serde_json::to_string(part).unwrap();
            let part = serde_json::to_string(&part[1..part.len() - 1]).unwrap();
            let part = &part[1..part.len() - 1];
            assert!(event.contains(part), "{event} hides {part}");
        }
        assert_eq!(arguments["path"], "/etc/x", "a path acts");
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_argument_hides_no_other_and_nothing_of_itself() {
    let long = format!("{}; rm -rf ~", "a ".repeat(50_000));
    let (arguments, _) = shown(json!({ "a": long, "z": "the last" })).await;
    assert_eq!(arguments["a"], long);
    assert_eq!(arguments["z"], "the last");
}

#[tokio::test(start_paused = true)]
async fn what_a_person_edited_is_what_runs_and_no_hidden_byte_comes_back() {
    for (command, _) in ACTING {
        let stage = Stage::new();
        let arguments = json!({ "command": command, "n": 1 });
        let call = ghostlight_actors::vocabulary::ToolCall::new("1", "shell", arguments);
        let agent = caller(vec![call])
            .tool(stage.log.tool(shell(), Duration::ZERO))
            .approval("shell", ApprovalRule::required());
        let system = stage.start(agent).await;
        let run = ask(&system, "a", "go").await;
        let (_, question) = questions(&run).await.remove(0);
        let mut edited = question.call.unwrap().arguments.value().cloned().unwrap();
        edited["n"] = json!(2);
        decide(&run, "1", json!({ "approved": true, "arguments": edited })).await;
        let result = results(&run).await.remove(0);
        assert_eq!(result.text, format!("shell {edited}"), "{command:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_approval_is_for_the_exact_call_and_refused_for_another() {
    let stage = Stage::new();
    let call = |command: &str| {
        let arguments = json!({ "command": command, "password": "hunter2" });
        ghostlight_actors::vocabulary::ToolCall::new("1", "shell", arguments)
    };
    let agent = caller(vec![call("ls")])
        .tool(stage.log.tool(shell(), Duration::ZERO))
        .approval("shell", ApprovalRule::required());
    let system = stage.start(agent).await;
    let run = ask(&system, "a", "go").await;
    let (operation, question) = questions(&run).await.remove(0);
    assert_eq!(question.digest, Some(call("ls").digest()));
    // What is not shown is known to the journal alone, and to a person who asks for it.
    assert!(
        !serde_json::to_string(&question)
            .unwrap()
            .contains("hunter2")
    );
    assert_eq!(question.unredacted(), None);
    assert_eq!(run.unredacted(operation).await.unwrap(), Some(call("ls")));
    for other in [json!(call("ls ").digest()), json!("x"), json!(null)] {
        let answer = json!({ "approved": true, "digest": other });
        let refused = run.answer(operation, answer).await.unwrap_err().to_string();
        assert!(refused.contains("look at the question again"), "{refused}");
    }
    let answer = json!({ "approved": true, "digest": question.digest });
    run.answer(operation, answer).await.unwrap();
    let text = results(&run).await.remove(0).text;
    assert_eq!(text, r#"shell {"command":"ls","password":"hunter2"}"#);
    let told = run.events().so_far().await.unwrap();
    let answered =
        |event: &Event| matches!(event, Event::QuestionAnswered { answer, .. } if *answer == true);
    assert!(told.iter().any(|record| answered(&record.event)));
}

#[tokio::test(start_paused = true)]
async fn arguments_that_name_something_twice_are_not_asked_about() {
    for text in [
        r#"{"command":"ls","command":"reboot"}"#,
        r#"{"a":[{"b":1,"\u0062":2}]}"#,
    ] {
        let stage = Stage::new();
        let call = ghostlight_actors::vocabulary::ToolCall::new("1", "shell", text);
        let agent = caller(vec![call])
            .tool(stage.log.tool(shell(), Duration::ZERO))
            .approval("shell", ApprovalRule::required());
        let system = stage.start(agent).await;
        let result = results(&ask(&system, "a", "go").await).await.remove(0);
        assert!(result.text.contains("twice"), "{}", result.text);
        assert_eq!(stage.log.count("shell"), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn arguments_that_name_something_twice_are_run_by_no_tool_that_needs_no_approval_either() {
    for effect in [Effect::Read, Effect::Idempotent, Effect::Once] {
        let stage = Stage::new();
        let text = r#"{"command":"ls","command":"reboot"}"#;
        let call = ghostlight_actors::vocabulary::ToolCall::new("1", "shell", text);
        let tool = stage.log.tool(shell().effect(effect), Duration::ZERO);
        let system = stage.start(caller(vec![call]).tool(tool)).await;
        let result = results(&ask(&system, "a", "go").await).await.remove(0);
        assert!(result.text.contains("twice"), "{}", result.text);
        assert_eq!(stage.log.count("shell"), 0);
    }
}
