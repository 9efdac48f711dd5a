//! Forks and replays.

use serde_json::json;

use crate::own_command::Desk;

const HELPDESK: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../examples/teams/helpdesk.yaml"
);

#[test]
fn a_run_is_forked_where_show_numbers_its_entries() {
    let desk = Desk::new("says", json!({}));
    let first = desk.shipped(&["run", HELPDESK, "What is 6 * 7?"]).exits(0);
    let run = desk.only_run();
    let shown = desk.shipped(&["show", &run]).exits(0).out;
    assert!(shown.contains("+0.000 s     0  desk"), "{shown}");
    let fork = desk.shipped(&["fork", &run, "--at", "2"]).exits(0);
    assert_eq!(fork.out, first.out, "the inputs are the same");
    let told = format!("forked from {run} at 2");
    assert!(fork.err.contains(&told), "{}", fork.err);
    let other = ["fork", &run, "--at", "1", "--input", "What is 6 * 8?"];
    let other = desk.shipped(&other).exits(0);
    assert!(other.out.contains("48"), "{}", other.out);
    let twice = ["fork", &run, "--at", "2", "--session", "one"];
    let once = desk.shipped(&twice).exits(0);
    assert_eq!(desk.shipped(&twice).exits(0).out, once.out);
    assert_eq!(desk.rows().len(), 4);
    let refused = desk.shipped(&["fork", &run, "--at", "999"]).exits(2);
    assert!(
        refused.err.contains("give a number from 1 to"),
        "{}",
        refused.err
    );
}

#[test]
fn a_fork_goes_on_with_todays_team_where_its_file_is_named() {
    let desk = Desk::new("says", json!({ "text": "old" }));
    let first = desk.run(&["run", "team.yaml", "go"]).exits(0);
    assert_eq!(first.out, "old\n");
    let run = desk.only_run();
    let file = std::fs::read_to_string(desk.path("team.yaml")).unwrap();
    desk.write("team.yaml", &file.replace("old", "new"));
    assert_eq!(desk.run(&["fork", &run, "--at", "1"]).exits(0).out, "old\n");
    let today = desk.run(&["fork", &run, "--at", "1", "--team", "team.yaml"]);
    assert_eq!(today.exits(0).out, "new\n");
    let same = desk.run(&["recording", "replay", &run]).exits(0);
    assert!(same.out.contains("as recorded"), "{}", same.out);
    let changed = desk
        .run(&["recording", "replay", &run, "--team", "team.yaml"])
        .exits(1);
    for part in [
        "diverges",
        "recorded: the answer \"old\"",
        "found:    the answer \"new\"",
    ] {
        assert!(changed.out.contains(part), "{}", changed.out);
    }
}

#[test]
fn a_run_that_was_parked_by_other_code_is_forked_before_the_mismatch() {
    let desk = Desk::new("gated", json!({}));
    let started = desk.start(&["run", "team.yaml", "go"]);
    desk.until_at_the_gate();
    started.signal("KILL");
    started.ends();
    let run = desk.only_run();
    desk.write("changed", "");
    let changed = desk
        .run(&["recording", "replay", &run, "--json"])
        .exits(1)
        .json();
    assert_eq!(changed[0]["divergence"]["entry"], 1, "{changed:?}");
    assert_eq!(desk.firsts(), 1, "a replay does nothing");
    desk.run(&["resume", &run]).exits(1);
    desk.open_gate();
    let fork = desk.run(&["fork", &run]).exits(0);
    assert_eq!(fork.out, "through the gate\n");
    assert_eq!(desk.firsts(), 2, "the other code's own step");
}

#[test]
fn runs_are_exported_and_replayed_from_the_store_and_from_files() {
    let desk = Desk::new("says", json!({ "text": "said" }));
    desk.run(&["run", "team.yaml", "one"]).exits(0);
    let run = desk.only_run();
    desk.run(&["run", "team.yaml", "two"]).exits(0);
    let before = std::fs::read(desk.path("runs.db")).unwrap();
    let exported = desk.run(&["recording", "export", &run]).exits(0);
    desk.write("kept.jsonl", &exported.out);
    let all = desk.run(&["recording", "replay", "--all"]).exits(0);
    assert_eq!(all.out.matches("as recorded").count(), 2, "{}", all.out);
    let both = desk
        .run(&["recording", "replay", "kept.jsonl", &run])
        .exits(0);
    assert_eq!(both.out.lines().count(), 2, "{}", both.out);
    desk.write("broken.jsonl", &exported.out[..40]);
    desk.run(&["recording", "replay", "broken.jsonl"]).exits(2);
    // A program without the behavior cannot replay it.
    let shipped = desk
        .shipped(&["recording", "replay", "kept.jsonl"])
        .exits(1);
    assert!(
        shipped.err.contains("its behavior \"says\""),
        "{}",
        shipped.err
    );
    assert_eq!(std::fs::read(desk.path("runs.db")).unwrap(), before);
}
