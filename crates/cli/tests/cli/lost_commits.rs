//! A store that lost commits it once had: whichever verb opens it, nobody is told that it is whole or empty.

use std::fs;

use serde_json::json;

use crate::own_command::Desk;

/// A desk whose process was killed with its commits in SQLite's log, after its anchor named them.
fn killed() -> (Desk, String) {
    let desk = Desk::new("gated", json!({}));
    let started = desk.start(&["run", "team.yaml", "go", "--session", "ada"]);
    desk.until_at_the_gate();
    let run = desk.only_run();
    desk.until("its anchor names a commit", |desk| {
        let anchor = fs::read_to_string(desk.path("runs.db.anchor")).unwrap();
        let mut commits = anchor
            .lines()
            .filter_map(|line| line.strip_prefix("commit "));
        commits.any(|number| number != "0")
    });
    started.signal("KILL");
    started.ends();
    (desk, run)
}

fn every_verb_refuses(desk: &Desk, run: &str) {
    let lists: &[&[&str]] = &[
        &["store", "verify"],
        &["runs"],
        &["session", "list"],
        &["session", "show", "desk/ada"],
        &["session", "export", "desk/ada"],
        &["session", "delete", "desk/ada"],
        &["show", run],
        &["recording", "export", run],
        &["recording", "replay", run],
        &["fork", run, "--at", "1"],
        &["answer", run, "yes"],
        &["steer", run, "stop"],
        &["cancel", run],
        &["store", "prune", "--older-than", "1d"],
        &["store", "prune", "--older-than", "1d", "--dry-run"],
        &["resume"],
        &["resume", run],
        &["run", "team.yaml", "again"],
        &["store", "copy", "runs.db", "copy.db"],
        #[cfg(feature = "full")]
        &["memory", "list", "desk"],
    ];
    let refuses = |words: &&&[&str]| {
        let did = desk.run(words);
        did.code == Some(5) && did.err.contains("truncated or replaced") && did.out.is_empty()
    };
    let others: Vec<_> = lists.iter().filter(|words| !refuses(words)).collect();
    assert!(others.is_empty(), "{others:?}");
    let doctor = desk.run(&["doctor", "--offline"]).exits(1);
    assert!(
        doctor.out.contains("truncated or replaced") && !doctor.out.contains("all sound"),
        "{}",
        doctor.out
    );
    assert!(!desk.path("copy.db").exists(), "nothing is copied");
}

#[test]
fn no_verb_takes_a_store_without_its_log_for_an_empty_one() {
    let (desk, run) = killed();
    fs::remove_file(desk.path("runs.db-wal")).unwrap();
    every_verb_refuses(&desk, &run);
}

#[test]
fn no_verb_takes_a_store_whose_file_is_gone_for_one_that_was_never_made() {
    let (desk, run) = killed();
    for suffix in ["", "-wal", "-shm"] {
        fs::remove_file(desk.path(&format!("runs.db{suffix}"))).unwrap();
    }
    every_verb_refuses(&desk, &run);
}
