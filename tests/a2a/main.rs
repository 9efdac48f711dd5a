//! An agent elsewhere as a member of a team: from a team file, against our own server and against the official SDK
//! for Python, over kills of this process.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    missing_docs
)]

mod signed;

use std::{
    path::{Path, PathBuf},
    process::{Child, Command},
    time::Duration,
};

use ghostlight::{
    a2a::{ClientOptions, RemoteAgent},
    actor::{Run, SystemError, pinned_team},
    config,
    contract::{RunFilter, StoreHandle},
    prelude::*,
    run::Team,
    server::Server,
    vocabulary::RunId,
};
use serde_json::json;
use tokio::net::TcpListener;

/// The folder of a process that is to be killed.
const SUBJECT: &str = "GHOSTLIGHT_TEST_A2A_SUBJECT";

/// Does what it is told.
async fn obey(cx: RunContext) -> Result<Outcome, AgentError> {
    let told = cx.input().content();
    let (word, rest) = told.split_once(' ').unwrap_or((&told, ""));
    match word {
        "ask" => {
            let answer = cx.ask(rest).await?;
            return Ok(Outcome::answer(format!("answered {answer}")));
        }
        "hang" => cx.sleep(Duration::from_secs(36_000)).await?,
        "wait" => {
            cx.sleep(Duration::from_secs_f64(rest.parse().unwrap()))
                .await?
        }
        "fail" => return Err(AgentError::failed(rest)),
        _ => {}
    }
    Ok(Outcome::answer(format!("did {told}")))
}

/// Our own server, with an agent that does what it is told.
struct Elsewhere {
    system: System,
    at: String,
}

impl Elsewhere {
    async fn start() -> Self {
        Self::serve(|server| server).await
    }

    async fn serve(set_up: impl FnOnce(Server) -> Server) -> Self {
        let team = Agent::from_fn("obedient", obey).into_team().unwrap();
        let system = System::builder(InMemoryStore::new())
            .team(team)
            .start()
            .await
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let at = format!("{address}/a2a/obedient");
        let server = set_up(Server::new(system.clone()).address(address));
        tokio::spawn(server.serve(listener, std::future::pending::<()>()));
        Self { system, at }
    }

    /// How often it was told something, and how the last of it stands.
    async fn runs(&self) -> Vec<ghostlight::contract::RunStatus> {
        let mut filter = RunFilter::default();
        filter.roots = true;
        let rows = self.system.store().runs(filter).await.unwrap();
        rows.iter().map(|row| row.status).collect()
    }
}

/// A team file whose one agent is elsewhere.
fn team(at: &str, more: &str) -> Team {
    let text = format!(
        "
agent:
  name: far
  description: works elsewhere
  remote:
    url: {at}
    headers: {{ x-token: 'Bearer ${{CARGO_PKG_NAME}}' }}
    {more}
"
    );
    let file = config::parse(text, "team.yaml").unwrap_or_else(|error| panic!("{error}"));
    Team::new(file.into_spec())
}

async fn system(team: Team) -> System {
    let system = System::builder(InMemoryStore::new()).registry(ghostlight::builtin());
    system.team(team).start().await.unwrap()
}

async fn say(system: &System, text: &str) -> Run {
    system.session("far", "s").send(text).await.unwrap()
}

