//! `ghostlight team check` for programs, and what it says of a team in full.

use serde_json::{Value, json};

use crate::own_command::Desk;

const TEAM: &str = "\
name: desk
tools:
  notes: { kind: files, root: ./, write: true, only: [read_file, write_file], prefix: n_ }
budget: { model_calls: 7 }
interceptors: [{ name: retry, attempts: 3 }]
agent:
  name: desk
  description: answers
  tools: [notes, calculator]
  agents: [{ name: clerk, policies: [repetition] }]
";

fn checked(desk: &Desk, words: &[&str], code: i32) -> Value {
    let words: Vec<&str> = [&["team", "check"][..], words, &["--json"]].concat();
    let mut lines = desk.shipped(&words).exits(code).json();
    assert_eq!(lines.len(), 1, "one object: {lines:?}");
    lines.remove(0)
}

#[test]
fn a_program_reads_all_faults_with_their_places() {
    let desk = Desk::new("says", json!({}));
    desk.write(
        "wrong.yaml",
        "agent:\n  name: desk\n  instrutions: x\n  tools: [calculater]\n",
    );
    let told = checked(&desk, &["wrong.yaml"], 2);
    assert_eq!(told["valid"], false);
    let faults = told["faults"].as_array().unwrap();
    assert_eq!(faults.len(), 2, "{told}");
    assert_eq!(
        (&faults[0]["line"], &faults[0]["column"], &faults[0]["kind"]),
        (&json!(3), &json!(3), &json!("unknown_key"))
    );
    assert_eq!(faults[1]["kind"], "unknown_name");
    assert!(
        faults[1]["help"].as_str().unwrap().contains("calculator"),
        "{told}"
    );
}

#[test]
fn what_a_team_comes_to_is_shown_with_everything_resolved() {
    let desk = Desk::new("says", json!({}));
    desk.write("team.yaml", TEAM);
    let brief = checked(&desk, &["team.yaml"], 0);
    assert_eq!(
        (&brief["valid"], &brief["team"]),
        (&json!(true), &json!("desk"))
    );
    assert!(brief["agents"][0].get("resolved").is_none());
    let told = checked(&desk, &["team.yaml", "--explain"], 0);
    let resolved = &told["agents"][0]["resolved"];
    assert_eq!(resolved["model"], "default");
    let tools = resolved["tools"].as_array().unwrap();
    let tool = |name: &str| tools.iter().find(|tool| tool["name"] == name).unwrap();
    assert_eq!(
        (
            &tool("n_write_file")["asks"],
            &tool("n_write_file")["source"]
        ),
        (&json!(true), &json!("notes"))
    );
    assert_eq!(tool("calculator")["asks"], false);
    assert!(tools.iter().any(|tool| tool["name"] == "transfer_to_clerk"));
    assert_eq!(told["definition"]["budget"]["model_calls"], 7);
    let words = desk
        .shipped(&["team", "check", "team.yaml", "--explain"])
        .exits(0)
        .out;
    for part in [
        "tool n_write_file (idempotent, of notes, asks a person first)",
        "tool calculator (read)",
        "policy repetition",
        "around calls: retry {\"attempts\":3}",
        "budget of a run: model_calls 7",
    ] {
        assert!(words.contains(part), "{part} is missing in\n{words}");
    }
}

#[test]
fn what_a_reload_would_change_is_said_before_it_happens() {
    let desk = Desk::new("says", json!({}));
    desk.write("team.yaml", TEAM);
    let new = TEAM.replace("model_calls: 7", "model_calls: 9");
    let new = new.replace("description: answers", "description: helps");
    desk.write("new.yaml", &new);
    let against = |file: &str| checked(&desk, &[file, "--against", "team.yaml"], 0);
    let told = against("new.yaml");
    assert_eq!(
        told["changes"],
        json!(["budget of the team", "description of agent desk"])
    );
    assert_eq!(told["restart"], json!([]));
    assert_eq!(against("team.yaml")["changes"], json!([]));
    desk.write(
        "other.yaml",
        &format!(
            "durability: memory\n{}",
            TEAM.replacen("name: desk", "name: help", 1)
        ),
    );
    let told = against("other.yaml");
    assert_eq!(told["restart"].as_array().unwrap().len(), 2, "{told}");
    let words = desk
        .shipped(&["team", "check", "new.yaml", "--against", "team.yaml"])
        .exits(0)
        .out;
    assert!(
        words.contains("a reload would change for new runs:\n  budget of the team"),
        "{words}"
    );
}

/// One file has the team and how its process works.
#[test]
fn a_file_says_how_its_process_works_and_options_stand_above_it() {
    let desk = Desk::new("says", json!({}));
    let file = format!(
        "{TEAM}storage: {{ store: ./own.db }}\nlogging: {{ log: ./notes.txt, quiet: true }}\n\
         observability: {{ traces: console, service: desk-service }}\n"
    );
    desk.write("team.yaml", &file);
    let done = desk
        .shipped(&["run", "team.yaml", "What is 2 + 3?"])
        .exits(0);
    assert!(done.out.contains('5'), "{}", done.out);
    assert!(desk.path("own.db").exists() && desk.path("notes.txt").exists());
    // Spans are one JSON object a line on stderr.
    let spans = done.err.lines().filter(|line| line.starts_with('{'));
    let spans: Vec<Value> = spans
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(
        spans
            .iter()
            .any(|span| span["name"].as_str().unwrap().starts_with("invoke_agent")),
        "{}",
        done.err
    );
    desk.shipped(&[
        "run",
        "team.yaml",
        "What is 2 + 3?",
        "--store",
        "./given.db",
    ])
    .exits(0);
    assert!(desk.path("given.db").exists());
    let wrong = file.replace("own.db", "own.db, stor: x");
    desk.write("team.yaml", &wrong);
    let wrong = desk.shipped(&["team", "check", "team.yaml"]).exits(2);
    assert!(
        wrong.err.contains("unknown key `stor` of `storage`")
            && wrong.err.contains("did you mean `store`?"),
        "{}",
        wrong.err
    );
}

#[test]
fn a_file_with_faults_keeps_no_other_from_being_checked() {
    let desk = Desk::new("says", json!({}));
    desk.write("team.yaml", TEAM);
    desk.write("wrong.yaml", "agent: { name: desk, instrutions: x }\n");
    let all = ["team", "check", "wrong.yaml", "missing.yaml", "team.yaml"];
    let told = desk.shipped(&all).exits(2);
    for fault in ["wrong.yaml:1:22", "missing.yaml"] {
        assert!(told.err.contains(fault), "{}", told.err);
    }
    assert!(told.out.starts_with("team.yaml: team desk, 2 agents"));
    let lines = desk
        .shipped(&[&all[..], &["--json"]].concat())
        .exits(2)
        .json();
    let valid: Vec<bool> = lines.iter().map(|file| file["valid"] == true).collect();
    assert_eq!(valid, [false, false, true], "{lines:?}");
    desk.shipped(&["team", "check", "team.yaml", "team.yaml"])
        .exits(0);
    desk.shipped(&[
        "team",
        "check",
        "team.yaml",
        "team.yaml",
        "--against",
        "team.yaml",
    ])
    .exits(2);
}
