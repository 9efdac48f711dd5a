//! A client of each protocol that the server speaks, which comes back whenever its connection is cut.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead as _, BufReader, Read as _},
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

use ghostlight_a2a::{grpc, protocol::Method};
use hyper_util::{client::legacy, rt::TokioExecutor};
use serde_json::{Value, json};
use tonic::client::Grpc;

use crate::listening::over_http::open;

/// How often each agent of a turn toils, and what its model says each time.
pub(super) const TIMES: usize = 5;
pub(super) const SAYS: &str = "this is what comes next";
pub(super) const ANSWER: &str = "toiled";
/// How long a client waits for its end.
const PATIENCE: Duration = Duration::from_secs(200);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Protocol {
    Own,
    Chat,
    Responses,
    Messages,
    A2aRpc,
    A2aHttp,
    A2aGrpc,
    Agui,
    Mcp,
    Anp,
}

pub(super) const ALL: [Protocol; 10] = [
    Protocol::Own,
    Protocol::Chat,
    Protocol::Responses,
    Protocol::Messages,
    Protocol::A2aRpc,
    Protocol::A2aHttp,
    Protocol::A2aGrpc,
    Protocol::Agui,
    Protocol::Mcp,
    Protocol::Anp,
];

/// One server-sent event; its data is JSON, or text that is none.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sent {
    id: Option<String>,
    data: Value,
}

/// An answer: its events where it is a stream, and its JSON where it is none.
enum Answer {
    Events(u16, BufReader<TcpStream>),
    Json(u16, Value),
}

/// Sends a request; `None` where the server is not there, or is gone before it answers.
fn request(to: SocketAddr, method: &str, path: &str, more: &str, body: &Value) -> Option<Answer> {
    let body = (!body.is_null()).then(|| body.to_string());
    let mut reader = open(to, method, path, more, &body.unwrap_or_default())?;
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let status = line.split(' ').nth(1)?.parse().ok()?;
    let (mut is_stream, mut length) = (false, None);
    loop {
        line.clear();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let line = line.trim_end().to_ascii_lowercase();
        is_stream |= line.starts_with("content-type: text/event-stream");
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse::<usize>().ok();
        }
        if line.is_empty() {
            break;
        }
    }
    if is_stream {
        return Some(Answer::Events(status, reader));
    }
    let mut body = vec![0; length?];
    reader.read_exact(&mut body).ok()?;
    Some(Answer::Json(
        status,
        serde_json::from_slice(&body).unwrap_or_default(),
    ))
}

/// The next whole event of a stream; `None` where the stream ends.
fn next(reader: &mut BufReader<TcpStream>) -> Option<Sent> {
    let (mut id, mut data) = (None, String::new());
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        match line.trim_end_matches('\n').split_once(": ") {
            Some(("id", value)) => id = Some(value.to_owned()),
            Some(("data", value)) => data += value,
            _ if line == "\n" && !data.is_empty() => {
                let data = serde_json::from_str(&data).unwrap_or(Value::String(data));
                return Some(Sent { id, data });
            }
            _ => {}
        }
    }
}

/// What a client has of its turn.
#[derive(Debug, Default)]
pub(super) struct Client {
    /// Its events up to the last one with an id; what comes without one may come again.
    told: Vec<Sent>,
    /// The task or run, once it is known.
    named: Option<String>,
    /// What the turn came to.
    pub(super) end: Option<String>,
    pub(super) cuts: usize,
}

impl Client {
    fn last_id(&self) -> String {
        let last = self.told.iter().rev().find_map(|sent| sent.id.as_ref());
        last.map(|id| format!("Last-Event-ID: {id}\r\n"))
            .unwrap_or_default()
    }

    /// Drops what came behind the last event with an id.
    fn cut(&mut self) {
        let last = self.told.iter().rposition(|sent| sent.id.is_some());
        self.told.truncate(last.map_or(0, |last| last + 1));
        self.cuts += 1;
    }

