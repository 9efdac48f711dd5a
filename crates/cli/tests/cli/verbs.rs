//! The verbs of the command: where they stand, and what those do that need no team file.

use serde_json::json;

use crate::own_command::Desk;

fn desk() -> Desk {
    Desk::new("says", json!({}))
}

#[test]
fn a_verb_of_earlier_versions_answers_with_its_new_name() {
    let desk = desk();
    for (earlier, today) in [
        (&["check", "team.yaml"][..], "team check"),
        (&["sessions"], "session list"),
        (
            &["tell", "1a", "order", "{}"],
            "steer RUN VALUE --message NAME",
        ),
        (&["verify", "--store", "runs.db"], "store verify"),
    ] {
        let told = desk.shipped(earlier).exits(2).err;
        assert!(
            told.contains(&format!("is now `{today}`")),
            "{earlier:?}: {told}"
        );
    }
    let unknown = desk.shipped(&["resum"]).exits(2).err;
    assert!(unknown.contains("resume"), "{unknown}");
}

#[test]
fn each_verb_that_has_moved_has_a_help_page_where_it_stands_now() {
    let desk = desk();
    let listed = desk.shipped(&["--help"]).exits(0).out;
    for noun in ["recording", "store", "team", "list", "shell", "session"] {
        assert!(listed.contains(&format!("\n  {noun} ")), "{listed}");
        let verbs = desk.shipped(&[noun, "--help"]).exits(0).out;
        assert!(verbs.contains("Commands:"), "{verbs}");
    }
}

#[test]
fn a_text_alone_is_for_one_agent_with_the_built_in_tools() {
    let desk = desk();
    let done = desk.shipped(&["run", "what is 17% of 2340?"]).exits(0);
    assert!(done.out.contains("397.8"), "{}", done.out);
    let piped = desk
        .shipped_with(&["run"], "what is 17% of 2340?", &[])
        .exits(0);
    assert!(piped.out.contains("397.8"), "{}", piped.out);
    // It is a run like each other.
    let rows = desk.shipped(&["runs", "--all"]).exits(0).out;
    assert!(rows.contains("assistant"), "{rows}");
    // A team file that is not there is no text.
    let missing = desk.shipped(&["run", "no-team.yaml"]).exits(2).err;
    assert!(missing.contains("no-team.yaml"), "{missing}");
}

#[test]
fn interceptors_are_listed_with_their_settings() {
    let desk = desk();
    let retry = desk
        .shipped(&["list", "interceptors", "retry"])
        .exits(0)
        .out;
    assert!(retry.contains("attempts"), "{retry}");
}

#[cfg(all(unix, feature = "full"))]
#[test]
fn dev_serves_the_page_and_takes_a_changed_file() {
    use std::net::SocketAddr;

    use crate::listening::over_http::{ask, free};

    let desk = desk();
    desk.write("plain.yaml", "agent: { name: desk, description: old }\n");
    let at: SocketAddr = free();
    let port = at.port().to_string();
    let mut dev = desk.start_shipped(&["dev", "plain.yaml", "--no-browser", "--port", &port]);
    dev.says("listens at");
    let (status, told) = ask(at, "GET", "/api/v1/teams", "", "").unwrap();
    assert_eq!(status, 200, "{told}");
    desk.write(
        "plain.yaml",
        "agent: { name: desk, description: new words }\n",
    );
    dev.says("is taken for new runs");
}
