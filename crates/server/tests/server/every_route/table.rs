//! The table of routes: how each is used, and what the other tenant gets.

use serde_json::{Value, json};

use super::Hers;
use crate::a2a::{VERSION, message};

/// One way to use a route.
pub(super) struct Try {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    /// Another key of the session.
    pub(super) key: Option<String>,
    /// Behind the path: a verb or a query.
    pub(super) tail: String,
    pub(super) headers: String,
    pub(super) body: Option<Value>,
    /// The status for callers without credentials; 401 where nothing else is said.
    pub(super) nobody: u16,
    /// The status for a key that does not exist; 401 where nothing else is said.
    pub(super) wrong: u16,
    /// The status for the other tenant.
    pub(super) theirs: u16,
    /// The status for her, or for the operator where the route is the operator's: the request itself is right.
    pub(super) hers: u16,
    /// The status for the reader of her tenant, where it is not hers at what is to be read and 403 at all else.
    pub(super) reader: Option<u16>,
}

impl Try {
    fn of((method, path): (&'static str, &'static str), theirs: u16, hers: u16) -> Self {
        Self {
            method,
            path,
            key: None,
            tail: String::new(),
            headers: VERSION.to_owned(),
            body: None,
            nobody: 401,
            wrong: 401,
            theirs,
            hers,
            reader: None,
        }
    }

    fn key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    fn tail(mut self, tail: impl Into<String>) -> Self {
        self.tail = tail.into();
        self
    }

    fn body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    fn header(mut self, name: &str, value: &str) -> Self {
        self.headers += &format!("{name}: {value}\r\n");
        self
    }

    fn reader(mut self, status: u16) -> Self {
        self.reader = Some(status);
        self
    }

    fn wrong(mut self, status: u16) -> Self {
        self.wrong = status;
        self
    }

    fn nobody(mut self, status: u16) -> Self {
        self.nobody = status;
        self
    }
}

fn get(path: &'static str, theirs: u16, hers: u16) -> Try {
    Try::of(("GET", path), theirs, hers)
}

fn posted(path: &'static str, body: Value, theirs: u16, hers: u16) -> Try {
    Try::of(("POST", path), theirs, hers).body(body)
}

/// The JSON interface.
fn of_the_interface(hers: &Hers) -> Vec<Try> {
    let session = "/api/v1/sessions/{team}/{key}";
    let in_hers = format!("acme:ada%2F{}", hers.session);
    let turn = json!({ "text": "well", "id": "t" });
    let answer = json!({ "operation": hers.operation, "value": "no" });
    let item = json!({ "id": format!("{}-0", hers.text) });
    vec![
        get("/health", 200, 200).nobody(200),
        get("/ready", 200, 200).nobody(200),
        get("/openapi.json", 200, 200).nobody(200),
        get("/schema", 200, 200).nobody(200),
        get("/metrics", 200, 200).reader(403),
        posted("/sign-in", json!({ "key": "glk_x" }), 401, 401),
        Try::of(("POST", "/sign-out"), 204, 204).nobody(204),
        get("/api/v1/me", 200, 200),
        // The operator's.
        get("/api/v1/load", 403, 200),
        posted(
            "/api/v1/quotas/reset",
            json!({ "whose": "team", "name": "nothing" }),
            403,
            200,
        ),
        get("/api/v1/supervision", 403, 200),
        get("/api/v1/schedules", 403, 200),
        get("/api/v1/teams/{team}/definition", 403, 200),
        get("/api/v1/evaluations", 403, 200),
        get("/api/v1/evaluations/{name}", 403, 200),
        get("/api/v1/evaluations/{name}/comparison", 403, 200).tail("?base=base&other=kind"),
        get("/api/v1/runs/{run}/entries", 403, 200),
        get("/api/v1/runs/{run}/definition", 403, 200),
        get("/api/v1/topics", 200, 200),
        get("/api/v1/budgets", 200, 200),
        get("/api/v1/teams", 200, 200),
        get("/api/v1/teams/{team}", 200, 200),
        get("/api/v1/memories", 200, 200),
        // A reader of a tenant has nothing of its own.
        get("/api/v1/memories/{team}/{name}", 200, 200).reader(422),
        get("/api/v1/memories/{team}/{name}", 200, 200)
            .tail(format!("?text={}", hers.text))
            .reader(422),
        get("/api/v1/memories/{team}/{name}", 422, 200).tail("?scope=user:acme:ada"),
        get("/api/v1/memories/{team}/{name}", 200, 200).tail(format!("?scope=session:{in_hers}")),
        posted("/api/v1/memories/{team}/{name}/forget", item, 200, 200),
        get("/api/v1/sessions", 200, 200),
        get("/api/v1/sessions", 200, 200).tail("?owner=acme:ada"),
        get(session, 404, 200),
        get(session, 404, 404).key(&in_hers).reader(200),
        get(session, 404, 404).key(&format!("..%2F{in_hers}")),
        get("/api/v1/sessions/{team}/{key}/messages", 200, 200),
        posted("/api/v1/sessions/{team}/{key}/turns", turn, 202, 409),
        posted(
            "/api/v1/sessions/{team}/{key}/fork",
            json!({ "turns": 1, "key": "b" }),
            404,
            200,
        ),
        posted(
            "/api/v1/sessions/{team}/{key}/rewind",
            json!({ "turns": 1 }),
            404,
            409,
        ),
        get("/api/v1/sessions/{team}/{key}/state", 200, 200),
        get("/api/v1/sessions/{team}/{key}/state", 422, 200).tail("?scope=user:acme:ada"),
        get("/api/v1/sessions/{team}/{key}/artifacts", 200, 200),
        get("/api/v1/sessions/{team}/{key}/artifacts", 422, 422).tail("?scope=app"),
        get("/api/v1/sessions/{team}/{key}/artifacts/{name}", 404, 200),
        // No turn of hers has a file.
        get(
            "/api/v1/sessions/{team}/{key}/turns/{number}/files/{place}",
            404,
            404,
        ),
        get("/api/v1/questions", 200, 200),
        get("/api/v1/runs", 200, 200),
        get("/api/v1/runs", 200, 200).tail("?all=true"),
        get("/api/v1/runs", 200, 200).tail("?owner=acme:ada"),
        get("/api/v1/runs", 200, 200).tail(format!("?team=desk&session={}", hers.session)),
        get("/api/v1/runs", 200, 200).tail(format!("?text={}", hers.text)),
        get("/api/v1/runs/{run}", 404, 200),
        get("/api/v1/runs/{run}/tree", 404, 200),
        get("/api/v1/runs/{run}/events", 404, 200),
        get("/api/v1/runs/{run}/topics", 404, 200),
        get("/api/v1/runs/{run}/questions", 404, 200),
        posted("/api/v1/runs/{run}/answers", answer, 404, 202),
        posted(
            "/api/v1/runs/{run}/cancel",
            json!({ "reason": "x" }),
            404,
            200,
        ),
        Try::of(
            ("POST", "/api/v1/runs/{run}/calls/{operation}/cancel"),
            404,
            200,
        ),
        posted("/api/v1/runs/{run}/steer", json!({ "text": "x" }), 404, 202),
        posted(
            "/api/v1/runs/{run}/tell",
            json!({ "name": "n", "value": 1 }),
            404,
            202,
        ),
        Try::of(("POST", "/api/v1/runs/{run}/retry"), 404, 202),
        Try::of(("POST", "/api/v1/runs/{run}/resume"), 404, 202),
        posted("/api/v1/runs/{run}/fork", json!({}), 404, 200),
        get("/", 200, 200).nobody(200).wrong(200),
    ]
}