    /// Follows a turn to its end over as many connections as it takes.
    pub(super) fn follow(protocol: Protocol, to: SocketAddr, turn: &str) -> Self {
        let mut client = Self::default();
        let begun = Instant::now();
        while client.end.is_none() {
            assert!(
                begun.elapsed() < PATIENCE,
                "{protocol:?} {turn}: no end: {client:?}"
            );
            let heard = match protocol {
                Protocol::Own => client.own(to, turn),
                Protocol::Chat | Protocol::Responses | Protocol::Messages => {
                    client.compatible(protocol, to, turn)
                }
                Protocol::A2aRpc | Protocol::A2aHttp => client.a2a(protocol, to, turn),
                Protocol::A2aGrpc => client.grpc(to, turn),
                Protocol::Agui => client.agui(to, turn),
                Protocol::Mcp => client.mcp(to, turn),
                Protocol::Anp => client.anp(to, turn),
            };
            match heard {
                Some(()) => assert!(client.end.is_some(), "{protocol:?} {turn}: {client:?}"),
                None => {
                    client.cut();
                    thread::sleep(Duration::from_millis(10));
                }
            }
        }
        client
    }

    fn own(&mut self, to: SocketAddr, turn: &str) -> Option<()> {
        let more = format!("Accept: text/event-stream\r\n{}", self.last_id());
        let answer = match &self.named {
            None => {
                let path = format!("/api/v1/sessions/desk/{turn}/turns");
                request(
                    to,
                    "POST",
                    &path,
                    &more,
                    &json!({ "text": TIMES.to_string(), "id": turn }),
                )
            }
            Some(run) => request(
                to,
                "GET",
                &format!("/api/v1/runs/{run}/events"),
                &more,
                &Value::Null,
            ),
        };
        let mut events = self.events(answer?)?;
        loop {
            let sent = next(&mut events)?;
            // The first event is the turn's own run; agents below it have events in the same stream.
            let run = self.named.get_or_insert_with(|| text(&sent.data["run"]));
            let is_end = sent.data["type"] == "run_ended" && sent.data["run"] == *run;
            let end = is_end.then(|| sent.data["data"].to_string());
            if sent.id.is_some() {
                self.told.push(sent);
            }
            if end.is_some() {
                self.end = end;
                return Some(());
            }
        }
    }

    fn events(&self, answer: Answer) -> Option<BufReader<TcpStream>> {
        match answer {
            Answer::Events(200, events) => Some(events),
            Answer::Events(status, _) => panic!("{status}: {self:?}"),
            Answer::Json(status, body) => panic!("{status} {body}: {self:?}"),
        }
    }

    /// The whole text comes with each request that is sent again.
    fn compatible(&mut self, protocol: Protocol, to: SocketAddr, turn: &str) -> Option<()> {
        let messages = json!([{ "role": "user", "content": TIMES.to_string() }]);
        let (path, body) = match protocol {
            Protocol::Responses => (
                "/v1/responses",
                json!({ "model": "desk", "input": TIMES.to_string(), "stream": true }),
            ),
            Protocol::Messages => (
                "/v1/messages",
                json!({ "model": "desk", "max_tokens": 9, "messages": messages, "stream": true }),
            ),
            _ => (
                "/v1/chat/completions",
                json!({ "model": "desk", "messages": messages, "stream": true }),
            ),
        };
        let more = format!("Idempotency-Key: {turn}\r\n");
        let mut events = self.events(request(to, "POST", path, &more, &body)?)?;
        let (mut said, mut number, mut reason) = (String::new(), 0, Value::Null);
        loop {
            let sent = next(&mut events)?.data;
            assert!(sent.get("error").is_none(), "{protocol:?} {turn}: {sent}");
            match protocol {
                Protocol::Responses => {
                    assert_eq!(sent["sequence_number"], number);
                    number += 1;
                    if sent["type"] == "response.output_text.delta" {
                        said += &text(&sent["delta"]);
                    }
                    if sent["type"] == "response.completed" {
                        let whole = &sent["response"]["output"][0]["content"][0]["text"];
                        assert_eq!(*whole, said);
                        break;
                    }
                }
                Protocol::Messages => {
                    if sent["type"] == "content_block_delta" {
                        said += &text(&sent["delta"]["text"]);
                    }
                    if sent["type"] == "message_delta" {
                        assert_eq!(sent["delta"]["stop_reason"], "end_turn");
                    }
                    if sent["type"] == "message_stop" {
                        break;
                    }
                }
                _ if sent == "[DONE]" => {
                    assert_eq!(reason, "stop");
                    break;
                }
                _ => {
                    let choice = &sent["choices"][0];
                    said += choice["delta"]["content"].as_str().unwrap_or_default();
                    reason = choice["finish_reason"].clone();
                }
            }
        }
        assert_eq!(said, all_that_is_said(), "{protocol:?} {turn}");
        self.end = Some(ANSWER.to_owned());
        Some(())
    }

