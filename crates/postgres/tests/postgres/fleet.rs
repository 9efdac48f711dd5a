//! Several processes that carry sessions together over one database. Each is this test binary, started again.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{File, OpenOptions},
    io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex, mpsc},
    time::{Duration, Instant},
};

use ghostlight_actors::{
    actor::{System, SystemOptions},
    contract::{Reconciled, Tool, ToolContext, ToolError, ToolHandle, ToolOutput},
    run::{Agent, RunContext, Team},
    session::Turn,
    vocabulary::{
        AgentError, Arguments, Effect, Outcome, RunId, SessionId, ToolCall, ToolDefinition,
    },
};
use ghostlight_postgres::{Options, PostgresStore};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::io::AsyncBufReadExt as _;

/// The environment variable that makes this binary a node; it holds [`NodeOptions`] as JSON.
const NODE: &str = "GHOSTLIGHT_FLEET_NODE";
/// The team that every node carries.
pub(crate) const TEAM: &str = "worker";
/// How often a worker files.
const ROUNDS: u32 = 5;

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct NodeOptions {
    pub(crate) url: String,
    pub(crate) version: u32,
    pub(crate) lease_ms: u64,
    /// How long a call takes.
    pub(crate) call_ms: u64,
    /// How often runs of dead nodes are looked for; `ghostlight serve` does so every 2 s.
    pub(crate) recover_ms: u64,
    /// Where calls leave a trace, outside the store.
    pub(crate) effects: PathBuf,
    pub(crate) name: String,
}

#[test]
fn a_node_of_the_fleet() {
    let Ok(options) = std::env::var(NODE) else {
        return;
    };
    let options: NodeOptions = serde_json::from_str(&options).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(carry(options));
    std::process::exit(0);
}

/// A line to the process that started this one.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "\n> {line}");
    let _ = out.flush();
}

/// Carries sessions until the input ends.
async fn carry(options: NodeOptions) {
    let mut of_store = Options::default();
    of_store.lease = Duration::from_millis(options.lease_ms);
    let store = PostgresStore::open_with(&options.url, &of_store)
        .await
        .unwrap();
    let node = store.node().to_owned();
    let mut limits = SystemOptions::default();
    limits.linger = Duration::from_millis(200);
    let system = System::builder(store)
        .options(limits)
        .team(team(&options))
        .start()
        .await
        .unwrap();
    say(&format!("ready {node}"));
    let mut lines = tokio::io::BufReader::new(tokio::io::stdin()).lines();
    let mut recover = tokio::time::interval(Duration::from_millis(options.recover_ms));
    loop {
        tokio::select! {
            line = lines.next_line() => {
                let Ok(Some(line)) = line else { break };
                let Some((session, turn)) = line.split_once(' ') else { continue };
                let (system, session, turn) = (system.clone(), session.to_owned(), turn.to_owned());
                tokio::spawn(async move {
                    let said = Turn::text(session.clone()).id(turn.clone());
                    match system.session(TEAM, session.clone()).send(said).await {
                        Ok(_) => say(&format!("ack {session} {turn}")),
                        Err(error) => eprintln!("{session} {turn}: {error}"),
                    }
                });
            }
            _ = recover.tick() => {
                if let Err(error) = system.recover().await {
                    eprintln!("recovery: {error}");
                }
            }
        }
    }
    system.stop().await.unwrap();
    say("left");
}

fn team(options: &NodeOptions) -> Team {
    let version = options.version;
    let work = move |cx: RunContext| async move {
        if cx.input().content().starts_with("sleeper") {
            cx.sleep(Duration::from_secs(3_600)).await?;
        }
        work(cx, version).await
    };
    let calls = Arc::new(Mutex::new(Calls::default()));
    let tool = |name, effect| {
        ToolHandle::new(Traced {
            name,
            effect,
            options: options.clone(),
            calls: calls.clone(),
        })
    };
    let agent = Agent::from_fn(TEAM, work)
        .tool(tool("charge", Effect::Once))
        .tool(tool("put", Effect::Idempotent))
        .tool(tool("check", Effect::Read));
    let team = agent.into_team().unwrap();
    team.define(|team| team.version = version)
}

