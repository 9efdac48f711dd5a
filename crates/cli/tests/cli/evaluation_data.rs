//! `ghostlight eval export` and `eval add`, the HTML report, and recorded runs as samples.

use std::{fs, process::Command};

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

/// A team of one agent, which the built-in offline model answers for.
const PLAIN: &str = "name: plain\nagent: { name: desk }\n";

fn desk() -> Desk {
    Desk::new("says", json!({}))
}

fn rows(text: &str) -> Vec<Value> {
    let rows = text.lines().map(|line| serde_json::from_str(line).unwrap());
    rows.collect()
}

#[test]
fn what_an_evaluation_recorded_is_exported_for_trainers() {
    let desk = desk();
    desk.shipped(&["eval", SUITE, "--only", "percent"]).exits(0);
    let done = desk
        .shipped(&[
            "eval", "export", SUITE, "--as", "openai", "--only", "percent",
        ])
        .exits(0);
    let chats = rows(&done.out);
    assert_eq!(chats.len(), 4, "{}", done.err);
    assert_eq!(chats[0]["messages"][1]["content"], "What is 17% of 2340?");
    assert!(done.err.contains("4 rows"), "{}", done.err);
    let arguments = [
        "eval",
        "export",
        SUITE,
        "--as",
        "atif",
        "--to",
        "atif.jsonl",
    ];
    desk.shipped(&arguments).exits(0);
    let documents = rows(&fs::read_to_string(desk.path("atif.jsonl")).unwrap());
    assert_eq!(documents.len(), 4);
    assert!(!desk.path("atif.jsonl.part").exists());
    // The clerk's run is embedded, and its caller refers to it.
    let below = &documents[0]["subagent_trajectories"][0];
    assert_eq!(below["agent"]["name"], "clerk");
    let results = documents[0]["steps"][2]["observation"]["results"][0].clone();
    assert_eq!(
        results["subagent_trajectory_ref"][0]["trajectory_id"],
        below["trajectory_id"]
    );
    assert_eq!(results["content"], "17% of 2340 = 397.8");
    let by_id = documents[0]["trajectory_id"].as_str().unwrap();
    let arguments = ["eval", "export", "--as", "trl-sft", "--runs", &by_id[..8]];
    let row = &rows(&desk.shipped(&arguments).exits(0).out)[0];
    assert_eq!(row["completion"][0]["role"], "assistant");
    // Verdicts of the evaluation's judge have runs of their own, which are no examples.
    let all = ["eval", "export", "--as", "trl-sft", "--runs"];
    assert_eq!(rows(&desk.shipped(&all).exits(0).out).len(), 4);
    let of_team = [
        "eval",
        "export",
        "--as",
        "trl-sft",
        "--team",
        "helpdesk-base",
        "--runs",
    ];
    assert_eq!(rows(&desk.shipped(&of_team).exits(0).out).len(), 2);
    let wrong = desk
        .shipped(&["eval", "export", "--as", "trl-dpo", "--runs"])
        .exits(2);
    assert!(wrong.err.contains("repeats of one sample"), "{}", wrong.err);
    desk.shipped(&["eval", "export", SUITE, "--as", "parquet"])
        .exits(2);
}

