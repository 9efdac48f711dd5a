//! People of a messenger talk to a team through a bridge: what they write is a turn or an answer, and each is told
//! what becomes of it.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ghostlight_actors::{actor::System, run::Agent, testing::InMemoryStore};
use ghostlight_server::Messenger;
use ring::hmac;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::{
    client::{Answer, Client},
    deliveries::{Telling, deliveries},
    desk::{Desk, obey, text_at},
    receiver::{Got, Receiver},
    steering::steered,
    webhooks::{SECRET, now_s},
};

async fn desk(store: InMemoryStore, messenger: Messenger) -> Telling {
    let team = Agent::from_fn("desk", obey).into_team().unwrap();
    Telling::of(store, team.messenger(messenger)).await
}

/// What a bridge posts, signed as Standard Webhooks says.
pub(crate) async fn post(client: &Client, body: &Value) -> Answer {
    let (body, now) = (body.to_string(), now_s());
    let key = hmac::Key::new(hmac::HMAC_SHA256, env!("CARGO_PKG_NAME").as_bytes());
    let tag = STANDARD.encode(hmac::sign(&key, format!("b1.{now}.{body}").as_bytes()));
    let headers =
        format!("webhook-id: b1\r\nwebhook-timestamp: {now}\r\nwebhook-signature: v1,{tag}\r\n");
    let path = "/messengers/desk/chat";
    client.request("POST", path, &headers, Some(&body)).await
}

fn message(id: &str, sender: &str, text: &str) -> Value {
    json!({ "type": "message", "id": id, "chat": "lobby", "sender": sender, "text": text })
}

/// What was taken, each message once: one that was under way when a process died comes again.
async fn heard(bridge: &Receiver, most: usize) -> Vec<Got> {
    let taken = |got: &[Got]| {
        let mut once: Vec<Got> = Vec::new();
        for got in got.iter().filter(|got| got.status == 200) {
            if once.iter().all(|known| known.id() != got.id()) {
                once.push(got.clone());
            }
        }
        once
    };
    bridge.until(|got| taken(got).len() >= most).await;
    taken(&bridge.got())
}

