//! An answer that a guard refuses reaches no client of any protocol, and no piece of it does.

use std::{io::Read as _, net::SocketAddr};

use serde_json::{Value, json};

use crate::{
    listening::over_http::{ask, free, open, serve},
    own_command::Desk,
};

/// The model's answer. The guard refuses its last word; the first is told long before that.
const ANSWER: &str = "xylophones play while the word is swordfish";

/// One request of each protocol that streams an answer, and of those that wait for it.
fn requests() -> Vec<(&'static str, &'static str, &'static str, Value)> {
    let said = json!([{ "role": "user", "content": "go" }]);
    let chat = |stream: bool| json!({ "model": "desk", "max_tokens": 9, "messages": said, "stream": stream });
    let responses = |stream: bool| json!({ "model": "desk", "input": "go", "stream": stream });
    let message = |id: &str| json!({ "message": { "messageId": id, "role": "ROLE_USER", "parts": [{ "text": "go" }] } });
    let rpc = |method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let a2a = "A2A-Version: 1.0\r\n";
    let mcp = "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: tools/call\r\nMcp-Name: desk\r\n";
    let call = json!({
        "name": "desk", "arguments": { "message": "go", "session": "mcp" },
        "_meta": {
            "progressToken": "p",
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    });
    let agui = json!({
        "threadId": "agui", "runId": "r", "messages": [{ "id": "m", "role": "user", "content": "go" }],
        "tools": [], "context": [], "state": {},
    });
    let turns = "/api/v1/sessions/desk/own/turns";
    let turn = json!({ "text": "go" });
    vec![
        (
            "own stream",
            turns,
            "Accept: text/event-stream\r\n",
            turn.clone(),
        ),
        ("own", "/api/v1/sessions/desk/own/turns?wait=50", "", turn),
        ("chat stream", "/v1/chat/completions", "", chat(true)),
        ("chat", "/v1/chat/completions", "", chat(false)),
        ("messages stream", "/v1/messages", "", chat(true)),
        ("messages", "/v1/messages", "", chat(false)),
        ("responses stream", "/v1/responses", "", responses(true)),
        ("responses", "/v1/responses", "", responses(false)),
        ("A2A stream", "/a2a/desk/message:stream", a2a, message("1")),
        ("A2A", "/a2a/desk/message:send", a2a, message("2")),
        (
            "A2A RPC stream",
            "/a2a/desk",
            a2a,
            rpc("SendStreamingMessage", message("3")),
        ),
        (
            "A2A RPC",
            "/a2a/desk",
            a2a,
            rpc("SendMessage", message("4")),
        ),
        ("AG-UI", "/agui/desk", "", agui),
        ("MCP", "/mcp", mcp, rpc("tools/call", call)),
        (
            "ANP",
            "/anp/desk/rpc",
            "",
            rpc("ask", json!({ "text": "go" })),
        ),
    ]
}

/// All bytes of a response, whatever they are.
fn bytes(to: SocketAddr, path: &str, more: &str, body: &Value) -> String {
    let mut text = Vec::new();
    let mut answer = open(to, "POST", path, more, &body.to_string()).unwrap();
    answer.read_to_end(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn desk(interceptors: Value) -> Desk {
    let desk = Desk::new("simple", json!({}));
    let script = json!({ "order": "turns", "replies": [{ "text": ANSWER }], "repeat_last": true });
    let team = json!({
        "models": {
            "default": { "provider": "scripted", "script": script, "delay_ms": 0, "piece_ms": 2 },
        },
        "interceptors": interceptors,
        "agent": { "name": "desk", "behavior": "simple", "stream": true },
    });
    desk.write("team.yaml", &team.to_string());
    desk
}

#[test]
fn a_refused_answer_reaches_no_client_of_any_protocol_and_no_piece_of_it_does() {
    let (open, to) = (desk(json!([])), free());
    let serving = serve(&open, to);
    for (name, path, more, body) in requests() {
        let told = bytes(to, path, more, &body);
        assert!(told.contains("xylophones"), "{name}: {told}");
    }
    drop(serving);

    let guard = json!([{ "name": "validation", "blocked_output": ["swordfish"] }]);
    let (guarded, to) = (desk(guard), free());
    let serving = serve(&guarded, to);
    for (name, path, more, body) in requests() {
        let told = bytes(to, path, more, &body);
        for word in ANSWER.split(' ').filter(|word| word.len() > 4) {
            assert!(!told.contains(word), "{name}: {told}");
        }
    }
    // What is recorded of these runs holds none of it either.
    let (_, runs) = ask(to, "GET", "/api/v1/runs?limit=100", "", "").unwrap();
    let runs = runs["runs"].as_array().unwrap();
    assert_eq!(runs.len(), requests().len());
    for run in runs {
        let events = format!(
            "/api/v1/runs/{}/events?limit=1000",
            run["id"].as_str().unwrap()
        );
        let (_, events) = ask(to, "GET", &events, "", "").unwrap();
        assert!(!events.to_string().contains("xylophones"), "{events}");
    }
    drop(serving);
}