/// OpenAI's, Anthropic's and AG-UI's interfaces, webhooks, messengers, and a nested service.
fn of_clients(hers: &Hers) -> Vec<Try> {
    let said = json!([{ "role": "user", "content": "well" }]);
    let chat = json!({ "model": "desk", "messages": said, "max_tokens": 9 });
    let response = |more: Value| {
        let mut body = json!({ "model": "desk", "input": "well" });
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        body
    };
    let id = format!("resp_{}", hers.run);
    let agui = |more: Value| {
        let mut body = json!({
            "threadId": hers.session, "runId": "r", "tools": [], "context": [], "state": {},
            "messages": [{ "id": "m", "role": "user", "content": "well" }],
        });
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        body
    };
    let interrupt = format!("{}_{}", hers.run, hers.operation);
    let resume = json!([{ "interruptId": interrupt, "status": "resolved", "payload": "x" }]);
    vec![
        get("/v1/models", 200, 200),
        get("/v1/models/{team}", 200, 200),
        posted("/v1/chat/completions", chat.clone(), 200, 200)
            .header("X-Session-Id", &hers.session),
        posted("/v1/messages", chat, 200, 200).header("X-Session-Id", &hers.session),
        posted(
            "/v1/responses",
            response(json!({ "conversation": hers.session })),
            200,
            200,
        ),
        posted(
            "/v1/responses",
            response(json!({ "previous_response_id": id })),
            404,
            200,
        ),
        posted(
            "/v1/responses/compact",
            json!({ "previous_response_id": id }),
            404,
            404,
        ),
        get("/v1/responses/{id}", 404, 200),
        Try::of(("POST", "/v1/responses/{id}/cancel"), 404, 200),
        posted("/agui/{team}", agui(json!({})), 200, 200),
        // That there is no such question is told in the stream.
        posted("/agui/{team}", agui(json!({ "resume": resume })), 200, 200),
        // A signature of the body lets in, and no key does.
        posted("/hooks/{team}/{name}", json!({ "text": "well" }), 401, 401),
        // This webhook takes POST alone.
        Try::of(("PUT", "/hooks/{team}/{name}"), 404, 404)
            .body(json!({ "text": "well" }))
            .nobody(404)
            .wrong(401)
            .reader(404),
        Try::of(("PATCH", "/hooks/{team}/{name}"), 404, 404)
            .body(json!({ "text": "well" }))
            .nobody(404)
            .wrong(401)
            .reader(404),
        posted(
            "/messengers/{team}/{name}",
            json!({ "text": "well" }),
            401,
            401,
        ),
        Try::of(("POST", "/service"), 200, 200),
        get("/service", 200, 200),
        Try::of(("DELETE", "/service"), 200, 200),
    ]
}

