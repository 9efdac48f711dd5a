//! What another program posts, signed, is a turn; what is not signed, or comes again, is none.

use std::time::{Duration, SystemTime};

use ghostlight_actors::{
    actor::SystemOptions, contract::RunFilter, definition::TeamSpec, run::Team,
    testing::InMemoryStore,
};
use ghostlight_server::{Messenger, ServedSpec, Webhook, WebhookMethod, WebhookSignature};
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
        .wait(Duration::from_secs(30));
    let back = Webhook::new("back", SECRET)
        .signature(WebhookSignature::Ghostlight)
        .say("{body.text}")
        .callback("{body.reply_to}");
    let slack = Webhook::new("slack", SECRET)
        .signature(WebhookSignature::Slack)
        .say("{body.text}")
        .session("of-{body.user_id}")
        .wait(Duration::from_secs(30));
    let pressed = Webhook::new("pressed", SECRET)
        .signature(WebhookSignature::Slack)
        .say("{body.actions.0.value}");
    let unset = Webhook::new("unset", "${GHOSTLIGHT_TEST_NEVER_SET}");
    let form = Webhook::new("form", SECRET)
        .signature(WebhookSignature::Ghostlight)
        .methods([WebhookMethod::Put, WebhookMethod::Patch])
        .say("{body.text | trim | upper | cut 4} {body.who | or nobody}")
        .wait(Duration::from_secs(30));
    let off = Webhook::new("off", SECRET)
        .signature(WebhookSignature::Ghostlight)
        .enabled(false);
    let chat = Messenger::new("chat", "http://127.0.0.1:9/out", SECRET);
    team.messenger(chat)
        .webhook(issues)
        .webhook(mine)
        .webhook(back)
        .webhook(slack)
        .webhook(pressed)
        .webhook(unset)
        .webhook(form)
        .webhook(off)
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
pub(crate) fn of_github(body: &str) -> String {
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
async fn a_webhook_has_its_methods_its_functions_and_a_switch() {
    let desk = Desk::locked().await;
    let send = async |method: &str, path: &str, body: &str, kind: &str| {
        let length = format!("Content-Type: {kind}\r\nContent-Length: {}\r\n", body.len());
        let more = of_ghostlight(now_s(), body) + &length;
        let sent = format!("{}\r\n{body}", desk.client.head(method, path, &more));
        desk.client.send(sent.as_bytes()).await.unwrap()
    };
    let json = "application/json";
    let said = send("PUT", "/hooks/desk/form", "text=+well+done&who=ada", FORM).await;
    assert_eq!(text_at(&said.is(200).json(), "/end/answer"), "did WELL ada");
    let body = r#"{"text":"patched"}"#;
    let said = send("PATCH", "/hooks/desk/form", body, json).await;
    assert_eq!(
        text_at(&said.is(200).json(), "/end/answer"),
        "did PATC nobody"
    );
    let other = r#"{"text":"posted"}"#;
    send("POST", "/hooks/desk/form", other, json).await.is(404);
    send("PUT", "/hooks/desk/mine", other, json).await.is(404);
    send("POST", "/hooks/desk/off", other, json).await.is(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_request_is_the_same_turn_after_a_restart_too() {
    let store = InMemoryStore::new();
    let locked = async |store| {
        let locked = Desk::over(store, SystemOptions::default(), |server, keys| {
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

/// The headers with which Slack signs a body at a time.
fn of_slack(at: u64, kind: &str, body: &str) -> String {
    let tag = hex_of(&format!("v0:{at}:{body}"));
    format!(
        "X-Slack-Request-Timestamp: {at}\r\nX-Slack-Signature: v0={tag}\r\nContent-Type: {kind}\r\n"
    )
}

/// Posts a signed body of this media type.
async fn post(desk: &Desk, path: &str, (at, kind): (u64, &str), body: &str) -> Answer {
    let length = format!("Content-Length: {}\r\nConnection: close\r\n", body.len());
    let more = of_slack(at, kind, body) + &length;
    let head = desk.client.head("POST", path, &more);
    let sent = format!("{head}\r\n{body}");
    desk.client.send(sent.as_bytes()).await.unwrap()
}

const FORM: &str = "application/x-www-form-urlencoded";

#[tokio::test(flavor = "multi_thread")]
async fn a_slash_command_of_slack_is_a_turn_and_a_form_without_its_signature_is_none() {
    let desk = Desk::locked().await;
    let (path, now) = ("/hooks/desk/slack", now_s());
    let body = "token=x&user_id=U2&command=%2Fdesk&text=hear+gr%C3%BC%C3%9Fe%26&trigger_id=1";
    let said = post(&desk, path, (now, FORM), body).await.is(200).json();
    assert_eq!(said, json!({ "text": "did hear grüße&" }));
    // Slack signs each attempt anew.
    post(&desk, path, (now - 1, FORM), body).await.is(200);
    let runs = desk
        .system
        .store()
        .runs(RunFilter::default())
        .await
        .unwrap();
    assert_eq!(runs.len(), 1);
    assert_eq!(&*runs[0].session.as_ref().unwrap().key, "of-U2");
    let pressed = r#"payload=%7B%22actions%22%3A%5B%7B%22value%22%3A%22yes%22%7D%5D%7D"#;
    let answer = post(&desk, "/hooks/desk/pressed", (now, FORM), pressed).await;
    assert_eq!(answer.is(200).body, "");
    let twice = format!("{body}&text=other");
    post(&desk, path, (now, FORM), &twice).await.is(422);
    post(&desk, path, (now, "text/plain"), body).await.is(415);
    let forged = of_slack(now, FORM, "text=other") + "Content-Length: 5\r\n";
    let forged = desk.client.head("POST", path, &forged) + "\r\ntext=";
    let forged = desk.client.send(forged.as_bytes()).await.unwrap();
    assert_eq!(forged.status, 401);
    let runs = desk.system.store().runs(RunFilter::default()).await;
    assert_eq!(runs.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_address_of_a_webhook_is_verified_by_slack() {
    let desk = Desk::locked().await;
    let (path, kind) = ("/hooks/desk/slack", "application/json");
    let body = r#"{"token":"x","challenge":"3eZbrw1a","type":"url_verification"}"#;
    let answer = post(&desk, path, (now_s(), kind), body)
        .await
        .is(200)
        .json();
    assert_eq!(answer, json!({ "challenge": "3eZbrw1a" }));
    post(&desk, path, (now_s() - 600, kind), body).await.is(401);
}

#[test]
fn a_team_keeps_its_sections_and_wrong_entries_are_refused_by_name() {
    let recorded = json!({
        "agent": { "name": "desk" },
        "webhooks": [{ "name": "issues", "secret": "${S}", "wait_s": 1.5 }],
        "messengers": [{ "name": "chat", "url": "https://a", "secret": "${S}" }],
        "notifications": [{ "url": "https://b", "secret": "${S}", "events": ["failed"] }],
    });
    let mut team: TeamSpec = serde_json::from_value(recorded.clone()).unwrap();
    let served = ServedSpec::of(&team).unwrap();
    assert_eq!(served.webhooks[0].wait.as_millis(), 1_500);
    served.put_into(&mut team);
    for section in ["webhooks", "messengers", "notifications"] {
        let kept = serde_json::to_value(&team).unwrap();
        assert_eq!(kept[section], recorded[section]);
    }
    for (section, entry, told) in [
        ("webhooks", json!({ "name": "w" }), "no secret"),
        (
            "webhooks",
            json!({ "name": "w", "wat": 1 }),
            "unknown field",
        ),
        ("webhooks", json!({ "name": "a b" }), "webhook name \"a b\""),
        ("webhooks", recorded["webhooks"][0].clone(), "there twice"),
        ("messengers", json!("chat"), "expected struct"),
        ("notifications", json!({ "url": "b" }), "https://HOST"),
    ] {
        let mut wrong = recorded.clone();
        wrong[section].as_array_mut().unwrap().push(entry);
        let team: TeamSpec = serde_json::from_value(wrong).unwrap();
        let error = ServedSpec::of(&team).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
}
