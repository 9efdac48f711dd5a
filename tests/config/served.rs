//! Webhooks, notifications and messengers in team files.

use std::time::Duration;

use ghostlight::server::{Messenger, Notification, RunNews, ServedSpec, Webhook, WebhookSignature};

use crate::{fault, spec};

fn served(text: &str) -> ServedSpec {
    ServedSpec::of(&spec(text)).unwrap()
}

#[test]
fn a_notification_without_an_address_is_refused_at_its_place() {
    let (_, line, column, message) = fault("notifications: [{}]\nagent: { name: a }");
    assert_eq!((line, column), (1, 17), "{message}");
    let told = "the notification's key `url` is missing";
    assert!(message.contains(told), "{message}");
}

#[test]
fn a_file_says_which_requests_are_turns_and_keeps_their_secrets_as_references() {
    let team = served(
        "\
agent: { name: desk }
webhooks:
- name: issues
  signature: github
  secret: ${FORGE_SECRET}
  say: \"Sort: {body.issue.title}\"
  session: issue-{body.issue.number}
- { name: note, secret: \"${NOTE_SECRET}\", owner: ada, wait_s: 20 }
",
    );
    let issues = Webhook::new("issues", "${FORGE_SECRET}").signature(WebhookSignature::Github);
    let issues = issues
        .say("Sort: {body.issue.title}")
        .session("issue-{body.issue.number}");
    let note = Webhook::new("note", "${NOTE_SECRET}")
        .owner("ada")
        .wait(Duration::from_secs(20));
    assert_eq!(team.webhooks, [issues, note]);
    for (webhook, told) in [
        ("{ name: a }", "no secret"),
        ("{ name: a, secret: hunter2 }", "secret"),
        (
            "{ name: a, secret: \"${S}\", say: \"{title}\" }",
            "no value of a request",
        ),
        ("{ name: a, secret: \"${S}\", wait_s: 60 }", "30 seconds"),
        (
            "{ name: a, secret: \"${S}\", callback: \"{to}\" }",
            "`callback` has {to}",
        ),
        (
            "{ name: a, secret: \"${S}\", session: \"{query.room}\" }",
            "`session` has {query.room}, which the sender does not sign",
        ),
        (
            "{ name: a, secret: \"${S}\", callback: \"{header.x-to}\" }",
            "`callback` has {header.x-to}, which the sender does not sign",
        ),
        ("{ name: not good, secret: \"${S}\" }", "webhook name"),
    ] {
        let text = format!("agent: {{ name: desk }}\nwebhooks:\n- {webhook}\n");
        let (_, line, _, message) = fault(&text);
        assert_eq!(line, 3, "{message}");
        assert!(message.contains(told), "{message}");
        assert!(!message.contains("hunter2"), "{message}");
    }
}

#[test]
fn a_file_says_who_hears_of_its_runs() {
    let team = served(
        "\
agent: { name: desk }
notifications:
- url: https://example.org/hear
  secret: ${HEAR_SECRET}
  events: [completed, failed]
- { url: \"https://${HEARER:-example.com}/all\", secret: \"${HEAR_SECRET}\" }
webhooks:
- { name: ask, secret: \"${ASK_SECRET}\", callback: \"{body.reply_to}\" }
messengers:
- { name: chat, url: \"https://example.org/out\", secret: \"${CHAT_SECRET}\", cool_down_s: 2, react: 👀 }
",
    );
    let ends = Notification::new("https://example.org/hear", "${HEAR_SECRET}");
    let ends = ends.events([RunNews::Completed, RunNews::Failed]);
    let all = Notification::new("https://example.com/all", "${HEAR_SECRET}");
    assert_eq!(team.notifications, [ends, all]);
    let ask = Webhook::new("ask", "${ASK_SECRET}").callback("{body.reply_to}");
    assert_eq!(team.webhooks, [ask]);
    let chat = Messenger::new("chat", "https://example.org/out", "${CHAT_SECRET}");
    assert_eq!(
        team.messengers,
        [chat.cool_down(Duration::from_secs(2)).react("👀")]
    );
    for (messenger, told) in [
        (
            "{ name: a b, url: \"https://a\", secret: \"${S}\" }",
            "its name",
        ),
        ("{ name: a, url: \"https://a\" }", "no secret"),
        ("{ name: a, url: a, secret: \"${S}\" }", "https://HOST"),
        (
            "{ name: a, url: \"https://a\", secret: \"${S}\", cool_down_s: 9999 }",
            "3600",
        ),
    ] {
        let text = format!("agent: {{ name: desk }}\nmessengers:\n- {messenger}\n");
        let (_, line, _, message) = fault(&text);
        assert_eq!(line, 3, "{message}");
        assert!(message.contains(told), "{message}");
    }
    for (notification, told) in [
        ("{ secret: \"${S}\" }", "key `url` is missing"),
        ("{ url: \"ftp://a\", secret: \"${S}\" }", "https://HOST"),
        ("{ url: \"https://a\" }", "no secret"),
        ("{ url: \"https://a\", secret: hunter2 }", "secret"),
        (
            "{ url: \"https://a\", secret: \"${S}\", events: [gone] }",
            "gone",
        ),
    ] {
        let text = format!("agent: {{ name: desk }}\nnotifications:\n- {notification}\n");
        let (_, line, _, message) = fault(&text);
        assert_eq!(line, 3, "{message}");
        assert!(message.contains(told), "{message}");
        assert!(!message.contains("hunter2"), "{message}");
    }
}

#[test]
fn variables_in_the_addresses_of_receivers_stay_references() {
    let file = spec(
        "notifications: [{ url: '${CHAT}/hooks?key=${CHAT_KEY}', secret: '${S}' }]
messengers: [{ name: chat, url: 'https://host/${CHAT_KEY}', secret: '${S}' }]
webhooks: [{ name: w, secret: '${S}', callback: 'https://host/${CHAT_KEY}/{body.room}' }]
agent: { name: desk }
",
    );
    let json = serde_json::to_string(&file).unwrap();
    assert!(!json.contains("hunter2"), "{json}");
    let file = ServedSpec::of(&file).unwrap();
    assert_eq!(file.notifications[0].url, "${CHAT}/hooks?key=${CHAT_KEY}");
    assert_eq!(file.messengers[0].url, "https://host/${CHAT_KEY}");
    let callback = file.webhooks[0].callback.as_deref();
    assert_eq!(callback, Some("https://host/${CHAT_KEY}/{body.room}"));
}
