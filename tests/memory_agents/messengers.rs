//! From a message in a messenger to its answer, a person's reaction to it, and what later work is shown of it.

use std::{sync::Arc, time::Duration};

use ghostlight::{
    prelude::*,
    server::{
        Deliveries, DeliveryOptions, Messenger, Server,
        axum::{Router, body::Bytes, extract::State, http::HeaderMap, routing::post},
    },
};
use parking_lot::Mutex;
use ring::hmac;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::stage::{breaks, obedient, recalled, team};

/// Set by cargo for every test.
const SECRET: (&str, &str) = ("${CARGO_PKG_NAME}", env!("CARGO_PKG_NAME"));

/// The messages that the bridge got, each with its id.
type Got = Arc<Mutex<Vec<(String, Value)>>>;

async fn take(State(got): State<Got>, headers: HeaderMap, body: Bytes) {
    let id = headers["webhook-id"].to_str().unwrap().to_owned();
    got.lock()
        .push((id, serde_json::from_slice(&body).unwrap()));
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let four = |three: &[u8]| {
        let byte = |place: usize| u32::from(three.get(place).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        let digit = |place: usize| match place <= three.len() {
            true => char::from(DIGITS[(bits >> (18 - 6 * place)) as usize & 63]),
            false => '=',
        };
        [digit(0), digit(1), digit(2), digit(3)]
    };
    bytes.chunks(3).flat_map(four).collect()
}

/// A messenger's bridge.
struct Bridge {
    url: String,
    got: Got,
    client: reqwest::Client,
}

impl Bridge {
    async fn open() -> Self {
        let got = Got::default();
        let router = Router::new()
            .route("/out", post(take))
            .with_state(got.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/out", listener.local_addr().unwrap());
        tokio::spawn(async move {
            ghostlight::server::axum::serve(listener, router)
                .await
                .unwrap()
        });
        let client = reqwest::Client::builder().no_proxy();
        let client = client.tls_backend_preconfigured(nothing_trusted());
        Self {
            url,
            got,
            client: client.build().unwrap(),
        }
    }

    async fn says(&self, served: &Served, body: Value) -> Value {
        let (body, now) = (body.to_string(), std::time::SystemTime::now());
        let now = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.1.as_bytes());
        let tag = hmac::sign(&key, format!("b.{now}.{body}").as_bytes());
        let posted = self
            .client
            .post(format!("{}/messengers/desk/chat", served.url));
        let posted = posted
            .header("webhook-id", "b")
            .header("webhook-timestamp", now)
            .header("webhook-signature", format!("v1,{}", base64(tag.as_ref())))
            .header("content-type", "application/json");
        let answer = posted.body(body).send().await.unwrap();
        assert!(answer.status().is_success(), "{answer:?}");
        answer.json().await.unwrap()
    }

    /// The id of the answer to this message, once it is there.
    async fn answer_to(&self, message: &str) -> String {
        let is_it = |body: &Value| body["reply_to"] == message && body["kind"] == "answer";
        for _ in 0..6_000 {
            let got = self.got.lock().clone();
            if let Some((id, _)) = got.into_iter().find(|(_, body)| is_it(body)) {
                return id;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("no answer to {message}: {:?}", self.got.lock());
    }
}

/// Settings of TLS, which no request here uses.
fn nothing_trusted() -> rustls::ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap();
    config
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth()
}

/// A team with a messenger and a memory of episodes, on the network.
struct Served {
    url: String,
    task: JoinHandle<()>,
}

impl Served {
    async fn open(store: InMemoryStore, model: &ScriptedModel, bridge: &Bridge) -> Self {
        let mut team = team(&json!({ "episodes": true, "tool": false }));
        let chat = Messenger::new("chat", &bridge.url, SECRET.0);
        team.spec.messengers.push(chat.into());
        let system = System::builder(store)
            .registry(ghostlight::builtin())
            .model("default", model.clone())
            .tool(breaks)
            .team(team);
        let mut settings = DeliveryOptions::default();
        settings.networks = vec!["127.0.0.1".to_owned()];
        settings.first_pause = Duration::from_millis(50);
        let deliveries = Deliveries::new(settings).unwrap();
        let server = Server::new(system.start().await.unwrap()).deliveries(deliveries);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async move {
            let served = server.serve(listener, std::future::pending::<()>());
            served.await.unwrap();
        });
        Self { url, task }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn message(id: &str, sender: &str, text: &str) -> Value {
    json!({ "type": "message", "id": id, "chat": "lobby", "sender": sender, "text": text })
}

fn reaction(sender: &str, message: &str, emoji: &str) -> Value {
    json!({ "type": "reaction", "chat": "lobby", "sender": sender, "message": message, "emoji": emoji })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_a_person_likes_is_an_example_afterwards_also_over_a_crash_and_others_count_nothing()
 {
    let (store, model, bridge) = (InMemoryStore::new(), obedient(), Bridge::open().await);
    let served = Served::open(store.clone(), &model, &bridge).await;
    let ask = "How is the boiler lit?";
    bridge.says(&served, message("m1", "ada", ask)).await;
    let answer = bridge.answer_to("m1").await;
    // Nobody has confirmed it, so it is no example.
    bridge.says(&served, message("m2", "ada", ask)).await;
    bridge.answer_to("m2").await;
    assert!(!recalled(&model).contains(ask), "{}", recalled(&model));
    // The process dies between the answer and the reaction.
    drop(served);
    store.crash();
    let served = Served::open(store.another_process(), &model, &bridge).await;
    for (sender, message, emoji, counted) in [
        ("bob", answer.as_str(), "👍", "unknown"),
        ("ada", "msg_of_nobody", "👍", "unknown"),
        ("ada", &answer, "🤔", "neutral"),
    ] {
        let told = bridge.says(&served, reaction(sender, message, emoji)).await;
        assert_eq!(told["reaction"], counted, "{sender} {emoji}");
    }
    bridge.says(&served, message("m3", "ada", ask)).await;
    bridge.answer_to("m3").await;
    assert!(!recalled(&model).contains(ask), "{}", recalled(&model));
    let told = bridge.says(&served, reaction("ada", &answer, "👍🏽")).await;
    assert_eq!(told["reaction"], "success");
    bridge.says(&served, message("m4", "ada", ask)).await;
    bridge.answer_to("m4").await;
    let shown = recalled(&model);
    assert!(shown.contains(ask), "{shown}");
    // It is hers: nobody else is shown any of it.
    bridge.says(&served, message("m5", "bob", ask)).await;
    bridge.answer_to("m5").await;
    assert!(!recalled(&model).contains(ask), "{}", recalled(&model));
}
