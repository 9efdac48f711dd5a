//! Event streams on which nothing happens.

use std::{
    convert::Infallible,
    fs,
    io::{BufRead as _, BufReader, Read as _},
    net::SocketAddr,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, stream};
use ghostlight::server::axum::{
    self, Router,
    response::sse::{Event, KeepAlive, Sse},
    routing::get,
};
use ghostlight_actors::{
    actor::SystemOptions,
    run::{Agent, RunContext},
    session::Turn,
    vocabulary::{AgentError, Outcome},
};
use tokio::{net::TcpListener, runtime::Runtime};

use crate::{Served, client::Client, shared::Quartiles};

/// What makes this program the server.
pub(crate) const SERVE: &str = "serve-streams";
/// What makes it a server of axum's that does nothing but stream one event: the floor.
pub(crate) const SERVE_BARE: &str = "serve-bare-streams";
const STREAMS: usize = 1_000;
/// How many server processes are measured, one after the other.
const SERVERS: usize = 7;
/// How long nothing happens while processor time is measured.
const IDLE: Duration = Duration::from_secs(5);

/// Waits for an answer that never comes.
async fn ask(cx: RunContext) -> Result<Outcome, AgentError> {
    let answer = cx.ask("How many?").await?;
    Ok(Outcome::answer(answer.to_string()))
}

/// Prints the address and the runs, which wait and are out of memory, and serves until standard input is closed.
pub(crate) async fn serve() {
    let mut limits = SystemOptions::default();
    let linger = Duration::from_millis(20);
    (limits.linger, limits.passivate_after) = (linger, linger);
    let team = Agent::from_fn("asker", ask).into_team().unwrap();
    let served = Served::start(true, limits, vec![team]).await;
    let mut runs = Vec::new();
    for number in 0..STREAMS {
        let session = served.system.session("asker", number.to_string());
        runs.push(session.send(Turn::text("Ask.")).await.unwrap().id());
    }
    while served.system.load().live_runs > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("{}", served.address);
    for run in runs {
        println!("{run}");
    }
    let reading = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    reading.await.unwrap().unwrap();
}

/// The same with no more than axum.
pub(crate) async fn serve_bare() {
    let events = async || {
        let event = Event::default().id("1").event("question_asked").data("{}");
        let events = stream::iter([Ok::<_, Infallible>(event)]).chain(stream::pending());
        Sse::new(events).keep_alive(KeepAlive::default())
    };
    let router = Router::new().route("/api/v1/runs/{run}/events", get(events));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    for run in 0..STREAMS {
        println!("{run}");
    }
    tokio::spawn(axum::serve(listener, router).into_future());
    let reading = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    reading.await.unwrap().unwrap();
}

struct ServerProcess {
    child: Child,
    address: SocketAddr,
    runs: Vec<String>,
}

impl ServerProcess {
    fn start(server: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg(server)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines.next().unwrap().unwrap().parse().unwrap();
        let runs = lines.by_ref().take(STREAMS).map(Result::unwrap).collect();
        Self {
            child,
            address,
            runs,
        }
    }

    /// Its resident memory in kB, once this is the same for a second.
    fn resident_kb(&self) -> f64 {
        let path = format!("/proc/{}/status", self.child.id());
        let now = || -> u64 {
            let text = fs::read_to_string(&path).unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
            line.unwrap()
                .split_whitespace()
                .next()
                .unwrap()
                .parse()
                .unwrap()
        };
        let (mut last, mut since) = (now(), Instant::now());
        while since.elapsed() < Duration::from_secs(1) {
            std::thread::sleep(Duration::from_millis(50));
            let kb = now();
            if kb.abs_diff(last) > 64 {
                (last, since) = (kb, Instant::now());
            }
        }
        now() as f64
    }

    /// The milliseconds that it has spent on processors.
    fn processor_ms(&self) -> f64 {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let spent = tasks.map(|task| {
            let text = fs::read_to_string(task.unwrap().path().join("schedstat")).unwrap();
            text.split_whitespace()
                .next()
                .unwrap()
                .parse::<f64>()
                .unwrap()
        });
        spent.sum::<f64>() / 1e6
    }

    /// A stream that has sent everything that is recorded.
    async fn stream(&self, run: &str) -> Client {
        let mut client = Client::connect(self.address).await;
        let path = format!("/api/v1/runs/{run}/events");
        client.open("GET", &path, "").await;
        while client.recorded().await.expect("a question").1 != "question_asked" {}
        client
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // The end of its input ends it.
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

pub(crate) fn measure(runtime: &Runtime) {
    for (server, name) in [
        (SERVE_BARE, "of a bare server of axum's (floor)"),
        (SERVE, "of ours"),
    ] {
        let (mut grown, mut busy) = (Vec::new(), Vec::new());
        for _ in 0..SERVERS {
            let server = ServerProcess::start(server);
            let before = server.resident_kb();
            let opening = stream::iter(&server.runs).map(|run| server.stream(run));
            let streams: Vec<Client> = runtime.block_on(opening.buffer_unordered(50).collect());
            let with = server.resident_kb();
            let spent = server.processor_ms();
            std::thread::sleep(IDLE);
            busy.push((server.processor_ms() - spent) / IDLE.as_secs_f64());
            println!(
                "a server process: {before} kB, with {} streams {with} kB",
                streams.len()
            );
            grown.push(with - before);
        }
        let each = Quartiles::of(grown.iter().map(|kb| kb / STREAMS as f64));
        let all = Quartiles::of(grown.iter().map(|kb| kb * 1024.0 / 1e6));
        let what = format!("{STREAMS} idle event streams {name}");
        println!("{what}, resident memory: {all} MB, {each} KiB a stream");
        let busy = Quartiles::of(busy);
        println!("{what}, processor: {busy} ms in a second");
    }
}