fn texts(got: &[Got], to: &str) -> Vec<String> {
    let of = got.iter().map(Got::json).filter(|body| body["to"] == to);
    of.map(|body| format!("{} {}", text_at(&body, "/kind"), text_at(&body, "/text")))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_person_writes_is_a_turn_or_an_answer_and_they_are_told_what_becomes_of_it() {
    let bridge = Receiver::open(&[500]).await;
    let messenger = Messenger::new("chat", bridge.url("/out"), SECRET).react("👀");
    let store = InMemoryStore::new();
    let first = desk(store.clone(), messenger.clone()).await;
    let asked = post(&first.client, &message("m1", "ada", "ask name"))
        .await
        .is(202)
        .json();
    let told = heard(&bridge, 2).await;
    let seen = told[0].json();
    assert_eq!(
        (&seen["type"], &seen["emoji"], &seen["message"]),
        (&json!("reaction"), &json!("👀"), &json!("m1"))
    );
    assert_eq!(texts(&told, "ada"), ["question name"]);
    assert_eq!(told[1].json()["reply_to"], "m1");
    told[1].is_signed_with(env!("CARGO_PKG_NAME"));
    // The same message again is the same turn; another person has another session in the same chat.
    let again = post(&first.client, &message("m1", "ada", "ask name"))
        .await
        .is(202)
        .json();
    assert_eq!(again["run"], asked["run"]);
    post(&first.client, &message("m2", "bob", "fail secretly"))
        .await
        .is(202);
    let told = heard(&bridge, 4).await;
    assert_eq!(texts(&told, "bob"), ["failure This could not be finished."]);
    drop(first);
    store.crash();
    // The next message of the person answers the question, once, whoever hears it.
    let next = desk(store.another_process(), messenger).await;
    for _ in 0..2 {
        let answered = post(&next.client, &message("m3", "ada", "Ann"))
            .await
            .is(202)
            .json();
        assert_eq!(answered["run"], asked["run"]);
        heard(&bridge, 5).await;
    }
    let told = heard(&bridge, 5).await;
    assert_eq!(
        texts(&told, "ada"),
        ["question name", "answer answered \"Ann\""]
    );
    assert_eq!(told.len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_to_a_run_that_ends_without_it_is_answered_by_the_run_that_takes_it() {
    let bridge = Receiver::open(&[]).await;
    let messenger = Messenger::new("chat", bridge.url("/out"), SECRET);
    let gate = Arc::new(Semaphore::new(0));
    let team = steered(&gate).messenger(messenger);
    let desk = Telling::of(InMemoryStore::new(), team).await;
    let first = post(&desk.client, &message("m1", "ada", "asks, deaf")).await;
    let run = text_at(&first.is(202).json(), "/run");
    heard(&bridge, 1).await;
    let answer = post(&desk.client, &message("m", "ada", "Ann")).await;
    answer.is(202);
    let events = format!("/api/v1/runs/{run}/events");
    let mut events = desk.client.events(&events, None, None).await;
    while events.next().await.expect("a model call").name != "model_called" {}
    for _ in 0..2 {
        let said = post(&desk.client, &message("m2", "ada", "well")).await;
        assert_eq!(text_at(&said.is(202).json(), "/run"), run);
    }
    gate.add_permits(1);
    heard(&bridge, 3).await;
    // The same message again is the turn that was answered.
    let again = post(&desk.client, &message("m2", "ada", "well")).await;
    assert_ne!(text_at(&again.is(202).json(), "/run"), run);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let told = heard(&bridge, 3).await;
    let mut answers: Vec<String> = told
        .iter()
        .map(|got| {
            let got = got.json();
            format!("{} {}", text_at(&got, "/reply_to"), text_at(&got, "/text"))
        })
        .collect();
    answers.sort();
    let expected = ["m1 did asks, deaf ", "m1 name?", "m2 did well "];
    assert_eq!(answers, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bot_of_telegram_takes_updates_and_answers_by_its_interface() {
    let telegram = Receiver::open(&[429]).await;
    // The variables that cargo sets for every test: what they hold is the token and the secret here.
    let mut messenger = Messenger::telegram("chat", "${CARGO_PKG_VERSION}", SECRET).react("👀");
    messenger.url = telegram.url("");
    messenger.check().unwrap();
    let desk = desk(InMemoryStore::new(), messenger).await;
    let update = |number: u64, text: Value| {
        json!({ "update_id": number, "message": {
            "message_id": number, "chat": { "id": -5 }, "from": { "id": 42, "is_bot": false }, "text": text,
        } })
    };
    let post = async |secret: &str, body: Value| {
        let headers = format!("X-Telegram-Bot-Api-Secret-Token: {secret}\r\n");
        let path = "/messengers/desk/chat";
        let body = body.to_string();
        desk.client
            .request("POST", path, &headers, Some(&body))
            .await
    };
    let secret = env!("CARGO_PKG_NAME");
    post("wrong", update(7, json!("ask name"))).await.is(401);
    post("", update(7, json!("ask name"))).await.is(401);
    let asked = post(secret, update(7, json!("ask name")))
        .await
        .is(202)
        .json();
    let told = telegram.until_taken(2).await;
    let base = format!("/bot{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(told[0].path, format!("{base}/setMessageReaction"));
    let seen = json!([{ "type": "emoji", "emoji": "👀" }]);
    assert_eq!(
        told[0].json(),
        json!({ "chat_id": -5, "message_id": 7, "reaction": seen })
    );
    assert_eq!(told[1].path, format!("{base}/sendMessage"));
    assert_eq!(
        (&told[1].json()["chat_id"], &told[1].json()["text"]),
        (&json!(-5), &json!("name"))
    );
    // The next message is the answer, also when Telegram sends it again; what is no text says nothing.
    for _ in 0..2 {
        let answered = post(secret, update(8, json!("Ann"))).await.is(202).json();
        assert_eq!(answered["run"], asked["run"]);
    }
    post(secret, update(9, Value::Null)).await.is(200);
    post(secret, json!({ "update_id": 10, "edited_message": {} }))
        .await
        .is(200);
    let told = telegram.until_taken(3).await;
    assert_eq!(told[2].json()["text"], "answered \"Ann\"");
    assert_eq!(told[2].json()["reply_parameters"]["message_id"], 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_writes_too_fast_waits_and_nobody_else_does() {
    let bridge = Receiver::open(&[]).await;
    let messenger =
        Messenger::new("chat", bridge.url("/out"), SECRET).cool_down(Duration::from_secs(600));
    let store = InMemoryStore::new();
    let first = desk(store.clone(), messenger.clone()).await;
    post(&first.client, &message("m1", "ada", "go"))
        .await
        .is(202);
    let refused = post(&first.client, &message("m2", "ada", "go"))
        .await
        .is(429);
    let wait: u64 = refused.headers["retry-after"].parse().unwrap();
    assert!((590..=600).contains(&wait), "{wait}");
    // A bridge's retry costs nothing, and neither does anything of another person.
    post(&first.client, &message("m1", "ada", "go"))
        .await
        .is(202);
    post(&first.client, &message("m3", "bob", "go"))
        .await
        .is(202);
    drop(first);
    store.crash();
    let next = desk(store.another_process(), messenger).await;
    post(&next.client, &message("m2", "ada", "go"))
        .await
        .is(429);
    assert_eq!(texts(&heard(&bridge, 2).await, "ada"), ["answer did go"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_unsigned_or_malformed_says_nothing() {
    let bridge = Receiver::open(&[]).await;
    let store = InMemoryStore::new();
    let desk = desk(store, Messenger::new("chat", bridge.url("/out"), SECRET)).await;
    let fine = message("m1", "ada", "go").to_string();
    for (path, status) in [
        ("/messengers/desk/chat", 401),
        ("/messengers/desk/none", 404),
        ("/messengers/none/chat", 404),
    ] {
        desk.client
            .request("POST", path, "", Some(&fine))
            .await
            .is(status);
    }
    let long = "x".repeat(70_000);
    for wrong in [
        json!({}),
        json!([]),
        json!({ "type": "dance", "chat": "c", "sender": "s" }),
        json!({ "type": "message", "id": "1", "chat": "c", "sender": "s" }),
        message("", "ada", "go"),
        message("m", "", "go"),
        message("m", "a/b", "go"),
        message("m", "a\nb", "go"),
        message("m", &"x".repeat(129), "go"),
        message("m", "ada", " "),
        message("m", "ada", &long),
        json!({ "type": "reaction", "chat": "c", "sender": "s", "message": "m", "emoji": "" }),
    ] {
        assert_eq!(post(&desk.client, &wrong).await.status, 422, "{wrong}");
    }
    let reaction = json!({ "type": "reaction", "chat": "c", "sender": "s", "message": "msg_1", "emoji": "👍" });
    assert_eq!(
        post(&desk.client, &reaction).await.is(200).json()["reaction"],
        "unknown"
    );
    assert!(bridge.got().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bots_secret_is_looked_up_as_every_other_secret_is() {
    let messenger = Messenger::telegram("chat", "${THE_BOTS_TOKEN}", "${THE_BOTS_SECRET}");
    let team = Agent::from_fn("desk", obey).into_team().unwrap();
    let system = System::builder(InMemoryStore::new()).team(team.messenger(messenger));
    let desk = Desk::of(system.start().await.unwrap(), |server, _| {
        let server = server.deliveries(deliveries(&[]));
        server.variables(|name| name.starts_with("THE_BOTS").then(|| "swordfish".to_owned()))
    })
    .await;
    let update = json!({ "update_id": 1, "message": {
        "message_id": 1, "chat": { "id": 5 }, "from": { "id": 42, "is_bot": false }, "text": "well",
    } })
    .to_string();
    for (secret, status) in [("wrong", 401), ("swordfish", 202)] {
        let headers = format!("X-Telegram-Bot-Api-Secret-Token: {secret}\r\n");
        let path = "/messengers/desk/chat";
        let posted = desk.client.request("POST", path, &headers, Some(&update));
        posted.await.is(status);
    }
}
