//! A server whose database fails over, as the guide says it.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::{
    listening::over_http::{exchange, free, until_answered},
    own_command::Desk,
    quotas::postgres::{QUICK, Server, is_left_out},
};

#[test]
fn a_server_says_at_once_that_its_database_is_away_and_goes_on_with_the_replica() {
    if is_left_out() {
        return;
    }
    let database = Server::start(&QUICK);
    let replica = database.replica();
    // From here on each acknowledged commit is on the replica, too.
    database.sql("ALTER SYSTEM SET synchronous_standby_names = '*'");
    database.sql("SELECT pg_reload_conf()");
    let (one, other) = (database.port(), replica.port());
    let store = format!(
        "postgres://agent@127.0.0.1:{one},127.0.0.1:{other}/postgres?sslmode=disable&target_session_attrs=read-write"
    );
    let desk = Desk::new("simple", json!({}));
    let team = json!({ "agent": { "name": "desk", "behavior": "simple" } });
    desk.write("team.yaml", &team.to_string());
    let to = free();
    let listen = to.to_string();
    let mut serving = desk.start(&["serve", "team.yaml", "--store", &store, "--listen", &listen]);
    serving.says("listens at");
    let say = |id: &str| {
        let body = json!({ "text": "go", "id": id }).to_string();
        exchange(
            to,
            "POST",
            "/api/v1/sessions/desk/s/turns?wait=50",
            "",
            &body,
        )
        .unwrap()
    };
    let (status, head, before) = say("before");
    assert_eq!(status, 200, "{head} {before}");
    database.crash();
    let asked = Instant::now();
    let (status, head, _) = exchange(to, "GET", "/ready", "", "").unwrap();
    assert_eq!(status, 503, "{head}");
    assert!(head.contains("\r\nretry-after: "), "{head}");
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    replica.promote();
    until_answered(to, "GET", "/ready", "");
    let (status, head, again) = say("before");
    assert_eq!(
        (status, &again["run"]),
        (200, &before["run"]),
        "{head} {again}"
    );
    let (status, head, after) = say("after");
    assert_eq!(status, 200, "{head} {after}");
    assert_ne!(after["run"], before["run"]);
    serving.signal("TERM");
    serving.ends().exits(0);
}
