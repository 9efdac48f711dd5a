//! Runs with which nobody goes on are found and cancelled together.

use serde_json::json;

use crate::own_command::Desk;

#[test]
fn open_runs_that_are_silent_too_long_are_listed_and_cancelled_together() {
    let desk = Desk::new("asks", json!({}));
    let none = desk.run(&["runs", "--silent", "0s"]).exits(0);
    assert!(none.err.contains("no runs"), "{}", none.err);
    for turn in ["1", "2"] {
        desk.run(&["run", "team.yaml", "go", "--turn-id", turn])
            .exits(4);
    }
    let young = desk.run(&["runs", "--silent", "1h"]).exits(0);
    assert_eq!(young.out, "");
    let told = "2 runs open: 0 under way, 2 waiting, 0 parked, 0 cancelling; 0 of them silent";
    assert!(young.err.contains(told), "{}", young.err);
    let silent = desk
        .run(&["runs", "--silent", "0s", "--json"])
        .exits(0)
        .json();
    let ids: Vec<&str> = silent
        .iter()
        .map(|row| row["run"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), 2);
    let table = desk.run(&["runs", "--silent", "0s"]).exits(0);
    assert!(
        ids.iter().all(|id| table.out.contains(&id[..8])),
        "{}",
        table.out
    );

    let none = desk.run(&["cancel", "--silent", "1h"]).exits(0);
    assert!(none.err.contains("no open run is silent"), "{}", none.err);
    let usage = desk.run(&["cancel", ids[0], "--silent", "1h"]).exits(2);
    assert!(usage.err.contains("--silent"), "{}", usage.err);
    desk.run(&["cancel"]).exits(2);
    let cancelled = desk.run(&["cancel", "--silent", "0s"]).exits(0);
    assert!(
        cancelled.err.contains("ghostlight resume"),
        "{}",
        cancelled.err
    );
    // Whoever goes on with them closes them, and asks nobody any more.
    desk.run(&["resume"]).exits(3);
    for id in ids {
        let row = desk.rows().into_iter().find(|row| row["run"] == *id);
        assert_eq!(row.unwrap()["status"], "cancelled");
    }
    let over = desk.run(&["runs", "--silent", "0s"]).exits(0);
    assert!(over.err.contains("no run is open"), "{}", over.err);
}
