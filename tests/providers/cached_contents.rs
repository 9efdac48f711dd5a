//! Gemini's cached contents: instructions and tools that the provider keeps for all runs of a process. The server keeps
//! and refuses them as the documents of the provider say.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::join_all;
use ghostlight::{
    models::{Gemini, Secret},
    vocabulary::{ModelRequest, ModelSettings, ToolChoice, ToolSet},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::{ask, batch_world::serve, double, respond, stream};

/// The tokens of a prefix that are enough for it to be kept, in bytes of ours.
const LEAST: usize = 4_000;

#[derive(Default)]
struct State {
    /// What is kept, with its model.
    kept: BTreeMap<String, Value>,
    made: usize,
    extended: usize,
    /// The bodies of requests that were answered.
    answered: Vec<Value>,
    refused: usize,
    faults: Vec<String>,
    /// Requests of this kind fail with this status.
    failing: Option<(&'static str, u16)>,
    /// Whether nothing is kept of what is made.
    forgets: bool,
    /// How long making one takes.
    slow: Duration,
}

/// A running server.
struct Server {
    address: String,
    state: Arc<Mutex<State>>,
    task: JoinHandle<()>,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/v1beta", listener.local_addr().unwrap());
        let state: Arc<Mutex<State>> = Arc::default();
        let kept = state.clone();
        let task = tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let state = kept.clone();
                tokio::spawn(serve(socket, move |head, body| {
                    state.lock().unwrap().answer(head, body)
                }));
            }
        });
        Self {
            address,
            state,
            task,
        }
    }

    fn model(&self) -> Gemini {
        Gemini::new("gemini-2.5-flash")
            .base_url(&self.address)
            .api_key(Secret::value("AIza-hunter2"))
            .with(|settings| settings.cache = true)
    }

    fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock().unwrap())
    }

    /// How many prefixes were made, how often one was extended, and the bodies of the answered requests.
    fn seen(&self) -> (usize, usize, Vec<Value>) {
        self.with(|it| {
            assert_eq!(it.faults, Vec::<String>::new());
            (it.made, it.extended, it.answered.clone())
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl State {
    fn answer(&mut self, head: &str, body: &[u8]) -> (u16, Vec<u8>, Duration) {
        let mut words = head.split(' ');
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let path = path.strip_prefix("/v1beta/").unwrap_or_default();
        let (kind, done) = match (method, path.split_once('?').unwrap_or((path, ""))) {
            ("POST", ("cachedContents", "")) => ("make", self.make(&body)),
            ("PATCH", (name, "updateMask=ttl")) => ("extend", self.extend(name, &body)),
            ("POST", ("models/gemini-2.5-flash:generateContent", "")) => {
                ("generate", self.generate(&body))
            }
            ("POST", ("models/gemini-2.5-flash:streamGenerateContent", "alt=sse")) => {
                ("generate", self.generate(&body))
            }
            _ => {
                self.faults.push(head.to_owned());
                ("unknown", Err((404, "no such method".to_owned())))
            }
        };
        let slow = if kind == "make" {
            self.slow
        } else {
            Duration::ZERO
        };
        let done = match self.failing.filter(|(failing, _)| *failing == kind) {
            Some((_, status)) => Err((status, "a plan of the test".to_owned())),
            None => done,
        };
        let (status, answer) = match done {
            Ok(answer) => (200, answer),
            Err((status, message)) => {
                self.refused += 1;
                let error = json!({"code": status, "message": message, "status": "FAILED"});
                (status, json!({"error": error}))
            }
        };
        (status, answer.to_string().into_bytes(), slow)
    }

    fn make(&mut self, body: &Value) -> Result<Value, (u16, String)> {
        let known = [
            "contents",
            "displayName",
            "model",
            "systemInstruction",
            "toolConfig",
            "tools",
            "ttl",
        ];
        let fields = body.as_object().unwrap();
        if let Some(unknown) = fields.keys().find(|key| !known.contains(&key.as_str())) {
            self.faults
                .push(format!("{unknown} is no field of cached content"));
        }
        if body["model"] != "models/gemini-2.5-flash" || !is_duration(&body["ttl"]) {
            self.faults
                .push(format!("{} for {}", body["model"], body["ttl"]));
        }
        let size = body.to_string().len();
        if size < LEAST {
            let message = format!(
                "Cached content is too small. total_token_count={}, min_total_token_count=1024",
                size / 4
            );
            return Err((400, message));
        }
        self.made += 1;
        let name = format!("cachedContents/c{}", self.made);
        if !self.forgets {
            self.kept.insert(name.clone(), body.clone());
        }
        Ok(
            json!({"name": name, "model": body["model"], "createTime": "2026-01-01T00:00:00Z",
            "updateTime": "2026-01-01T00:00:00Z", "expireTime": "2026-01-01T00:05:00Z", "displayName": "",
            "usageMetadata": {"totalTokenCount": 2000}}),
        )
    }

    fn extend(&mut self, name: &str, body: &Value) -> Result<Value, (u16, String)> {
        if body.as_object().unwrap().len() != 1 || !is_duration(&body["ttl"]) {
            self.faults.push(format!("{body} extends nothing"));
        }
        let kept = self.kept.get(name).ok_or_else(gone)?;
        self.extended += 1;
        Ok(json!({"name": name, "model": kept["model"], "expireTime": "2026-01-01T00:05:00Z"}))
    }

    fn generate(&mut self, body: &Value) -> Result<Value, (u16, String)> {
        let mut cached = 0;
        if let Some(name) = body["cachedContent"].as_str() {
            for field in ["systemInstruction", "tools", "toolConfig"] {
                if body.get(field).is_some() {
                    self.faults.push(format!("{field} beside cached content"));
                }
            }
            self.kept.get(name).ok_or_else(gone)?;
            cached = 2_000;
        }
        self.answered.push(body.clone());
        Ok(
            json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "14"}]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 2100, "cachedContentTokenCount": cached, "candidatesTokenCount": 5},
            "modelVersion": "gemini-2.5-flash-001"}),
        )
    }
}