/// The second version checks before each call.
async fn work(cx: RunContext, version: u32) -> Result<Outcome, AgentError> {
    let checks = version > 1 && cx.version("checks first", 1).await? > 0;
    let mut done = 0;
    for round in 0..ROUNDS {
        let names: &[&str] = match checks {
            true => &["check", "charge", "put"],
            false => &["charge", "put"],
        };
        for name in names {
            let call = ToolCall::new(format!("{name}{round}"), *name, json!({}));
            let result = cx.tool_unasked(call).await?;
            // In doubt, it would be another text.
            done += u32::from(result.text.starts_with("trace") && *name != "check");
        }
        cx.sleep(Duration::from_millis(5)).await?;
    }
    Ok(Outcome::answer(format!("{done} done")))
}

/// What every run comes to that nobody disturbs.
pub(crate) fn undisturbed() -> String {
    format!("{} done", 2 * ROUNDS)
}

struct Traced {
    name: &'static str,
    effect: Effect,
    options: NodeOptions,
    calls: Arc<Mutex<Calls>>,
}

/// The calls that all nodes made, as far as this one has read them. The file grows to megabytes, and after a kill hundreds
/// of calls are asked about at once.
#[derive(Default)]
struct Calls {
    /// The bytes of the file that were read.
    read: u64,
    /// The text that tells the first call of each key from others.
    nonces: HashMap<String, String>,
}

impl Calls {
    fn nonce(&mut self, file: &Path, key: &str) -> Option<String> {
        if let Ok(mut file) = File::open(file) {
            let mut text = String::new();
            file.seek(SeekFrom::Start(self.read)).unwrap();
            file.read_to_string(&mut text).unwrap();
            // Another node may be about to write the rest of the last line.
            text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
            self.read += text.len() as u64;
            for call in text.lines().filter_map(trace) {
                self.nonces.entry(call.key).or_insert(call.nonce);
            }
        }
        self.nonces.get(key).cloned()
    }
}

/// A call that was made.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(crate) tool: String,
    pub(crate) key: String,
    /// Names the call among those of its key; its result holds it.
    pub(crate) nonce: String,
    pub(crate) node: String,
}

/// The calls that were made, in order.
pub(crate) fn traces(file: &Path) -> Vec<Trace> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(trace).collect()
}

fn trace(line: &str) -> Option<Trace> {
    let mut parts = line.split(' ').map(str::to_owned);
    Some(Trace {
        tool: parts.next()?,
        key: parts.next()?,
        nonce: parts.next()?,
        node: parts.next()?,
    })
}

impl Tool for Traced {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new(self.name, "leaves a trace").effect(self.effect)
    }

    async fn call(&self, _: Arguments, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let nonce = format!("trace{:016x}", rand::random::<u64>());
        let (key, node) = (cx.idempotency_key(), &self.options.name);
        let line = format!("{} {key} {nonce} {node}\n", self.name);
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.options.effects)?
            .write_all(line.as_bytes())?;
        tokio::time::sleep(Duration::from_millis(self.options.call_ms)).await;
        Ok(ToolOutput::text(nonce))
    }

    async fn reconcile(&self, _: &ToolCall, cx: ToolContext) -> Reconciled {
        let key = cx.idempotency_key();
        let (effects, calls) = (self.options.effects.clone(), self.calls.clone());
        // Calls that were allowed wait for this thread.
        let nonce =
            tokio::task::spawn_blocking(move || calls.lock().unwrap().nonce(&effects, &key));
        match nonce.await.unwrap() {
            Some(nonce) => Reconciled::Happened(ToolOutput::text(nonce)),
            None => Reconciled::DidNotHappen,
        }
    }
}

/// A node as its starter sees it.
pub(crate) struct Node {
    pub(crate) name: String,
    /// Its id in the store.
    pub(crate) id: String,
    child: Child,
    input: Option<ChildStdin>,
    told: mpsc::Receiver<String>,
}

