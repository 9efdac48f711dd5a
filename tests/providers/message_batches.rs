//! A server with Anthropic's interface for batches, as its documents say: requests that come with their batch, results
//! once it has ended, in an order of its own, and nothing by which a client could mark a batch. It refuses what they do
//! not allow.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use ghostlight::{
    contract::Model,
    models::{Anthropic, BatchSpec, Secret},
    testing::SimulatedClock,
};
use ghostlight_actors::contract::Clock as _;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::batch_world::{BEGIN, Provider, header, serve};

/// The result of one request of a batch.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// This text.
    Text(String),
    /// A pause after this text, which the client takes up.
    Paused(String),
    /// An error of this kind, in these words.
    Errored(&'static str, &'static str),
    Canceled,
    Expired,
    /// This line instead of a result.
    Line(&'static str),
    /// No line at all.
    Missing,
}

/// How requests end, by their texts and the numbers of their batches, from 1 on.
type Answers = Box<dyn Fn(&str, usize) -> Reply + Send + Sync>;

/// Rules of one server.
pub(crate) struct Rules {
    /// How often a batch is looked at before it ends.
    pub(crate) looks: usize,
    pub(crate) answers: Answers,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            looks: 2,
            answers: Box::new(|text, _| Reply::Text(format!("answer to {text}"))),
        }
    }
}

/// A batch, as the server keeps it.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) id: String,
    pub(crate) status: &'static str,
    /// The requests: the id of each, its body, and what its last message says.
    pub(crate) requests: Vec<(String, Value, String)>,
    pub(crate) looks: usize,
    pub(crate) made: jiff::Timestamp,
    pub(crate) is_cancelled: bool,
    pub(crate) is_archived: bool,
    results: Option<String>,
}

#[derive(Default)]
struct State {
    batches: Vec<Kept>,
    /// Batches that were deleted.
    deleted: Vec<Kept>,
    /// The bodies of requests that went alone.
    direct: Vec<Value>,
    made: usize,
    /// The clock of the test, once the server has it.
    clock: Option<SimulatedClock>,
    faults: Vec<String>,
    /// Replies to the next requests of this kind instead of the usual ones.
    planned: Vec<(&'static str, u16, bool)>,
}

/// A running server.
pub(crate) struct MessageBatches {
    address: String,
    state: Arc<Mutex<State>>,
    task: JoinHandle<()>,
}

impl MessageBatches {
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
                    let (status, body) = state.lock().unwrap().answer(&rules, head, body);
                    (status, body, Duration::ZERO)
                }));
            }
        });
        Self {
            address,
            state,
            task,
        }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The model of this server, whose requests go alone.
    pub(crate) fn alone(&self) -> Anthropic {
        Anthropic::new("claude-test")
            .base_url(&self.address)
            .api_key(Secret::value("sk-ant"))
    }

    /// All batches that were ever made, and that strangers made.
    pub(crate) fn batches(&self) -> Vec<Kept> {
        let state = self.state.lock().unwrap();
        let mut all = state.deleted.clone();
        all.extend(state.batches.clone());
        all.sort_by_key(|it| it.id.trim_start_matches("msgbatch_").parse::<usize>().ok());
        all
    }

    /// The batches that are not deleted.
    pub(crate) fn left(&self) -> usize {
        self.state.lock().unwrap().batches.len()
    }

    /// The bodies of requests that went alone.
    pub(crate) fn direct(&self) -> Vec<Value> {
        self.state.lock().unwrap().direct.clone()
    }

    /// Refuses the next request of this kind with this status: before it takes effect, or after it.
    pub(crate) fn refuse(&self, kind: &'static str, status: u16, after: bool) {
        let mut state = self.state.lock().unwrap();
        state.planned.push((kind, status, after));
    }

    /// How many requests are still to be refused.
    pub(crate) fn to_refuse(&self) -> usize {
        self.state.lock().unwrap().planned.len()
    }

    /// Makes batches of this many requests of other programs with the same key. They end once they were looked at so
    /// often.
    pub(crate) fn strangers(&self, batches: usize, made: &str, requests: usize) {
        let made: jiff::Timestamp = made.parse().unwrap();
        let mut state = self.state.lock().unwrap();
        for _ in 0..batches {
            state.made += 1;
            let request = |n| (format!("other-{n}"), Value::Null, "a stranger's".to_owned());
            let kept = Kept {
                id: format!("msgbatch_{}", state.made),
                status: "in_progress",
                requests: (0..requests).map(request).collect(),
                looks: 0,
                made,
                is_cancelled: false,
                is_archived: false,
                results: None,
            };
            state.batches.push(kept);
        }
    }

    /// Archives all batches: their results are gone.
    pub(crate) fn archive(&self) {
        for kept in &mut self.state.lock().unwrap().batches {
            (kept.status, kept.is_archived, kept.results) = ("ended", true, None);
        }
    }
}

