use std::time::Duration;

use serde_json::json;

use crate::own_command::{Desk, Started};

/// A run that has done its first step and waits at the gate.
fn at_the_gate() -> (Desk, Started) {
    let desk = Desk::new("gated", json!({}));
    let started = desk.start(&["run", "team.yaml", "go"]);
    desk.until_at_the_gate();
    (desk, started)
}

#[test]
fn a_killed_run_goes_on_where_it_was_without_the_team_file() {
    let (desk, started) = at_the_gate();
    started.signal("KILL");
    assert_eq!(started.ends().code, None);
    std::fs::remove_file(desk.path("team.yaml")).unwrap();
    let open = desk.shipped(&["runs"]).exits(0);
    assert!(open.out.contains("interrupted"), "{}", open.out);
    desk.open_gate();
    let done = desk.run(&["resume"]).exits(0);
    assert_eq!(done.out, "through the gate\n");
    assert_eq!(desk.firsts(), 1, "what is recorded is not done again");
    assert!(done.err.contains("continues where it was"), "{}", done.err);
    let none = desk.run(&["resume"]).exits(0);
    assert!(none.err.contains("no run is open"), "{}", none.err);
}

#[test]
fn ctrl_c_suspends_and_says_how_to_go_on() {
    for signal in ["INT", "TERM"] {
        let (desk, started) = at_the_gate();
        let run = desk.only_run();
        started.signal(signal);
        let done = started.ends().exits(130);
        assert_eq!(done.out, "");
        assert!(
            done.err.contains(&format!("ghostlight resume {run}")),
            "{}",
            done.err
        );
        assert_eq!(desk.status(), "running");
        desk.open_gate();
        let resumed = desk.run(&["resume", &run, "--json"]).exits(0);
        assert_eq!(
            resumed.json().pop().unwrap()["data"]["end"]["answered"],
            "through the gate"
        );
        assert_eq!(desk.firsts(), 1);
    }
}

#[test]
fn a_run_that_another_process_carries_is_left_alone() {
    let (desk, started) = at_the_gate();
    let run = desk.only_run();
    let refused = desk.run(&["resume", &run]).exits(6);
    assert!(refused.err.contains("--take-over"), "{}", refused.err);
    desk.run(&["resume"]).exits(0);
    desk.open_gate();
    started.ends().exits(0);
}

#[test]
fn a_living_run_is_cancelled_from_another_process() {
    let (desk, started) = at_the_gate();
    let run = desk.only_run();
    let cancelled = desk.run(&["cancel", &run, "--reason", "enough"]).exits(0);
    // It may have done so before this process could look again.
    let told = ["told to cancel", "cancelled: enough"];
    assert!(
        told.iter().any(|told| cancelled.err.contains(told)),
        "{}",
        cancelled.err
    );
    let done = started.ends().exits(3);
    assert!(done.err.contains("cancelled: enough"), "{}", done.err);
    assert_eq!(desk.status(), "cancelled");
}

#[test]
fn one_call_of_a_living_run_is_cancelled_from_another_process() {
    let (desk, started) = at_the_gate();
    let run = desk.only_run();
    let none = desk.run(&["cancel", &run, "--call", "7.0.0"]).exits(1);
    assert!(none.err.contains("no call 7.0.0 under way"), "{}", none.err);
    let cancelled = desk.run(&["cancel", &run, "--call", "0.0.1"]).exits(0);
    assert!(
        cancelled.err.contains("call 0.0.1 of run"),
        "{}",
        cancelled.err
    );
    let done = started.ends().exits(1);
    assert!(done.err.contains("this call was cancelled"), "{}", done.err);
    assert_eq!(desk.status(), "failed");
}

#[test]
fn a_run_that_nobody_carries_is_cancelled() {
    let (desk, started) = at_the_gate();
    let run = desk.only_run();
    started.signal("KILL");
    started.ends();
    desk.run(&["cancel", &run]).exits(0);
    assert_eq!(desk.status(), "cancelled");
    let again = desk.run(&["cancel", &run]).exits(0);
    assert!(again.err.contains("has ended already"), "{}", again.err);
    desk.open_gate();
    let none = desk.run(&["resume"]).exits(0);
    assert!(
        none.err.contains("no run is open"),
        "no cancelled run wakes up: {}",
        none.err
    );
}

#[test]
fn a_run_whose_code_changed_is_parked_and_nothing_is_lost() {
    let (desk, started) = at_the_gate();
    let run = desk.only_run();
    started.signal("KILL");
    started.ends();
    desk.write("changed", "");
    let parked = desk.run(&["resume", &run]).exits(1);
    assert!(
        parked.err.contains(&format!("run {run} is parked")),
        "{}",
        parked.err
    );
    let passed_over = desk.run(&["resume"]).exits(0);
    assert!(
        passed_over.err.contains("only by its name"),
        "{}",
        passed_over.err
    );
    assert_eq!(desk.status(), "parked");
    // The code that recorded it is back.
    std::fs::remove_file(desk.path("changed")).unwrap();
    desk.open_gate();
    let done = desk.run(&["resume", &run]).exits(0);
    assert_eq!(done.out, "through the gate\n");
    assert_eq!(desk.firsts(), 1);
}

/// Freezes the process at a moment at which it does not hold SQLite's own lock, which nobody can
/// take from it.
fn freeze(desk: &Desk, started: &Started) {
    let store = rusqlite::Connection::open(desk.path("runs.db")).unwrap();
    store.busy_timeout(Duration::ZERO).unwrap();
    desk.until("a moment between commits", |_| {
        started.signal("STOP");
        let free = store.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok();
        if !free {
            started.signal("CONT");
        }
        free
    });
}

#[test]
fn a_frozen_owner_keeps_its_run_until_it_is_killed() {
    let (desk, started) = at_the_gate();
    let run = desk.only_run();
    freeze(&desk, &started);
    desk.open_gate();
    let refused = desk.run(&["resume", &run]).exits(6);
    assert!(refused.err.contains("--take-over"), "{}", refused.err);
    // Neither is it recovered with all that is open.
    desk.run(&["resume"]).exits(0);
    assert_eq!(desk.status(), "running");
    started.signal("KILL");
    started.ends();
    let done = desk.run(&["resume", &run]).exits(0);
    assert_eq!(done.out, "through the gate\n");
    assert_eq!(desk.firsts(), 1);
}

#[test]
fn a_thawed_owner_whose_run_was_taken_starts_nothing_and_writes_nothing() {
    let (desk, started) = at_the_gate();
    let run = desk.only_run();
    freeze(&desk, &started);
    desk.open_gate();
    let taken = desk.run(&["resume", &run, "--take-over"]).exits(0);
    assert_eq!(taken.out, "through the gate\n");
    // Without --json it also tells how long ago the run began.
    let written = || desk.run(&["show", &run, "--json"]).exits(0).json();
    let before = written();
    started.signal("CONT");
    // It sees what the other made of its run.
    let late = started.ends();
    assert_eq!(late.out, "through the gate\n", "{late:?}");
    assert_eq!(written(), before);
    assert_eq!(desk.firsts(), 1);
}