    fn a2a(&mut self, protocol: Protocol, to: SocketAddr, turn: &str) -> Option<()> {
        let more = format!("A2A-Version: 1.0\r\n{}", self.last_id());
        let message = message_of(turn);
        let is_rpc = protocol == Protocol::A2aRpc;
        let named = self.named.clone();
        let rpc = |method: &str, params: Value| {
            let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
            request(to, "POST", "/a2a/desk", &more, &body)
        };
        // Without an event of the task, a client says its message again.
        let answer = match named.filter(|_| !self.told.is_empty()) {
            Some(task) if is_rpc => rpc("SubscribeToTask", json!({ "id": task })),
            None if is_rpc => rpc("SendStreamingMessage", message),
            Some(task) => {
                let path = format!("/a2a/desk/tasks/{task}:subscribe");
                request(to, "GET", &path, &more, &Value::Null)
            }
            None => request(to, "POST", "/a2a/desk/message:stream", &more, &message),
        };
        let mut events = self.events(answer?)?;
        loop {
            let mut sent = next(&mut events)?;
            assert!(
                sent.data.get("error").is_none(),
                "{protocol:?} {turn}: {}",
                sent.data
            );
            if is_rpc {
                sent.data = sent.data["result"].clone();
            }
            if self.hear_of_task(protocol, turn, sent) {
                return Some(());
            }
        }
    }

