//! Schedules and webhooks in team files.

use std::time::Duration;

use ghostlight_actors::{
    definition::{
        Durability, Messenger, Missed, Notification, RunNews, Schedule, Webhook, WebhookSignature,
    },
    vocabulary::Timestamp,
};

use crate::{fault, spec};

#[test]
fn a_file_says_when_its_team_is_woken_and_how_durable_its_runs_are() {
    let team = spec(
        "
durability: async
agent: { name: desk }
schedules:
  - name: morning
    cron: 0 9 * * 1-5
    zone: Europe/Berlin
    say: Plan the day.
    session: diary
    missed: skip
  - { name: pulse, every_s: 60, say: Look for new mail. }
",
    );
    assert_eq!(team.durability, Durability::Async);
    let morning = Schedule::cron("morning", "0 9 * * 1-5", "Plan the day.");
    let morning = morning.zone("Europe/Berlin").session("diary");
    let pulse = Schedule::every("pulse", Duration::from_secs(60), "Look for new mail.");
    assert_eq!(team.schedules, [morning.missed(Missed::Skip), pulse]);
    // Nine o'clock in Berlin, on the Monday after a Saturday in winter.
    let saturday = Timestamp(1_736_596_800_000);
    let next = team.schedules[0].next(saturday, saturday);
    assert_eq!(next, Some(Timestamp(1_736_755_200_000)));

    for (schedule, told) in [
        ("{ name: a, say: x, cron: 0 9 * * 8-9 }", "cannot be kept"),
        (
            "{ name: a, say: x, cron: 0 9 * * *, zone: Mars/Olympus }",
            "Mars/Olympus",
        ),
        ("{ name: a, say: x }", "`every_s` or `cron`"),
        ("{ name: a, say: x, every_s: 0 }", "`every_s` is 0"),
        ("{ name: a, cron: 0 9 * * * }", "says nothing"),
        (
            "{ name: not good, say: x, every_s: 0.001 }",
            "schedule name",
        ),
        (
            "{ say: x, every_s: 0.001 }",
            "the schedule's key `name` is missing",
        ),
    ] {
        let text = format!("agent: {{ name: desk }}\nschedules:\n- {schedule}\n");
        let (_, line, column, message) = fault(&text);
        assert_eq!((line, column), (3, 3), "{message}");
        assert!(message.contains(told), "{message}");
    }
}

#[test]
fn a_file_says_which_requests_are_turns_and_keeps_their_secrets_as_references() {
    let team = spec(
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
    let team = spec(
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
    assert_eq!(file.notifications[0].url, "${CHAT}/hooks?key=${CHAT_KEY}");
    assert_eq!(file.messengers[0].url, "https://host/${CHAT_KEY}");
    let callback = file.webhooks[0].callback.as_deref();
    assert_eq!(callback, Some("https://host/${CHAT_KEY}/{body.room}"));
}