impl Provider for MessageBatches {
    fn model(&self, spec: BatchSpec) -> impl Model {
        self.alone().batched(spec)
    }

    fn goes_by(&self, clock: &SimulatedClock) {
        self.state.lock().unwrap().clock = Some(clock.clone());
    }

    fn faults(&self) -> Vec<String> {
        self.state.lock().unwrap().faults.clone()
    }

    fn submitted_twice(&self) -> Vec<String> {
        let (mut seen, mut twice) = (BTreeSet::new(), Vec::new());
        for batch in self.batches().into_iter().filter(|it| !it.is_cancelled) {
            for (id, _, text) in batch.requests {
                if !id.starts_with("other") && !seen.insert(text.clone()) {
                    twice.push(text);
                }
            }
        }
        twice
    }
}

impl Drop for MessageBatches {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An error as the provider reports it.
fn error(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
}

impl State {
    fn answer(&mut self, rules: &Rules, head: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let mut words = head.split(' ');
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        let path = path.strip_prefix("/v1/messages").unwrap_or(path);
        let (place, query) = path.split_once('?').unwrap_or((path, ""));
        let parts: Vec<&str> = place.trim_start_matches('/').split('/').collect();
        let kind = match (method, &parts[..]) {
            ("POST", [""]) => "direct",
            ("POST", ["batches"]) => "submit",
            ("GET", ["batches"]) => "list",
            ("GET", ["batches", _]) => "look",
            ("POST", ["batches", _, "cancel"]) => "cancel",
            ("GET", ["batches", _, "results"]) => "results",
            ("DELETE", ["batches", _]) => "delete",
            _ => "unknown",
        };
        let id = parts.get(1).copied().unwrap_or_default();
        let planned = self.planned.iter().position(|plan| plan.0 == kind);
        let planned = planned.map(|place| self.planned.remove(place));
        let refused = |status: u16, kind: &str, words: &str| {
            (status, error(kind, words).to_string().into_bytes())
        };
        if let Some((_, status, false)) = planned {
            return refused(status, "api_error", "a plan of the test");
        }
        let done = self.done(rules, kind, id, query, head, body);
        if let Some((_, status, true)) = planned {
            return refused(status, "api_error", "a plan of the test");
        }
        match done {
            Ok(Some(answer)) => (200, answer.into_bytes()),
            Ok(None) => refused(404, "not_found_error", "there is no such batch"),
            Err(fault) => {
                self.faults.push(fault.clone());
                refused(400, "invalid_request_error", &fault)
            }
        }
    }

