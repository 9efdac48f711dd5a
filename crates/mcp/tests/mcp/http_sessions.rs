//! Whose a client's session over HTTP is, and how many there are.

use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};

use crate::serving::{desk, over_http};

pub(crate) struct Caller<'c> {
    url: &'c str,
    owner: &'c str,
    client: reqwest::Client,
}

impl<'c> Caller<'c> {
    pub(crate) fn new(url: &'c str, owner: &'c str) -> Self {
        // The first of several sets it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::new();
        Self { url, owner, client }
    }

    pub(crate) fn request(&self, method: Method, session: Option<&str>) -> RequestBuilder {
        let request = self.client.request(method, self.url);
        let request = request
            .header("x-owner", self.owner)
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2025-11-25");
        match session {
            Some(session) => request.header("mcp-session-id", session),
            None => request,
        }
    }

    /// Begins a session.
    pub(crate) async fn begin(&self) -> String {
        let client = json!({ "name": "test", "version": "1" });
        let params =
            json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        let request =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
        let begun = self.request(Method::POST, None).json(&request).send().await;
        let begun = begun.unwrap().error_for_status().unwrap();
        let session = begun.headers()["mcp-session-id"]
            .to_str()
            .unwrap()
            .to_owned();
        begun.text().await.unwrap();
        session
    }

    async fn status(&self, method: Method, session: &str, body: Option<Value>) -> StatusCode {
        let mut request = self.request(method, Some(session));
        if let Some(body) = body {
            request = request.json(&body);
        }
        request.send().await.unwrap().status()
    }

    /// Whether the server knows its session.
    async fn has(&self, session: &str) -> bool {
        let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" });
        self.status(Method::POST, session, Some(list)).await == StatusCode::OK
    }
}

/// A caller that could use the session of another would hear its messages, or end it.
#[tokio::test]
async fn a_session_is_as_unknown_to_others_as_one_that_there_is_not() {
    let (system, _) = desk().await;
    let server = ghostlight_mcp::McpServer::new(system).team("desk", "Repeats things.");
    let (url, serving) = over_http(server).await;
    let (ada, bob) = (Caller::new(&url, "ada"), Caller::new(&url, "bob"));
    let hers = ada.begin().await;
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" });
    for session in [&hers, "0f0e0d0c-0000-4000-8000-000000000000"] {
        for (method, body) in [
            (Method::POST, Some(list.clone())),
            (Method::GET, None),
            (Method::DELETE, None),
        ] {
            let status = bob.status(method.clone(), session, body).await;
            // Ending what there is not is no fault.
            let expected = match method {
                Method::DELETE => StatusCode::ACCEPTED,
                _ => StatusCode::NOT_FOUND,
            };
            assert_eq!(status, expected, "{method} {session}");
        }
    }
    assert!(ada.has(&hers).await, "it goes on");
    assert_eq!(
        ada.status(Method::DELETE, &hers, None).await,
        StatusCode::ACCEPTED
    );
    assert!(!ada.has(&hers).await);
    serving.abort();
}

/// Sessions are kept for minutes, so a client that begins one after the other must not fill the memory.
#[tokio::test]
async fn one_owner_has_so_many_sessions_and_the_next_ends_the_oldest() {
    let (system, _) = desk().await;
    let server = ghostlight_mcp::McpServer::new(system).team("desk", "Repeats things.");
    let (url, serving) = over_http(server).await;
    let (ada, bob) = (Caller::new(&url, "ada"), Caller::new(&url, "bob"));
    let (his, first, second) = (bob.begin().await, ada.begin().await, ada.begin().await);
    for _ in 2..256 {
        ada.begin().await;
    }
    assert!(ada.has(&first).await);
    let last = ada.begin().await;
    assert!(!ada.has(&first).await, "the oldest is over");
    assert!(ada.has(&second).await && ada.has(&last).await);
    assert!(bob.has(&his).await, "those of others are not touched");
    serving.abort();
}
