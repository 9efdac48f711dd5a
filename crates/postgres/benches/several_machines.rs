//! What PostgreSQL costs: a durable step, the steps of many agents on one node and on two, and sleeping sessions; beside
//! bare commits of the same rows and beside a store in memory, in one sitting, with syncs; where the time of a step goes;
//! and what eight nodes would come to by these costs. `several_machines steps` leaves the last out.
//! `several_machines asleep 1000000` measures that many sleepers, and nothing else; `several_machines claims 10000` what
//! it takes until many nodes have shared so many journals of a dead one, beside bare rows that are shared with `SKIP LOCKED`;
//! `several_machines ends 300` what it costs that the ends of runs are told, over so many commits.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    missing_docs
)]

#[path = "../tests/postgres/server.rs"]
#[allow(dead_code)]
mod server;

use std::{
    fmt, fs,
    sync::Arc,
    time::{Duration, Instant},
};

use ghostlight_actors::{
    actor::System,
    contract::{Append, Batch, DynStore as _, Line, RunRow, RunStatus},
    run::{Agent, RunContext, Team},
    session::Turn,
    testing::InMemoryStore,
    vocabulary::{
        AgentError, Effect, Entry, JournalId, Message, Outcome, RunId, RunStart, SessionId,
        Timestamp,
    },
};
use ghostlight_postgres::{Options, PostgresStore};
use mimalloc::MiMalloc;
use tokio::{runtime::Builder, task::JoinSet};
use tokio_postgres::Client;

use crate::server::Server;

/// As in the command.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const DAY: Duration = Duration::from_secs(86_400);
/// The steps of a run.
const STEPS: u32 = 50;
/// The bytes of a step's entry, as recorded by this bench's agent.
const ENTRY: usize = 110;

fn main() {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    runtime.block_on(async {
        let server = Server::start(&["max_connections = 200"]);
        match words.as_slice() {
            ["asleep", count, ..] => asleep(&server, count.parse().unwrap()).await,
            ["claims", count, ..] => claims(&server, count.parse().unwrap()).await,
            ["ends", count, ..] => ends(&server, count.parse().unwrap()).await,
            words => {
                let first = system(&server.url()).await;
                let node_cost = steps(&server, &first).await;
                if words != ["steps"] {
                    eight_nodes(&server, node_cost).await;
                }
            }
        }
    });
}

fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn team() -> Team {
    let agent = Agent::from_fn("stepper", |cx: RunContext| async move {
        if cx.input().content() == "sleep" {
            cx.sleep(DAY).await?;
        }
        for number in 0..STEPS {
            let made = async move { Ok::<_, AgentError>(u64::from(number) << 32) };
            cx.step("step", Effect::Idempotent, made).await?;
        }
        Ok(Outcome::answer("done"))
    });
    agent.into_team().unwrap()
}

async fn system(url: &str) -> System {
    let store = PostgresStore::open(url).await.unwrap();
    let builder = System::builder(store).team(team());
    builder.start().await.unwrap()
}

async fn run(system: System) {
    let key = format!("{:016x}", rand::random::<u64>());
    let session = system.session("stepper", key);
    let run = session.send(Turn::text("go")).await.unwrap();
    assert_eq!(run.outcome().await.unwrap().text(), "done");
}

/// A table for the bare commits.
async fn bare(server: &Server) -> Client {
    let client = server.client().await;
    let table = "CREATE TABLE IF NOT EXISTS bare(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text NOT NULL)";
    client.batch_execute(table).await.unwrap();
    client
}

