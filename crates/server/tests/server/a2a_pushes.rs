//! Push notifications of A2A: the updates of a task are posted to whoever its client names.

use std::collections::BTreeSet;

use ghostlight_actors::{actor::SystemOptions, testing::InMemoryStore};
use ghostlight_server::Scope;
use serde_json::{Value, json};

use crate::{
    a2a::{ALL, Binding, message, to_task},
    client::Client,
    deliveries::deliveries,
    desk::{Desk, text_at},
    receiver::{Got, Receiver},
};

async fn desk(store: InMemoryStore) -> Desk {
    Desk::over(store, SystemOptions::default(), |server, keys| {
        server
            .keys(keys.clone())
            .deliveries(deliveries(&["127.0.0.1"]))
    })
    .await
}

async fn ask(client: &Client, method: &str, params: Value) -> Result<Value, String> {
    Binding::JsonRpc.ask(client, method, params).await
}

/// What a message says of its task, in a word.
fn word(got: &Got) -> String {
    let body = got.json();
    match body.get("statusUpdate") {
        Some(update) => text_at(update, "/status/state").replace("TASK_STATE_", ""),
        None => text_at(&body, "/artifactUpdate/artifact/parts/0/text"),
    }
}

fn words(got: &[Got]) -> Vec<String> {
    got.iter().map(word).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_updates_of_a_task_are_posted_with_its_clients_token_in_every_binding() {
    let desk = desk(InMemoryStore::new()).await;
    let ada = desk.client_of("ada", &[Scope::Read, Scope::Run]);
    let reader = desk.client_of("ada", &[Scope::Read]);
    let card = ada
        .get("/a2a/desk/.well-known/agent-card.json")
        .await
        .json();
    assert_eq!(card["capabilities"]["pushNotifications"], true);
    for (number, binding) in ALL.into_iter().enumerate() {
        let receiver = Receiver::open(&[503]).await;
        let config = json!({ "url": receiver.url("/hear"), "token": "mine",
            "authentication": { "scheme": "Bearer", "credentials": "s3cret" } });
        let request = json!({ "message": message(&format!("m{number}"), "ask name"),
            "configuration": { "taskPushNotificationConfig": config } });
        let sent = binding
            .ask(&ada, "SendMessage", request.clone())
            .await
            .unwrap();
        let task = sent["task"].clone();
        let told = receiver.until_taken(2).await;
        assert_eq!(words(&told), ["WORKING", "INPUT_REQUIRED"]);
        assert_eq!(told[1].json()["statusUpdate"]["taskId"], task["id"]);
        assert_eq!(
            told[1].json()["statusUpdate"]["contextId"],
            task["contextId"]
        );
        // The same message sent again names the same receiver.
        binding.ask(&ada, "SendMessage", request).await.unwrap();
        let of_task = json!({ "taskId": task["id"] });
        let method = "ListTaskPushNotificationConfigs";
        let listed = binding.ask(&ada, method, of_task.clone()).await.unwrap();
        assert_eq!(listed["configs"].as_array().unwrap().len(), 1, "{listed}");
        let one = &listed["configs"][0];
        assert_eq!(
            (&one["token"], &one["authentication"]),
            (&json!("mine"), &json!({ "scheme": "Bearer" }))
        );
        // Whoever may only read learns nothing with which to speak as the server.
        let read = binding.ask(&reader, method, of_task).await.unwrap();
        let read = &read["configs"][0];
        assert_eq!(
            (read.get("token"), &read["authentication"]),
            (None, &json!({ "scheme": "Bearer" }))
        );
        // A second receiver hears of what comes, and not of what was.
        let later = Receiver::open(&[]).await;
        let config = json!({ "taskId": task["id"], "id": "later", "url": later.url("/") });
        let method = "CreateTaskPushNotificationConfig";
        let made = binding.ask(&ada, method, config.clone()).await.unwrap();
        assert_eq!(made["id"], "later");
        let removed =
            json!({ "taskId": task["id"], "id": "removed", "url": later.url("/removed") });
        binding.ask(&ada, method, removed.clone()).await.unwrap();
        let method = "DeleteTaskPushNotificationConfig";
        binding.ask(&ada, method, removed.clone()).await.unwrap();
        let method = "GetTaskPushNotificationConfig";
        let gone = binding.ask(&ada, method, removed).await;
        assert_eq!(gone.unwrap_err(), "TASK_NOT_FOUND");
        let got = binding.ask(&ada, method, config).await.unwrap();
        assert_eq!(got["url"], later.url("/"));
        let answer = to_task(&task, message(&format!("a{number}"), "Ann"));
        binding.send(&ada, answer).await.unwrap();
        let told = receiver.until_taken(5).await;
        let end = ["WORKING", "answered \"Ann\"", "COMPLETED"];
        assert_eq!(words(&told[2..]), end);
        assert_eq!(words(&later.until_taken(3).await), end);
        for got in receiver.got() {
            assert_eq!(got.header("x-a2a-notification-token"), "mine");
            assert_eq!(got.header("authorization"), "Bearer s3cret");
            assert_eq!(got.header("content-type"), "application/a2a+json");
        }
        let ids: BTreeSet<String> = told.iter().map(Got::id).collect();
        assert_eq!(
            (ids.len(), receiver.got().len(), later.got().len()),
            (5, 6, 3)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_posted_when_the_process_died_is_posted_by_the_next() {
    let store = InMemoryStore::new();
    let receiver = Receiver::open(&[200, 500, 500, 500]).await;
    let first = desk(store.clone()).await;
    let ada = first.client_of("ada", &[Scope::Read, Scope::Run]);
    let config = json!({ "url": receiver.url("/hear"), "token": "mine" });
    let request = json!({ "message": message("m", "go"),
        "configuration": { "taskPushNotificationConfig": config } });
    ask(&ada, "SendMessage", request).await.unwrap();
    receiver.until(|got| got.len() >= 2).await;
    drop(first);
    store.crash();
    receiver.answers(&[]);
    let refused = receiver.got()[1].id();
    let _next = desk(store.another_process()).await;
    let told = receiver.until_taken(3).await;
    assert_eq!(words(&told), ["WORKING", "did go", "COMPLETED"]);
    assert_eq!(told[1].id(), refused);
    assert_eq!(told[2].header("x-a2a-notification-token"), "mine");
}

#[tokio::test(flavor = "multi_thread")]
async fn receivers_are_the_owners_alone_and_where_the_server_allows_them() {
    let desk = desk(InMemoryStore::new()).await;
    let ada = desk.client_of("ada", &[Scope::Read, Scope::Run]);
    let reader = desk.client_of("ada", &[Scope::Read]);
    let bob = desk.client_of("bob", &[Scope::Read, Scope::Run]);
    let receiver = Receiver::open(&[]).await;
    let task = Binding::JsonRpc
        .send(&ada, message("m", "ask name"))
        .await
        .unwrap();
    let config = |id: &str| json!({ "taskId": task["id"], "id": id, "url": receiver.url("/") });
    let create = "CreateTaskPushNotificationConfig";
    ask(&ada, create, config("mine")).await.unwrap();
    for method in [
        create,
        "GetTaskPushNotificationConfig",
        "ListTaskPushNotificationConfigs",
        "DeleteTaskPushNotificationConfig",
    ] {
        let refused = ask(&bob, method, config("mine")).await;
        assert_eq!(refused.unwrap_err(), "TASK_NOT_FOUND", "{method}");
    }
    let refused = ask(&reader, create, config("read")).await;
    assert_eq!(refused.unwrap_err(), "PERMISSION_DENIED");
    let mut wrong = vec![config("a b"), config(&"x".repeat(65))];
    for (name, value) in [
        ("url", "http://10.0.0.1/"),
        ("url", "http://169.254.169.254/latest"),
        ("url", "https://example.org/"),
        ("url", "file:///etc/passwd"),
        ("url", ""),
        ("token", "a\r\nX-Other: b"),
    ] {
        let mut config = config("wrong");
        config[name] = value.into();
        wrong.push(config);
    }
    for config in wrong {
        let refused = ask(&ada, create, config.clone()).await;
        assert_eq!(refused.unwrap_err(), "INVALID_PARAMS", "{config}");
        // No turn begins for a message whose receiver is refused.
        let request = json!({ "message": message("never", "go"),
            "configuration": { "taskPushNotificationConfig": config } });
        let refused = ask(&ada, "SendMessage", request).await;
        assert_eq!(refused.unwrap_err(), "INVALID_PARAMS");
    }
    for number in 1..16 {
        ask(&ada, create, config(&format!("r{number}")))
            .await
            .unwrap();
    }
    let refused = ask(&ada, create, config("r16")).await;
    assert_eq!(refused.unwrap_err(), "UNSUPPORTED_OPERATION");
    ask(&ada, create, config("r1")).await.unwrap();
    let tasks = ask(&ada, "ListTasks", json!({})).await.unwrap();
    assert_eq!(tasks["totalSize"], 1, "{tasks}");
}
