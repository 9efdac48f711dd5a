//! The world in which batches are made: teams over a simulated clock, processes that are killed, and the wire to servers.

use std::time::Duration;

use futures_util::{StreamExt as _, future::join_all};
use ghostlight::{behaviors, models::BatchSpec};
use ghostlight_actors::{
    actor::{Run, System, SystemOptions},
    contract::Model,
    ractor::{Actor, ActorProcessingErr, ActorRef},
    run::{Agent, Registry, RunContext},
    session::Turn,
    testing::{Fault, FaultyStore, Harm, InMemoryStore, SimulatedClock, Strike},
    vocabulary::{AgentError, Message, ModelRequest, Outcome, Timestamp, Transcript},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);
/// The time at which each world begins.
pub(crate) const BEGIN: Timestamp = Timestamp(1_800_000_000_000);

/// Time that passes some seconds at once, again and again, as long as this lives.
pub(crate) struct Passing(tokio::task::JoinHandle<()>);

impl Passing {
    pub(crate) fn of(clock: &SimulatedClock, step: Duration) -> Self {
        let clock = clock.clone();
        Self(tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(4)).await;
                clock.advance(step);
            }
        }))
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn options() -> SystemOptions {
    let mut options = SystemOptions::default();
    options.linger = Duration::from_millis(10);
    (options.max_admissions, options.max_live_runs) = (4_000, 4_000);
    options.gateway.base_pause = Duration::from_millis(1);
    options.gateway.max_pause = Duration::from_millis(2);
    options
}

/// Batches that are soon full and often looked at.
pub(crate) fn quick() -> BatchSpec {
    let tick = Duration::from_secs(10);
    BatchSpec::default().window(tick).poll_interval(tick)
}

/// Asks, and asks again about the answer.
async fn asks_twice(cx: RunContext) -> Result<Outcome, AgentError> {
    let first = cx.think().await?.content();
    let again = Message::user(format!("again {first}"));
    let again = ModelRequest::new(Transcript::from_iter([again]));
    Ok(Outcome::answer(cx.model(again).await?.content()))
}

pub(crate) fn builder(
    store: impl Into<ghostlight_actors::contract::StoreHandle>,
    clock: &SimulatedClock,
    model: impl Model,
) -> ghostlight_actors::actor::SystemBuilder {
    let twice = Agent::from_fn("twice", asks_twice).into_team().unwrap();
    System::builder(store)
        .registry(behaviors::register(Registry::new()))
        .clock(clock.clone())
        .options(options())
        .model("default", model)
        .team(Agent::new("desk").into_team().unwrap())
        .team(twice)
}

pub(crate) async fn send(system: &System, team: &str, key: impl Into<String>) -> Run {
    let key = key.into();
    let turn = Turn::text(format!("from {key}")).id("turn");
    system.session(team, key).send(turn).await.unwrap()
}

pub(crate) async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    let waited = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), waited).await;
    waited.expect("it comes to pass");
}

/// A provider's server for batches, whose answer to a text is `answer to` and the text.
pub(crate) trait Provider {
    /// A model of it, whose requests go in batches.
    fn model(&self, spec: BatchSpec) -> impl Model;

    /// Has it date its batches by this clock.
    fn goes_by(&self, _clock: &SimulatedClock) {}

    /// What clients did wrong.
    fn faults(&self) -> Vec<String>;

    /// The texts of requests that stand in two batches of which none was cancelled.
    fn submitted_twice(&self) -> Vec<String>;
}

/// Holds the System of one process: killing it kills everything in it.
struct Process;

impl Actor for Process {
    type Msg = ();
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

/// Three runs of two calls each over processes, of which the first dies at this commit. Returns how many commits that
/// process made, and what is wrong.
async fn killed_at(server: &impl Provider, fault: Option<Fault>) -> (u64, Vec<String>) {
    let memory = InMemoryStore::new();
    let clock = SimulatedClock::starting_at(BEGIN);
    server.goes_by(&clock);
    let _passing = Passing::of(&clock, MINUTE / 6);
    let (mut faults, mut commits) = (vec![fault], None);
    loop {
        let inner = memory.another_process();
        let store = match faults.pop().flatten() {
            Some(fault) => FaultyStore::at_commit(inner.clone(), fault),
            None => FaultyStore::new(inner.clone()),
        };
        let (process, _) = Actor::spawn(None, Process, ()).await.unwrap();
        let spec = quick();
        let work = async {
            let system = builder(store.clone(), &clock, server.model(spec));
            let system = system.start_linked(process.get_cell()).await.unwrap();
            let runs = ["ann", "bob", "cleo"].map(|key| send(&system, "twice", key));
            let mut wrong = Vec::new();
            for (run, key) in join_all(runs).await.iter().zip(["ann", "bob", "cleo"]) {
                let outcome = run.outcome().await.unwrap();
                let text = outcome.text();
                if text != format!("answer to again answer to from {key}") {
                    wrong.push(format!("{key} hears {text}"));
                }
            }
            wrong
        };
        let limit = Duration::from_secs(40);
        let ended = tokio::select! {
            biased;
            () = store.crashed() => None,
            done = tokio::time::timeout(limit, work) => Some(done),
        };
        commits.get_or_insert(store.calls());
        store.kill();
        process.kill();
        inner.crash();
        let Some(ended) = ended else { continue };
        let mut wrong = ended.unwrap_or_else(|_| vec!["the work hangs".to_owned()]);
        wrong.extend(server.faults());
        let twice = server.submitted_twice();
        wrong.extend(
            twice
                .iter()
                .map(|text| format!("{text:?} was submitted twice")),
        );
        return (commits.unwrap_or_default(), wrong);
    }
}

/// Kills the first process before and after each of its commits, in a world of its own each time.
pub(crate) async fn killed_at_any_commit<P: Provider>(start: impl AsyncFn() -> P) {
    let (commits, wrong) = killed_at(&start().await, None).await;
    assert_eq!(wrong, Vec::<String>::new());
    assert!(commits > 20, "{commits}");
    let strikes = [Strike::Before, Strike::After];
    let faults = (1..=commits).flat_map(|call| strikes.map(|strike| (call, strike)));
    let killed = faults.map(async |(call, strike)| {
        let harm = Harm::Crash;
        let fault = Fault { call, strike, harm };
        let (_, wrong) = killed_at(&start().await, Some(fault)).await;
        (call, strike, wrong)
    });
    let killed: Vec<_> = futures_util::stream::iter(killed)
        .buffer_unordered(24)
        .filter(|(.., wrong)| std::future::ready(!wrong.is_empty()))
        .collect()
        .await;
    assert!(killed.is_empty(), "{killed:#?}");
}

/// Answers the requests of one client: each with a status and a body, after a time.
pub(crate) async fn serve(
    socket: TcpStream,
    answer: impl Fn(&str, &[u8]) -> (u16, Vec<u8>, Duration),
) {
    let mut socket = BufReader::new(socket);
    while let Some((head, body)) = receive(&mut socket).await {
        let (status, answer, time) = answer(&head, &body);
        if !time.is_zero() {
            tokio::time::sleep(time).await;
        }
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        if socket.get_mut().write_all(head.as_bytes()).await.is_err()
            || socket.get_mut().write_all(&answer).await.is_err()
        {
            return;
        }
    }
}

async fn receive(socket: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if socket.read_line(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let length = header(&head, "content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    socket.read_exact(&mut body).await.ok()?;
    Some((head, body))
}

/// The value of a header.
pub(crate) fn header(head: &str, wanted: &str) -> Option<String> {
    head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case(wanted)
            .then(|| value.trim().to_owned())
    })
}
