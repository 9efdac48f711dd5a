//! A server that is asked whether a tool may be called: what it is sent, and that nothing but its
//! plain yes is a yes.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    sync::mpsc,
    time::{Duration, UNIX_EPOCH},
};

use ghostlight::{
    actor::System,
    definition::ApprovalRule,
    models::Secret,
    protocols::ApprovalWebhook,
    run::{Agent, RunContext},
    session::Turn,
    testing::{EffectLog, InMemoryStore, ScriptedModel},
    vocabulary::{ModelResponse, Outcome, ToolCall, ToolDefinition, ToolStatus},
};
use serde_json::{Value, json};

/// More than any answer takes that comes.
const LONG: Duration = Duration::from_secs(20);

/// A server that answers one request with this, and tells what it was sent.
fn server(answer: &'static str) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/approve", listener.local_addr().unwrap());
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        let mut piece = [0; 4096];
        while !is_whole(&request) {
            let count = stream.read(&mut piece).unwrap();
            assert!(count > 0, "the request is cut off");
            request.extend_from_slice(&piece[..count]);
        }
        // Not every test reads it.
        let _ = sender.send(String::from_utf8(request).unwrap());
        stream.write_all(answer.as_bytes()).unwrap();
        if answer.is_empty() {
            // It never answers, and never hangs up.
            std::thread::sleep(Duration::from_secs(30));
        }
    });
    (url, receiver)
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head
        .split_once("content-length: ")
        .and_then(|(_, rest)| rest.split("\r\n").next()?.parse::<usize>().ok());
    length.is_some_and(|length| body.len() >= length)
}

async fn decided(url: String, timeout: Duration) -> (ToolStatus, String, usize) {
    let log = EffectLog::new();
    let wipe = ToolDefinition::new("wipe", "wipes").parameters(json!({ "type": "object" }));
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let arguments = json!({ "path": "notes/x", "password": "hunter2" });
        let result = cx
            .tools([ToolCall::new("c1", "wipe", arguments)])
            .await?
            .remove(0);
        Ok(Outcome::answer(serde_json::to_string(&result).unwrap()))
    })
    .tool(log.tool(wipe, Duration::ZERO))
    .approval(
        "wipe",
        ApprovalRule::required()
            .prompt("Wipe {path}?")
            .by("approvals"),
    );
    let webhook = ApprovalWebhook::new("approvals", url, Secret::value("shared")).unwrap();
    let system = System::builder(InMemoryStore::new())
        .model(
            "default",
            ScriptedModel::replies(Vec::<ModelResponse>::new()),
        )
        .tool(webhook.timeout(timeout))
        .team(agent.into_team().unwrap())
        .start()
        .await
        .unwrap();
    let run = system
        .session("a", "s")
        .send(Turn::text("go").owner("ada"))
        .await
        .unwrap();
    let outcome = run.outcome().await.unwrap();
    let result: Value = serde_json::from_str(outcome.text()).unwrap();
    let status = serde_json::from_value(result["status"].clone()).unwrap();
    (
        status,
        result["text"].as_str().unwrap().to_owned(),
        log.count("wipe"),
    )
}

fn said(status: &str, body: &str) -> &'static str {
    let length = body.len();
    let text = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}");
    Box::leak(text.into_boxed_str())
}

#[tokio::test]
async fn the_server_is_asked_in_a_signed_request_that_holds_no_secret() {
    let (url, requests) = server(said("200 OK", r#"{"approved": true}"#));
    let (status, _, count) = decided(url, LONG).await;
    assert_eq!((status, count), (ToolStatus::Success, 1));
    let request = requests.recv().unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let header = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        lines
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .unwrap()
            .1
    };
    assert!(head.starts_with("POST /approve HTTP/1.1\r\n"), "{head}");
    let sent: u64 = header("Ghostlight-Timestamp").parse().unwrap();
    let now = UNIX_EPOCH.elapsed().unwrap().as_secs();
    assert!((now - 60..=now).contains(&sent), "{sent} is not {now}");
    let asked: Value = serde_json::from_str(body).unwrap();
    assert_eq!(asked["question"], "Wipe notes/x?");
    assert_eq!(
        asked["arguments"],
        json!({ "path": "notes/x", "password": "⟦redacted 1: 7 characters⟧" })
    );
    assert_eq!(
        (&asked["tool"], &asked["agent"]),
        (&json!("wipe"), &json!("a"))
    );
    assert_eq!(
        (&asked["session"], &asked["user"]),
        (&json!("a/s"), &json!("ada"))
    );
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"shared");
    let signed = format!("{}.{body}", header("Ghostlight-Timestamp"));
    let signature = header("Ghostlight-Signature").strip_prefix("v1=").unwrap();
    let bytes: Vec<u8> = (0..signature.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&signature[at..at + 2], 16).unwrap())
        .collect();
    ring::hmac::verify(&key, signed.as_bytes(), &bytes).unwrap();
    assert!(!header("Idempotency-Key").is_empty());
}

#[tokio::test]
async fn whatever_is_no_plain_yes_is_a_no() {
    // Nobody listens there, and the port is nobody else's while it is bound.
    let bound = tokio::net::TcpSocket::new_v4().unwrap();
    bound.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let closed = format!("http://{}/", bound.local_addr().unwrap());
    let yes = r#"{"approved": true}"#;
    let (elsewhere, _) = server(said("200 OK", yes));
    let redirect = format!("307 Temporary Redirect\r\nLocation: {elsewhere}");
    let long = format!("{}{yes}", " ".repeat(64 << 10));
    let answers = [
        said("200 OK", r#"{"approved": false, "reason": "not today"}"#),
        said("200 OK", r#"{"approved": false, "approved": true}"#),
        said("200 OK", "yes"),
        said("200 OK", r#"{"approved": "true"}"#),
        said("500 Oops", yes),
        said("302 Found", yes),
        said(&redirect, yes),
        said("202 Accepted", yes),
        said("200 OK", &long),
        said("200 OK", r#"{"approved": true, "arguments": "none"}"#),
        "not HTTP at all\r\n\r\n",
    ];
    let in_time = answers.iter().map(|answer| server(answer).0);
    let in_time = in_time.chain([closed]).map(|url| (url, LONG));
    let silent = (server("").0, Duration::from_secs(1));
    for (number, (url, timeout)) in in_time.chain([silent]).enumerate() {
        let (status, text, count) = decided(url, timeout).await;
        assert_eq!((status, count), (ToolStatus::Denied, 0), "{number}: {text}");
        assert!(!text.contains("127.0.0.1"), "{text}");
        if number == 0 {
            assert!(text.contains("not today"), "{text}");
        }
    }
}

#[tokio::test]
async fn the_server_may_give_other_arguments() {
    let decision = concat!(
        r#"{"approved": true, "arguments": {"path": "y", "#,
        r#""password": "⟦redacted 1: 7 characters⟧"}}"#,
    );
    let (url, _) = server(said("200 OK", decision));
    let (status, text, count) = decided(url, LONG).await;
    assert_eq!((status, count), (ToolStatus::Success, 1), "{text}");
    assert_eq!(text, r#"wipe {"password":"hunter2","path":"y"}"#);
}
