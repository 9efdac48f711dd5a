//! The official Python client of A2A, and the contracts of a2a-proof, as they are published.

use std::{
    path::Path,
    process::{Command, Output},
};

use ghostlight_actors::actor::SystemOptions;
use ghostlight_server::Scope;

use crate::{deliveries::deliveries, desk::Desk};

/// The Python that has them; `None` where they are left out.
#[allow(clippy::print_stdout)]
fn python() -> Option<std::ffi::OsString> {
    if std::env::var_os("GHOSTLIGHT_SKIP_SDKS").is_some_and(|skip| skip == "1") {
        println!("GHOSTLIGHT_SKIP_SDKS=1: the official clients were not tried");
        return None;
    }
    let python = std::env::var_os("GHOSTLIGHT_SDK_PYTHON");
    Some(python.expect(
        "GHOSTLIGHT_SDK_PYTHON names no Python with the packages a2a-sdk and a2a-proof: run ./test once, and set it to \
         target/sdks/bin/python, or set GHOSTLIGHT_SKIP_SDKS=1",
    ))
}

async fn told(mut command: Command) -> Output {
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = output.await.unwrap();
    let text = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{}\n{}", text[0], text[1]);
    output
}

/// Whether a script beside this file was run, with these arguments; it must succeed.
pub(crate) async fn told_by(script: &str, arguments: &[&str]) -> bool {
    let Some(python) = python() else { return false };
    let mut command = Command::new(python);
    command.arg(beside(script)).args(arguments);
    told(command).await;
    true
}

fn beside(name: &str) -> String {
    format!("{}/tests/server/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_official_client_of_a2a_gets_what_it_expects_in_every_binding() {
    let Some(python) = python() else { return };
    let desk = Desk::start(SystemOptions::default(), |server, keys| {
        let server = server.keys(keys.clone());
        server.deliveries(deliveries(&["127.0.0.1"]))
    })
    .await;
    let ada = desk.client_of("ada", &[Scope::Read, Scope::Run]);
    let mut command = Command::new(python);
    command.args([
        beside("a2a_client.py"),
        format!("http://{}", desk.client.to),
    ]);
    command.arg(ada.key.as_ref().unwrap());
    told(command).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_contract_of_a2a_proof_holds_in_every_binding() {
    let Some(python) = python() else { return };
    let desk = Desk::locked().await;
    let ada = desk.client_of("ada", &[Scope::Read, Scope::Run]);
    let program = Path::new(&python).with_file_name("a2a-proof");
    for binding in ["JSONRPC", "HTTP+JSON", "GRPC"] {
        let mut command = Command::new(&program);
        command
            .args([
                "run",
                "--format",
                "json",
                "--verbose",
                "--transport",
                binding,
            ])
            .arg(beside("a2a_proof.yaml"))
            .env("A2A_URL", format!("http://{}/a2a/desk", desk.client.to))
            .env("A2A_KEY", ada.key.as_ref().unwrap());
        told(command).await;
    }
}
