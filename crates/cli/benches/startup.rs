//! From the start of the process `ghostlight run` until the first byte of its first model request
//! reaches a listener on this machine: with one agent and with the help desk of the examples, with
//! a new store, with one that is there, and in memory. The floor is a process that does nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

#[path = "../../../benches/shared/mod.rs"]
mod shared;

use std::{
    io::Read,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use shared::Quartiles;

const ROUNDS: usize = 25;
const ONE_AGENT: &str = "name: one\nagent:\n  name: desk\n  instructions: Answer briefly.\n";

/// Where a round keeps its runs; `None` is in memory.
type StoreOf<'a> = &'a dyn Fn(usize) -> Option<PathBuf>;

/// Milliseconds until a process that does nothing has ended.
fn floor() -> f64 {
    let began = Instant::now();
    let mut process = Command::new("true");
    assert!(process.stdin(Stdio::null()).status().unwrap().success());
    began.elapsed().as_secs_f64() * 1e3
}

/// Milliseconds until the command asks its model.
fn ours(listener: &TcpListener, team: &Path, store: Option<&Path>) -> f64 {
    let address = listener.local_addr().unwrap();
    let began = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ghostlight"));
    command.arg("run").arg(team).arg("What is a run?");
    match store {
        Some(file) => command.arg("--store").arg(file),
        None => command.arg("--memory"),
    };
    let mut process = command
        .env("OPENAI_BASE_URL", format!("http://{address}/v1"))
        .env("OPENAI_API_KEY", "none")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (mut connection, _) = listener.accept().unwrap();
    connection.read_exact(&mut [0]).unwrap();
    let took = began.elapsed().as_secs_f64() * 1e3;
    process.kill().unwrap();
    process.wait().unwrap();
    took
}

fn figure(listener: &TcpListener, what: &str, team: &Path, store: StoreOf<'_>) {
    let (mut floors, mut starts) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let (floor, start) = (floor(), ours(listener, team, store(round).as_deref()));
        // The first one reads the program from the disk.
        if round > 0 {
            floors.push(floor);
            starts.push(start);
        }
    }
    let best = starts.iter().copied().fold(f64::INFINITY, f64::min);
    println!(
        "startup, {what}: a process that does nothing {} ms, start to the first request {} ms, \
         best {best:.1}",
        Quartiles::of(floors),
        Quartiles::of(starts)
    );
}

fn main() {
    let folder = std::env::temp_dir().join(format!("ghostlight-startup-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let one = folder.join("one.yaml");
    std::fs::write(&one, ONE_AGENT).unwrap();
    let helpdesk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/teams/helpdesk.yaml");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let kept = |_| Some(folder.join("kept.db"));
    let fresh = |round| Some(folder.join(format!("fresh-{round}.db")));
    figure(&listener, "one agent, in memory", &one, &|_| None);
    figure(&listener, "one agent, a store that is there", &one, &kept);
    figure(&listener, "one agent, a new store", &one, &fresh);
    figure(
        &listener,
        "the help desk, a store that is there",
        &helpdesk,
        &kept,
    );
    // The folder is the bench's own.
    std::fs::remove_dir_all(folder).unwrap();
}