fn gone() -> (u16, String) {
    (
        403,
        "CachedContent not found (or permission denied)".to_owned(),
    )
}

fn is_duration(value: &Value) -> bool {
    let seconds = value.as_str().and_then(|text| text.strip_suffix('s'));
    seconds.is_some_and(|seconds| seconds.parse::<u32>().is_ok())
}

/// A request with long instructions and a tool.
fn request(instructions: &str) -> ModelRequest {
    let mut request = ask("Double 7.");
    request.instructions = instructions.repeat(LEAST).into();
    request.tools = ToolSet::from_iter([double()]);
    request
}

#[tokio::test]
async fn instructions_and_tools_are_kept_once_for_all_calls_of_a_process() {
    let server = Server::start().await;
    server.with(|it| it.slow = Duration::from_millis(50));
    let calls = (0..20).map(async |n| {
        // Each with a model of its own, as in several teams.
        let response = match n % 2 {
            0 => respond(&server.model(), request("a")).await.unwrap(),
            _ => stream(&server.model(), request("a")).await.0.unwrap(),
        };
        response.usage
    });
    let usages = join_all(calls).await;
    let (made, extended, bodies) = server.seen();
    assert_eq!((made, extended, bodies.len()), (1, 0, 20));
    for body in &bodies {
        assert_eq!(body["cachedContent"], "cachedContents/c1");
        assert_eq!(body["contents"][0]["parts"][0]["text"], "Double 7.");
    }
    server.with(|it| {
        let kept = &it.kept["cachedContents/c1"];
        let instructions = kept["systemInstruction"]["parts"][0]["text"].as_str();
        assert_eq!(instructions.unwrap().len(), LEAST);
        assert_eq!(
            kept["tools"][0]["functionDeclarations"][0]["name"],
            "double"
        );
        assert_eq!(kept["ttl"], "300s");
    });
    // One call wrote what all read.
    assert!(usages.iter().all(|usage| usage.cached_tokens == 2_000));
    let written: Vec<u64> = usages
        .iter()
        .map(|usage| usage.cache_write_tokens)
        .collect();
    assert_eq!(written.iter().sum::<u64>(), 2_000);
    let input: u64 = usages.iter().map(|usage| usage.input_tokens).sum();
    assert_eq!(input, 20 * 2_100 + 2_000);
}

#[tokio::test]
async fn another_prefix_model_or_key_is_kept_for_itself() {
    let server = Server::start().await;
    respond(&server.model(), request("a")).await.unwrap();
    respond(&server.model(), request("b")).await.unwrap();
    let mut settings = ModelSettings::default();
    settings.tool_choice = Some(ToolChoice::Required);
    let called = request("a").settings(settings);
    respond(&server.model(), called).await.unwrap();
    let other = server.model().api_key(Secret::value("AIza-other"));
    respond(&other, request("a")).await.unwrap();
    let (made, _, bodies) = server.seen();
    let names: Vec<&Value> = bodies.iter().map(|body| &body["cachedContent"]).collect();
    assert_eq!(made, 4);
    assert_eq!(
        names,
        [
            "cachedContents/c1",
            "cachedContents/c2",
            "cachedContents/c3",
            "cachedContents/c4"
        ]
    );
    server.with(|it| {
        let choice = &it.kept["cachedContents/c3"]["toolConfig"];
        assert_eq!(choice["functionCallingConfig"]["mode"], "ANY");
    });
}

