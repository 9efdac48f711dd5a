//! A run of four model calls and three tool calls against a server on this machine, over the
//! in-memory store and over SQLite. The floor is a bare loop over async-openai that sends the
//! same requests to the same server.
//!
//! For tools that count, such as valgrind: `-- ours 300` does 300 runs over the in-memory store and
//! nothing else, `-- sqlite 300` over SQLite, `-- floor 300` so many of the floor.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod shared;

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use async_openai::{Client, config::OpenAIConfig};
use futures_util::{StreamExt, stream};
use ghostlight::{models::OpenAi, stores::SqliteStore};
use ghostlight_actors::{
    actor::System, contract::StoreHandle, session::Turn, testing::InMemoryStore,
};
use mimalloc::MiMalloc;
use serde_json::{Value, json};
use shared::{Round, alternately, round, stepping};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    runtime::{Builder, Runtime},
};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// How many tool calls the server asks for before it answers.
const TOOLS: usize = 3;
const MODEL: &str = "test-model";

/// A server on a thread of its own, so that its work weighs on both sides alike.
fn serve() -> SocketAddr {
    let (sender, receiver) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            sender.send(listener.local_addr().unwrap()).unwrap();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                tokio::spawn(answer_all(socket));
            }
        });
    });
    receiver.recv().unwrap()
}

async fn answer_all(socket: TcpStream) -> Option<()> {
    socket.set_nodelay(true).ok()?;
    let mut socket = BufReader::new(socket);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if socket.read_line(&mut line).await.ok()? == 0 {
                return None;
            }
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        socket.read_exact(&mut body).await.ok()?;
        let answer = answer(&String::from_utf8(body).ok()?);
        socket.get_mut().write_all(answer.as_bytes()).await.ok()?;
    }
}

fn answer(request: &str) -> String {
    let done = request.matches(r#""role":"tool""#).count();
    let message = if done < TOOLS {
        let function =
            json!({"name": "add_vat", "arguments": "{\"net\": 80.0, \"percent\": 19.0}"});
        let call = json!({"id": format!("call_{done}"), "type": "function", "function": function});
        json!({"role": "assistant", "content": null, "tool_calls": [call]})
    } else {
        json!({"role": "assistant", "content": "95.20 euro"})
    };
    let finish = if done < TOOLS { "tool_calls" } else { "stop" };
    let body = json!({
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
    })
    .to_string();
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// The bare loop.
async fn bare(client: &Client<OpenAIConfig>, tools: &Value) {
    let mut messages = vec![
        json!({"role": "system", "content": stepping::INSTRUCTIONS}),
        json!({"role": "user", "content": "80 euro with 19% VAT?"}),
    ];
    loop {
        let body = json!({"model": MODEL, "messages": messages, "stream": false, "tools": tools});
        let answer: Value = client.chat().create_byot(body).await.unwrap();
        let message = answer["choices"][0]["message"].clone();
        let calls = message["tool_calls"].as_array().cloned();
        messages.push(message);
        let Some(calls) = calls else { return };
        for call in calls {
            let text = call["function"]["arguments"].as_str().unwrap();
            let arguments: Value = serde_json::from_str(text).unwrap();
            let net = arguments["net"].as_f64().unwrap();
            let gross = stepping::gross(net, arguments["percent"].as_f64().unwrap());
            let content = gross.to_string();
            messages.push(json!({"role": "tool", "tool_call_id": call["id"], "content": content}));
        }
    }
}

/// So many runs, of which so many at once; the time is for each.
fn floor(runtime: &Runtime, client: &Client<OpenAIConfig>, runs: u32, at_once: usize) -> Round {
    let spec = stepping::agent("desk", 1).into_team().unwrap();
    let tool = spec.registry.tools().next().unwrap().1.definition().clone();
    let function = json!({
        "name": tool.name, "description": tool.description, "parameters": tool.parameters,
    });
    let tools = json!([{"type": "function", "function": function}]);
    round(runs, || {
        runtime.block_on(async {
            stream::iter(0..runs)
                .map(|_| {
                    let (client, tools) = (client.clone(), tools.clone());
                    async move { tokio::spawn(async move { bare(&client, &tools).await }).await }
                })
                .buffer_unordered(at_once)
                .for_each(|ended| async move { ended.unwrap() })
                .await;
        });
    })
}

fn ours(runtime: &Runtime, system: &System, runs: u32, at_once: usize) -> Round {
    static SESSIONS: AtomicU64 = AtomicU64::new(0);
    round(runs, || {
        runtime.block_on(async {
            stream::iter(0..runs)
                .map(|_| async move {
                    let key = SESSIONS.fetch_add(1, Ordering::Relaxed).to_string();
                    let turn = Turn::text("80 euro with 19% VAT?");
                    let run = system.session("desk", key).send(turn).await.unwrap();
                    run.outcome().await.unwrap().text().to_owned()
                })
                .buffer_unordered(at_once)
                .for_each(|text| async move { assert_eq!(text, "95.20 euro") })
                .await;
        });
    })
}

fn start(runtime: &Runtime, store: impl Into<StoreHandle>, address: &str) -> System {
    runtime.block_on(async {
        let model = OpenAi::new(MODEL).base_url(address);
        let team = stepping::agent("desk", 16).into_team().unwrap();
        let builder = System::builder(store).model("default", model).team(team);
        builder.start().await.unwrap()
    })
}

fn main() {
    // Nothing here is encrypted, but a client is not made without.
    rustls::crypto::ring::default_provider()
        .install_default()
        .unwrap();
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let address = format!("http://{}/v1", serve());
    let config = OpenAIConfig::new()
        .with_api_base(&address)
        .with_api_key("none");
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let client = Client::with_config(config).with_http_client(http);

    let file = std::env::temp_dir().join(format!("ghostlight-loopback-{}", std::process::id()));
    std::fs::create_dir_all(&file).unwrap();
    let memory = start(&runtime, InMemoryStore::new(), &address);
    let sqlite = {
        let _inside = runtime.enter();
        SqliteStore::open(file.join("runs.db")).unwrap()
    };
    let sqlite = start(&runtime, sqlite, &address);
    let asked: Vec<String> = std::env::args().collect();
    if let [_, side, runs, ..] = asked.as_slice()
        && let Ok(runs) = runs.parse()
    {
        match side.as_str() {
            "ours" => ours(&runtime, &memory, runs, 1),
            "sqlite" => ours(&runtime, &sqlite, runs, 1),
            _ => floor(&runtime, &client, runs, 1),
        };
        return;
    }
    for (store, system) in [("memory", &memory), ("SQLite", &sqlite)] {
        for (runs, at_once, rounds) in [(20, 1, 31), (400, 100, 15)] {
            let compared = alternately(
                rounds,
                || floor(&runtime, &client, runs, at_once),
                || ours(&runtime, system, runs, at_once),
            );
            compared.print(&format!("loopback, {store}, {at_once} at once, a run"));
        }
    }
    runtime.block_on(async {
        memory.stop().await.unwrap();
        sqlite.stop().await.unwrap();
    });
    // The folder is the bench's own.
    std::fs::remove_dir_all(file).unwrap();
}