fn failure(outcome: Result<Outcome, SystemError>) -> String {
    match outcome {
        Err(SystemError::Failed { error, .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Waits for what must come.
async fn until(is_so: impl AsyncFn() -> bool) {
    for _ in 0..600 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it did not come in 30 seconds");
}

async fn answered(run: &Run, answer: &str) -> String {
    until(|| async { !run.questions().await.unwrap().is_empty() }).await;
    let (_, operation, question) = run.questions().await.unwrap().pop().unwrap();
    run.answer(operation, json!(answer)).await.unwrap();
    question.prompt
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_answers_asks_and_fails_as_its_agent_elsewhere_does() {
    for binding in ["", "binding: HTTP+JSON", "binding: GRPC"] {
        let elsewhere = Elsewhere::start().await;
        let system = system(team(&elsewhere.at, binding)).await;
        let run = say(&system, "one").await;
        assert_eq!(run.outcome().await.unwrap().text(), "did one", "{binding}");
        let run = say(&system, "ask which colour?").await;
        assert_eq!(answered(&run, "red").await, "which colour?");
        assert_eq!(run.outcome().await.unwrap().text(), "answered \"red\"");
        let run = say(&system, "fail no paper").await;
        let told = failure(run.outcome().await);
        assert!(
            told.contains("far (elsewhere) failed") && told.contains("no paper"),
            "{told}"
        );
        // The turns of a session are one conversation there, too.
        let sessions = elsewhere
            .system
            .sessions()
            .list(Default::default())
            .await
            .unwrap()
            .sessions;
        let turns: Vec<u64> = sessions.iter().map(|session| session.turns).collect();
        assert_eq!(turns, [3]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_that_a_member_names_goes_with_its_task() {
    let elsewhere = Elsewhere::start().await;
    let far = RemoteAgent::new("far", ClientOptions::new(&elsewhere.at));
    let far = far.state(["customer", "nothing"]).into_agent().unwrap();
    let desk = Agent::from_fn("desk", |cx: RunContext| async move {
        cx.memory()
            .set("customer", &json!({ "number": 4711 }))
            .await?;
        cx.memory().set("private", &"kept here").await?;
        let done = cx.delegate("far", "look").await?;
        Ok(Outcome::answer(done.text))
    });
    let system = system(desk.agent(far).into_team().unwrap()).await;
    let run = system.session("desk", "s").send("go").await.unwrap();
    let text = run.outcome().await.unwrap().text().to_owned();
    assert!(text.starts_with("did look"), "{text}");
    assert!(
        text.contains(r#"{"state":{"customer":{"number":4711}}}"#),
        "{text}"
    );
    let spec = team(&elsewhere.at, "state: [customer]").spec;
    assert_eq!(
        spec.agent.behavior.settings,
        json!({ "state": ["customer"] })
    );
    spec.check().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_elsewhere_that_repeats_our_key_is_not_heard_with_it() {
    for binding in ["", "binding: HTTP+JSON", "binding: GRPC"] {
        let elsewhere = Elsewhere::start().await;
        let system = system(team(&elsewhere.at, binding)).await;
        // The header of the team is `Bearer ghostlight`.
        let run = say(&system, "fail no such key: ghostlight").await;
        let told = failure(run.outcome().await);
        assert!(
            told.contains("no such key: [redacted]") && !told.contains("ghostlight"),
            "{told}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_agent_elsewhere_says_reaches_those_who_come_after_it() {
    let elsewhere = Elsewhere::start().await;
    let settings = ghostlight::a2a::ClientOptions::new(&elsewhere.at);
    let far = ghostlight::a2a::RemoteAgent::new("far", settings).description("works elsewhere");
    let desk = Agent::from_fn("desk", |cx: RunContext| async move {
        let first = cx.delegate("far", "one").await?;
        let second = cx
            .delegate("far", format!("two after {}", first.text))
            .await?;
        Ok(Outcome::answer(second.text))
    });
    let team = desk.agent(far.into_agent().unwrap()).into_team().unwrap();
    let system = System::builder(InMemoryStore::new())
        .team(team)
        .start()
        .await
        .unwrap();
    let answer = system.session("desk", "s").ask("Go.").await.unwrap();
    assert_eq!(answer.text, "did two after did one");
    // Tasks that are delegated are conversations of their own.
    let sessions = elsewhere
        .system
        .sessions()
        .list(Default::default())
        .await
        .unwrap()
        .sessions;
    assert_eq!(sessions.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_and_time_limits_reach_the_agent_elsewhere() {
    let elsewhere = Elsewhere::start().await;
    let system = system(team(&elsewhere.at, "task_timeout_s: 600")).await;
    let run = say(&system, "hang").await;
    until(|| async { !elsewhere.runs().await.is_empty() }).await;
    // It waits for the task, whose id it has.
    tokio::time::sleep(Duration::from_millis(500)).await;
    run.cancel("enough").await.unwrap();
    run.quiet().await.unwrap();
    until(|| async { elsewhere.runs().await[0].is_ended() }).await;

    let hasty = self::system(team(&elsewhere.at, "task_timeout_s: 0.5")).await;
    let told = failure(say(&hasty, "hang").await.outcome().await);
    assert!(told.contains("took longer than 500ms"), "{told}");
    let ended = || async {
        let runs = elsewhere.runs().await;
        runs.len() == 2 && runs.iter().all(|status| status.is_ended())
    };
    until(ended).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_not_there_or_is_none_fails_the_member_and_says_why() {
    let elsewhere = Elsewhere::start().await;
    let origin = elsewhere.at.rsplit_once("/a2a").unwrap().0.to_owned();
    for (at, why) in [
        ("http://127.0.0.1:1/".to_owned(), "not reached"),
        (format!("{origin}/a2a/nobody"), "404"),
        (format!("{origin}/health"), "404"),
    ] {
        let system = system(team(&at, "")).await;
        let told = failure(say(&system, "one").await.outcome().await);
        assert!(told.contains(why), "{told}");
    }
    for (text, why) in [
        ("agent: { name: far, remote: {} }", "url"),
        (
            "agent: { name: far, remote: { url: 'ftp://x' } }",
            "address",
        ),
        (
            "agent: { name: far, remote: { url: 'http://x' }, tools: [calculator] }",
            "tools",
        ),
        (
            "agent: { name: far, remote: { url: 'http://x', headers: { authorization: abc } } }",
            "secret",
        ),
    ] {
        let told = match config::parse(text, "team.yaml") {
            Err(error) => error.to_string(),
            Ok(file) => {
                let system = System::builder(InMemoryStore::new()).registry(ghostlight::builtin());
                system
                    .team(Team::new(file.into_spec()))
                    .start()
                    .await
                    .unwrap_err()
                    .to_string()
            }
        };
        assert!(told.contains(why), "{text}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_an_agent_elsewhere_that_repeats_our_key_is_told_without_it() {
    let elsewhere = Elsewhere::start().await;
    let system = system(team(&elsewhere.at, "")).await;
    let key = env!("CARGO_PKG_NAME");
    let run = say(&system, &format!("fail no access for {key} here")).await;
    let told = failure(run.outcome().await);
    assert!(told.contains("no access for"), "{told}");
    assert!(!told.contains(key), "{told}");
    system.stop().await.unwrap();
}

/// An agent on the official SDK for Python.
struct Peer {
    child: Child,
    at: String,
    grpc: String,
    log: PathBuf,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Peer {
    async fn start(binding: &str, folder: &Path) -> Option<Self> {
        Self::start_with(binding, folder, &[]).await
    }

    /// With the file of a private key that signs its card, the algorithm, and the key's id.
    async fn start_with(binding: &str, folder: &Path, key: &[&str]) -> Option<Self> {
        if std::env::var_os("GHOSTLIGHT_SKIP_SDKS").is_some_and(|skip| skip == "1") {
            println!("GHOSTLIGHT_SKIP_SDKS=1: the official SDK of A2A was not tried");
            return None;
        }
        let python = std::env::var_os("GHOSTLIGHT_SDK_PYTHON").expect(
            "GHOSTLIGHT_SDK_PYTHON names no Python with the package a2a-sdk: run ./test once, and set it to \
             target/sdks/bin/python, or set GHOSTLIGHT_SKIP_SDKS=1",
        );
        let [port, grpc] = [Self::port().await, Self::port().await];
        let log = folder.join("peer.log");
        let child = Command::new(python)
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/a2a/peer.py"))
            .arg(port.to_string())
            .arg(&log)
            .arg(binding)
            .arg(grpc.to_string())
            .args(key)
            .spawn()
            .unwrap();
        until(|| async {
            tokio::net::TcpStream::connect(("127.0.0.1", port))
                .await
                .is_ok()
        })
        .await;
        let [at, grpc] = [port, grpc].map(|port| format!("http://127.0.0.1:{port}"));
        Some(Self {
            child,
            at,
            grpc,
            log,
        })
    }

    async fn port() -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().port()
    }

    fn log(&self) -> Vec<String> {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_on_the_official_sdk_is_a_member_in_every_binding() {
    for binding in ["JSONRPC", "HTTP+JSON", "GRPC"] {
        let folder = tempfile::tempdir().unwrap();
        let Some(peer) = Peer::start(binding, folder.path()).await else {
            return;
        };
        // The card of an agent that speaks gRPC is at another address than the agent.
        let card = format!("card: {}/.well-known/agent-card.json", peer.at);
        let team = match binding {
            "GRPC" => team(&peer.grpc, &card),
            _ => team(&peer.at, ""),
        };
        let system = system(team).await;
        let run = say(&system, "one").await;
        let told = run.outcome().await.unwrap().text().to_owned();
        let context = told.strip_prefix("peer did one in ").unwrap().to_owned();
        let run = say(&system, "wait 0.3").await;
        let told = run.outcome().await.unwrap().text().to_owned();
        assert_eq!(
            told,
            format!("peer did wait 0.3 in {context}"),
            "one conversation"
        );
        let run = say(&system, "ask which?").await;
        assert_eq!(answered(&run, "red").await, "which?");
        assert_eq!(run.outcome().await.unwrap().text(), "you said red");
        let told = failure(say(&system, "fail no paper").await.outcome().await);
        assert!(told.contains("no paper"), "{told}");
        let run = say(&system, "wait 600").await;
        until(|| async { peer.log().iter().any(|line| line == "heard wait 600") }).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        run.cancel("enough").await.unwrap();
        run.quiet().await.unwrap();
        until(|| async { peer.log().iter().any(|line| line == "cancelled") }).await;
        // The journal has the place of the secret, and not the secret.
        let entries = system.store().read(run.id().into(), 0, 100).await.unwrap();
        assert!(!format!("{entries:?}").contains("Bearer ghostlight"));
        let spec = pinned_team(system.store(), run.id()).await.unwrap();
        let spec = serde_json::to_string(&spec).unwrap();
        assert!(
            spec.contains("Bearer ${CARGO_PKG_NAME}") && !spec.contains("Bearer ghostlight"),
            "{spec}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn subject_of_the_kill() {
    let Some(folder) = std::env::var_os(SUBJECT) else {
        return;
    };
    let folder = PathBuf::from(folder);
    let at = std::fs::read_to_string(folder.join("at")).unwrap();
    let system = System::open(folder.join("store.db"))
        .unwrap()
        .team(team(&at, ""));
    let system = system.start().await.unwrap();
    let run = say(&system, "wait 4").await;
    run.outcome().await.unwrap();
}

/// Kills a process whose run waits for its agent elsewhere, and goes on with the run here.
async fn killed_while_it_waits(
    at: &str,
    folder: &Path,
    was_told: impl AsyncFn() -> bool,
) -> String {
    std::fs::write(folder.join("at"), at).unwrap();
    let mut subject = Command::new(std::env::current_exe().unwrap())
        .args(["subject_of_the_kill", "--exact", "--nocapture"])
        .env(SUBJECT, folder)
        .spawn()
        .unwrap();
    until(&was_told).await;
    // What it was answered is recorded by then.
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    subject.kill().unwrap();
    subject.wait().unwrap();
    let store = StoreHandle::new(SqliteStore::open(folder.join("store.db")).unwrap());
    let mut open = RunFilter::default();
    open.open = true;
    let run: RunId = store.runs(open).await.unwrap()[0].run;
    // As `ghostlight resume` does: without the file, from what the run keeps of its team.
    let spec = pinned_team(&store, run).await.unwrap();
    store.close().await.unwrap();
    let system = System::open(folder.join("store.db"))
        .unwrap()
        .team(Team::new(spec));
    let system = system.start().await.unwrap();
    let text = system.run(run).outcome().await.unwrap().text().to_owned();
    system.stop().await.unwrap();
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_killed_waits_for_the_task_that_it_had_begun() {
    let elsewhere = Elsewhere::start().await;
    let folder = tempfile::tempdir().unwrap();
    let was_told = async || !elsewhere.runs().await.is_empty();
    let text = killed_while_it_waits(&elsewhere.at, folder.path(), was_told).await;
    assert_eq!(text, "did wait 4");
    assert_eq!(elsewhere.runs().await.len(), 1, "it was told once");

    let folder = tempfile::tempdir().unwrap();
    let Some(peer) = Peer::start("JSONRPC", folder.path()).await else {
        return;
    };
    let was_told = async || !peer.log().is_empty();
    let text = killed_while_it_waits(&peer.at, folder.path(), was_told).await;
    assert!(text.starts_with("peer did wait 4 in "), "{text}");
    assert_eq!(peer.log(), ["heard wait 4"], "it was told once");
}