    fn done(
        &mut self,
        rules: &Rules,
        kind: &str,
        id: &str,
        query: &str,
        head: &str,
        body: &[u8],
    ) -> Result<Option<String>, String> {
        if header(head, "anthropic-version").as_deref() != Some("2023-06-01")
            || header(head, "x-api-key").is_none()
        {
            return Err(format!("{head} has no version or no key"));
        }
        let place = self.batches.iter().position(|it| it.id == id);
        let found = match (kind, place) {
            ("direct", _) => {
                let body: Value =
                    serde_json::from_slice(body).map_err(|error| error.to_string())?;
                let said = last_words(&body)?;
                self.direct.push(body);
                return Ok(Some(
                    message(&format!("answer to {said}"), "end_turn").to_string(),
                ));
            }
            ("submit", _) => return self.submit(head, body).map(Some),
            ("list", _) => return self.list(rules, query).map(Some),
            ("unknown", _) => return Err(format!("{head} is no request for batches")),
            (_, None) => return Ok(None),
            (_, Some(place)) => place,
        };
        match kind {
            "look" => self.look(found, rules),
            "results" => {
                let kept = &self.batches[found];
                if kept.is_archived {
                    return Ok(None);
                }
                let results = kept.results.clone();
                return results
                    .ok_or_else(|| format!("{id} has no results yet"))
                    .map(Some);
            }
            "cancel" => {
                let kept = &mut self.batches[found];
                if kept.status != "in_progress" {
                    return Err(format!("{id} is {} and cannot be cancelled", kept.status));
                }
                (kept.status, kept.is_cancelled) = ("canceling", true);
            }
            _ => {
                if self.batches[found].status != "ended" {
                    return Err(format!("{id} has not ended and cannot be deleted"));
                }
                let kept = self.batches.remove(found);
                self.deleted.push(kept);
                return Ok(Some(
                    json!({"id": id, "type": "message_batch_deleted"}).to_string(),
                ));
            }
        }
        Ok(Some(self.batches[found].to_json().to_string()))
    }

    /// The time of the test.
    fn now(&self) -> jiff::Timestamp {
        let now = self.clock.as_ref().map_or(BEGIN, |clock| clock.now());
        jiff::Timestamp::from_millisecond(now.0.try_into().unwrap()).unwrap()
    }

    fn submit(&mut self, head: &str, body: &[u8]) -> Result<String, String> {
        if header(head, "content-type").as_deref() != Some("application/json") {
            return Err("a batch comes as JSON".to_owned());
        }
        let body: BTreeMap<String, Value> =
            serde_json::from_slice(body).map_err(|error| error.to_string())?;
        if body.keys().ne(["requests"]) {
            return Err(format!("a batch has requests and not {:?}", body.keys()));
        }
        let all = body["requests"].as_array().ok_or("requests is no list")?;
        if all.is_empty() || all.len() > 100_000 {
            return Err(format!("{} requests are no batch", all.len()));
        }
        let (mut requests, mut ids) = (Vec::new(), BTreeSet::new());
        for request in all {
            let fields = request.as_object().ok_or("a request is no object")?;
            if fields.keys().map(String::as_str).collect::<BTreeSet<_>>()
                != BTreeSet::from(["custom_id", "params"])
            {
                return Err(format!("a request has {:?}", fields.keys()));
            }
            let id = fields["custom_id"].as_str().ok_or("custom_id is no text")?;
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
            if id.is_empty() || id.len() > 64 || !id.bytes().all(is_plain) {
                return Err(format!("{id:?} is no custom_id"));
            }
            if !ids.insert(id.to_owned()) {
                return Err(format!("{id} stands in one batch twice"));
            }
            let params = &fields["params"];
            let said = last_words(params)?;
            if params["stream"] == true {
                return Err("requests of batches do not stream".to_owned());
            }
            requests.push((id.to_owned(), params.clone(), said));
        }
        self.made += 1;
        let kept = Kept {
            id: format!("msgbatch_{}", self.made),
            status: "in_progress",
            requests,
            looks: 0,
            made: self.now(),
            is_cancelled: false,
            is_archived: false,
            results: None,
        };
        self.batches.push(kept.clone());
        Ok(kept.to_json().to_string())
    }

