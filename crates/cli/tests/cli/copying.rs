//! A store is copied on the command line, and its open run goes on in the copy.

use serde_json::json;

use crate::own_command::Desk;

#[test]
fn a_store_is_copied_into_a_new_file_and_its_open_run_goes_on_there() {
    let desk = Desk::new("asks", json!({ "kind": "choice" }));
    desk.run(&["run", "team.yaml", "paint it"]).exits(4);
    let (before, run) = (desk.rows(), desk.only_run());
    let copied = desk.run(&["store", "copy", "runs.db", "copy.db"]).exits(0);
    assert!(
        copied.err.contains("copied 1 run, 1 session") && copied.err.contains("all sound"),
        "{}",
        copied.err
    );
    for (words, why) in [
        (["store", "copy", "runs.db", "copy.db"], "not empty"),
        (
            ["store", "copy", "nothing.db", "other.db"],
            "there is no store",
        ),
    ] {
        let refused = desk.run(&words).exits(2);
        assert!(refused.err.contains(why), "{}", refused.err);
    }
    let answer = ["answer", &run, "blue", "--store", "copy.db"];
    assert_eq!(desk.run(&answer).exits(0).out, "answered \"blue\"\n");
    assert_eq!(desk.rows(), before, "what was copied is as it was");
}