impl Node {
    pub(crate) fn start(options: &NodeOptions) -> Self {
        let errors = OpenOptions::new()
            .create(true)
            .append(true)
            .open(options.effects.with_extension("log"))
            .unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["fleet::a_node_of_the_fleet", "--exact", "--nocapture"])
            .env(NODE, serde_json::to_string(options).unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            let lines = out.lines().map_while(Result::ok);
            for line in lines.filter_map(|line| line.strip_prefix("> ").map(str::to_owned)) {
                let _ = tell.send(line);
            }
        });
        let input = child.stdin.take();
        let mut node = Self {
            name: options.name.clone(),
            id: String::new(),
            child,
            input,
            told,
        };
        let ready = node.told.recv_timeout(Duration::from_secs(60));
        let ready = ready.unwrap_or_else(|_| panic!("{} does not start", options.name));
        node.id = ready.strip_prefix("ready ").unwrap().to_owned();
        node
    }

    /// Hands it a turn; whether it began is told later.
    pub(crate) fn send(&mut self, session: &str, turn: &str) {
        if let Some(input) = &mut self.input {
            // A dead node's turns are handed to another one.
            let _ = writeln!(input, "{session} {turn}");
        }
    }

    pub(crate) fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status().unwrap();
        assert!(sent.success(), "kill {signal} {id}");
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Lets it hand over what it carries, and end.
    pub(crate) fn drain(&mut self) {
        self.input = None;
        self.child.wait().unwrap();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The turns that are sent, and which of them were acknowledged.
#[derive(Default)]
pub(crate) struct Turns {
    /// By session: the number of the turn, when it was last sent, and whether it is acknowledged.
    open: BTreeMap<String, (u32, Instant, bool)>,
    pub(crate) acknowledged: Vec<(String, u32)>,
}

impl Turns {
    /// Begins the next turn of a session.
    pub(crate) fn begin(&mut self, node: &mut Node, session: &str) {
        let number = self.open.get(session).map_or(0, |(number, ..)| number + 1);
        node.send(session, &number.to_string());
        let sent = (number, Instant::now(), false);
        self.open.insert(session.to_owned(), sent);
    }

    /// Hears what the nodes say, and sends again what nobody acknowledged.
    pub(crate) fn hear(&mut self, nodes: &mut [Node]) {
        for node in nodes.iter_mut() {
            while let Ok(line) = node.told.try_recv() {
                let mut words = line.split(' ');
                if let (Some("ack"), Some(session), Some(turn)) =
                    (words.next(), words.next(), words.next())
                {
                    let turn: u32 = turn.parse().unwrap();
                    let open = self.open.get_mut(session).filter(|open| open.0 == turn);
                    if let Some((_, _, acknowledged @ false)) = open {
                        *acknowledged = true;
                        self.acknowledged.push((session.to_owned(), turn));
                    }
                }
            }
        }
        let late = |sent: &Instant| sent.elapsed() > Duration::from_secs(3);
        let unheard = self.open.iter_mut();
        let unheard = unheard.filter(|(_, (_, sent, acknowledged))| !acknowledged && late(sent));
        for (session, (number, sent, _)) in unheard {
            *sent = Instant::now();
            // The node that got it first may be dead.
            let place = rand::random::<u32>() as usize % nodes.len();
            nodes[place].send(session, &number.to_string());
        }
    }

    /// The sessions whose last turn is acknowledged.
    pub(crate) fn idle(&self) -> impl Iterator<Item = &String> {
        let idle = self.open.iter().filter(|(_, open)| open.2);
        idle.map(|(session, _)| session)
    }

    pub(crate) fn all_are_acknowledged(&self) -> bool {
        self.open.values().all(|open| open.2)
    }
}

/// The run of a turn.
pub(crate) fn run_of(session: &str, turn: u32) -> RunId {
    let session = SessionId {
        team: TEAM.into(),
        key: session.into(),
    };
    RunId::of_turn(&session, &turn.to_string())
}