/// The parameters of each method of A2A that names something of hers, and what others are told.
pub(super) fn of_methods(hers: &Hers) -> Vec<(&'static str, Value, &'static str)> {
    let unknown = "TASK_NOT_FOUND";
    let (id, task) = (json!({ "id": hers.run }), json!({ "taskId": hers.run }));
    let push = json!({ "taskId": hers.run, "id": "r", "url": "http://127.0.0.1:9/theirs" });
    let mut answer = message("m", "x");
    answer["taskId"] = json!(hers.run);
    let answer = json!({ "message": answer });
    let mut own = message("m", "well");
    own["contextId"] = json!(hers.session);
    let own = json!({ "message": own });
    vec![
        ("GetTask", id.clone(), unknown),
        ("CancelTask", id.clone(), unknown),
        ("SubscribeToTask", id, unknown),
        ("SendMessage", answer.clone(), unknown),
        ("SendStreamingMessage", answer, unknown),
        ("ListTasks", json!({}), ""),
        ("ListTasks", json!({ "contextId": hers.session }), ""),
        ("ListTaskPushNotificationConfigs", task, unknown),
        ("CreateTaskPushNotificationConfig", push.clone(), unknown),
        ("GetTaskPushNotificationConfig", push.clone(), unknown),
        ("DeleteTaskPushNotificationConfig", push, unknown),
        ("GetExtendedAgentCard", json!({}), ""),
        ("SendMessage", own.clone(), ""),
        ("SendStreamingMessage", own, ""),
    ]
}

/// A2A, but for the methods behind one path, and the Agent Network Protocol.
fn of_agents(hers: &Hers) -> Vec<Try> {
    let task = "/a2a/{team}/tasks/{run}";
    let pushes = "/a2a/{team}/tasks/{run}/pushNotificationConfigs";
    let push = "/a2a/{team}/tasks/{run}/pushNotificationConfigs/{receiver}";
    let config = json!({ "url": "http://127.0.0.1:9/hear", "id": "q" });
    let mut own = message("m", "well");
    own["contextId"] = json!(hers.session);
    let mut answer = message("n", "no");
    answer["taskId"] = json!(hers.run);
    let asked = json!({ "jsonrpc": "2.0", "id": 1, "method": "ask",
        "params": { "text": "well", "session": hers.session, "id": "i" } });
    let rpc =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": { "id": hers.run } });
    let service = json!({ "id": hers.text.replace("pay", "poet"), "type": "poet" });
    vec![
        get("/.well-known/agent-card.json", 200, 200).nobody(404),
        get("/.well-known/agent.json", 200, 200).nobody(404),
        get("/a2a", 200, 200).nobody(200),
        get("/a2a/{team}/.well-known/agent-card.json", 200, 200).nobody(404),
        get("/a2a/{team}/.well-known/agent.json", 200, 200).nobody(404),
        get("/a2a/{team}/extendedAgentCard", 200, 200),
        posted("/a2a/{team}", rpc.clone(), 200, 200),
        posted("/a2a/{team}/", rpc, 200, 200),
        posted(
            "/a2a/{team}/message:send",
            json!({ "message": own }),
            200,
            400,
        ),
        posted(
            "/a2a/{team}/message:send",
            json!({ "message": answer }),
            404,
            200,
        ),
        posted(
            "/a2a/{team}/message:stream",
            json!({ "message": own }),
            200,
            400,
        ),
        posted(
            "/a2a/{team}/message:stream",
            json!({ "message": answer }),
            404,
            200,
        ),
        get("/a2a/{team}/tasks", 200, 200),
        get("/a2a/{team}/tasks", 200, 200).tail(format!("?contextId={}", hers.session)),
        get(task, 404, 200),
        get(task, 404, 200).tail(":subscribe"),
        Try::of(("POST", task), 404, 200)
            .tail(":cancel")
            .reader(403),
        Try::of(("POST", task), 404, 200).tail(":subscribe"),
        get(pushes, 404, 200),
        posted(pushes, config, 404, 200),
        get(push, 404, 200),
        Try::of(("DELETE", push), 404, 200),
        // The registry is one for all that may read it; nobody changes what another announced.
        get("/.well-known/agent-descriptions", 200, 200).nobody(200),
        get("/anp/{team}/ad.json", 200, 200).nobody(404),
        posted("/anp/{team}/rpc", asked, 200, 200),
        get("/anp-registry/services", 200, 200),
        posted("/anp-registry/services", service, 409, 200),
        Try::of(("DELETE", "/anp-registry/services/{service}"), 409, 204),
        get("/anp-registry/best", 200, 200),
        get("/anp-registry/statistics", 200, 200),
    ]
}

pub(super) fn all(hers: &Hers) -> Vec<Try> {
    let mut tries = of_the_interface(hers);
    tries.extend(of_clients(hers));
    tries.extend(of_agents(hers));
    tries
}
