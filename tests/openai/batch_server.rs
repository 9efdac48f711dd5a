//! A server with OpenAI's interface for batches, as its documents say: files, lines, states, and answers in an order of
//! its own. It refuses what they do not allow, and fails tests that submit a request twice.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use ghostlight::{
    contract::Model,
    models::{BatchSpec, OpenAi},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::batch_world::{Provider, header, serve};

const GONE: &str = "there is no such file";

/// The answer to one request of a batch.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// This text.
    Text(String),
    /// This status and body.
    Status(u16, Value),
    /// No answer, with this code.
    Fault(&'static str),
    /// This line instead of one of answers.
    Line(String),
    /// No line at all.
    Missing,
}

/// How batches end, by the text of each request and the number of its batch.
type Answers = Box<dyn Fn(&str, usize) -> Reply + Send + Sync>;

/// A batch, as the server keeps it.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) id: String,
    pub(crate) status: String,
    pub(crate) metadata: Value,
    /// The key with which it was submitted. With another one it is not found.
    pub(crate) key: Option<String>,
    endpoint: String,
    /// The requests: the id of each, and what its last message says.
    pub(crate) requests: Vec<(String, String)>,
    pub(crate) looks: usize,
    input: String,
    output: Option<String>,
    errors: Option<String>,
    refusal: Option<(String, String)>,
}

#[derive(Default)]
struct State {
    files: BTreeMap<String, Vec<u8>>,
    batches: Vec<Kept>,
    made: usize,
    faults: Vec<String>,
    /// Replies to the next requests of this kind instead of the usual ones.
    planned: Vec<(&'static str, u16, bool)>,
    /// The kind of request whose answers take so long after it has taken effect.
    slow: Option<(&'static str, Duration)>,
    lines_before: Vec<String>,
}

/// A running server.
pub(crate) struct BatchServer {
    address: String,
    state: Arc<Mutex<State>>,
    task: JoinHandle<()>,
}

/// Rules of one server.
pub(crate) struct Rules {
    /// How often a batch is looked at before it ends.
    pub(crate) looks: usize,
    /// The state in which batches end.
    pub(crate) end: &'static str,
    pub(crate) answers: Answers,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            looks: 2,
            end: "completed",
            answers: Box::new(|text, _| Reply::Text(format!("answer to {text}"))),
        }
    }
}

impl BatchServer {
    pub(crate) async fn start(rules: Rules) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/v1", listener.local_addr().unwrap());
        let state: Arc<Mutex<State>> = Arc::default();
        let (kept, rules) = (state.clone(), Arc::new(rules));
        let task = tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let (state, rules) = (kept.clone(), rules.clone());
                tokio::spawn(serve(socket, move |head, body| {
                    answer(&state, &rules, head, body)
                }));
            }
        });
        Self {
            address,
            state,
            task,
        }
    }

    /// The model of this server, whose requests go in batches.
    pub(crate) fn model(&self, spec: BatchSpec) -> OpenAi {
        OpenAi::new("test-model")
            .base_url(&self.address)
            .batched(spec)
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn batches(&self) -> Vec<Kept> {
        self.state.lock().unwrap().batches.clone()
    }

    pub(crate) fn files(&self) -> usize {
        self.state.lock().unwrap().files.len()
    }

    /// Refuses the next request of this kind with this status: before it takes effect, or after it.
    pub(crate) fn refuse(&self, kind: &'static str, status: u16, after: bool) {
        let mut state = self.state.lock().unwrap();
        state.planned.push((kind, status, after));
    }

    /// Lets the answers to all further requests of this kind take so long.
    pub(crate) fn slow(&self, kind: &'static str, time: Duration) {
        self.state.lock().unwrap().slow = Some((kind, time));
    }

    /// Forgets all batches.
    pub(crate) fn lose(&self) {
        self.state.lock().unwrap().batches.clear();
    }

    /// What clients did wrong.
    pub(crate) fn faults(&self) -> Vec<String> {
        self.state.lock().unwrap().faults.clone()
    }

    /// The texts of requests that stand in two batches of which none was cancelled.
    pub(crate) fn submitted_twice(&self) -> Vec<String> {
        let (mut seen, mut twice) = (BTreeSet::new(), Vec::new());
        for batch in self.batches() {
            if batch.status.starts_with("cancel") || batch.status == "failed" {
                continue;
            }
            for (_, text) in batch.requests {
                if !seen.insert(text.clone()) {
                    twice.push(text);
                }
            }
        }
        twice
    }

    /// Puts these lines before the answers of the next batch that ends.
    pub(crate) fn put_before(&self, lines: Vec<String>) {
        self.state.lock().unwrap().lines_before = lines;
    }
}

