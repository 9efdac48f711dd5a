//! The official Python clients of OpenAI and Anthropic, as they are published.

use std::process::Command;

use ghostlight_server::Scope;

use crate::desk::Desk;

#[tokio::test(flavor = "multi_thread")]
async fn the_official_clients_of_openai_and_anthropic_get_what_they_expect() {
    if std::env::var_os("GHOSTLIGHT_SKIP_SDKS").is_some_and(|skip| skip == "1") {
        println!("GHOSTLIGHT_SKIP_SDKS=1: the official clients were not tried");
        return;
    }
    let python = std::env::var_os("GHOSTLIGHT_SDK_PYTHON").expect(
        "GHOSTLIGHT_SDK_PYTHON names no Python with the packages openai and anthropic: run ./test once, and set it to \
         target/sdks/bin/python, or set GHOSTLIGHT_SKIP_SDKS=1",
    );
    let desk = Desk::locked().await;
    let ada = desk.client_of("ada", &[Scope::Read, Scope::Run]);
    let at = format!("http://{}", desk.client.to);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/server/sdks.py");
    let mut command = Command::new(python);
    command.args([script, &at, ada.key.as_ref().unwrap()]);
    let told = tokio::task::spawn_blocking(move || command.output().unwrap());
    let told = told.await.unwrap();
    assert!(
        told.status.success(),
        "{}",
        String::from_utf8_lossy(&told.stderr)
    );
}
