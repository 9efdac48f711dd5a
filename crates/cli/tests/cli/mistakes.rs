//! What people do wrong, and what they are told.

use serde_json::json;

use crate::own_command::Desk;

const SUMS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../examples/teams/sums.yaml"
);

#[test]
fn a_store_that_is_not_there_is_made_by_a_run_alone() {
    let desk = Desk::new("says", json!({}));
    for words in [
        &["resume"][..],
        &["runs"],
        &["store", "prune", "--keep", "1"],
        &["store", "prune", "--keep", "1", "--dry-run"],
    ] {
        let done = desk.shipped(words).exits(0);
        assert!(done.err.contains("no runs yet"), "{words:?}: {}", done.err);
        assert!(!desk.path("runs.db").exists(), "{words:?}");
    }
}

#[test]
fn a_store_in_a_folder_that_is_not_there_is_said_to_be_missing() {
    let desk = Desk::new("says", json!({}));
    let at = ["--store", "nowhere/runs.db"];
    for words in [
        &["show", "abc"][..],
        &["answer", "abc", "--approve"],
        &["cancel", "abc"],
        &["session", "show", "desk/ada"],
        &["store", "verify"],
    ] {
        let done = desk.shipped(&[words, &at[..]].concat()).exits(2);
        let told = "there is no store nowhere/runs.db; `ghostlight run` makes one";
        assert!(done.err.contains(told), "{words:?}: {}", done.err);
        assert!(!desk.path("nowhere").exists(), "{words:?}");
    }
    let none = desk
        .shipped(&["runs", "--store", "nowhere/runs.db"])
        .exits(0);
    assert!(none.err.contains("no runs yet"), "{}", none.err);
}