    /// The newest first, as the documents say.
    fn list(&mut self, rules: &Rules, query: &str) -> Result<String, String> {
        let of = |wanted: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            let found = pairs.find(|(name, _)| *name == wanted);
            found.map(|(_, value)| value.to_owned())
        };
        let limit: usize = of("limit").map_or(20, |limit| limit.parse().unwrap());
        if !(1..=1_000).contains(&limit) {
            return Err(format!("{limit} is no limit of a page"));
        }
        for place in 0..self.batches.len() {
            self.look(place, rules);
        }
        let mut newest: Vec<&Kept> = self.batches.iter().collect();
        newest.sort_by_key(|it| std::cmp::Reverse(it.made));
        if let Some(after) = of("after_id") {
            let place = newest.iter().position(|it| it.id == after);
            newest.drain(..=place.ok_or("after_id names no batch")?);
        }
        let has_more = newest.len() > limit;
        newest.truncate(limit);
        let id = |kept: Option<&&Kept>| kept.map(|it| it.id.clone());
        let (first, last) = (id(newest.first()), id(newest.last()));
        let data: Vec<Value> = newest.iter().map(|it| it.to_json()).collect();
        Ok(
            json!({"data": data, "has_more": has_more, "first_id": first, "last_id": last})
                .to_string(),
        )
    }

    /// Time passes for a batch with each look.
    fn look(&mut self, place: usize, rules: &Rules) {
        let kept = &mut self.batches[place];
        kept.looks += 1;
        let is_over = kept.looks >= rules.looks || kept.status == "canceling";
        if kept.status == "ended" || !is_over {
            return;
        }
        let mut lines = Vec::new();
        let number: usize = kept.id["msgbatch_".len()..].parse().unwrap();
        // The order of results is not that of requests.
        for (id, _, text) in kept.requests.iter().rev() {
            let reply = match kept.is_cancelled {
                true => Reply::Canceled,
                false => (rules.answers)(text, number),
            };
            let result = match reply {
                Reply::Text(text) => {
                    json!({"type": "succeeded", "message": message(&text, "end_turn")})
                }
                Reply::Paused(text) => {
                    json!({"type": "succeeded", "message": message(&text, "pause_turn")})
                }
                Reply::Errored(kind, words) => {
                    json!({"type": "errored", "error": error(kind, words)})
                }
                Reply::Canceled => json!({"type": "canceled"}),
                Reply::Expired => json!({"type": "expired"}),
                Reply::Line(line) => {
                    lines.push(line.replace("CUSTOM_ID", id));
                    continue;
                }
                Reply::Missing => continue,
            };
            lines.push(json!({"custom_id": id, "result": result}).to_string());
        }
        (kept.status, kept.results) = ("ended", Some(lines.join("\n")));
    }
}

/// The text of the last message of a request, which must be one that the provider takes.
fn last_words(params: &Value) -> Result<String, String> {
    params["model"].as_str().ok_or("no model")?;
    if params["max_tokens"].as_u64().is_none_or(|most| most == 0) {
        return Err("max_tokens is required".to_owned());
    }
    let last = params["messages"].as_array().and_then(|all| all.last());
    let content = &last.ok_or("no messages")?["content"];
    let text = content.as_str().or(content[0]["text"].as_str());
    Ok(text.ok_or("no text")?.to_owned())
}

/// A message with this text that stops for this reason.
fn message(text: &str, stop: &str) -> Value {
    json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test",
        "content": [{"type": "text", "text": text}], "stop_reason": stop, "stop_sequence": null,
        "usage": {"input_tokens": 1000, "output_tokens": 100}})
}

impl Kept {
    fn to_json(&self) -> Value {
        let has_ended = self.status == "ended";
        let (all, none) = (self.requests.len(), 0);
        let (processing, succeeded) = if has_ended { (none, all) } else { (all, none) };
        let time = |is_so: bool| is_so.then(|| self.made.to_string());
        let results = format!(
            "http://elsewhere.invalid/v1/messages/batches/{}/results",
            self.id
        );
        json!({"id": self.id, "type": "message_batch", "processing_status": self.status,
            "request_counts": {"processing": processing, "succeeded": succeeded, "errored": 0, "canceled": 0, "expired": 0},
            "ended_at": time(has_ended), "created_at": self.made.to_string(), "expires_at": self.made.to_string(),
            "cancel_initiated_at": time(self.is_cancelled), "archived_at": time(self.is_archived),
            "results_url": self.results.as_ref().map(|_| results)})
    }
}
