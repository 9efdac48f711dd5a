//! The official conformance kit against our client and our server, in both revisions of the protocol. `./test`
//! installs it and says where it is.
//!
//! `expected_failures_*.yaml` beside this file name the scenarios that are not passed, with the reason of each: one that
//! fails and is not named there, and one that is named and passes, fails these tests.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs
)]

mod client;
mod extensions;
mod server;

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Makes a process the client that a scenario is played with.
const CLIENT: &str = "GHOSTLIGHT_TEST_MCP_CONFORMANCE_CLIENT";

/// Is the client of a scenario, where the environment says so: the kit starts it.
#[test]
fn conformance_client() {
    if std::env::var_os(CLIENT).is_some() {
        client::run();
    }
}

/// The kit; `None` where it is to be left out.
fn kit() -> Option<PathBuf> {
    if std::env::var_os("GHOSTLIGHT_SKIP_MCP_PEERS").is_some_and(|skip| skip == "1") {
        println!("left out: GHOSTLIGHT_SKIP_MCP_PEERS=1");
        return None;
    }
    let folder = std::env::var_os("GHOSTLIGHT_MCP_PEERS").expect(
        "GHOSTLIGHT_MCP_PEERS names the folder into which ./test installs the conformance kit; \
         GHOSTLIGHT_SKIP_MCP_PEERS=1 leaves these tests out",
    );
    Some(Path::new(&folder).join("conformance"))
}

/// Plays all scenarios of a revision, and says how many of them it required.
fn play(kit: &Path, side: &str, revision: &str, arguments: &[&str]) {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance");
    let results = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!(
        "mcp-conformance-{}-{side}-{revision}",
        std::process::id()
    ));
    let _ = std::fs::remove_dir_all(&results);
    let mut command = Command::new(kit);
    command
        .args([side, "--requirements", revision, "--expected-failures"])
        .arg(home.join(format!("expected_failures_{revision}.yaml")))
        .arg("--output-dir")
        .arg(&results)
        .args(arguments)
        .env(CLIENT, "1")
        .stdin(Stdio::null());
    let played = command.output().unwrap();
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&played.stdout),
        String::from_utf8_lossy(&played.stderr)
    );
    let summary = said
        .rfind("SUMMARY")
        .map_or(said.as_str(), |at| &said[at..]);
    println!("{side} {revision}: {summary}");
    assert!(played.status.success(), "{side} {revision}: {said}");
    let _ = std::fs::remove_dir_all(&results);
}

/// The client as the kit starts it: it adds the address of its server.
fn client_command() -> String {
    let program = std::env::current_exe().unwrap();
    format!(
        "{} conformance_client --exact --nocapture",
        program.display()
    )
}

#[test]
fn the_client_keeps_to_the_newest_revision() {
    let Some(kit) = kit() else { return };
    play(
        &kit,
        "client",
        "2026-07-28",
        &["--command", &client_command()],
    );
}

#[test]
fn the_client_keeps_to_the_revision_before() {
    let Some(kit) = kit() else { return };
    play(
        &kit,
        "client",
        "2025-11-25",
        &["--command", &client_command()],
    );
}

#[tokio::test]
async fn the_server_keeps_to_both_revisions() {
    let Some(kit) = kit() else { return };
    let url = server::start().await;
    let play = |revision: &'static str| {
        let (kit, url) = (kit.clone(), url.clone());
        tokio::task::spawn_blocking(move || play(&kit, "server", revision, &["--url", &url]))
    };
    let (newest, before) = tokio::join!(play("2026-07-28"), play("2025-11-25"));
    newest.unwrap();
    before.unwrap();
}

#[tokio::test]
async fn the_extensions_that_the_kit_does_not_count_end_as_the_repository_says() {
    let Some(kit) = kit() else { return };
    let (url, command) = (extensions::start().await, client_command());
    extensions::play(&kit, "server", &extensions::SERVER, &["--url", &url]).await;
    extensions::play(
        &kit,
        "client",
        &extensions::CLIENT,
        &["--command", &command],
    )
    .await;
}
