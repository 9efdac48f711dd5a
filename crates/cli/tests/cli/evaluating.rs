//! `ghostlight eval`: a table, files for build servers, exit codes, and an evaluation that goes on.

use std::fs;

use serde_json::{Value, json};

use crate::own_command::Desk;

const SUITE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../examples/evals/desk.yaml"
);
const SUMS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../examples/teams/sums.yaml"
);

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
        "judge helpful: 24 verdicts",
        "preferred: short against base: wins",
        "preferred: position bias +0.00",
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
    assert!(
        told.err.contains("1 sample, 3 times each, in 1 variant"),
        "{}",
        told.err
    );
    let sees = desk.shipped(&["eval", SUITE, "--dry-run"]).exits(0);
    assert!(sees.err.contains("below 57 points"), "{}", sees.err);
    let schema = desk.shipped(&["eval", "schema"]).exits(0);
    let schema: Value = serde_json::from_str(&schema.out).unwrap();
    assert_eq!(schema["title"], "A Ghostlight evaluation");
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

const JUDGED: &str = "
variants: { base: {}, other: { agent: { description: another } } }
scorers: [{ answer: { as: exact } }]
";

#[test]
fn recorded_cells_are_scored_anew_without_an_agent() {
    let desk = desk();
    suite(&desk, "scorers: [{ answer: { as: exact } }]\n");
    let nothing = desk.shipped(&["eval", "score", "suite.yaml"]).exits(2);
    assert!(nothing.err.contains("runs.db"), "{}", nothing.err);
    desk.shipped(&["eval", "suite.yaml"]).exits(0);
    let before = desk.shipped(&["runs"]).exits(0).out;
    suite(
        &desk,
        "scorers: [{ length: { most: 1 } }, { pattern: { matches: '^4' } }]\n",
    );
    let scored = desk
        .shipped(&["eval", "score", "suite.yaml", "--json"])
        .exits(0);
    let scored: Value = serde_json::from_str(&scored.out).unwrap();
    let scores = &scored["cells"][0]["scores"];
    assert_eq!(scores["pattern"]["value"], 1.0, "{scores}");
    assert!(
        scores["length"]["value"].as_f64().unwrap() < 1.0,
        "{scores}"
    );
    assert_eq!(
        desk.shipped(&["runs"]).exits(0).out,
        before,
        "nothing was run"
    );
    // Another question is not recorded, and nobody is asked.
    let text = fs::read_to_string(desk.path("suite.yaml")).unwrap();
    fs::write(desk.path("suite.yaml"), text.replace("'21'", "'22'")).unwrap();
    let told = desk.shipped(&["eval", "score", "suite.yaml"]).exits(0);
    assert!(told.out.contains("it is not recorded"), "{}", told.out);
    assert!(
        told.err.contains("nothing of this evaluation"),
        "{}",
        told.err
    );
    assert_eq!(desk.shipped(&["runs"]).exits(0).out, before);
}

#[test]
fn the_worst_cells_are_shown_first_with_the_command_that_shows_their_run() {
    let desk = desk();
    suite(
        &desk,
        "      - { id: two, input: '21', expected: 5 }\nscorers: [{ answer: { as: number } }]\n",
    );
    let report = desk.shipped(&["eval", "suite.yaml", "--json"]).exits(0).out;
    let shown = desk
        .shipped(&["eval", "show", "suite.yaml", "--limit", "1"])
        .exits(0);
    assert!(
        shown
            .out
            .starts_with("two in base, repeat 1: failed\n  answer 0.00: "),
        "{}",
        shown.out
    );
    assert!(shown.out.contains("and 1 more"), "{}", shown.out);
    let command = shown
        .out
        .lines()
        .find(|line| line.contains("`ghostlight show "));
    let run = command
        .unwrap()
        .trim()
        .trim_matches('`')
        .rsplit(' ')
        .next()
        .unwrap();
    let opened = desk.shipped(&["show", run]).exits(0);
    assert!(opened.out.contains("4.2"), "{}", opened.out);
    fs::write(desk.path("report.json"), report).unwrap();
    let of_report = desk
        .shipped(&["eval", "show", "report.json", "--limit", "1"])
        .exits(0);
    assert_eq!(of_report.out, shown.out);
}

#[test]
fn variants_and_reports_are_compared() {
    let desk = desk();
    suite(&desk, JUDGED);
    let report = desk.shipped(&["eval", "suite.yaml", "--json"]).exits(0).out;
    fs::write(desk.path("now.json"), &report).unwrap();
    let asked = ["eval", "compare", "base", "other", "--suite", "suite.yaml"];
    let compared = desk.shipped(&asked).exits(0);
    assert!(
        compared
            .out
            .starts_with("other against base: undecided by success"),
        "{}",
        compared.out
    );
    assert!(compared.out.contains("answer: "), "{}", compared.out);
    let wrong = desk
        .shipped(&["eval", "compare", "now.json", "now.json"])
        .exits(2);
    assert!(wrong.err.contains("now.json#other"), "{}", wrong.err);
    // The same report, but with a failure.
    let mut changed: Value = serde_json::from_str(&report).unwrap();
    let passes = changed["cells"][0]["scores"]["answer"]["passes"]
        .as_bool()
        .unwrap();
    changed["cells"][0]["scores"]["answer"]["passes"] = json!(!passes);
    fs::write(desk.path("then.json"), changed.to_string()).unwrap();
    let asked = [
        "eval",
        "compare",
        "then.json#base",
        "now.json#base",
        "--json",
    ];
    let compared: Value = serde_json::from_str(&desk.shipped(&asked).exits(0).out).unwrap();
    let flipped = if passes { "gained" } else { "lost" };
    assert_eq!(compared[flipped][0]["sample"], "one", "{compared}");
    let gate = [
        "eval",
        "compare",
        "then.json#base",
        "now.json#base",
        "--not-worse-by",
        "0.1",
    ];
    desk.shipped(&gate).exits(1);
    let wrong = ["eval", "compare", "base", "nobody", "--suite", "suite.yaml"];
    let wrong = desk.shipped(&wrong).exits(2);
    assert!(
        wrong.err.contains("there are: base, other"),
        "{}",
        wrong.err
    );
}

#[test]
fn forks_are_judged_as_cells_are() {
    let desk = desk();
    desk.shipped(&["eval", SUITE]).exits(0);
    let forked = desk.shipped(&["eval", "fork", SUITE, "--steps", "1"]);
    let told = forked.exits(0).out;
    for wanted in [
        "judge helpful: 24 verdicts",
        "preferred: short against base: wins",
    ] {
        assert!(told.contains(wanted), "{wanted}: {told}");
    }
}