#[test]
fn a_model_without_its_key_is_told_before_the_first_question() {
    let desk = Desk::new("says", json!({}));
    let team = "\
models:
  default: { provider: openai, model: m, api_key: \"${DESK_KEY}\" }
agent: { name: desk }
";
    desk.write("keyless.yaml", team);
    let done = desk.shipped(&["run", "keyless.yaml", "hi"]).exits(1);
    let told = done.err.find("the model cannot be asked");
    let asked = done.err.find("desk is asked");
    assert!(told.is_some() && told < asked, "{}", done.err);
    assert!(done.err.contains("DESK_KEY is not set"), "{}", done.err);
}

#[test]
fn a_run_in_memory_is_not_offered_for_an_answer() {
    let desk = Desk::new("asks", json!({ "kind": "approval" }));
    let waits = desk.run(&["run", "team.yaml", "go", "--memory"]).exits(4);
    assert!(waits.err.contains("and is gone"), "{}", waits.err);
    assert!(!waits.err.contains("ghostlight answer"), "{}", waits.err);
}

#[cfg(unix)]
#[test]
fn a_recommended_command_names_the_store_as_a_shell_takes_it() {
    let desk = Desk::new("asks", json!({ "kind": "approval" }));
    let store = "Ann's runs.db";
    let waits = desk
        .run(&["run", "team.yaml", "go", "--store", store])
        .exits(4);
    let option = r"--store 'Ann'\''s runs.db'";
    assert!(waits.err.contains(option), "{}", waits.err);
    let none = desk.shipped(&["show", "zz", "--store", store]).exits(2);
    assert!(none.err.contains(option), "{}", none.err);
}

#[test]
fn a_dash_stands_for_stdin_which_must_be_text() {
    let desk = Desk::new("says", json!({}));
    let done = desk.shipped_with(&["run", SUMS, "-"], "21\n", &[]).exits(0);
    assert_eq!(done.out, "4.2\n");
    let wrong = desk.shipped_with(&["run", SUMS], b"caf\xe9", &[]).exits(2);
    assert!(wrong.err.contains("not UTF-8 text"), "{}", wrong.err);
}

#[test]
fn a_bound_that_is_given_twice_is_refused() {
    let desk = Desk::new("says", json!({}));
    let budget = "tokens=10,model_calls=1,tokens=1000";
    let wrong = desk
        .shipped(&["run", SUMS, "21", "--budget", budget])
        .exits(2);
    assert!(wrong.err.contains("`tokens` stands twice"), "{}", wrong.err);
}

#[test]
fn a_fork_is_not_told_nothing() {
    let desk = Desk::new("says", json!({}));
    desk.shipped(&["run", SUMS, "21"]).exits(0);
    let words = ["fork", &desk.only_run(), "--at", "1", "--input", " "];
    let wrong = desk.shipped(&words).exits(2);
    assert!(wrong.err.contains("--input is empty"), "{}", wrong.err);
    desk.only_run();
}

#[cfg(unix)]
#[test]
fn a_file_without_an_end_is_refused() {
    let desk = Desk::new("says", json!({}));
    let wrong = desk.shipped(&["team", "check", "/dev/zero"]).exits(2);
    assert!(wrong.err.contains("it is a device"), "{}", wrong.err);
}

#[cfg(unix)]
#[test]
fn a_decision_that_is_none_is_asked_for_again_at_the_terminal() {
    let desk = Desk::new("asks", json!({ "kind": "approval" }));
    let mut terminal = desk.at_terminal(&["run", "team.yaml", "send it"]);
    terminal.exp_string("[yes / no, because").unwrap();
    terminal
        .send_line(r#"{"approved": true, "argument": {"to": "Bob"}}"#)
        .unwrap();
    terminal.exp_string("a decision is").unwrap();
    terminal.exp_string("[yes / no, because").unwrap();
    terminal
        .send_line(r#"{"approved": true, "arguments": {"to": "Bob"}}"#)
        .unwrap();
    terminal.exp_string(r#"answered {"approved":true"#).unwrap();
    terminal.exp_eof().unwrap();
}

#[test]
fn a_session_has_a_name_and_is_listed_by_all_of_it() {
    let desk = Desk::new("says", json!({}));
    let team = "team_of_quite_a_long_name_which_says_what_it_is_for_and_more";
    desk.write(
        "long.yaml",
        &format!("name: {team}\nagent: {{ name: a, behavior: simple }}\n"),
    );
    for option in ["--session", "--turn-id"] {
        desk.shipped(&["run", "long.yaml", "hello", option, ""])
            .exits(2);
    }
    desk.shipped(&["run", "long.yaml", "hello"]).exits(0);
    let listed = desk.shipped(&["session", "list"]).exits(0).out;
    let name = listed.lines().nth(1).unwrap().split(' ').next().unwrap();
    desk.shipped(&["session", "show", name]).exits(0);
    desk.shipped(&["session", "fork", name, "--to", ""])
        .exits(2);
}

#[test]
fn a_call_of_a_run_that_has_ended_is_not_cancelled() {
    let desk = Desk::new("says", json!({}));
    desk.shipped(&["run", SUMS, "21"]).exits(0);
    let run = desk.only_run();
    desk.shipped(&["cancel", &run, "--call", "0.0.0"]).exits(1);
    desk.shipped(&["cancel", &run]).exits(0);
}

#[test]
fn the_offline_model_publishes_what_it_is_told_to() {
    let desk = Desk::new("says", json!({}));
    for (file, task, published) in [
        (
            "reactive",
            "Publish an event: 'two chairs for Ada'",
            "two chairs for Ada",
        ),
        (
            "watchman",
            "Publish an alert: 'the door is open'",
            "the door is open",
        ),
    ] {
        let file = format!(
            "{}/../../examples/teams/{file}.yaml",
            env!("CARGO_MANIFEST_DIR")
        );
        let done = desk.shipped(&["run", &file, task]).exits(0);
        let called = format!("calls publish(event: \"{published}\"");
        assert!(done.err.contains(&called), "{}", done.err);
    }
}

#[test]
fn all_faults_of_a_team_file_are_told_at_once_each_with_its_place() {
    let desk = Desk::new("says", json!({}));
    desk.write(
        "wrong.yaml",
        "\
name: desk
instrutions: Be brief.
agent:
  name: desk
  model: fastt
  tools: [calculator, calculater]
  behavior: recat
  max_steps: many
",
    );
    let wrong = desk.shipped(&["team", "check", "wrong.yaml"]).exits(2);
    assert!(wrong.err.contains("5 faults"), "{}", wrong.err);
    let mut rest = wrong.err.as_str();
    for place in ["2:1", "5:10", "6:23", "7:13", "8:14"] {
        let place = format!("wrong.yaml:{place}");
        let found = rest.find(&place);
        rest = &rest[found.unwrap_or_else(|| panic!("{place} in {}", wrong.err))..];
    }
    // A name that two agents have does not hide what comes after it.
    desk.write(
        "twice.yaml",
        "\
agent:
  name: desk
  tools: [calculater]
  behavior: recat
  agents:
    - name: billing
      reach: delegat
    - name: billing
      tools: [calculator]
",
    );
    let twice = desk.shipped(&["team", "check", "twice.yaml"]).exits(2);
    assert!(twice.err.contains("4 faults"), "{}", twice.err);
    // The name of a model that has a fault itself is a name all the same.
    desk.write(
        "near.yaml",
        "\
models:
  fast: { provider: opnai }
tools:
  docs: { kind: document_search, folder: ./absent }
agent: { name: desk, model: fsat, tools: [dosc] }
",
    );
    let near = desk.shipped(&["team", "check", "near.yaml"]).exits(2);
    for told in ["4 faults", "mean `fast`?", "mean `docs`?"] {
        assert!(near.err.contains(told), "{told}: {}", near.err);
    }
    assert!(!near.err.contains("/./"), "{}", near.err);
    // A name that cannot be one hides nothing of its agent.
    desk.write(
        "named.yaml",
        "agent: { name: \"a b\", tools: [calculatr], agents: [{ name: c d, behavior: reakt }] }\n",
    );
    let named = desk.shipped(&["team", "check", "named.yaml"]).exits(2);
    assert!(!named.err.contains("at_1_"), "{}", named.err);
    for told in [
        "4 faults",
        "\"a b\"",
        "\"c d\"",
        "mean `calculator`?",
        "mean `react`?",
    ] {
        assert!(named.err.contains(told), "{told}: {}", named.err);
    }
    desk.write("wrong.yaml", "agent: { name: desk, tols: [] }\n");
    let one = desk.shipped(&["team", "check", "wrong.yaml"]).exits(2);
    assert!(one.err.starts_with("error: wrong.yaml:1:"), "{}", one.err);
}

#[cfg(unix)]
#[test]
fn escapes_in_wrong_arguments_do_not_reach_the_terminal() {
    let desk = Desk::new("says", json!({}));
    for wrong in ["--\u{1b}]0;taken\u{7}x", "\u{1b}[2Jrun"] {
        let mut terminal = desk.shipped_at_terminal(&[wrong], &[]);
        let told = terminal.exp_eof().unwrap();
        assert!(told.contains("error:"), "{told:?}");
        assert!(
            !told.contains("\u{1b}]0;") && !told.contains("\u{1b}[2J"),
            "{told:?}"
        );
    }
}
