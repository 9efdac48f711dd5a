//! Sessions on the command line.

use serde_json::{Value, json};

use crate::own_command::Desk;

#[test]
fn a_session_is_listed_shown_branched_rewound_exported_and_imported() {
    let desk = Desk::new("says", json!({ "text": "done" }));
    for (session, text) in [("s", "one"), ("s", "two"), ("other", "three")] {
        desk.run(&["run", "team.yaml", text, "--session", session])
            .exits(0);
    }
    let listed = desk.run(&["session", "list", "--json"]).exits(0).json();
    assert_eq!(listed.len(), 2);
    let team = listed[0]["session"]["team"].as_str().unwrap().to_owned();
    assert_eq!(listed[0]["session"]["key"], "other");
    assert_eq!(listed[1]["turns"], 2);
    let first = desk.run(&["session", "list", "--limit", "1"]).exits(0);
    assert!(first.out.contains("other"), "{}", first.out);
    let (_, page) = first.err.split_once("--after ").unwrap();
    let second = desk
        .run(&["session", "list", "--after", page.trim()])
        .exits(0);
    assert!(
        !second.out.contains("other") && second.out.contains("two"),
        "{}",
        second.out
    );
    desk.run(&["session", "list", "--after", "nonsense"])
        .exits(2);
    // What is recommended is one word for a shell.
    desk.run(&["run", "team.yaml", "four", "--session", "it's mine"])
        .exits(0);
    let first = desk.run(&["session", "list", "--limit", "1"]).exits(0);
    assert!(first.err.contains("/it'\\''s mine'\n"), "{}", first.err);
    desk.run(&[
        "session",
        "rewind",
        &format!("{team}/it's mine"),
        "--turns",
        "0",
    ])
    .exits(0);
    let none = desk.run(&["session", "list", "--active"]).exits(0);
    assert!(none.err.contains("no such sessions"), "{}", none.err);

    let s = format!("{team}/s");
    let shown = |session: &str| -> Vec<Value> {
        let shown = desk
            .run(&["session", "show", session, "--json"])
            .exits(0)
            .json();
        let turns = shown[0]["turns"].as_array().unwrap();
        turns.iter().map(|turn| turn["said"].clone()).collect()
    };
    let text = desk.run(&["session", "show", &s]).exits(0).out;
    assert!(text.contains("two") && text.contains("done"), "{text}");
    desk.run(&["session", "fork", &s, "--turns", "1", "--to", "b"])
        .exits(0);
    desk.run(&["run", "team.yaml", "else", "--session", "b"])
        .exits(0);
    assert_eq!(shown(&format!("{team}/b")), ["one", "else"]);
    // One that begins anew is there, too.
    desk.run(&["session", "fork", &s, "--turns", "0", "--to", "anew"])
        .exits(0);
    assert!(shown(&format!("{team}/anew")).is_empty());
    desk.run(&["session", "rewind", &s, "--turns", "1"])
        .exits(0);
    assert_eq!(shown(&s), ["one"]);
    let told = desk
        .run(&["session", "rewind", &s, "--turns", "9"])
        .exits(2);
    assert!(told.err.contains("has 1 turns"), "{}", told.err);
    desk.run(&["session", "show", &format!("{team}/none")])
        .exits(2);
    desk.run(&["session", "show", "no-slash"]).exits(2);

    let exported = desk.run(&["session", "export", &s]).exits(0).out;
    desk.write("session.json", &exported);
    let to = format!("{team}/again");
    desk.run(&["session", "import", "session.json", "--to", &to])
        .exits(0);
    assert_eq!(shown(&to), ["one"]);
    desk.run(&["run", "team.yaml", "on", "--session", "again"])
        .exits(0);
    assert_eq!(shown(&to), ["one", "on"]);
    desk.write(
        "session.json",
        &exported.replace("\"version\":1", "\"version\":99"),
    );
    let told = desk
        .run(&["session", "import", "session.json", "--to", "t/x"])
        .exits(2);
    assert!(told.err.contains("version 99"), "{}", told.err);
    let told = desk.run(&["session", "artifact", &s, "notes.md"]).exits(2);
    assert!(told.err.contains("it has: none"), "{}", told.err);
}

#[test]
fn a_session_is_deleted_for_good() {
    let desk = Desk::new("says", json!({ "text": "done" }));
    for (session, text) in [("s", "one"), ("s", "two"), ("other", "three")] {
        desk.run(&["run", "team.yaml", text, "--session", session])
            .exits(0);
    }
    let listed = desk.run(&["session", "list", "--json"]).exits(0).json();
    let team = listed[0]["session"]["team"].as_str().unwrap().to_owned();
    let s = format!("{team}/s");
    let deleted = desk.run(&["session", "delete", &s]).exits(0);
    assert!(deleted.err.contains("with 2 runs"), "{}", deleted.err);
    let left = desk.run(&["session", "list", "--json"]).exits(0).json();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["session"]["key"], "other");
    assert_eq!(desk.rows().len(), 1, "the runs of the other session");
    desk.run(&["session", "show", &s]).exits(2);
    let told = desk.run(&["session", "delete", &s]).exits(2);
    assert!(told.err.contains("session"), "{}", told.err);
    desk.run(&["run", "team.yaml", "anew", "--session", "s"])
        .exits(0);
}

#[test]
fn a_mistyped_store_is_told_and_none_is_made() {
    let desk = Desk::new("says", json!({ "text": "done" }));
    desk.run(&["run", "team.yaml", "one", "--session", "s"])
        .exits(0);
    let run = "0190c1c2-0000-7000-8000-000000000000";
    let acts: [&[&str]; 8] = [
        &["session", "show", "t/s"],
        &["session", "fork", "t/s", "--to", "b"],
        &["session", "rewind", "t/s", "--turns", "0"],
        &["session", "delete", "t/s"],
        &["resume", run],
        &["cancel", run],
        &["answer", run, "yes"],
        &["fork", run],
    ];
    for act in acts {
        let told = desk
            .run(&[act, ["--store", "mistyped.db"].as_slice()].concat())
            .exits(2);
        assert!(
            told.err.contains("there is no store"),
            "{act:?}: {}",
            told.err
        );
        assert!(!desk.path("mistyped.db").exists(), "{act:?}");
    }
}
