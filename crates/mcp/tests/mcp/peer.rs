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

use ghostlight_mcp::ServerSpec;
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

    pub(crate) fn settings(&self) -> ServerSpec {
        let program = std::env::current_exe().unwrap();
        ["peer_process", "--exact", "--nocapture"]
            .into_iter()
            .fold(
                ServerSpec::command(program.to_str().unwrap()),
                ServerSpec::arg,
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
        asked: Mutex::default(),
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
    /// The calls in which a person is asked.
    asked: Mutex<Vec<Value>>,
}

/// What is asked of a person.
fn elicitation(field: &str) -> Value {
    json!({ "method": "elicitation/create", "params": {
        "mode": "form", "message": "How large?",
        "requestedSchema": {
            "type": "object", "properties": { field: { "type": "string" } }, "required": [field],
        },
    }})
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
        let mut capabilities = json!({
            "tools": { "listChanged": true }, "resources": { "subscribe": true }, "prompts": {}, "completions": {},
        });
        if self.option("tasks").is_some() {
            capabilities["extensions"] = json!({ "io.modelcontextprotocol/tasks": {} });
        }
        let method = message["method"].as_str().unwrap_or_default();
        // An answer that a test has put into the folder.
        if let Some(result) = self.option(&method.replace('/', ".")) {
            return self.answer(id, serde_json::from_str(&result).unwrap());
        }
        match method {
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
            "resources/list" => {
                let one = json!({ "uri": "house://kitchen", "name": "kitchen", "mimeType": "text/plain" });
                self.answer(id, self.cached(json!({ "resources": [one] })));
            }
            "resources/templates/list" => {
                let one = json!({ "uriTemplate": "house://{room}", "name": "room" });
                self.answer(id, self.cached(json!({ "resourceTemplates": [one] })));
            }
            "resources/read" => {
                let texts = json!([
                    { "uri": params["uri"], "mimeType": "text/plain", "text": "a stove" },
                    { "uri": params["uri"], "mimeType": "image/png", "blob": "AAAA" },
                ]);
                self.answer(id, self.cached(json!({ "contents": texts })));
            }
            "resources/subscribe" | "resources/unsubscribe" => {
                self.log(message["method"].as_str().unwrap_or_default());
                self.answer(id, json!({}));
            }
            "prompts/list" => {
                let one =
                    json!({ "name": "tidy", "arguments": [{ "name": "room", "required": true }] });
                self.answer(id, self.cached(json!({ "prompts": [one] })));
            }
            "prompts/get" => {
                let text = format!(
                    "Tidy the {}.",
                    params["arguments"]["room"].as_str().unwrap_or_default()
                );
                let one = json!({ "role": "user", "content": { "type": "text", "text": text } });
                self.answer(id, json!({ "messages": [one], "resultType": "complete" }));
            }
            "completion/complete" => {
                let typed = params["argument"]["value"].as_str().unwrap_or_default();
                let values = ["kitchen", "cellar"]
                    .into_iter()
                    .filter(|one| one.starts_with(typed));
                let values: Vec<&str> = values.collect();
                self.answer(
                    id,
                    json!({ "completion": { "values": values }, "resultType": "complete" }),
                );
            }
            "tasks/get" => self.task(id),
            "tasks/update" => {
                let answer = &params["inputResponses"]["size"]["content"]["size"];
                self.set("task_answer", &answer.to_string());
                self.answer(id, json!({ "resultType": "complete" }));
            }
            "tasks/cancel" => {
                self.log("task cancelled");
                self.answer(id, json!({ "resultType": "complete" }));
            }
            "tools/call" => {
                let message = message.clone();
                thread::spawn(move || self.call(&message));
            }
            // A refusal of what was asked.
            "" if message.get("error").is_some() => {
                let told = message["error"]["message"].to_string();
                if let Some(call) = self.asked.lock().unwrap().pop() {
                    let content = json!([{ "type": "text", "text": format!("refused: {told}") }]);
                    self.answer(&call, json!({ "content": content }));
                }
            }
            // An answer to what was asked.
            "" if message.get("result").is_some() => {
                let answer = message["result"]["content"]["size"].to_string();
                self.log(&format!("answered {answer}"));
                if let Some(call) = self.asked.lock().unwrap().pop() {
                    let content = json!([{ "type": "text", "text": format!("ordered {answer}") }]);
                    self.answer(&call, json!({ "content": content }));
                }
            }
            _ if id.is_null() => {}
            method => self.refuse(id, -32601, &format!("no method {method}")),
        }
    }

    fn set(&self, option: &str, content: &str) {
        std::fs::write(self.folder.join(option), content).unwrap();
    }

    /// A result that the newest revision lets clients keep for a while.
    fn cached(&self, mut result: Value) -> Value {
        if self.option("new_wire").is_some() {
            result["resultType"] = json!("complete");
            result["ttlMs"] = json!(0);
            result["cacheScope"] = json!("private");
        }
        result
    }

    /// The one task: it wants to know a size, and has ended once it knows it and may.
    fn task(&self, id: &Value) {
        self.log("looked");
        let mut task = json!({
            "taskId": "t1", "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z",
            "ttlMs": null, "pollIntervalMs": 50, "resultType": "complete", "status": "working",
        });
        match self.option("task_answer") {
            None => {
                task["status"] = json!("input_required");
                task["inputRequests"] = json!({ "size": elicitation("size") });
            }
            Some(size) if self.option("task_may_end").is_some() => {
                task["status"] = json!("completed");
                let text = format!("a cake of {size}");
                task["result"] = json!({ "content": [{ "type": "text", "text": text }] });
            }
            Some(_) => {}
        }
        self.answer(id, task);
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
            if self.option("more").is_some() {
                second.push(tool("swap", "Answers after the next."));
                second.extend([
                    tool("order", "Asks for a size."),
                    tool("bake", "Makes a task."),
                ]);
            }
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
        if let Some(session) = params["_meta"].get("ghostlight/session") {
            self.log(&format!("session {}", session.as_str().unwrap_or_default()));
        }
        // A line that a test has put into the folder, as it is.
        if let Some(line) = self.option(&format!("says.{name}")) {
            self.asked.lock().unwrap().push(id.clone());
            let _one = self.out.lock().unwrap();
            println!("{}", line.replace("$ID", &id.to_string()));
            return;
        }
        let text = |text: &str| json!({ "content": [{ "type": "text", "text": text }], "resultType": "complete" });
        match name {
            "echo" if self.option("nameless").is_some() => {
                self.refuse(&Value::Null, -32700, "it does not parse");
            }
            "echo" if self.option("plain").is_some() => {
                println!("{}", self.option("plain").unwrap_or_default());
            }
            "echo" if self.option("talks").is_some() => {
                println!("an error: trying again");
                thread::sleep(Duration::from_millis(500));
                self.answer(id, text("done"));
            }
            "echo" => self.answer(id, text(&params["arguments"]["text"].to_string())),
            // The first of two is answered after the second.
            "swap" => {
                let place = self.count("swap");
                while place == 1 && self.option("swapped").is_none() {
                    thread::sleep(Duration::from_millis(5));
                }
                self.answer(id, text(&params["arguments"]["text"].to_string()));
                self.set("swapped", "");
            }
            "order" if self.option("new_wire").is_some() => match params.get("inputResponses") {
                None => self.answer(
                    id,
                    json!({
                        "resultType": "input_required", "requestState": "half way",
                        "inputRequests": { "size": elicitation("size") },
                    }),
                ),
                Some(answers) => {
                    let answer = &answers["size"]["content"]["size"];
                    let state = params["requestState"].as_str().unwrap_or_default();
                    self.answer(id, text(&format!("{state}: {answer}")));
                }
            },
            "order" => {
                let mut asked = elicitation("size");
                asked["jsonrpc"] = json!("2.0");
                asked["id"] = json!(format!("asked {id}"));
                self.asked.lock().unwrap().push(id.clone());
                self.say(&asked);
            }
            "bake" => self.answer(
                id,
                json!({
                    "resultType": "task", "taskId": "t1", "status": "working", "ttlMs": null, "pollIntervalMs": 50,
                    "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z",
                }),
            ),
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