#[tokio::test]
async fn a_prefix_that_is_not_kept_is_sent_and_nothing_fails() {
    // It is too short for the provider, who says so once.
    let server = Server::start().await;
    let mut short = request("a");
    short.instructions = "a".repeat(LEAST / 2).into();
    for _ in 0..3 {
        let response = respond(&server.model(), short.clone()).await.unwrap();
        assert_eq!(response.usage.cache_write_tokens, 0);
    }
    let (made, _, bodies) = server.seen();
    assert_eq!((made, server.with(|it| it.refused)), (0, 1));
    for body in bodies {
        assert!(body["cachedContent"].is_null() && body["tools"].is_array());
    }
    // Or for anyone.
    let mut shortest = ask("Double 7.");
    shortest.instructions = "Be brief.".into();
    respond(&server.model(), shortest).await.unwrap();
    assert_eq!(server.with(|it| it.refused), 1);
    // Or the provider fails.
    for status in [429, 500, 404] {
        let server = Server::start().await;
        server.with(|it| it.failing = Some(("make", status)));
        for _ in 0..3 {
            respond(&server.model(), request("a")).await.unwrap();
        }
        let (_, _, bodies) = server.seen();
        assert!(bodies.iter().all(|body| body["tools"].is_array()));
        assert_eq!(server.with(|it| it.refused), 1, "{status}");
    }
}

#[tokio::test]
async fn a_prefix_that_is_gone_is_sent_whole_and_made_anew_for_the_next_call() {
    let server = Server::start().await;
    respond(&server.model(), request("a")).await.unwrap();
    server.with(|it| it.kept.clear());
    for _ in 0..2 {
        respond(&server.model(), request("a")).await.unwrap();
    }
    let (made, _, bodies) = server.seen();
    let names: Vec<&Value> = bodies.iter().map(|body| &body["cachedContent"]).collect();
    assert_eq!(made, 2);
    assert_eq!(
        names,
        [
            &json!("cachedContents/c1"),
            &Value::Null,
            &json!("cachedContents/c2")
        ]
    );
    assert!(bodies[1]["systemInstruction"].is_object() && bodies[1]["tools"].is_array());
}

#[tokio::test]
async fn a_server_that_forgets_prefixes_at_once_is_asked_for_one_only() {
    let server = Server::start().await;
    server.with(|it| it.forgets = true);
    for _ in 0..3 {
        respond(&server.model(), request("a")).await.unwrap();
    }
    let (made, _, bodies) = server.seen();
    assert_eq!((made, bodies.len()), (1, 3));
    assert!(bodies.iter().all(|body| body["cachedContent"].is_null()));
}

#[tokio::test]
async fn a_prefix_is_kept_for_longer_while_it_is_used() {
    let server = Server::start().await;
    let pass = async |seconds: u64| {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(seconds)).await;
        tokio::time::resume();
    };
    let call = async || respond(&server.model(), request("a")).await.unwrap();
    call().await;
    // Before half of its time nothing is to do.
    pass(60).await;
    call().await;
    assert_eq!(server.seen().1, 0);
    for _ in 0..4 {
        pass(200).await;
        call().await;
    }
    let (made, extended, bodies) = server.seen();
    assert_eq!((made, extended), (1, 4));
    assert!(
        bodies
            .iter()
            .all(|body| body["cachedContent"] == "cachedContents/c1")
    );
    // One that was not used for so long is over, and is made anew without asking.
    pass(301).await;
    call().await;
    assert_eq!((server.seen().0, server.seen().1), (2, 4));
    // One that is gone when it is to be extended is made anew.
    pass(200).await;
    server.with(|it| it.kept.clear());
    call().await;
    assert_eq!(server.seen().0, 3);
    // One that cannot be extended is used as long as it lasts, and nobody asks again at once.
    for (wait, status) in [(200, 500), (61, 400)] {
        let refused = server.with(|it| {
            it.failing = Some(("extend", status));
            it.refused
        });
        pass(wait).await;
        for _ in 0..3 {
            call().await;
        }
        assert_eq!(server.with(|it| it.refused), refused + 1, "{status}");
    }
    let (made, _, bodies) = server.seen();
    assert_eq!(made, 3);
    assert_eq!(bodies.last().unwrap()["cachedContent"], "cachedContents/c3");
}

#[tokio::test]
async fn without_the_setting_and_beside_a_prefix_of_ones_own_nothing_is_kept() {
    let server = Server::start().await;
    let plain = server.model().with(|settings| settings.cache = false);
    respond(&plain, request("a")).await.unwrap();
    server.with(|it| drop(it.kept.insert("cachedContents/own".to_owned(), json!({}))));
    let own = server.model().extra("cachedContent", "cachedContents/own");
    let mut bare = ask("Double 7.");
    bare.instructions = "".into();
    respond(&own, bare).await.unwrap();
    let (made, _, bodies) = server.seen();
    assert_eq!(made, 0);
    assert!(bodies[0]["systemInstruction"].is_object());
    assert_eq!(bodies[1]["cachedContent"], "cachedContents/own");
}
