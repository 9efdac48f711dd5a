//! What another program posts, signed, is a turn; what is not signed, or comes again, is none.

use std::time::SystemTime;

use ghostlight_actors::{
    actor::Limits,
    contract::RunFilter,
    definition::{Messenger, Webhook, WebhookSignature},
    run::Team,
    testing::InMemoryStore,
};
use ring::hmac;
use serde_json::json;

use crate::{
    client::{Answer, Client},
    desk::{Desk, text_at},
};

/// A variable that cargo sets for every test; what it holds is the secret here.
pub(crate) const SECRET: &str = "${CARGO_PKG_NAME}";

/// A team with webhooks and a messenger.
pub(crate) fn of(team: Team) -> Team {
    let issues = Webhook::new("issues", SECRET)
        .signature(WebhookSignature::Github)
        .say("{body.action} {header.x-github-event} {{{query.from}}} {body.issue.labels.0}")
        .session("issue-{body.issue.number}");
    let mine = Webhook::new("mine", SECRET)
        .signature(WebhookSignature::Ghostlight)
        .say("{body.text}")
        .owner("ada")
        .wait_s(30);
    let back = Webhook::new("back", SECRET)
        .signature(WebhookSignature::Ghostlight)
        .say("{body.text}")
        .callback("{body.reply_to}");
    let unset = Webhook::new("unset", "${GHOSTLIGHT_TEST_NEVER_SET}");
    let chat = Messenger::new("chat", "http://127.0.0.1:9/out", SECRET);
    team.messenger(chat)
        .webhook(issues)
        .webhook(mine)
        .webhook(back)
        .webhook(unset)
}

fn hex_of(text: &str) -> String {
    let secret = env!("CARGO_PKG_NAME");
    let tag = hmac::sign(
        &hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()),
        text.as_bytes(),
    );
    tag.as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// The headers with which GitHub signs a body.
fn of_github(body: &str) -> String {
    format!(
        "X-GitHub-Event: issues\r\nX-Hub-Signature-256: sha256={}\r\n",
        hex_of(body)
    )
}

pub(crate) fn now_s() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap().as_secs()
}

/// The headers with which Ghostlight signs a body at a time.
pub(crate) fn of_ghostlight(at: u64, body: &str) -> String {
    let tag = hex_of(&format!("{at}.{body}"));
    format!("Ghostlight-Timestamp: {at}\r\nGhostlight-Signature: v1={tag}\r\n")
}

async fn issue(client: &Client, body: &str, headers: &str) -> Answer {
    let path = "/hooks/desk/issues?from=forge";
    client.request("POST", path, headers, Some(body)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_request_is_a_turn_with_values_of_the_request_and_again_it_is_the_same() {
    let desk = Desk::locked().await;
    let body = json!({ "action": "opened", "issue": { "number": 7, "labels": ["bug"] } });
    let body = body.to_string();
    let first = issue(&desk.client, &body, &of_github(&body))
        .await
        .is(202)
        .json();
    let again = issue(&desk.client, &body, &of_github(&body)).await;
    assert_eq!(
        text_at(&again.json(), "/run/id"),
        text_at(&first, "/run/id")
    );
    let run = desk
        .system
        .as_operator()
        .run(text_at(&first, "/run/id").parse().unwrap());
    assert_eq!(
        run.outcome().await.unwrap().text(),
        "did opened issues {forge} bug"
    );
    assert_eq!(text_at(&first, "/run/session/key"), "issue-7");
    // Another body is another turn.
    let closed = body.replace("opened", "closed");
    let closed = issue(&desk.client, &closed, &of_github(&closed))
        .await
        .is(202)
        .json();
    assert_ne!(text_at(&closed, "/run/id"), text_at(&first, "/run/id"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_request_is_the_same_turn_after_a_restart_too() {
    let store = InMemoryStore::new();
    let locked = async |store| {
        let locked = Desk::over(store, Limits::default(), |server, keys| {
            server.keys(keys.clone())
        });
        locked.await
    };
    let first = locked(store.clone()).await;
    let (body, path) = (r#"{"text":"hello"}"#, "/hooks/desk/mine");
    let headers = of_ghostlight(now_s(), body);
    let said = first.client.request("POST", path, &headers, Some(body));
    let said = said.await.is(200).json();
    drop(first);
    store.crash();
    let next = locked(store.another_process()).await;
    let again = next.client.request("POST", path, &headers, Some(body));
    let again = again.await.is(200).json();
    assert_eq!(text_at(&again, "/run/id"), text_at(&said, "/run/id"));
    let runs = next.system.store().runs(RunFilter::default()).await;
    assert_eq!(runs.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_of_somebody_waits_for_the_answer_in_a_session_of_theirs() {
    let desk = Desk::locked().await;
    let body = r#"{"text":"hello"}"#;
    let headers = of_ghostlight(now_s(), body);
    let path = "/hooks/desk/mine";
    let answer = desk
        .client
        .request("POST", path, &headers, Some(body))
        .await;
    assert_eq!(text_at(&answer.is(200).json(), "/end/answer"), "did hello");
    let ada = desk.client_of("ada", &[ghostlight_server::Scope::Read]);
    let sessions = ada.get("/api/v1/sessions").await.is(200).json();
    assert_eq!(text_at(&sessions, "/sessions/0/session/key"), "mine");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_unsigned_late_forged_incomplete_or_unknown_says_nothing() {
    let desk = Desk::locked().await;
    let body = json!({ "action": "opened", "issue": { "number": 7, "labels": ["bug"] } });
    let body = body.to_string();
    let lacking = r#"{"action":"opened"}"#;
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let tries = [
        (body.as_str(), String::new(), 401),
        (&body, of_github(lacking), 401),
        (&body, "X-Hub-Signature-256: sha256=00\r\n".to_owned(), 401),
        (lacking, of_github(lacking), 422),
        ("{", of_github("{"), 422),
        (&deep, of_github(&deep), 422),
    ];
    for (body, headers, status) in tries {
        let answer = issue(&desk.client, body, &headers).await;
        assert_eq!(answer.status, status, "{headers} {answer:?}");
    }
    let text = r#"{"text":"x"}"#;
    let late = of_ghostlight(now_s() - 600, text);
    for (path, headers, status) in [
        ("/hooks/desk/mine", late.as_str(), 401),
        ("/hooks/desk/unset", "", 503),
        ("/hooks/desk/none", "", 404),
        ("/hooks/none/mine", "", 404),
        // A team that nobody outside may know of.
        ("/hooks/secret/mine", &of_ghostlight(now_s(), text), 404),
    ] {
        let answer = desk.client.request("POST", path, headers, Some(text)).await;
        assert_eq!(answer.status, status, "{path} {answer:?}");
    }
    let runs = desk.system.store().runs(RunFilter::default()).await;
    assert!(runs.unwrap().is_empty());
}
