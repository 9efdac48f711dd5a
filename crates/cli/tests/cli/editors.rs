//! `ghostlight protocol acp` to editors: the official SDK of the Agent Client Protocol, and the linter `acplint`.
#![allow(clippy::print_stdout)]

use std::{collections::BTreeSet, ffi::OsString, process::Command};

use serde_json::{Value, json};

use crate::own_command::Desk;

/// The Python that has the kits; `None` if they are left out.
fn python() -> Option<OsString> {
    if std::env::var_os("GHOSTLIGHT_SKIP_SDKS").is_some_and(|skip| skip == "1") {
        println!("GHOSTLIGHT_SKIP_SDKS=1: the official clients were not tried");
        return None;
    }
    let python = std::env::var_os("GHOSTLIGHT_SDK_PYTHON");
    Some(python.expect(
        "GHOSTLIGHT_SDK_PYTHON names no Python with the packages agent-client-protocol and acplint: run ./test once, and \
         set it to target/sdks/bin/python, or set GHOSTLIGHT_SKIP_SDKS=1",
    ))
}

/// A team whose calculator needs approval.
fn desk() -> Desk {
    let desk = Desk::new("simple", json!({}));
    let team = "
models: { default: { provider: offline } }
agent: { name: clerk, tools: [calculator], approval: { calculator: { required: true } } }
";
    desk.write("team.yaml", team);
    desk
}

#[test]
fn an_editor_on_the_official_sdk_goes_on_with_a_session_whose_process_was_killed_while_it_asked() {
    let Some(python) = python() else { return };
    let desk = desk();
    let output = Command::new("timeout")
        .arg("120")
        .arg(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/editors.py"))
        .arg(env!("CARGO_BIN_EXE_ghostlight"))
        .args([desk.path("runs.db"), desk.path("team.yaml")])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    let runs = desk.rows();
    assert_eq!(runs.len(), 5, "no prompt became two runs: {runs:?}");
}

/// What `acplint` 0.1.0 finds wrong: it wants the protocol's version as a text, and the protocol's schema, which the SDK
/// above follows, has it as a number. Left out are the categories that need a prompt, which the linter sends in a field
/// that the schema does not have (`content` for `prompt`).
const MISTAKEN: [&str; 3] = [
    "initialize_v1",
    "protocol_version_returned",
    "schema_initialize",
];

#[test]
fn the_linter_finds_nothing_but_what_it_takes_for_another_protocol() {
    let Some(python) = python() else { return };
    let desk = desk();
    let report = desk.path("report.json");
    let agent = ["protocol", "acp", "team.yaml", "--store", "runs.db"].join(" ");
    let output = Command::new("timeout")
        .arg("120")
        .arg(python)
        .args([
            "-m",
            "acplint.cli",
            "--agent",
            env!("CARGO_BIN_EXE_ghostlight"),
        ])
        .args(["--agent-args", &agent, "--output", "json", "--output-file"])
        .arg(&report)
        .arg("--cwd")
        .arg(desk.path(""))
        .args([
            "--categories",
            "initialization",
            "authentication",
            "session_lifecycle",
        ])
        .args([
            "session_modes",
            "config_options",
            "cancel",
            "stress",
            "schema_validation",
        ])
        .output()
        .unwrap();
    let report = std::fs::read_to_string(&report)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let report: Value = serde_json::from_str(&report).unwrap();
    let results = report["results"].as_array().unwrap();
    let failed = results.iter().filter(|result| result["status"] != "PASS");
    let failed: BTreeSet<&str> = failed
        .map(|result| result["name"].as_str().unwrap())
        .collect();
    let mistaken: BTreeSet<&str> = MISTAKEN.into();
    assert_eq!(failed, mistaken, "{report:#}");
    assert!(results.len() > 15, "{report:#}");
}
