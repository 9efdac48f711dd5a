//! A server of our own over standard streams, on either wire, which does what tests need: it keeps what
//! it was asked in a file, and misbehaves where it is told to.

use std::{
    collections::BTreeMap,
    fs::OpenOptions,
    io::{BufRead as _, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use ghostlight_mcp::ServerSettings;
use serde_json::{Value, json};

/// The folder of a peer: it makes a process one.
const FOLDER: &str = "GHOSTLIGHT_TEST_MCP_PEER";

/// What a test knows of its peer.
pub(crate) struct Peer {
    pub(crate) folder: PathBuf,
}

impl Peer {
    /// A peer with a folder of its own; `options` are files in it.
    pub(crate) fn new(name: &str, options: &[(&str, &str)]) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("mcp-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let peer = Self { folder };
        for (name, content) in options {
            peer.set(name, content);
        }
        peer
    }

    pub(crate) fn set(&self, option: &str, content: &str) {
        std::fs::write(self.folder.join(option), content).unwrap();
    }

    pub(crate) fn settings(&self) -> ServerSettings {
        let program = std::env::current_exe().unwrap();
        ["peer_process", "--exact", "--nocapture"]
            .into_iter()
            .fold(
                ServerSettings::command(program.to_str().unwrap()),
                ServerSettings::arg,
            )
            .env(FOLDER, self.folder.to_str().unwrap())
    }

    /// What it was asked, over all its lives: a line for each.
    pub(crate) fn log(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    pub(crate) fn count(&self, line: &str) -> usize {
        self.log().iter().filter(|logged| *logged == line).count()
    }

    /// Waits until it has logged this.
    pub(crate) async fn logs(&self, line: &str) {
        for _ in 0..1_000 {
            if self.count(line) > 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("no {line:?} in {:?}", self.log());
    }
}

/// Is a peer, where the environment says so.
pub(crate) fn run_if_asked() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let peer = Arc::new(Running {
        folder: PathBuf::from(folder),
        out: Mutex::new(()),
        slow: Mutex::default(),
    });
    peer.log("started");
    eprintln!("the peer is up");
    if peer.option("say_environment").is_some() {
        let names: Vec<String> = std::env::vars()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        names.iter().for_each(|line| peer.log(line));
    }
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        if let Ok(message) = serde_json::from_str(&line) {
            peer.clone().hear(message);
        }
    }
    std::process::exit(0);
}

struct Running {
    folder: PathBuf,
    out: Mutex<()>,
    /// Whether slow calls were cancelled, by their ids.
    slow: Mutex<BTreeMap<String, bool>>,
}

impl Running {
    fn option(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.folder.join(name)).ok()
    }

    fn log(&self, line: &str) {
        let mut options = OpenOptions::new();
        let mut log = options
            .create(true)
            .append(true)
            .open(self.folder.join("log"))
            .unwrap();
        writeln!(log, "{line}").unwrap();
    }

    fn say(&self, message: &Value) {
        let _one = self.out.lock().unwrap();
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "{message}");
        let _ = out.flush();
    }

    fn answer(&self, id: &Value, result: Value) {
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }

    fn refuse(&self, id: &Value, code: i32, message: &str) {
        let error = json!({ "code": code, "message": message });
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
    }

    fn hear(self: Arc<Self>, message: Value) {
        let (id, params) = (&message["id"], &message["params"]);
        let capabilities = json!({ "tools": { "listChanged": true } });
        match message["method"].as_str().unwrap_or_default() {
            "server/discover" if self.option("new_wire").is_some() => {
                let mut result = json!({
                    "supportedVersions": ["2026-07-28"], "capabilities": capabilities,
                    "ttlMs": 0, "cacheScope": "private", "resultType": "complete",
                });
                result["_meta"] = json!({ "io.modelcontextprotocol/serverInfo": { "name": "peer", "version": "1" } });
                self.answer(id, result);
            }
            "initialize" => {
                let server = json!({ "name": "peer", "version": "1" });
                self.answer(
                    id,
                    json!({
                        "protocolVersion": params["protocolVersion"],
                        "capabilities": capabilities, "serverInfo": server,
                    }),
                );
            }
            "notifications/cancelled" => {
                self.log("cancelled");
                self.slow
                    .lock()
                    .unwrap()
                    .insert(params["requestId"].to_string(), true);
            }
            "subscriptions/listen" => {
                let meta = json!({ "io.modelcontextprotocol/subscriptionId": id });
                self.say(&json!({
                    "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                    "params": { "notifications": { "toolsListChanged": true }, "_meta": meta },
                }));
                self.set("subscription", &meta.to_string());
            }
            "tools/list" => self.list(id, params),
            "tools/call" => {
                let message = message.clone();
                thread::spawn(move || self.call(&message));
            }
            _ if id.is_null() => {}
            method => self.refuse(id, -32601, &format!("no method {method}")),
        }
    }

    fn set(&self, option: &str, content: &str) {
        std::fs::write(self.folder.join(option), content).unwrap();
    }

    /// Two pages.
    fn list(&self, id: &Value, params: &Value) {
        let tool = |name: &str, description: &str| json!({ "name": name, "description": description, "inputSchema": { "type": "object" } });
        let about = self
            .option("description")
            .unwrap_or_else(|| "Says it again.".to_owned());
        let mut result = if params["cursor"].is_null() {
            let mut echo = tool("echo", &about);
            echo["annotations"] = json!({ "readOnlyHint": true });
            json!({ "tools": [echo, tool("slow", "Takes long."), tool("die", "Ends the server.")], "nextCursor": "2" })
        } else {
            let mut second = vec![tool("fail", "Fails."), tool("grow", "Adds a tool.")];
            if self.option("grown").is_some() {
                second.push(tool("grown", "Is new."));
            }
            json!({ "tools": second })
        };
        if self.option("new_wire").is_some() {
            result["resultType"] = json!("complete");
            result["ttlMs"] = json!(0);
            result["cacheScope"] = json!("private");
        }
        self.answer(id, result);
    }

    fn call(&self, message: &Value) {
        let (id, params) = (&message["id"], &message["params"]);
        let name = params["name"].as_str().unwrap_or_default();
        self.log(name);
        if let Some(key) = params["_meta"].get("ghostlight/idempotencyKey") {
            self.log(&format!("key {}", key.as_str().unwrap_or_default()));
        }
        let text = |text: &str| json!({ "content": [{ "type": "text", "text": text }], "resultType": "complete" });
        match name {
            "echo" => self.answer(id, text(&params["arguments"]["text"].to_string())),
            "fail" => {
                let mut failed = text("it is raining");
                failed["isError"] = json!(true);
                self.answer(id, failed);
            }
            "die" if self.option("dies_once").is_none() || self.count("die") == 1 => {
                eprintln!("the peer dies now");
                std::process::exit(7);
            }
            "die" => self.answer(id, text("alive")),
            "slow" => {
                self.say(&json!({
                    "jsonrpc": "2.0", "method": "notifications/progress",
                    "params": { "progressToken": params["_meta"]["progressToken"], "progress": 1, "total": 4, "message": "a\u{1b}[31m quarter" },
                }));
                while !self.slow.lock().unwrap().contains_key(&id.to_string()) {
                    if self.option("be_quick").is_some() {
                        return self.answer(id, text("done"));
                    }
                    thread::sleep(Duration::from_millis(10));
                }
            }
            "grow" => {
                self.set("grown", "");
                let mut told =
                    json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
                if let Some(meta) = self.option("subscription") {
                    told["params"] =
                        json!({ "_meta": serde_json::from_str::<Value>(&meta).unwrap() });
                }
                self.say(&told);
                self.answer(id, text("grown"));
            }
            _ => self.refuse(id, -32602, "there is no such tool"),
        }
    }

    fn count(&self, line: &str) -> usize {
        let log = self.option("log").unwrap_or_default();
        log.lines().filter(|logged| *logged == line).count()
    }
}