/// Returns what a step takes of a node's processors.
async fn steps(server: &Server, first: &System) -> Duration {
    let client = bare(server).await;
    let insert = client
        .prepare("INSERT INTO bare(body) SELECT * FROM unnest($1::text[])")
        .await
        .unwrap();
    let body = "x".repeat(ENTRY);
    let one = vec![body.as_str()];
    run(first.clone()).await;
    for _ in 0..3 {
        let mut commits = Vec::new();
        for _ in 0..500 {
            let begun = Instant::now();
            client.execute(&insert, &[&one]).await.unwrap();
            commits.push(begun.elapsed());
        }
        let mut runs = Vec::new();
        for _ in 0..10 {
            let begun = Instant::now();
            run(first.clone()).await;
            runs.push(begun.elapsed() / STEPS);
        }
        let (bare, ours) = (middle(commits), middle(runs));
        println!("a bare commit {bare:?}, a durable step {ours:?}");
    }
    let second = system(&server.url()).await;
    let memory = System::builder(InMemoryStore::new()).team(team());
    let memory = memory.start().await.unwrap();
    let mut node_cost = Vec::new();
    for agents in [256_usize, 1_024] {
        for _ in 0..3 {
            // The group is as large as there are agents: each of them waits for its commit.
            let group = vec![body.as_str(); agents];
            let commits = 20_000 / agents;
            let before = Spent::of(server, &client).await;
            for _ in 0..commits {
                client.execute(&insert, &[&group]).await.unwrap();
            }
            let floor = before.until_now(server, &client, commits * agents).await;
            let before = Spent::of(server, &client).await;
            at_once(&[first], agents).await;
            let one_node = before
                .until_now(server, &client, agents * STEPS as usize)
                .await;
            node_cost.push(one_node.node);
            let before = Spent::of(server, &client).await;
            at_once(&[first, &second], agents).await;
            let two_nodes = before
                .until_now(server, &client, agents * STEPS as usize)
                .await;
            let before = Spent::of(server, &client).await;
            at_once(&[&memory], agents).await;
            let in_memory = before
                .until_now(server, &client, agents * STEPS as usize)
                .await;
            println!("{agents} agents");
            println!("  bare rows     {floor}");
            println!("  one node      {one_node}");
            println!("  two nodes     {two_nodes}");
            println!("  in memory     {in_memory}");
        }
    }
    let commits = "SELECT max(commit) FROM ghostlight.tail";
    let commits: i64 = client.query_one(commits, &[]).await.unwrap().get(0);
    let entries: i64 = client
        .query_one("SELECT count(*) FROM ghostlight.entries", &[])
        .await
        .unwrap()
        .get(0);
    println!("{entries} entries in {commits} commits");
    middle(node_cost)
}

/// What was spent since the processes began; or on one step.
struct Spent {
    at: Instant,
    time: Duration,
    /// Of processors, by this process.
    node: Duration,
    /// Of processors, by the server's processes.
    server: Duration,
    /// The bytes of the server's log.
    log: i64,
    /// The server's commits.
    commits: i64,
    steps: usize,
}

impl Spent {
    async fn of(server: &Server, client: &Client) -> Self {
        let so_far = "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint, commit FROM ghostlight.tail";
        let row = client.query_one(so_far, &[]).await.unwrap();
        Self {
            at: Instant::now(),
            time: Duration::ZERO,
            node: busy(),
            server: server_busy(server),
            log: row.get(0),
            commits: row.get(1),
            steps: 0,
        }
    }

    /// The mean cost of each of so many steps since these figures were read.
    async fn until_now(&self, server: &Server, client: &Client, steps: usize) -> Self {
        let time = self.at.elapsed();
        let now = Self::of(server, client).await;
        let each = |spent: Duration| spent / u32::try_from(steps).unwrap();
        Self {
            at: now.at,
            time: each(time),
            node: each(now.node - self.node),
            server: each(now.server - self.server),
            log: (now.log - self.log) / steps as i64,
            commits: now.commits - self.commits,
            steps,
        }
    }
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let in_us = |time: Duration| time.as_nanos() as f64 / 1_000.0;
        write!(
            f,
            "{:7.0} a second; of processors {:5.1} µs here and {:5.1} µs at the server; {:4} bytes of log; {:5} commits of {:4.0}",
            1_000_000.0 / in_us(self.time),
            in_us(self.node),
            in_us(self.server),
            self.log,
            self.commits,
            self.steps as f64 / self.commits.max(1) as f64,
        )
    }
}

