//! `ghostlight store nodes`: who has a store in PostgreSQL open, and how far each is behind.

use serde_json::json;

use crate::{
    own_command::Desk,
    quotas::postgres::{Server, is_left_out},
};

#[test]
fn processes_are_listed_with_what_they_are_behind_and_so_is_what_one_left() {
    if is_left_out() {
        return;
    }
    let database = Server::quick();
    let store = database.url();
    let desk = Desk::new("gated", json!({}));
    let nodes = |more: &[&str]| {
        let words = [&["store", "nodes", "--store", &store], more].concat();
        desk.run(&words).exits(0)
    };
    let nobody = nodes(&[]);
    assert!(
        nobody.out.is_empty() && nobody.err.contains("no other process"),
        "{nobody:?}"
    );
    desk.run(&["runs", "--store", &store]).exits(0);
    let empty = desk.run(&["store", "verify", "--store", &store]).exits(5);
    assert!(empty.err.contains("store migrate"), "{empty:?}");
    // Who only looks makes no tables.
    database.sql("DO $$ BEGIN ASSERT to_regnamespace('ghostlight') IS NULL; END $$");
    let begin = ["run", "team.yaml", "go", "--store", &store];
    let serving = desk.start(&begin);
    while desk.firsts() == 0 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let listed = nodes(&["--json"]).json();
    assert_eq!(listed.len(), 1, "{listed:?}");
    let node = &listed[0];
    assert_eq!(
        (&node["lives"], &node["open_runs"]),
        (&json!(true), &json!(1))
    );
    assert_eq!(
        (&node["late_runs"], &node["unread"]),
        (&json!(0), &json!(0))
    );
    assert!(node["renewed_ms"].as_u64().unwrap() < 60_000, "{node}");
    assert_eq!(node["carries"][0]["team"], "desk");
    let shown = nodes(&[]).out;
    assert!(shown.contains(node["node"].as_str().unwrap()), "{shown}");
    for words in ["lives", "1 open runs", "0 late", "desk"] {
        assert!(shown.contains(words), "{shown}");
    }

    // Nobody has its team: what it was at waits.
    serving.signal("KILL");
    serving.ends();
    let left = loop {
        let listed = nodes(&["--json"]).json();
        if listed.iter().all(|node| node["lives"] == false) {
            break listed;
        }
    };
    let last = left.last().unwrap();
    assert_eq!(
        (&last["node"], &last["late_runs"]),
        (&json!(null), &json!(1)),
        "{left:?}"
    );
    assert!(last["oldest_ms"].is_u64());
    assert!(nodes(&[]).out.contains("nobody"));
}