impl Provider for BatchServer {
    fn model(&self, spec: BatchSpec) -> impl Model {
        BatchServer::model(self, spec)
    }

    fn faults(&self) -> Vec<String> {
        BatchServer::faults(self)
    }

    fn submitted_twice(&self) -> Vec<String> {
        BatchServer::submitted_twice(self)
    }
}

impl Drop for BatchServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn answer(
    state: &Mutex<State>,
    rules: &Rules,
    head: &str,
    body: &[u8],
) -> (u16, Vec<u8>, Duration) {
    let mut words = head.split(' ');
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let path = path.strip_prefix("/v1").unwrap_or(path);
    let (place, query) = path.split_once('?').unwrap_or((path, ""));
    let parts: Vec<&str> = place.trim_start_matches('/').split('/').collect();
    let kind = match (method, &parts[..]) {
        ("POST", ["chat", "completions"]) => "direct",
        ("POST", ["files"]) => "upload",
        ("POST", ["batches"]) => "submit",
        ("GET", ["batches"]) => "list",
        ("GET", ["batches", _]) => "look",
        ("POST", ["batches", _, "cancel"]) => "cancel",
        ("GET", ["files", _, "content"]) => "answers",
        ("DELETE", ["files", _]) => "delete",
        _ => "unknown",
    };
    let asked = Asked {
        kind,
        id: parts.get(1).copied().unwrap_or_default(),
        query,
        head,
        body,
    };
    let mut state = state.lock().unwrap();
    let (status, body) = asked.answer(&mut state, rules);
    let slow = state.slow.filter(|(slow, _)| *slow == kind);
    (status, body, slow.map_or(Duration::ZERO, |(_, time)| time))
}

/// A request.
struct Asked<'a> {
    kind: &'static str,
    id: &'a str,
    query: &'a str,
    head: &'a str,
    body: &'a [u8],
}

impl Asked<'_> {
    fn answer(&self, state: &mut State, rules: &Rules) -> (u16, Vec<u8>) {
        let Self {
            kind,
            id,
            query,
            head,
            body,
        } = *self;
        let planned = state.planned.iter().position(|plan| plan.0 == kind);
        let planned = planned.map(|place| state.planned.remove(place));
        let refused = |status: u16| {
            let error = json!({"error": {"message": "a plan of the test", "type": "server_error"}});
            (status, error.to_string().into_bytes())
        };
        if let Some((_, status, false)) = planned {
            return refused(status);
        }
        let done = match kind {
            "direct" => Ok(completion("a direct answer")),
            "upload" => state.upload(head, body),
            "submit" => state.submit(header(head, "authorization"), body, rules),
            "list" => Ok(state.list(query)),
            "look" => match state.look(id, header(head, "authorization"), rules) {
                Some(batch) => Ok(batch),
                None => return refused(404),
            },
            "cancel" => state.cancel(id),
            "answers" => {
                return match state.files.get(id) {
                    Some(file) => (200, file.clone()),
                    None => refused(404),
                };
            }
            "delete" => match state.files.remove(id) {
                Some(_) => Ok(json!({"id": id, "object": "file", "deleted": true})),
                None => return refused(404),
            },
            _ => Err(format!("{head} is no request for batches")),
        };
        if let Some((_, status, true)) = planned {
            return refused(status);
        }
        match done {
            Ok(answer) => (200, answer.to_string().into_bytes()),
            Err(fault) => {
                // A client may learn so that another one gave its file up.
                if fault != GONE {
                    state.faults.push(fault.clone());
                }
                let error = json!({"error": {"message": fault, "type": "invalid_request_error"}});
                (400, error.to_string().into_bytes())
            }
        }
    }
}

impl State {
    fn upload(&mut self, head: &str, body: &[u8]) -> Result<Value, String> {
        let kind = header(head, "content-type").unwrap_or_default();
        let boundary = kind.strip_prefix("multipart/form-data; boundary=");
        let boundary = boundary.ok_or_else(|| format!("a file comes as a form, not as {kind}"))?;
        let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
        let text = text
            .strip_suffix(&format!("\r\n--{boundary}--\r\n"))
            .ok_or("the form has no end")?;
        let mut fields = BTreeMap::new();
        for part in text.split(&format!("--{boundary}\r\n")).skip(1) {
            let (head, value) = part.split_once("\r\n\r\n").ok_or("a part without a head")?;
            let name = head
                .split("name=\"")
                .nth(1)
                .and_then(|it| it.split('"').next());
            let value = value.strip_suffix("\r\n").unwrap_or(value);
            fields.insert(name.ok_or("a part without a name")?, value);
        }
        if fields.get("purpose") != Some(&"batch") {
            return Err("the purpose of the file is not batch".to_owned());
        }
        let file = fields.get("file").ok_or("the form has no file")?;
        self.made += 1;
        let id = format!("file-{}", self.made);
        self.files.insert(id.clone(), file.as_bytes().to_vec());
        Ok(
            json!({"id": id, "object": "file", "bytes": file.len(), "created_at": 1, "filename": "requests.jsonl",
            "purpose": "batch", "status": "processed"}),
        )
    }