/// The time that the server's processes have kept processors busy, those that have ended left out.
fn server_busy(server: &Server) -> Duration {
    let file = fs::read_to_string(server.data().join("postmaster.pid")).unwrap();
    let first = file.lines().next().unwrap();
    let children = format!("/proc/{first}/task/{first}/children");
    let children = fs::read_to_string(children).unwrap();
    let of = |process: &str| {
        let text = fs::read_to_string(format!("/proc/{process}/schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    };
    let all = children.split_whitespace().chain([first]);
    Duration::from_nanos(all.filter_map(of).sum())
}

/// What eight nodes would come to. Commits take turns, since each locks the end of the store: `groups` gives what the
/// database takes for a group of so many steps. Each node has two processors of its own for the rest.
async fn eight_nodes(server: &Server, node_cost: Duration) {
    let store = PostgresStore::open(&server.url()).await.unwrap();
    let base = 1 << 40;
    for number in 0..1_024 {
        let batch = sleeper(base + number, now());
        store.commit(vec![batch]).await.unwrap().remove(0).unwrap();
    }
    let mut sequence = 1;
    println!("a step takes {node_cost:?} of a node's processors");
    for group in [1_u64, 32, 128, 512, 1_024] {
        let mut times = Vec::new();
        for _ in 0..30 {
            let text = format!("\"{}\"", "x".repeat(ENTRY));
            let step = |number| {
                let text = text.as_str().into();
                let lines = vec![Line { at: now(), text }];
                Batch::of(Append::new(run_of(base + number), sequence, 1, lines))
            };
            // All have the same number of entries, whichever groups they were in.
            let all: Vec<Batch> = (0..1_024).map(step).collect();
            let mut all = all.into_iter();
            let measured: Vec<Batch> = all.by_ref().take(group as usize).collect();
            let begun = Instant::now();
            store.commit(measured).await.unwrap();
            times.push(begun.elapsed());
            store.commit(all.collect()).await.unwrap();
            sequence += 1;
        }
        let commit = middle(times);
        let database = group as f64 / commit.as_secs_f64();
        let nodes = 8.0 * 2.0 / node_cost.as_secs_f64();
        let first = if database < nodes {
            "the database's commits"
        } else {
            "the nodes' processors"
        };
        println!(
            "groups of {group}: a commit takes {commit:?}; the database does {database:.0} steps a second, the \
             processors of eight nodes {nodes:.0}: {first} saturate first"
        );
    }
    store.close().await.unwrap();
}

/// Commits of rows that tell nothing and of rows that tell an end, in turns, with nobody to tell and with seven nodes.
async fn ends(server: &Server, count: u64) {
    let store = PostgresStore::open(&server.url()).await.unwrap();
    let mut others = Vec::new();
    let mut number = 0;
    for nodes in [0, 7] {
        while others.len() < nodes {
            others.push(PostgresStore::open(&server.url()).await.unwrap());
        }
        for group in [1_u64, 32, 512] {
            let mut times = [const { Vec::new() }; 2];
            for round in 0..2 * count {
                let is_end = (round % 2) as usize;
                let status = [RunStatus::Running, RunStatus::Answered][is_end];
                let batches = (number..number + group).map(|number| {
                    let mut batch = sleeper(number, now());
                    let row = Arc::make_mut(batch.appends[0].row.as_mut().unwrap());
                    (row.status, row.wake_at) = (status, None);
                    batch
                });
                let batches = batches.collect();
                number += group;
                let begun = Instant::now();
                store.commit(batches).await.unwrap();
                times[is_end].push(begun.elapsed());
            }
            let [silent, told] = times.map(middle);
            println!("{nodes} others, groups of {group}: a commit {silent:?}, with ends {told:?}");
        }
    }
}

/// How many journals are claimed together, as when runs are recovered.
const TOGETHER: usize = 128;

/// Eight nodes that all want all journals of a dead one at once, each from another place on; and as many connections that
/// share as many bare rows.
async fn claims(server: &Server, count: u64) {
    let client = bare(server).await;
    let rows = format!(
        "CREATE TABLE work(id bigint PRIMARY KEY, owner text); INSERT INTO work SELECT generate_series(1, {count})"
    );
    client.batch_execute(&rows).await.unwrap();
    let take = format!(
        "UPDATE work SET owner = $1 WHERE id IN (SELECT id FROM work WHERE owner IS NULL \
             LIMIT {TOGETHER} FOR UPDATE SKIP LOCKED)"
    );
    let mut takers = JoinSet::new();
    let begun = Instant::now();
    for number in 0..8 {
        let (client, take) = (server.client().await, take.clone());
        takers.spawn(async move {
            while client.execute(&take, &[&number.to_string()]).await.unwrap() > 0 {}
        });
    }
    while takers.join_next().await.is_some() {}
    let floor = count as f64 / begun.elapsed().as_secs_f64();
    let dead = PostgresStore::open(&server.url()).await.unwrap();
    for first in (0..count).step_by(500) {
        let numbers = first..(first + 500).min(count);
        let batches = numbers.map(|number| sleeper(number, now())).collect();
        for committed in dead.commit(batches).await.unwrap() {
            committed.unwrap();
        }
    }
    let mut nodes = Vec::new();
    for _ in 0..8 {
        nodes.push(PostgresStore::open(&server.url()).await.unwrap());
    }
    let journals: Vec<JournalId> = (0..count).map(|number| run_of(number).into()).collect();
    let mut wanted = JoinSet::new();
    // While the owner lives each of them is refused, and whether it lives is looked up.
    let begun = Instant::now();
    for node in &nodes {
        let (node, journals) = (node.clone(), journals.clone());
        wanted.spawn(async move { take_all(&node, &journals, 0).await });
    }
    while let Some(refused) = wanted.join_next().await {
        assert_eq!(refused.unwrap(), 0);
    }
    let refused = 8.0 * count as f64 / begun.elapsed().as_secs_f64();
    dead.close().await.unwrap();
    let begun = Instant::now();
    for (number, node) in nodes.iter().enumerate() {
        let (node, journals) = (node.clone(), journals.clone());
        let from = number * journals.len() / 8;
        wanted.spawn(async move { take_all(&node, &journals, from).await });
    }
    let mut taken = 0;
    while let Some(claimed) = wanted.join_next().await {
        taken += claimed.unwrap();
    }
    assert_eq!(taken as u64, count, "each journal has one owner");
    let ours = count as f64 / begun.elapsed().as_secs_f64();
    println!(
        "{count} journals, 8 nodes: {ours:.0} taken a second, {refused:.0} refused a second; bare rows with SKIP LOCKED \
         {floor:.0} a second"
    );
}

/// Claims all journals, this one first, and counts those that it got.
async fn take_all(store: &PostgresStore, journals: &[JournalId], from: usize) -> usize {
    let (before, after) = journals.split_at(from);
    let mut taken = 0;
    for together in after.chunks(TOGETHER).chain(before.chunks(TOGETHER)) {
        let claims = store.claim_all(together.to_vec()).await.unwrap();
        taken += claims.iter().filter(|claim| claim.is_ok()).count();
    }
    taken
}

/// The time that this process has kept processors busy.
fn busy() -> Duration {
    let text = fs::read_to_string("/proc/self/stat").unwrap();
    let (_, after) = text.rsplit_once(") ").unwrap();
    let fields: Vec<&str> = after.split(' ').collect();
    // In hundredths of a second.
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

/// The steps a second of so many agents, on these nodes together.
async fn at_once(nodes: &[&System], agents: usize) -> f64 {
    let begun = Instant::now();
    let mut runs = JoinSet::new();
    for number in 0..agents {
        runs.spawn(run(nodes[number % nodes.len()].clone()));
    }
    while let Some(ended) = runs.join_next().await {
        ended.unwrap();
    }
    (agents * STEPS as usize) as f64 / begun.elapsed().as_secs_f64()
}

/// Sessions whose runs sleep for a day: what claiming one, waking one and a node's memory cost.
async fn asleep(server: &Server, count: u64) {
    let store = PostgresStore::open_with(&server.url(), &Options::default())
        .await
        .unwrap();
    let team = team();
    let begun = Instant::now();
    let now = now();
    let mut number = 0;
    while number < count {
        let mut batches = Vec::new();
        for _ in 0..500.min(count - number) {
            batches.push(sleeper(number, now));
            number += 1;
        }
        for committed in store.commit(batches).await.unwrap() {
            committed.unwrap();
        }
    }
    println!("{count} sleepers after {:?}", begun.elapsed());
    store.close().await.unwrap();
    let store = PostgresStore::open(&server.url()).await.unwrap();
    let before = resident();
    let mut claims = Vec::new();
    for place in 0..200 {
        let begun = Instant::now();
        let run = run_of(place * (count / 200).max(1));
        store.claim(run.into(), false).await.unwrap();
        claims.push(begun.elapsed());
    }
    println!("a claim takes {:?}", middle(claims));
    let begun = Instant::now();
    let system = System::builder(store).team(team).start().await.unwrap();
    println!("a node starts in {:?}", begun.elapsed());
    let mut looks = Vec::new();
    for _ in 0..5 {
        let begun = Instant::now();
        system.recover().await.unwrap();
        looks.push(begun.elapsed());
    }
    println!("looking for interrupted runs takes {:?}", middle(looks));
    println!(
        "memory: {} MB more than before",
        resident().saturating_sub(before) >> 20
    );
    let mut wakes = Vec::new();
    for _ in 0..200 {
        let key = format!("{:016x}", rand::random::<u64>());
        let session = system.session("stepper", key);
        let run = session.send(Turn::text("sleep")).await.unwrap();
        while store_of(&system, run.id()).await != Some(RunStatus::Waiting) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let begun = Instant::now();
        run.cancel("woken").await.unwrap();
        let _ = run.outcome().await;
        wakes.push(begun.elapsed());
    }
    println!("a sleeper that is cancelled ends after {:?}", middle(wakes));
    system.stop().await.unwrap();
}

async fn store_of(system: &System, run: RunId) -> Option<RunStatus> {
    let row = system.store().run(run).await.unwrap();
    row.map(|row| row.status)
}

fn run_of(number: u64) -> RunId {
    let session = session(number);
    RunId::of_turn(&session, "1")
}

fn session(number: u64) -> SessionId {
    SessionId {
        team: "stepper".into(),
        key: format!("asleep-{number}").into(),
    }
}

/// The first entry of a run that sleeps.
fn sleeper(number: u64, now: Timestamp) -> Batch {
    let run = run_of(number);
    let start = RunStart::new(
        run,
        "stepper".to_owned(),
        "stepper".to_owned(),
        ghostlight_actors::vocabulary::Digest::of(b"bench"),
        Message::user("go"),
    );
    let mut row = RunRow::new(run, "stepper", "stepper");
    row.session = Some(session(number));
    (row.status, row.wake_at) = (RunStatus::Waiting, Some(now.after(DAY)));
    (row.started_at, row.updated_at) = (now, now);
    let line = Line::encode(now, &Entry::RunStarted(Box::new(start))).unwrap();
    Batch::of(Append::new(run, 0, 1, vec![line]).row(row))
}

fn now() -> Timestamp {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap();
    Timestamp(since.as_millis() as u64)
}

/// The memory of this process, in bytes.
fn resident() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4_096
}
