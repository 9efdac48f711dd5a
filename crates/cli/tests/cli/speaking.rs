//! Runs and sessions that another process carries, or another program.

use serde_json::{Value, json};

use crate::own_command::Desk;

#[test]
fn a_session_that_a_serving_process_carries_is_spoken_to_from_here() {
    let desk = Desk::new("says", json!({ "text": "the garden is well" }));
    let team = std::fs::read_to_string(desk.path("team.yaml")).unwrap();
    let mut team: Value = serde_json::from_str(&team).unwrap();
    team["schedules"] = json!([{ "name": "garden", "every_s": 3_600, "say": "Look around." }]);
    desk.write("woken.yaml", &team.to_string());
    // It begins at once, so the session is the serving process's from then on.
    team["schedules"][0]["every_s"] = json!(0.05);
    desk.write("woken.yaml", &team.to_string());
    let serving = desk.start(&["serve", "woken.yaml"]);
    desk.until("a turn", |desk| !desk.rows().is_empty());
    let words = [
        "run",
        "woken.yaml",
        "How is it?",
        "--session",
        "garden",
        "--turn-id",
        "q",
    ];
    let done = desk.run(&words).exits(0);
    assert_eq!(done.out, "the garden is well\n");
    assert!(done.err.contains("session garden"), "{}", done.err);
    serving.signal("INT");
    serving.ends().exits(0);
    let log = desk.shipped(&["session", "show", "desk/garden"]).exits(0);
    assert!(log.out.contains("How is it?"), "{}", log.out);
}

#[test]
fn a_run_of_ones_own_program_is_answered_by_the_ready_command() {
    let desk = Desk::new("asks", json!({ "kind": "approval" }));
    desk.run(&["run", "team.yaml", "send it"]).exits(4);
    let run = desk.only_run();
    let unfit = desk.shipped(&["answer", &run, "perhaps"]).exits(2);
    assert!(unfit.err.contains("answer yes"), "{}", unfit.err);
    let posted = desk.shipped(&["answer", &run, "--approve"]).exits(0);
    assert!(posted.err.contains("nobody carries run"), "{}", posted.err);
    let done = desk.run(&["resume", &run]).exits(0);
    assert_eq!(done.out, "answered true\n");
}

#[test]
fn a_run_of_ones_own_program_is_cancelled_by_the_ready_command() {
    let desk = Desk::new("gated", json!({}));
    let living = desk.start(&["run", "team.yaml", "go"]);
    desk.until_at_the_gate();
    let run = desk.only_run();
    let told = desk.shipped(&["cancel", &run]).exits(0);
    assert!(
        told.err.contains("the process that carries"),
        "{}",
        told.err
    );
    living.ends().exits(3);
    assert_eq!(desk.status(), "cancelled");
}

#[test]
fn a_run_that_another_process_carries_is_watched_to_its_end() {
    let desk = Desk::new("gated", json!({}));
    let living = desk.start(&["run", "team.yaml", "go"]);
    desk.until_at_the_gate();
    let run = desk.only_run();
    let watching = desk.start_shipped(&["show", &run, "--follow"]);
    desk.open_gate();
    let seen = watching.ends().exits(0);
    assert!(seen.out.contains("is asked: go"), "{}", seen.out);
    assert!(seen.out.contains("answered ("), "{}", seen.out);
    living.ends().exits(0);
}

#[test]
fn a_run_is_told_things_while_it_works_and_not_when_it_has_ended() {
    let desk = Desk::new("gated", json!({}));
    let living = desk.start(&["run", "team.yaml", "go"]);
    desk.until_at_the_gate();
    let run = desk.only_run();
    let told = desk.shipped(&["steer", &run, "Mind the budget."]).exits(0);
    assert!(
        told.err.contains("told; the process that carries"),
        "{}",
        told.err
    );
    let two = desk.shipped(&[
        "steer",
        &run,
        "{\"number\": 3, \"number\": 4}",
        "--message",
        "order",
    ]);
    let two = two.exits(2);
    assert!(two.err.contains("number stands twice"), "{}", two.err);
    desk.shipped(&["steer", &run, "{\"number\": 3}", "--message", "order"])
        .exits(0);
    desk.open_gate();
    living.ends().exits(0);
    let ended = desk.shipped(&["steer", &run, "Too late."]).exits(2);
    assert!(ended.err.contains("has ended"), "{}", ended.err);
}

#[test]
fn a_run_whose_process_was_killed_is_interrupted_and_runs_are_found_by_how_they_stand() {
    let desk = Desk::new("gated", json!({}));
    let living = desk.start(&["run", "team.yaml", "go"]);
    desk.until_at_the_gate();
    let running = desk.shipped(&["runs"]).exits(0);
    assert!(running.out.contains("running"), "{}", running.out);
    living.signal("KILL");
    living.ends();
    let killed = desk.shipped(&["runs"]).exits(0);
    assert!(killed.out.contains("interrupted"), "{}", killed.out);
    let run = desk.only_run();
    let found = |words: &[&str]| {
        let words: Vec<&str> = ["runs", "--json"].iter().chain(words).copied().collect();
        let rows = desk.shipped(&words).exits(0).json();
        let ids = rows
            .iter()
            .map(|row| row["run"].as_str().unwrap()[..8].to_owned());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(
        found(&["--state", "interrupted"]),
        std::slice::from_ref(&run)
    );
    assert_eq!(
        found(&["--state", "running,answered"]),
        Vec::<String>::new()
    );
    for text in ["2 + 1", "2 + 2", "2 + 3"] {
        let sums = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../examples/teams/helpdesk.yaml"
        );
        desk.shipped(&["run", sums, text]).exits(0);
    }
    assert_eq!(found(&["--team", "desk"]), std::slice::from_ref(&run));
    assert_eq!(found(&["--all", "--since", "1h"]).len(), 4);
    let first = found(&["--all", "--limit", "2"]);
    let page = desk.shipped(&["runs", "--all", "--limit", "2"]).exits(0);
    assert!(page.err.contains("for more, add --after"), "{}", page.err);
    let second = found(&["--all", "--limit", "2", "--after", &first[1]]);
    assert_eq!(second.len(), 2);
    assert!(second.contains(&run) && first.iter().all(|id| !second.contains(id)));
}