    fn submit(&mut self, key: Option<String>, body: &[u8], rules: &Rules) -> Result<Value, String> {
        let body: BTreeMap<String, Value> =
            serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let known = ["completion_window", "endpoint", "input_file_id", "metadata"];
        if let Some(unknown) = body.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(format!("{unknown} is not known"));
        }
        if body.get("completion_window") != Some(&json!("24h")) {
            return Err("completion_window must be 24h".to_owned());
        }
        let endpoint = body["endpoint"].as_str().unwrap_or_default();
        if !["/v1/chat/completions", "/v1/responses"].contains(&endpoint) {
            return Err(format!("{endpoint} takes no batches"));
        }
        let marks = body["metadata"]
            .as_object()
            .ok_or("metadata is no object")?;
        let fits = |(key, value): (&String, &Value)| {
            key.len() <= 64 && value.as_str().is_some_and(|value| value.len() <= 512)
        };
        if marks.len() > 16 || !marks.iter().all(fits) {
            return Err("metadata does not fit".to_owned());
        }
        let input = body["input_file_id"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let Some(file) = self.files.get(&input) else {
            return Err(GONE.to_owned());
        };
        let (mut requests, mut refusal) = (Vec::new(), None);
        let (mut ids, mut models) = (BTreeSet::new(), BTreeSet::new());
        for line in std::str::from_utf8(file).unwrap().lines() {
            match request_of(line, endpoint, &mut ids, &mut models) {
                Ok(request) => requests.push(request),
                Err(fault) => {
                    self.faults.push(fault.clone());
                    refusal = Some(("invalid_request".to_owned(), fault));
                }
            }
        }
        if requests.len() > 50_000 || models.len() > 1 {
            refusal = Some(("invalid_batch".to_owned(), "too much in one".to_owned()));
        }
        if rules.end == "failed" {
            let said = "Enqueued token limit reached".to_owned();
            refusal = Some(("token_limit_exceeded".to_owned(), said));
        }
        self.made += 1;
        let kept = Kept {
            id: format!("batch_{}", self.made),
            status: "validating".to_owned(),
            metadata: body["metadata"].clone(),
            key,
            endpoint: endpoint.to_owned(),
            requests,
            looks: 0,
            input,
            output: None,
            errors: None,
            refusal,
        };
        self.batches.push(kept.clone());
        Ok(kept.to_json())
    }

