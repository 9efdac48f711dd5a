//! A provider that is down.

use serde_json::json;

use crate::{
    attaching::{desk, server_with},
    listening::over_http::{ask, free, until_answered},
    own_command::Desk,
};

#[test]
fn a_served_run_sleeps_while_its_provider_is_down_and_asks_no_sooner_after_a_kill() {
    let down = json!({ "error": { "message": "down for maintenance" } });
    let (address, asked) = server_with("503 Service Unavailable\r\nretry-after: 600", &down);
    let desk = desk(&address);
    let failed = desk.run(&["run", "team.yaml", "hello", "--store", "other.db"]);
    let failed = failed.exits(1).err;
    assert!(
        failed.contains("asks to be left alone for 600 s"),
        "{failed}"
    );
    asked.recv().unwrap();

    let to = free();
    let listen = to.to_string();
    let serve = || {
        let words = [
            "serve",
            "team.yaml",
            "--listen",
            &listen,
            "--patience",
            "1h",
        ];
        let mut serving = desk.start(&words);
        serving.says("listens at");
        serving
    };
    let serving = serve();
    let turn = json!({ "text": "hello", "id": "t" }).to_string();
    let turns = "/api/v1/sessions/desk/s/turns";
    until_answered(to, "POST", turns, &turn);
    asked.recv().unwrap();
    let is_asleep = |_: &Desk| {
        let load = ask(to, "GET", "/api/v1/load", "", "");
        load.is_some_and(|(_, load)| load["live_runs"]["used"] == 0)
    };
    desk.until("the run's sleep", is_asleep);
    assert_eq!(desk.status(), "waiting");
    serving.signal("KILL");
    serving.ends();

    let serving = serve();
    until_answered(to, "GET", "/ready", "");
    assert_eq!(desk.status(), "waiting");
    let run = desk.only_run();
    desk.run(&["cancel", &run]).exits(0);
    desk.until("its end", |desk| desk.status() == "cancelled");
    assert!(asked.try_recv().is_err(), "it was asked too soon");
    serving.signal("TERM");
    serving.ends().exits(0);
}
