//! Ended runs are deleted on the command line.

use serde_json::json;

use crate::own_command::Desk;

#[test]
fn ended_runs_are_listed_and_deleted_and_open_ones_are_kept() {
    let desk = Desk::new("says", json!({ "text": "done" }));
    for turn in ["1", "2", "3"] {
        desk.run(&["run", "team.yaml", "go", "--turn-id", turn])
            .exits(0);
    }
    let first = desk.rows().pop().unwrap()["run"]
        .as_str()
        .unwrap()
        .to_owned();
    let usage = desk.run(&["store", "prune"]).exits(2);
    assert!(usage.err.contains("--older-than"), "{}", usage.err);

    let listed = desk
        .run(&["store", "prune", "--keep", "2", "--dry-run", "--json"])
        .exits(0);
    let listed = listed.json();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0]["run"], *first);
    let none = desk
        .run(&["store", "prune", "--older-than", "1h", "--dry-run"])
        .exits(0);
    assert!(none.err.contains("nothing"), "{}", none.err);
    assert_eq!(desk.rows().len(), 3, "a dry run deletes nothing");

    let pruned = desk.run(&["store", "prune", "--keep", "2"]).exits(0);
    assert!(pruned.err.contains("deleted 1 run"), "{}", pruned.err);
    assert_eq!(desk.rows().len(), 2);
    for words in [
        &["show", &first][..],
        &["cancel", &first],
        &["recording", "export", &first],
    ] {
        let told = desk.run(words).exits(2);
        assert!(told.err.contains("was deleted"), "{words:?}: {}", told.err);
    }
    let rest = desk
        .run(&["store", "prune", "--older-than", "0s", "--json"])
        .exits(0);
    assert_eq!(rest.json()[0]["trees"], 2);
    assert_eq!(desk.rows().len(), 0);
}

#[test]
fn idle_sessions_are_listed_and_deleted_and_used_ones_are_kept() {
    let desk = Desk::new("says", json!({ "text": "done" }));
    desk.run(&["run", "team.yaml", "go", "--session", "a"])
        .exits(0);
    let idle = ["store", "prune", "--sessions-idle-for"];
    let none = desk
        .run(&[&idle[..], &["1d", "--dry-run"]].concat())
        .exits(0);
    assert!(none.err.contains("nothing"), "{}", none.err);
    let none = desk.run(&[&idle[..], &["1d"]].concat()).exits(0);
    assert!(none.err.contains("deleted 0 sessions"), "{}", none.err);
    let listed = desk
        .run(&[&idle[..], &["0s", "--dry-run"]].concat())
        .exits(0);
    assert!(listed.out.contains("/a, idle since"), "{}", listed.out);
    assert_eq!(desk.rows().len(), 1, "a dry run deletes nothing");
    let gone = desk
        .run(&[&idle[..], &["0s", "--json"]].concat())
        .exits(0)
        .json();
    assert_eq!(
        (&gone[0]["sessions"], &gone[0]["trees"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(desk.rows().len(), 0);
    let sessions = desk.run(&["session", "list"]).exits(0);
    assert!(
        sessions.err.contains("no such sessions"),
        "{}",
        sessions.err
    );
}
