//! `ghostlight eval`: a table, files for build servers, exit codes, and an evaluation that goes on.

use std::fs;

use serde_json::{Value, json};

use crate::own_command::Desk;

const SUITE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/evals/desk.yaml");
const SUMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/teams/sums.yaml");

fn desk() -> Desk {
    Desk::new("says", json!({}))
}

/// A suite of one sample over the team of sums, which answers 4.2 to "21".
fn suite(desk: &Desk, rest: &str) {
    let suite = format!(
        "evaluation: sums\nteam: {SUMS}\ndata:\n  - inline:\n      - {{ id: one, input: '21', expected: 4.2, tags: [smoke] }}\n{rest}"
    );
    fs::write(desk.path("suite.yaml"), suite).unwrap();
}

#[test]
fn the_shipped_evaluation_shows_a_table_and_is_not_paid_for_twice() {
    let desk = desk();
    let first = desk.shipped(&["eval", SUITE]).exits(0);
    assert!(first.out.starts_with("variant  success"), "{}", first.out);
    for wanted in [
        "base     83 %",
        "short against base:",
        "gate: passes",
        "(`ghostlight show ",
    ] {
        assert!(first.out.contains(wanted), "{wanted}: {}", first.out);
    }
    assert!(first.err.contains("24 cells"), "{}", first.err);
    assert_eq!(desk.shipped(&["eval", SUITE]).exits(0).out, first.out);
    let json: Value =
        serde_json::from_str(&desk.shipped(&["eval", SUITE, "--json"]).exits(0).out).unwrap();
    assert_eq!(json["cells"].as_array().unwrap().len(), 24);
    assert_eq!(json["variants"][0]["counts"]["scored"], 12);
}

#[test]
fn a_gate_that_does_not_pass_is_told_by_the_exit_code_and_to_build_servers() {
    let desk = desk();
    suite(
        &desk,
        "scorers: [{ answer: { as: exact, expected: 5 } }, { answer: { name: number, as: number } }]\ngate: { tags: { smoke: all } }\n",
    );
    fs::write(
        desk.path("suite.yaml"),
        fs::read_to_string(desk.path("suite.yaml"))
            .unwrap()
            .replace("expected: 4.2", "expected: 5"),
    )
    .unwrap();
    let arguments = [
        "eval",
        "suite.yaml",
        "--junit",
        "junit.xml",
        "--markdown",
        "report.md",
    ];
    let done = desk.shipped(&arguments).exits(1);
    assert!(
        done.out.contains("gate: does not pass: smoke: one in base"),
        "{}",
        done.out
    );
    let junit = fs::read_to_string(desk.path("junit.xml")).unwrap();
    assert!(
        junit.contains("<failure message=\"answer: the answer is not"),
        "{junit}"
    );
    let markdown = fs::read_to_string(desk.path("report.md")).unwrap();
    assert!(markdown.contains("| base | 0 % "), "{markdown}");
}

#[test]
fn a_dry_run_tries_nothing_and_faults_have_their_places() {
    let desk = desk();
    suite(&desk, "scorers: [{ answer: {} }]\nrepeat: 3\n");
    let told = desk.shipped(&["eval", "suite.yaml", "--dry-run"]).exits(0);
    assert!(told.err.contains("3 cells"), "{}", told.err);
    assert!(!desk.path("runs.db").exists());
    suite(&desk, "scorers: [{ answers: {} }]\n");
    let wrong = desk.shipped(&["eval", "suite.yaml"]).exits(2);
    assert!(
        wrong.err.contains("suite.yaml:6") && wrong.err.contains("answers"),
        "{}",
        wrong.err
    );
    suite(
        &desk,
        "scorers: [{ answer: {} }]\nvariants: { b: { agents: { nobody: {} } } }\n",
    );
    let wrong = desk.shipped(&["eval", "suite.yaml"]).exits(2);
    assert!(wrong.err.contains("\"nobody\""), "{}", wrong.err);
    fs::write(
        desk.path("cases.jsonl"),
        "{\"input\": \"21\", \"expected\": 4.2}\nno json\n",
    )
    .unwrap();
    suite(
        &desk,
        "  - file: cases.jsonl\nscorers: [{ answer: { as: number } }]\n",
    );
    let done = desk.shipped(&["eval", "suite.yaml"]).exits(0);
    assert!(done.err.contains("cases.jsonl:2"), "{}", done.err);
    let wrong = desk.shipped(&["eval", "suite.yaml", "--strict"]).exits(2);
    assert!(wrong.err.contains("cases.jsonl:2"), "{}", wrong.err);
}
