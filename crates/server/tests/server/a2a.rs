//! Agent2Agent: a team is an agent, the run of a turn is a task.

use ghostlight_actors::vocabulary::RunId;
use serde_json::{Value, json};

use crate::{
    a2a_grpc,
    client::{Client, Sent},
    desk::{Desk, text_at},
};

pub(crate) const VERSION: &str = "A2A-Version: 1.0\r\n";

/// Both bindings, by what a request is called in JSON-RPC.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Binding {
    JsonRpc,
    HttpJson,
    Grpc,
}

pub(crate) const ALL: [Binding; 3] = [Binding::JsonRpc, Binding::HttpJson, Binding::Grpc];

impl Binding {
    /// Asks something, and gives its result, or the reason of its refusal.
    pub(crate) async fn ask(
        self,
        client: &Client,
        method: &str,
        params: Value,
    ) -> Result<Value, String> {
        let id = params["id"].as_str().unwrap_or_default().to_owned();
        match self {
            Self::Grpc => a2a_grpc::ask(client, method, params)
                .await
                .map_err(|status| a2a_grpc::reason(&status)),
            Self::JsonRpc => {
                let body =
                    json!({ "jsonrpc": "2.0", "id": "1", "method": method, "params": params });
                let answer = client
                    .request("POST", "/a2a/desk", VERSION, Some(&body.to_string()))
                    .await;
                let answer = answer.is(200).json();
                assert_eq!(
                    (&answer["id"], &answer["jsonrpc"]),
                    (&json!("1"), &json!("2.0"))
                );
                match answer.get("error") {
                    Some(error) => Err(text_at(error, "/data/0/reason")),
                    None => Ok(answer["result"].clone()),
                }
            }
            Self::HttpJson => {
                let query = |params: &Value| {
                    let pairs = params
                        .as_object()
                        .unwrap()
                        .iter()
                        .filter(|(name, _)| *name != "id");
                    let pairs = pairs.map(|(name, value)| {
                        let text = value
                            .as_str()
                            .map_or_else(|| value.to_string(), str::to_owned);
                        format!("{name}={text}")
                    });
                    pairs.collect::<Vec<_>>().join("&")
                };
                let (verb, path, body) = match method {
                    "SendMessage" => ("POST", "/message:send".to_owned(), Some(params.to_string())),
                    "GetTask" => ("GET", format!("/tasks/{id}?{}", query(&params)), None),
                    "ListTasks" => ("GET", format!("/tasks?{}", query(&params)), None),
                    "CancelTask" => ("POST", format!("/tasks/{id}:cancel"), None),
                    "SubscribeToTask" => ("GET", format!("/tasks/{id}:subscribe"), None),
                    "GetExtendedAgentCard" => ("GET", "/extendedAgentCard".to_owned(), None),
                    "CreateTaskPushNotificationConfig" => {
                        let path = format!(
                            "/tasks/{}/pushNotificationConfigs",
                            text_at(&params, "/taskId")
                        );
                        ("POST", path, Some(params.to_string()))
                    }
                    "ListTaskPushNotificationConfigs" => {
                        let path = format!(
                            "/tasks/{}/pushNotificationConfigs",
                            text_at(&params, "/taskId")
                        );
                        ("GET", path, None)
                    }
                    "GetTaskPushNotificationConfig" | "DeleteTaskPushNotificationConfig" => {
                        let task = text_at(&params, "/taskId");
                        let verb = if method.starts_with('G') {
                            "GET"
                        } else {
                            "DELETE"
                        };
                        (
                            verb,
                            format!("/tasks/{task}/pushNotificationConfigs/{id}"),
                            None,
                        )
                    }
                    _ => panic!("{method}"),
                };
                let path = format!("/a2a/desk{path}");
                let answer = client.request(verb, &path, VERSION, body.as_deref()).await;
                if answer.status == 200 {
                    assert_eq!(answer.headers["content-type"], "application/a2a+json");
                    return Ok(answer.json());
                }
                let body = answer.json();
                assert_eq!(
                    text_at(&body, "/error/code"),
                    answer.status.to_string(),
                    "{body}"
                );
                Err(text_at(&body, "/error/details/0/reason"))
            }
        }
    }

    pub(crate) async fn send(self, client: &Client, message: Value) -> Result<Value, String> {
        let sent = self
            .ask(client, "SendMessage", json!({ "message": message }))
            .await?;
        Ok(sent["task"].clone())
    }
}

