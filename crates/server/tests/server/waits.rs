//! No request waits without a bound: not for the turns before its own, and not for the end of what it cancels.

use std::{sync::Arc, time::Duration};

use ghostlight_actors::{
    actor::{System, SystemOptions},
    contract::{Tool, ToolContext, ToolError, ToolOutput},
    run::{Agent, Team},
    testing::InMemoryStore,
    vocabulary::{Arguments, Effect, ToolDefinition},
};
use ghostlight_server::ServerOptions;
use serde_json::json;
use tokio::sync::Notify;

use crate::{
    client::Answer,
    desk::{Desk, obey, text_at},
    webhooks::{self, of_github},
};

/// A tool that ends when its grace period does, and tells when it has begun.
struct Stuck(Arc<Notify>);

impl Tool for Stuck {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new("stuck", "Does not end.").effect(Effect::Once)
    }

    async fn call(&self, _: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
        self.0.notify_one();
        std::future::pending().await
    }
}

async fn desk(begun: &Arc<Notify>) -> Desk {
    let mut limits = SystemOptions::default();
    limits.executor.grace = Duration::from_secs(3_600);
    let desk: Team = Agent::from_fn("desk", obey)
        .tool(Stuck(begun.clone()))
        .into_team()
        .unwrap();
    let system = System::builder(InMemoryStore::new()).options(limits);
    let system = system.team(webhooks::of(desk)).start().await.unwrap();
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
    let begun = Arc::default();
    let desk = desk(&begun).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_a_response_does_not_wait_for_a_tool_that_is_stuck() {
    let begun = Arc::default();
    let desk = desk(&begun).await;
    let run = desk.begin(&desk.client, "s", "call stuck").await;
    begun.notified().await;
    let path = format!("/v1/responses/resp_{run}/cancel");
    let answer = desk.client.request("POST", &path, "", None).await.is(200);
    assert_eq!(text_at(&answer.json(), "/status"), "in_progress");
}
