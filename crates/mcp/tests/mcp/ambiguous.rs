//! Messages that name something twice in one object, on each wire and in each direction.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use ghostlight_actors::contract::ToolErrorKind;
use ghostlight_mcp::McpServer;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use crate::{
    call, connected,
    http_sessions::Caller,
    odd::{Answer, Odd},
    peer::Peer,
    serving::{desk, over_http},
};

/// An answer that says two things.
const TWO: &str = r#"{"jsonrpc": "2.0", "id": $ID, "result": {"content": [{"type": "text", "text": "no", "text": "yes"}]}}"#;

#[tokio::test]
async fn an_answer_of_a_process_that_says_two_things_is_unknown() {
    let peer = Peer::new("two", &[("says.echo", TWO)]);
    let toolset = connected(peer.settings()).await;
    let (how, error) = call(&toolset, "echo").await.unwrap_err();
    assert_eq!(how, ToolErrorKind::InDoubt, "{error}");
    assert!(error.contains("text stands twice"), "{error}");
    toolset.disconnect().await;
}

#[tokio::test]
async fn an_answer_over_http_that_says_two_things_is_unknown() {
    for (kind, before, after) in [
        ("application/json", "", ""),
        ("text/event-stream", "event: message\ndata: ", "\n\n"),
    ] {
        let odd = Odd::new(move |asked, _| {
            let answer = TWO.replace("$ID", &asked["id"].to_string());
            let is_call = asked["method"] == "tools/call";
            is_call.then(|| Answer(200, kind, format!("{before}{answer}{after}")))
        })
        .await;
        let toolset = odd.connected().await;
        let (how, error) = call(&toolset, "echo").await.unwrap_err();
        assert_eq!(how, ToolErrorKind::InDoubt, "{kind}: {error}");
        assert!(error.contains("text stands twice"), "{kind}: {error}");
        toolset.disconnect().await;
    }
}

#[tokio::test]
async fn a_form_of_a_process_that_says_two_things_or_hides_a_password_is_shown_to_nobody() {
    let form = |message: &str, field: &str| {
        format!(
            r#"{{"jsonrpc": "2.0", "id": "f", "method": "elicitation/create", "params": {{"mode": "form", {message},
                "requestedSchema": {{"type": "object", "properties": {{"size": {field}}}}}}}}}"#
        )
        .replace('\n', " ")
    };
    let two = form(
        r#""message": "Small?", "message": "Large?""#,
        r#"{"type": "string"}"#,
    );
    let hidden = form(
        r#""message": "Sign in""#,
        r#"{"type": "string", "writeOnly": true}"#,
    );
    for (name, line, told) in [
        ("form-two", two, "refused: "),
        ("form-hidden", hidden, "ordered null"),
    ] {
        let peer = Peer::new(name, &[("more", ""), ("says.order", &line)]);
        let toolset = connected(peer.settings()).await;
        // A call that asked somebody would have no answer yet.
        let called = call(&toolset, "order").await.unwrap();
        assert!(called.starts_with(told), "{called}");
        toolset.disconnect().await;
    }
}

/// The call that our server must not make.
fn calls(id: u64) -> String {
    format!(
        r#"{{"jsonrpc": "2.0", "id": {id}, "method": "tools/call", "params": {{"name": "desk", "arguments": {{"message": "hello", "message": "bye"}}}}}}"#
    )
}

#[tokio::test]
async fn a_call_of_our_server_on_its_streams_that_says_two_things_is_not_made() {
    let (system, begun) = desk().await;
    let server = McpServer::new(system).team("desk", "Repeats things.");
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (read, write) = tokio::io::split(theirs);
    let serving = tokio::spawn(async move { server.serve(read, write).await });
    let (read, mut write) = tokio::io::split(ours);
    let mut lines = BufReader::new(read).lines();
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
    });
    let begin = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
    let told = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let said = format!("{begin}\n{told}\n{}\n", calls(2));
    write.write_all(said.as_bytes()).await.unwrap();
    let answer = loop {
        let line = tokio::time::timeout(Duration::from_secs(20), lines.next_line()).await;
        let line = line.unwrap().unwrap().unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        if answer["id"] == 2 {
            break answer;
        }
    };
    let error = answer["error"]["message"].as_str().unwrap();
    assert!(error.contains("message stands twice"), "{answer}");
    assert_eq!(begun.load(SeqCst), 0);
    drop((write, lines));
    serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_call_of_our_server_over_http_that_says_two_things_is_not_made() {
    let (system, begun) = desk().await;
    let server = McpServer::new(system).team("desk", "Repeats things.");
    let (url, serving) = over_http(server).await;
    let caller = Caller::new(&url, "ada");
    let session = caller.begin().await;
    let request = caller.request(reqwest::Method::POST, Some(&session));
    let request = request.header("content-type", "application/json");
    let answer = request.body(calls(2)).send().await.unwrap();
    let answer = answer.text().await.unwrap();
    assert!(answer.contains("message stands twice"), "{answer}");
    assert_eq!(begun.load(SeqCst), 0);
    serving.abort();
}