#[test]
fn interchange_documents_are_those_that_the_formats_package_takes() {
    let Some(python) = std::env::var_os("GHOSTLIGHT_BENCHMARKS") else {
        println!("left out: GHOSTLIGHT_BENCHMARKS names no Python with `atif`, as ./test does");
        return;
    };
    let desk = desk();
    desk.shipped(&["eval", SUITE]).exits(0);
    let export = ["eval", "export", SUITE, "--as", "atif", "--to"];
    desk.shipped(&[&export[..], &["atif.jsonl"]].concat())
        .exits(0);
    // Its models take no key that the format does not have, and no reference to a document that is not there.
    let read = "import atif, sys\nfor line in open(sys.argv[1]): print(atif.Trajectory.model_validate_json(line).schema_version)";
    let checked = Command::new(python)
        .args(["-c", read])
        .arg(desk.path("atif.jsonl"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{said}");
    let versions = String::from_utf8(checked.stdout).unwrap();
    assert_eq!(versions.lines().collect::<Vec<_>>(), ["ATIF-v1.8"; 24]);
}

#[test]
fn secrets_stay_where_they_are_unless_they_are_asked_for() {
    let desk = desk();
    let key = "sk-proj-Zx81kLm02QpWvY74RtNa55HcUe";
    let asked = format!("What is 2 + 2? The key is {key}");
    desk.write("plain.yaml", PLAIN);
    desk.shipped(&["run", "plain.yaml", &asked]);
    let export = ["eval", "export", "--as", "trl-sft", "--all", "--runs"];
    let refused = desk.shipped(&export).exits(2);
    assert!(refused.out.is_empty(), "{}", refused.out);
    assert!(refused.err.contains("--redact"), "{}", refused.err);
    let shown = desk.shipped(&[&["eval", "export", "--redact"], &export[2..]].concat());
    let shown = shown.exits(0);
    assert!(
        !shown.out.contains(key) && shown.out.contains("redacted"),
        "{}",
        shown.out
    );
    let whole = desk.shipped(&[&["eval", "export", "--with-secrets"], &export[2..]].concat());
    assert!(whole.exits(0).out.contains(key));
}

#[test]
fn a_recorded_run_becomes_a_sample_once() {
    let desk = desk();
    desk.shipped(&["run", SUMS, "21"]).exits(0);
    let listed = desk.shipped(&["runs", "--all", "--json"]).exits(0);
    let run = rows(&listed.out)[0]["run"].as_str().unwrap().to_owned();
    fs::write(
        desk.path("cases.jsonl"),
        "{\"id\": \"first\", \"input\": \"1\"}",
    )
    .unwrap();
    let add = [
        "eval",
        "add",
        &run[..8],
        "--to",
        "cases.jsonl",
        "--expected",
        "--tag",
        "smoke",
    ];
    desk.shipped(&add).exits(0);
    let samples = rows(&fs::read_to_string(desk.path("cases.jsonl")).unwrap());
    assert_eq!(samples.len(), 2);
    assert_eq!(samples[1]["input"], "21");
    assert_eq!(samples[1]["tags"], json!(["smoke"]));
    assert_eq!(samples[1]["metadata"]["run"], run);
    let again = desk.shipped(&add).exits(2);
    assert!(again.err.contains("--id"), "{}", again.err);

    let suite = format!(
        "evaluation: again\nteam: {SUMS}\ndata:\n  - runs: {{ expected: true, limit: 5 }}\nscorers: [{{ answer: {{}} }}]\n"
    );
    fs::write(desk.path("suite.yaml"), suite).unwrap();
    let done = desk
        .shipped(&["eval", "suite.yaml", "--html", "report.html", "--json"])
        .exits(0);
    let report: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(
        report["variants"][0]["success"]["estimate"], 1.0,
        "{report}"
    );
    // Its own cells are no samples of it.
    let again = desk.shipped(&["eval", "suite.yaml"]).exits(0);
    assert!(again.err.contains("1 cell,"), "{}", again.err);
    let page = fs::read_to_string(desk.path("report.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("Evaluation again"));
    let named = format!(
        "evaluation: named\nteam: {SUMS}\ndata:\n  - runs: {{ ids: [{}, zzz] }}\nscorers: [{{ length: {{ most: 9 }} }}]\n",
        &run[..8]
    );
    fs::write(desk.path("suite.yaml"), named).unwrap();
    let told = desk.shipped(&["eval", "suite.yaml", "--dry-run"]).exits(0);
    assert!(told.err.contains("left out: run zzz"), "{}", told.err);
    assert!(told.err.contains("1 cell,"), "{}", told.err);
}

#[test]
fn a_sample_may_offer_tools_of_its_own() {
    let desk = desk();
    let question = json!({
        "id": "simple_python_0", "question": [[{ "role": "user", "content": "What is 2 + 2?" }]],
        "function": [{ "name": "math.add", "description": "Adds two numbers.", "parameters": {
            "type": "dict", "properties": { "a": { "type": "integer" } }, "required": [],
        }}],
    });
    fs::create_dir(desk.path("possible_answer")).unwrap();
    fs::write(desk.path("BFCL.json"), format!("{question}\n")).unwrap();
    fs::write(
        desk.path("possible_answer/BFCL.json"),
        "{\"id\": \"simple_python_0\", \"ground_truth\": [{\"math.add\": {\"a\": [2, \"\"]}}]}\n",
    )
    .unwrap();
    desk.write("plain.yaml", PLAIN);
    desk.write(
        "suite.yaml",
        "evaluation: calls\nteam: plain.yaml\ndata: [{ bfcl: BFCL.json }]\nscorers: [{ bfcl: {} }]\n",
    );
    let done = desk.shipped(&["eval", "suite.yaml", "--json"]).exits(0);
    let report: Value = serde_json::from_str(&done.out).unwrap();
    // The offline model calls what the words of the question name, and gives no argument.
    let score = &report["cells"][0]["scores"]["bfcl"];
    assert_eq!(score["value"], 1.0, "{report}");
}