pub(crate) fn message(id: &str, text: &str) -> Value {
    json!({ "messageId": id, "role": "ROLE_USER", "parts": [{ "text": text }] })
}

pub(crate) fn in_context(context: &str, mut message: Value) -> Value {
    message["contextId"] = context.into();
    message
}

pub(crate) fn to_task(task: &Value, mut message: Value) -> Value {
    message["taskId"] = task["id"].clone();
    message
}

pub(crate) fn state(task: &Value) -> String {
    text_at(task, "/status/state")
        .replace("TASK_STATE_", "")
        .to_lowercase()
}

pub(crate) async fn follow(
    client: &Client,
    path: &str,
    body: Option<Value>,
    last: Option<&str>,
) -> Vec<Sent> {
    let separator = if path.contains('?') { '&' } else { '?' };
    let path = format!("{path}{separator}A2A-Version=1.0");
    let mut events = client.events(&path, last, body).await;
    assert_eq!(events.status, 200);
    let mut all = Vec::new();
    while let Some(sent) = events.next().await {
        all.push(sent);
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_a_turn_and_sent_again_it_is_the_same_task() {
    let desk = Desk::open().await;
    for binding in ALL {
        let client = &desk.client;
        let id = format!("m-{binding:?}");
        let task = binding.send(client, message(&id, "well")).await.unwrap();
        assert_eq!(state(&task), "completed");
        assert_eq!(
            task["artifacts"][0]["parts"],
            json!([{ "text": "did well" }])
        );
        assert_eq!(text_at(&task, "/history/0/messageId"), id);
        assert_eq!(
            binding.send(client, message(&id, "well")).await.unwrap(),
            task
        );
        let got = binding
            .ask(client, "GetTask", json!({ "id": task["id"] }))
            .await
            .unwrap();
        assert_eq!(got, task);
        let short = json!({ "id": task["id"], "historyLength": 0 });
        let short = binding.ask(client, "GetTask", short).await.unwrap();
        assert!(short.get("history").is_none());
        // The task is the run, and its context the session.
        let run: RunId = text_at(&task, "/id").parse().unwrap();
        let row = desk.system.run(run).status().await.unwrap();
        assert_eq!(&*row.session.unwrap().key, text_at(&task, "/contextId"));
        // The next message of the context is the next turn of the session.
        let next = in_context(
            &text_at(&task, "/contextId"),
            message(&format!("{id}-2"), "more"),
        );
        let next = binding.send(client, next).await.unwrap();
        assert_eq!(
            (&next["contextId"], next["id"] == task["id"]),
            (&task["contextId"], false)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_fails_is_cancelled_and_is_rejected_as_its_run_is() {
    let desk = Desk::open().await;
    for binding in ALL {
        let client = &desk.client;
        let said = |what: &str, text: &str| message(&format!("{what}-{binding:?}"), text);
        let failed = binding
            .send(client, said("f", "fail no paper, password: swordfish"))
            .await
            .unwrap();
        assert_eq!(state(&failed), "failed");
        let why = text_at(&failed, "/status/message/parts/0/text");
        assert!(
            why.contains("no paper") && !why.contains("swordfish"),
            "{why}"
        );
        let given_back = binding
            .send(client, said("r", "refuse not my job"))
            .await
            .unwrap();
        assert_eq!(state(&given_back), "rejected");

        let now =
            json!({ "message": said("h", "hang"), "configuration": { "returnImmediately": true } });
        let task = binding.ask(client, "SendMessage", now).await.unwrap()["task"].clone();
        assert_eq!(state(&task), "working");
        let id = json!({ "id": task["id"] });
        let cancelled = binding.ask(client, "CancelTask", id.clone()).await.unwrap();
        assert_eq!(state(&cancelled), "canceled");
        let run: RunId = text_at(&task, "/id").parse().unwrap();
        assert!(
            desk.system
                .run(run)
                .status()
                .await
                .unwrap()
                .status
                .is_ended(),
            "the agent stopped"
        );
        let again = binding.ask(client, "CancelTask", id.clone()).await;
        assert_eq!(again.unwrap_err(), "TASK_NOT_CANCELABLE");
        let subscribed = binding.ask(client, "SubscribeToTask", id).await;
        assert_eq!(subscribed.unwrap_err(), "UNSUPPORTED_OPERATION");
        let more = binding
            .send(client, to_task(&task, said("h2", "more")))
            .await;
        assert_eq!(more.unwrap_err(), "UNSUPPORTED_OPERATION");
    }
}

/// The helper asks under the very operation under which the desk asked.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_sent_again_reaches_no_question_of_a_run_below() {
    let desk = Desk::open().await;
    for binding in ALL {
        let client = &desk.client;
        let said = |what: &str, text: &str| message(&format!("{what}-{binding:?}"), text);
        let task = binding.send(client, said("q", "both ask second?")).await;
        let task = task.unwrap();
        let named =
            |task: &Value| task["status"]["message"]["metadata"]["ghostlight/question"].clone();
        let first = named(&task);
        let mut answer = to_task(&task, said("a", "one"));
        answer["metadata"] = json!({ "ghostlight/question": first });
        let asks = binding.send(client, answer.clone()).await.unwrap();
        assert_eq!(text_at(&asks, "/status/message/parts/0/text"), "second?");
        let second = named(&asks);
        let second = second.as_str().unwrap();
        assert!(
            second.ends_with(&format!("/{}", first.as_str().unwrap())),
            "{second}"
        );
        assert_eq!(binding.send(client, answer).await.unwrap(), asks);
        let again = json!({ "operation": first, "value": "one" });
        let answers = format!("/api/v1/runs/{}/answers", text_at(&task, "/id"));
        desk.client.post(&answers, again).await.is(409);

        let mut answer = to_task(&task, said("b", "two"));
        answer["metadata"] = json!({ "ghostlight/question": second });
        let done = binding.send(client, answer).await.unwrap();
        let text = &done["artifacts"][0]["parts"][0]["text"];
        assert_eq!(text, "\"one\" and answered \"two\"");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn input_that_is_required_goes_on_in_the_same_task_and_is_taken_once() {
    let desk = Desk::open().await;
    for binding in ALL {
        let client = &desk.client;
        let said = |what: &str, text: &str| message(&format!("{what}-{binding:?}"), text);
        let task = binding.send(client, said("q", "twice")).await.unwrap();
        assert_eq!(state(&task), "input_required");
        assert_eq!(text_at(&task, "/status/message/parts/0/text"), "first?");
        let question = task["status"]["message"]["metadata"]["ghostlight/question"].clone();

        let mut answer = to_task(&task, said("a", "one"));
        answer["metadata"] = json!({ "ghostlight/question": question });
        let asks = binding.send(client, answer.clone()).await.unwrap();
        assert_eq!(
            (state(&asks).as_str(), &asks["id"]),
            ("input_required", &task["id"])
        );
        assert_eq!(text_at(&asks, "/status/message/parts/0/text"), "second?");
        // The same message again answers nothing else.
        assert_eq!(binding.send(client, answer).await.unwrap(), asks);

        let mut elsewhere = to_task(&task, said("e", "x"));
        elsewhere["contextId"] = "another".into();
        assert_eq!(
            binding.send(client, elsewhere).await.unwrap_err(),
            "INVALID_PARAMS"
        );
        let beside = in_context(&text_at(&task, "/contextId"), said("b", "well"));
        assert_eq!(
            binding.send(client, beside).await.unwrap_err(),
            "UNSUPPORTED_OPERATION"
        );

        // Without the question's name the one that is open is answered.
        let done = binding
            .send(client, to_task(&task, said("a2", "two")))
            .await
            .unwrap();
        assert_eq!(state(&done), "completed");
        assert_eq!(
            done["artifacts"][0]["parts"][0]["text"],
            "\"one\" and \"two\""
        );
        let said: Vec<&Value> = done["history"]
            .as_array()
            .unwrap()
            .iter()
            .map(|m| &m["parts"][0]["text"])
            .collect();
        assert_eq!(said, ["twice", "first?", "one", "second?", "two"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_tells_the_task_and_what_becomes_of_it() {
    let desk = Desk::open().await;
    let send = json!({ "message": message("s-1", "keep this") });
    let told = follow(
        &desk.client,
        "/a2a/desk/message:stream",
        Some(send.clone()),
        None,
    )
    .await;
    let kinds: Vec<String> = told
        .iter()
        .map(|sent| {
            let (kind, told) = sent.data.as_object().unwrap().iter().next().unwrap();
            match kind.as_str() {
                "task" => state(told),
                "statusUpdate" => state(told),
                _ => format!("{} {}", text_at(told, "/artifact/name"), told["lastChunk"]),
            }
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "submitted",
            "working",
            "note.txt true",
            "answer true",
            "completed"
        ]
    );
    let saved = &told[2].data["artifactUpdate"]["artifact"];
    assert_eq!(saved["parts"][0]["text"], "this");
    // A client that lost the connection anywhere goes on with what it did not get.
    for binding in ["jsonrpc", "http"] {
        let whole = match binding {
            "http" => {
                follow(
                    &desk.client,
                    "/a2a/desk/message:stream",
                    Some(send.clone()),
                    None,
                )
                .await
            }
            _ => {
                let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "SendStreamingMessage", "params": send });
                let whole = follow(&desk.client, "/a2a/desk", Some(body), None).await;
                assert!(whole.iter().all(|sent| sent.data["id"] == 7));
                whole
                    .into_iter()
                    .map(|sent| Sent {
                        data: sent.data["result"].clone(),
                        ..sent
                    })
                    .collect()
            }
        };
        assert_eq!(whole, told, "{binding}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_that_is_broken_off_after_any_event_goes_on_with_the_next() {
    let desk = Desk::open().await;
    let now = json!({ "message": message("c-1", "ask name?"), "configuration": { "returnImmediately": true } });
    let task = Binding::HttpJson
        .ask(&desk.client, "SendMessage", now)
        .await
        .unwrap()["task"]
        .clone();
    let path = format!("/a2a/desk/tasks/{}:subscribe", text_at(&task, "/id"));
    let (client, whole) = (desk.client.clone(), path.clone());
    let following = tokio::spawn(async move { follow(&client, &whole, None, None).await });
    let path_now = path.clone();
    let client = desk.client.clone();
    // From the very first event on, while the task waits.
    let first = tokio::spawn(async move { follow(&client, &path_now, None, Some("0")).await });
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    let answer = to_task(&task, message("c-2", "Ada"));
    let done = Binding::HttpJson.send(&desk.client, answer).await.unwrap();
    assert_eq!(state(&done), "completed");
    let following = following.await.unwrap();
    let first_told = state(&following[0].data["task"]);
    assert!(
        ["submitted", "working", "input_required"].contains(&first_told.as_str()),
        "{first_told}"
    );
    assert_eq!(
        state(&following.last().unwrap().data["statusUpdate"]),
        "completed"
    );
    let first = first.await.unwrap();
    let states: Vec<String> = first
        .iter()
        .filter(|sent| sent.data.get("statusUpdate").is_some())
        .map(|sent| state(&sent.data["statusUpdate"]))
        .collect();
    assert_eq!(
        states,
        ["working", "input_required", "working", "completed"]
    );
    // Each event once: the ids of those that were told live are those that are recorded.
    let ids: Vec<&String> = first.iter().filter_map(|sent| sent.id.as_ref()).collect();
    assert!(
        ids.is_sorted_by_key(|id| id.parse::<f64>().unwrap().to_bits()),
        "{ids:?}"
    );
    assert_eq!(ids.len(), 4, "{first:?}");
    let late = format!("{path}?A2A-Version=1.0");
    let late = desk
        .client
        .events(&late, ids.last().map(|id| id.as_str()), None)
        .await;
    assert_eq!(late.status, 400, "nothing becomes of it any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_are_listed_page_by_page() {
    let desk = Desk::open().await;
    for number in 0..5 {
        let said = in_context(
            "mine",
            message(&format!("l-{number}"), &format!("n{number}")),
        );
        Binding::JsonRpc.send(&desk.client, said).await.unwrap();
    }
    Binding::JsonRpc
        .send(&desk.client, message("other", "ask x"))
        .await
        .unwrap();
    for binding in ALL {
        let client = &desk.client;
        let all = binding.ask(client, "ListTasks", json!({})).await.unwrap();
        assert_eq!(
            (&all["totalSize"], &all["pageSize"], &all["nextPageToken"]),
            (&json!(6), &json!(50), &json!(""))
        );
        let (mut ids, mut token) = (Vec::new(), String::new());
        for size in [2, 2, 1] {
            let which = json!({ "contextId": "mine", "pageSize": 2, "pageToken": token, "includeArtifacts": size == 1 });
            let page = binding.ask(client, "ListTasks", which).await.unwrap();
            assert_eq!(
                (page["tasks"].as_array().unwrap().len(), &page["totalSize"]),
                (size, &json!(5))
            );
            for task in page["tasks"].as_array().unwrap() {
                assert_eq!(task.get("artifacts").is_some(), size == 1);
                ids.push(text_at(task, "/id"));
            }
            token = text_at(&page, "/nextPageToken");
        }
        assert!(token.is_empty());
        let unique: std::collections::BTreeSet<&String> = ids.iter().collect();
        assert_eq!(unique.len(), 5);
        for (status, count) in [
            ("COMPLETED", 5),
            ("INPUT_REQUIRED", 1),
            ("WORKING", 0),
            ("FAILED", 0),
        ] {
            let which = json!({ "status": format!("TASK_STATE_{status}") });
            let page = binding.ask(client, "ListTasks", which).await.unwrap();
            assert_eq!(page["totalSize"], count, "{status}");
        }
        let mut wrongs = vec![
            json!({ "pageSize": 0 }),
            json!({ "pageSize": 101 }),
            json!({ "pageToken": "x" }),
        ];
        // Protocol Buffers have no such values.
        if !matches!(binding, Binding::Grpc) {
            wrongs.push(json!({ "status": "odd" }));
            wrongs.push(json!({ "statusTimestampAfter": "yesterday" }));
        }
        for wrong in wrongs {
            let refused = binding.ask(client, "ListTasks", wrong.clone()).await;
            assert_eq!(refused.unwrap_err(), "INVALID_PARAMS", "{wrong}");
        }
        let late = json!({ "statusTimestampAfter": "2999-01-01T00:00:00Z" });
        let late = binding.ask(client, "ListTasks", late).await.unwrap();
        assert_eq!(late["totalSize"], 0);
    }
}

/// Scenario 18 of the field's conformance list, in each binding; the code of an unknown method is JSON-RPC's own.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_sent_streamed_continued_subscribed_to_again_and_cancelled() {
    let desk = Desk::open().await;
    let client = &desk.client;
    for binding in ALL {
        let said = |what: &str, text: &str| message(&format!("all-{what}-{binding:?}"), text);
        let answered = binding.send(client, said("send", "hello")).await.unwrap();
        assert_eq!(state(&answered), "completed", "{binding:?}");

        // The stream ends where input is required, and the same task goes on.
        let send = json!({ "message": said("twice", "twice") });
        let told = follow(client, "/a2a/desk/message:stream", Some(send), None).await;
        let task = told[0].data["task"].clone();
        let last = state(&told.last().unwrap().data["statusUpdate"]);
        assert_eq!(last, "input_required", "{binding:?}: {told:?}");
        let more = to_task(&task, said("more", "one"));
        let asks = binding.send(client, more).await.unwrap();
        assert_eq!(
            (state(&asks).as_str(), &asks["id"]),
            ("input_required", &task["id"])
        );

        // Who subscribes again from the last event that it has gets the later ones, to the end.
        let path = format!("/a2a/desk/tasks/{}:subscribe", text_at(&task, "/id"));
        let had = told.last().unwrap().id.clone();
        let (again, subscriber) = (path.clone(), client.clone());
        let subscribed =
            tokio::spawn(async move { follow(&subscriber, &again, None, had.as_deref()).await });
        let cancelled = binding
            .ask(client, "CancelTask", json!({ "id": task["id"] }))
            .await
            .unwrap();
        assert_eq!(state(&cancelled), "canceled", "{binding:?}");
        let subscribed = subscribed.await.unwrap();
        let known: Vec<&Option<String>> = told.iter().map(|sent| &sent.id).collect();
        let has_known = |sent: &Sent| sent.id.is_some() && known.contains(&&sent.id);
        assert!(!subscribed.iter().any(has_known), "{subscribed:?}");
        let last = subscribed.last().unwrap();
        assert_eq!(state(&last.data["statusUpdate"]), "canceled", "{binding:?}");
        let got = binding.ask(client, "GetTask", json!({ "id": task["id"] }));
        assert_eq!(state(&got.await.unwrap()), "canceled");
    }
    let unknown = json!({ "jsonrpc": "2.0", "id": 5, "method": "SendLetter", "params": {} });
    let refused = client
        .request("POST", "/a2a/desk", VERSION, Some(&unknown.to_string()))
        .await
        .json();
    assert_eq!(
        (&refused["error"]["code"], &refused["id"]),
        (&json!(-32601), &json!(5))
    );
}
