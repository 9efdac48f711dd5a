//! A server over HTTP that answers as a test says, and otherwise as a plain server of an older revision does.

use std::sync::Arc;

use axum::{
    Router,
    body::Bytes,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
    routing::post,
};
use ghostlight_mcp::{McpToolset, ServerSpec};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// What an odd server answers: a status, the type of the content, and the content.
#[derive(Clone)]
pub(crate) struct Answer(pub(crate) u16, pub(crate) &'static str, pub(crate) String);

impl Answer {
    pub(crate) fn text(status: u16, text: &str) -> Self {
        Self(status, "text/plain", text.to_owned())
    }

    pub(crate) fn json(status: u16, value: &Value) -> Self {
        Self(status, "application/json", value.to_string())
    }

    /// The result of this request.
    pub(crate) fn result(asked: &Value, result: Value) -> Self {
        let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result });
        Self::json(200, &answer)
    }
}

/// The server, with what it was asked.
pub(crate) struct Odd {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Odd {
    /// A server with a rule that gets each message and the number of its session.
    pub(crate) async fn new(
        rule: impl Fn(&Value, Option<usize>) -> Option<Answer> + Clone + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = asked.clone();
        let answer = move |headers: HeaderMap, body: Bytes| {
            let (rule, log) = (rule.clone(), log.clone());
            async move {
                let message: Value = serde_json::from_slice(&body).unwrap();
                let session = headers.get("mcp-session-id");
                let session = session.and_then(|id| id.to_str().ok()?.parse().ok());
                log.lock().push(message.clone());
                match rule(&message, session) {
                    Some(Answer(status, kind, content)) => {
                        let status = StatusCode::from_u16(status).unwrap();
                        (status, [("content-type", kind)], content).into_response()
                    }
                    None => plain(&message, &log.lock()),
                }
            }
        };
        let router = Router::new().route("/mcp", post(answer));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, asked }
    }

    pub(crate) fn settings(&self) -> ServerSpec {
        ServerSpec::url(&self.url)
    }

    pub(crate) async fn connected(&self) -> McpToolset {
        let toolset = McpToolset::new("odd", self.settings()).unwrap();
        toolset.connect().await.unwrap();
        toolset
    }

    /// How many times it was asked this.
    pub(crate) fn count(&self, method: &str) -> usize {
        count(&self.asked.lock(), method)
    }
}

fn count(asked: &[Value], method: &str) -> usize {
    let of = asked.iter().filter(|asked| asked["method"] == method);
    of.count()
}

/// What a plain server of an older revision answers: it has one tool, `echo`.
fn plain(message: &Value, asked: &[Value]) -> Response {
    let (id, params) = (&message["id"], &message["params"]);
    let mut begun = None;
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => {
            begun = Some(count(asked, "initialize").to_string());
            json!({
                "protocolVersion": params["protocolVersion"],
                "capabilities": { "tools": {}, "resources": {}, "prompts": {} },
                "serverInfo": { "name": "odd", "version": "1" },
            })
        }
        "tools/list" => {
            json!({ "tools": [{ "name": "echo", "inputSchema": { "type": "object" } }] })
        }
        "tools/call" => json!({ "content": [{ "type": "text", "text": "done" }] }),
        _ if id.is_null() => return StatusCode::ACCEPTED.into_response(),
        _ => {
            let error = json!({ "code": -32601, "message": "there is no such method" });
            let answer = json!({ "jsonrpc": "2.0", "id": id, "error": error });
            return ([("content-type", "application/json")], answer.to_string()).into_response();
        }
    };
    let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
    let mut response = ([("content-type", "application/json")], answer).into_response();
    if let Some(begun) = begun {
        let begun = begun.parse().unwrap();
        response.headers_mut().insert("mcp-session-id", begun);
    }
    response
}