    /// The newest first, as the documents say.
    fn list(&self, query: &str) -> Value {
        let of = |wanted: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs
                .find(|(name, _)| *name == wanted)
                .map(|(_, value)| value)
        };
        let limit: usize = of("limit").map_or(20, |limit| limit.parse().unwrap());
        let mut newest: Vec<&Kept> = self.batches.iter().rev().collect();
        if let Some(after) = of("after") {
            let place = newest.iter().position(|it| it.id == after).unwrap();
            newest.drain(..=place);
        }
        let has_more = newest.len() > limit;
        newest.truncate(limit);
        let data: Vec<Value> = newest.iter().map(|it| it.to_json()).collect();
        json!({"object": "list", "data": data, "has_more": has_more})
    }

    fn look(&mut self, id: &str, key: Option<String>, rules: &Rules) -> Option<Value> {
        let is_it = |it: &Kept| it.id == id && it.key == key;
        let place = self.batches.iter().position(is_it)?;
        let mut kept = self.batches[place].clone();
        kept.looks += 1;
        let is_over = kept.looks >= rules.looks;
        match kept.status.as_str() {
            "validating" if kept.refusal.is_some() => kept.status = "failed".to_owned(),
            "validating" if !is_over => kept.status = "in_progress".to_owned(),
            "cancelling" => kept.status = "cancelled".to_owned(),
            "validating" | "in_progress" if is_over => {
                kept.status = rules.end.to_owned();
                self.finish(&mut kept, place, rules);
            }
            _ => {}
        }
        self.batches[place] = kept.clone();
        Some(kept.to_json())
    }

    fn finish(&mut self, kept: &mut Kept, place: usize, rules: &Rules) {
        let (mut output, mut errors) = (std::mem::take(&mut self.lines_before), Vec::new());
        // The order of answers is not that of requests.
        for (id, text) in kept.requests.iter().rev() {
            let line = |response: Value, error: Value| {
                json!({"id": format!("batch_req_{id}"), "custom_id": id, "response": response, "error": error})
                    .to_string()
            };
            match (rules.answers)(text, place) {
                Reply::Text(text) => {
                    let body = match kept.endpoint.as_str() {
                        "/v1/responses" => response(&text),
                        _ => completion(&text),
                    };
                    output.push(line(
                        json!({"status_code": 200, "request_id": "r", "body": body}),
                        Value::Null,
                    ));
                }
                Reply::Status(status, body) => errors.push(line(
                    json!({"status_code": status, "request_id": "r", "body": body}),
                    Value::Null,
                )),
                Reply::Fault(code) => errors.push(line(
                    Value::Null,
                    json!({"code": code, "message": "This request was not executed."}),
                )),
                Reply::Line(line) => output.push(line.replace("CUSTOM_ID", id)),
                Reply::Missing => {}
            }
        }
        for (lines, into) in [(output, &mut kept.output), (errors, &mut kept.errors)] {
            if !lines.is_empty() {
                self.made += 1;
                let id = format!("file-{}", self.made);
                self.files.insert(id.clone(), lines.join("\n").into_bytes());
                *into = Some(id);
            }
        }
    }

    fn cancel(&mut self, id: &str) -> Result<Value, String> {
        let kept = self.batches.iter_mut().find(|it| it.id == id);
        let kept = kept.ok_or("there is no such batch")?;
        if !["validating", "in_progress"].contains(&kept.status.as_str()) {
            return Err(format!(
                "a batch that is {} cannot be cancelled",
                kept.status
            ));
        }
        kept.status = "cancelling".to_owned();
        Ok(kept.to_json())
    }
}

/// The id of a request, and what its last message says.
fn request_of(
    line: &str,
    endpoint: &str,
    ids: &mut BTreeSet<String>,
    models: &mut BTreeSet<String>,
) -> Result<(String, String), String> {
    let line: BTreeMap<String, Value> =
        serde_json::from_str(line).map_err(|error| error.to_string())?;
    let keys: Vec<&str> = line.keys().map(String::as_str).collect();
    if keys != ["body", "custom_id", "method", "url"] {
        return Err(format!("a line has {keys:?}"));
    }
    let id = line["custom_id"].as_str().ok_or("custom_id is no text")?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if id.is_empty() || id.len() > 64 || !id.bytes().all(is_plain) {
        return Err(format!("{id:?} is no custom_id"));
    }
    if !ids.insert(id.to_owned()) {
        return Err(format!("{id} stands in one batch twice"));
    }
    let body = &line["body"];
    if line["method"] != "POST" || line["url"] != endpoint || body["stream"] == true {
        return Err(format!("{id} is no request to {endpoint}"));
    }
    models.insert(body["model"].as_str().ok_or("no model")?.to_owned());
    let said = match endpoint {
        "/v1/responses" => &body["input"],
        _ => &body["messages"],
    };
    let said = said
        .as_array()
        .and_then(|all| all.last())
        .ok_or("no messages")?;
    let text = match &said["content"] {
        Value::String(text) => text.clone(),
        content => content[0]["text"].as_str().ok_or("no text")?.to_owned(),
    };
    Ok((id.to_owned(), text))
}

/// A completion with this text.
pub(crate) fn completion(text: &str) -> Value {
    json!({"id": "c", "object": "chat.completion", "created": 1, "model": "test-model-1",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}})
}

/// A response with this text.
fn response(text: &str) -> Value {
    json!({"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "test-model-1",
        "output": [{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}]}],
        "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}})
}

impl Kept {
    fn to_json(&self) -> Value {
        let errors = self.refusal.as_ref().filter(|_| self.status == "failed");
        let errors = errors.map(|(code, message)| {
            json!({"object": "list", "data": [{"code": code, "message": message, "line": 1, "param": null}]})
        });
        json!({"id": self.id, "object": "batch", "endpoint": self.endpoint, "errors": errors,
            "input_file_id": self.input, "completion_window": "24h", "status": self.status,
            "output_file_id": self.output, "error_file_id": self.errors, "created_at": u32::MAX,
            "metadata": self.metadata})
    }
}