    fn grpc(&mut self, to: SocketAddr, turn: &str) -> Option<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(self.follow_grpc(to, turn))
    }

    async fn follow_grpc(&mut self, to: SocketAddr, turn: &str) -> Option<()> {
        let named = self.named.clone().filter(|_| !self.told.is_empty());
        let (method, mut params) = match named {
            Some(task) => (Method::SubscribeToTask, json!({ "id": task })),
            None => (Method::SendStreamingMessage, message_of(turn)),
        };
        params["tenant"] = "desk".into();
        let mut request = tonic::Request::new(params);
        let metadata = request.metadata_mut();
        metadata.insert("a2a-version", "1.0".parse().unwrap());
        if let Some(id) = self.told.iter().rev().find_map(|sent| sent.id.as_ref()) {
            metadata.insert("last-event-id", id.parse().unwrap());
        }
        let http = legacy::Client::builder(TokioExecutor::new())
            .http2_only(true)
            .build_http();
        let mut grpc = Grpc::with_origin(http, format!("http://{to}").parse().unwrap());
        grpc.ready().await.ok()?;
        let path = grpc::path(method).parse().unwrap();
        let answers = grpc.server_streaming(request, path, grpc::Codec::of_client(method));
        let mut answers = answers.await.ok()?.into_inner();
        loop {
            let data = answers.message().await.ok()??;
            let updates = data.as_object().unwrap().values();
            let place = updates.filter_map(|update| update["metadata"][grpc::EVENT].as_str());
            let id = place.map(str::to_owned).next();
            if self.hear_of_task(Protocol::A2aGrpc, turn, Sent { id, data }) {
                return Some(());
            }
        }
    }

    /// Takes an update of the task, and tells whether it is the end.
    fn hear_of_task(&mut self, protocol: Protocol, turn: &str, sent: Sent) -> bool {
        if let Some(id) = sent.data["task"]["id"].as_str() {
            self.named = Some(id.to_owned());
            assert!(
                self.told.is_empty(),
                "{protocol:?} {turn}: the task again: {}",
                sent.data
            );
            return false;
        }
        let state = sent.data["statusUpdate"]["status"]["state"].clone();
        let is_end = state == "TASK_STATE_COMPLETED";
        assert!(
            is_end || state.is_null() || state == "TASK_STATE_WORKING",
            "{state}"
        );
        if sent.data["artifactUpdate"]["metadata"]["ghostlight/preview"].is_null() {
            self.told.push(sent);
        }
        if is_end {
            let answer = self.told.iter().rev().find_map(|sent| {
                let artifact = &sent.data["artifactUpdate"]["artifact"];
                (artifact["artifactId"] == "answer").then(|| text(&artifact["parts"][0]["text"]))
            });
            self.end = answer;
        }
        is_end
    }

    fn agui(&mut self, to: SocketAddr, turn: &str) -> Option<()> {
        let message = json!({ "id": "m", "role": "user", "content": TIMES.to_string() });
        let input = json!({
            "threadId": turn, "runId": turn, "messages": [message], "tools": [], "context": [], "state": {},
        });
        let more = self.last_id();
        let mut events = self.events(request(to, "POST", "/agui/desk", &more, &input)?)?;
        loop {
            let sent = next(&mut events)?;
            assert_ne!(sent.data["type"], "RUN_ERROR", "{turn}: {}", sent.data);
            let is_end = sent.data["type"] == "RUN_FINISHED";
            // A client that comes back gets the state once more.
            if sent.id.is_some() || sent.data["type"] != "STATE_SNAPSHOT" {
                self.told.push(sent.clone());
            }
            if is_end {
                self.end = Some(text(&sent.data["result"]));
                return Some(());
            }
        }
    }

    /// A call that is sent again finds its turn, and gets its progress from the start.
    fn mcp(&mut self, to: SocketAddr, turn: &str) -> Option<()> {
        let more = "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
             Mcp-Method: tools/call\r\nMcp-Name: desk\r\n";
        let body = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {
                "name": "desk",
                "arguments": { "message": TIMES.to_string(), "session": turn, "turn_id": turn },
                "_meta": {
                    "progressToken": "p",
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
                    "io.modelcontextprotocol/clientCapabilities": {},
                },
            },
        });
        let mut events = self.events(request(to, "POST", "/mcp", more, &body)?)?;
        let mut progress = 0.0;
        loop {
            let sent = next(&mut events)?.data;
            assert!(sent.get("error").is_none(), "{turn}: {sent}");
            if sent["method"] == "notifications/progress" {
                let now = sent["params"]["progress"].as_f64().unwrap();
                assert!(now > progress, "{sent}");
                progress = now;
            }
            if let Some(result) = sent.get("result") {
                assert!(progress > 0.0, "{turn}: no progress was told: {sent}");
                self.end = Some(text(&result["content"][0]["text"]));
                return Some(());
            }
        }
    }

    fn anp(&mut self, to: SocketAddr, turn: &str) -> Option<()> {
        let body = json!({
            "jsonrpc": "2.0", "id": 1, "method": "ask", "params": { "text": TIMES.to_string(), "session": turn, "id": turn },
        });
        let Answer::Json(200, told) = request(to, "POST", "/anp/desk/rpc", "", &body)? else {
            panic!("{turn}");
        };
        self.end = Some(text(&told["result"]["text"]));
        Some(())
    }

    /// The ids of its events.
    pub(super) fn ids(&self) -> BTreeSet<&str> {
        self.told
            .iter()
            .filter_map(|sent| sent.id.as_deref())
            .collect()
    }

    /// The events with these ids, and of the others how often each came and its text in all: a later reader gets a text
    /// whole, the state as it is then, and more ids, since none is given to what is told amid a message.
    pub(super) fn whole(
        &self,
        ids: &BTreeSet<&str>,
    ) -> (Vec<&Sent>, BTreeMap<String, (usize, String)>) {
        let (mut recorded, mut others) = (Vec::new(), BTreeMap::new());
        for sent in &self.told {
            let kind = sent.data["type"].as_str().unwrap_or_default();
            let is_recorded = sent.id.as_deref().is_some_and(|id| ids.contains(id));
            match kind {
                "RUN_STARTED" | "STATE_SNAPSHOT" => {}
                _ if is_recorded => recorded.push(sent),
                _ => {
                    let data = &sent.data;
                    let of = data["messageId"].as_str().or(data["toolCallId"].as_str());
                    let name = format!("{kind} {}", of.unwrap_or_default());
                    let (times, text): &mut (usize, String) = others.entry(name).or_default();
                    *text += data["delta"].as_str().unwrap_or_default();
                    *times += usize::from(data["delta"].is_null());
                }
            }
        }
        (recorded, others)
    }
}

/// The request of A2A that begins a turn.
fn message_of(turn: &str) -> Value {
    let parts = [json!({ "text": TIMES.to_string() })];
    json!({ "message": {
        "messageId": turn, "contextId": turn, "role": "ROLE_USER", "parts": parts,
    } })
}

#[track_caller]
fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("no text: {value}"))
        .to_owned()
}

fn all_that_is_said() -> String {
    format!("{SAYS}\n\n").repeat(TIMES) + ANSWER
}
