//! No request waits without a bound for the turns before its own.

use std::time::Duration;

use ghostlight_actors::{
    actor::System,
    run::{Agent, Team},
    testing::InMemoryStore,
};
use ghostlight_server::ServerOptions;
use serde_json::json;

use crate::{
    client::Answer,
    desk::{Desk, obey, text_at},
    webhooks::{self, of_github},
};

async fn desk() -> Desk {
    let desk: Team = Agent::from_fn("desk", obey).into_team().unwrap();
    let system = System::builder(InMemoryStore::new()).team(webhooks::of(desk));
    let system = system.start().await.unwrap();
    let bounds = ServerOptions::default().max_wait(Duration::from_millis(300));
    Desk::of(system, |server, _| server.options(bounds)).await
}

#[track_caller]
fn is_busy(answer: Answer) {
    let answer = answer.is(503);
    let kind = text_at(&answer.json(), "/type");
    assert_eq!(kind, "urn:ghostlight:problem:busy");
    assert!(answer.headers.contains_key("retry-after"), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_behind_one_that_does_not_end_is_refused_and_may_come_again() {
    let desk = desk().await;
    let hook = async |action: &str| {
        let issue = json!({ "number": 7, "labels": ["bug"] });
        let body = json!({ "action": action, "issue": issue }).to_string();
        let (path, headers) = ("/hooks/desk/issues?from=forge", of_github(&body));
        let posted = desk.client.request("POST", path, &headers, Some(&body));
        posted.await
    };
    let first = hook("hang").await.is(202).json();
    is_busy(hook("next").await);
    is_busy(hook("next").await);
    let path = "/api/v1/sessions/desk/issue-7/turns";
    let turn = json!({ "text": "well", "id": "t" });
    is_busy(desk.client.post(path, turn.clone()).await);
    // Once the turn before it has ended, the same turn is taken.
    let cancel = format!("/api/v1/runs/{}/cancel", text_at(&first, "/run/id"));
    desk.client.request("POST", &cancel, "", None).await;
    desk.client.post(path, turn).await.is(202);
}
