//! What becomes of runs is posted to other programs: signed, in order, until it arrives, over restarts.

use std::{collections::BTreeSet, time::Duration};

use ghostlight_actors::{
    actor::{System, SystemOptions},
    contract::RunFilter,
    run::{Agent, Team},
    session::Turn,
    testing::InMemoryStore,
};
use ghostlight_server::{
    Deliveries, DeliveryOptions, Notification, RunNews, Server, Webhook, WebhookSignature,
};
use serde_json::json;
use tokio::{net::TcpListener, task::JoinHandle};

use crate::{
    client::Client,
    desk::{Desk, obey, text_at},
    receiver::{Got, Receiver},
    webhooks::{SECRET, now_s, of_ghostlight},
};

/// The value of [`SECRET`].
const SIGNED_WITH: &str = env!("CARGO_PKG_NAME");

/// Deliveries to this machine, with short pauses.
pub(crate) fn deliveries(hosts: &[&str]) -> Deliveries {
    let mut settings = DeliveryOptions::default();
    settings.hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
    settings.networks = vec!["127.0.0.0/8".to_owned()];
    settings.first_pause = Duration::from_millis(50);
    settings.timeout = Duration::from_millis(500);
    Deliveries::new(settings).unwrap()
}

/// A server over this store whose desk tells these.
pub(crate) struct Telling {
    pub(crate) client: Client,
    task: JoinHandle<()>,
}

impl Telling {
    pub(crate) async fn open(
        store: InMemoryStore,
        to: impl IntoIterator<Item = Notification>,
    ) -> Self {
        let desk = Agent::from_fn("desk", obey);
        let helper = Agent::from_fn("helper", obey).description("helps");
        let mut team = desk.agent(helper).into_team().unwrap();
        for to in to {
            team = team.notification(to);
        }
        Self::of(store, team).await
    }

    pub(crate) async fn of(store: InMemoryStore, team: Team) -> Self {
        let system = System::builder(store).team(team).start().await.unwrap();
        let server = Server::new(system).deliveries(deliveries(&[]));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            let served = server.serve(listener, std::future::pending::<()>());
            served.await.unwrap();
        });
        let client = Client { to, key: None };
        Self { client, task }
    }

    async fn say(&self, session: &str, text: &str) -> String {
        let path = format!("/api/v1/sessions/desk/{session}/turns");
        let said = self.client.post(&path, json!({ "text": text })).await;
        text_at(&said.is(202).json(), "/run/id")
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn kinds(got: &[Got]) -> Vec<String> {
    got.iter().map(Got::kind).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_gets_messages_in_the_form_that_its_payload_has() {
    let receiver = Receiver::open(&[]).await;
    let notification = || {
        let to = Notification::new(receiver.url("/hear"), SECRET);
        to.events([RunNews::Completed])
    };
    let payload = json!({
        "text": "{body.data.agent}: {body.data.answer} {body.data.error}", "session": "{body.data.session}", "urgent": true,
    });
    let own = notification().payload(payload);
    // The same receiver may get both forms.
    let desk = Telling::open(InMemoryStore::new(), [notification(), own]).await;
    desk.say("one", "note \"well\"").await;
    let told = receiver.until_taken(2).await;
    let mut forms: Vec<_> = told.iter().map(Got::json).collect();
    forms.sort_by_key(|form| form["urgent"].is_boolean());
    assert_eq!(forms[0]["type"], "run.completed");
    let wanted = json!({
        "text": "desk: did note \"well\" ", "session": { "team": "desk", "key": "one" }, "urgent": true,
    });
    assert_eq!(forms[1], wanted);
    for (wrong, why) in [
        (json!({ "a": ["{header.x}"] }), "no message has"),
        (json!("{answer}"), "no value"),
        (json!("{"), "brace"),
        (json!("x".repeat(17_000)), "bytes"),
    ] {
        let fault = notification().payload(wrong).check().unwrap_err();
        assert!(fault.contains(why), "{fault}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_news_of_a_run_are_posted_signed_and_in_order_and_a_failure_is_tried_again() {
    let receiver = Receiver::open(&[500, 404, 302]).await;
    let desk = Telling::open(
        InMemoryStore::new(),
        [Notification::new(receiver.url("/hear?key=1"), SECRET)],
    )
    .await;
    let run = desk.say("one", "ask name").await;
    let told = receiver.until_taken(2).await;
    assert_eq!(kinds(&told), ["run.started", "run.waiting"]);
    let asked = told[1].json();
    assert_eq!(asked["data"]["question"]["prompt"], "name");
    assert_eq!(text_at(&asked, "/data/root"), run);
    let answer = json!({ "operation": asked["data"]["operation"], "value": "Ann" });
    let path = format!("/api/v1/runs/{}/answers", text_at(&asked, "/data/run"));
    desk.client.post(&path, answer).await.is(202);
    let told = receiver.until_taken(3).await;
    let end = told[2].json();
    assert_eq!(end["type"], "run.completed");
    assert_eq!(end["data"]["answer"], "answered \"Ann\"");
    assert_eq!(end["data"]["session"]["key"], "one");
    // The metrics count them; the last may arrive a moment before it is counted.
    let metrics = loop {
        let metrics = desk.client.get("/metrics").await.is(200).body;
        if metrics.contains("ghostlight_deliveries_pending 0\n") {
            break metrics;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    for told in ["delivered_total 3", "failed_total 3", "given_up_total 0"] {
        let told = format!("\nghostlight_deliveries_{told}\n");
        assert!(metrics.contains(&told), "{told} {metrics}");
    }
    // The first was refused three times, under one id, and nothing came before it.
    let got = receiver.got();
    assert_eq!(got.len(), 6);
    let ids: BTreeSet<String> = got[..4].iter().map(Got::id).collect();
    assert_eq!(ids.len(), 1, "{got:#?}");
    let ids: BTreeSet<String> = got.iter().map(Got::id).collect();
    assert_eq!(ids.len(), 3);
    for got in &got {
        got.is_signed_with(SIGNED_WITH);
        assert_eq!(got.header("content-type"), "application/json");
    }
    // How runs end badly.
    desk.say("two", "fail no luck with password: swordfish")
        .await;
    let told = receiver.until_taken(5).await;
    assert_eq!(kinds(&told[3..]), ["run.started", "run.failed"]);
    assert!(text_at(&told[4].json(), "/data/error").contains("no luck"));
    for told in &told[3..5] {
        let told = told.json().to_string();
        assert!(
            told.contains("[redacted]") && !told.contains("swordfish"),
            "{told}"
        );
    }
    let hangs = desk.say("three", "hang").await;
    let path = format!("/api/v1/runs/{hangs}/cancel");
    desk.client.post(&path, json!({})).await;
    let told = receiver.until_taken(7).await;
    assert_eq!(kinds(&told[5..]), ["run.started", "run.cancelled"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_receiver_gets_what_it_wants_and_one_that_is_down_holds_up_nobody() {
    let (ends, down) = (Receiver::open(&[]).await, Receiver::open(&[500; 50]).await);
    let gone = Receiver::open(&[410]).await;
    let wanted = [RunNews::Completed, RunNews::Failed];
    let to_ends = Notification::new(ends.url("/"), SECRET).events(wanted);
    let to_down = Notification::new(down.url("/"), SECRET);
    let to_gone = Notification::new(gone.url("/"), SECRET);
    let unset = Notification::new(ends.url("/unset"), "${GHOSTLIGHT_TEST_NEVER_SET}");
    let told = [to_ends, to_down, to_gone, unset];
    let desk = Telling::open(InMemoryStore::new(), told).await;
    let runs: BTreeSet<String> = [
        desk.say("one", "delegate ask name").await,
        desk.say("two", "go").await,
        desk.say("three", "fail").await,
    ]
    .into();
    let told = ends.until_taken(2).await;
    assert_eq!(
        kinds(&told).into_iter().collect::<BTreeSet<_>>(),
        ["run.completed".to_owned(), "run.failed".to_owned()].into()
    );
    // The question of a run below is news of its root.
    let refused = down
        .until(|got| got.iter().filter(|got| got.kind() == "run.started").count() > 4)
        .await;
    assert!(refused.is_empty());
    down.answers(&[]);
    let told = down.until_taken(6).await;
    let asked = told.iter().find(|got| got.kind() == "run.waiting").unwrap();
    let roots: BTreeSet<String> = told
        .iter()
        .map(|got| text_at(&got.json(), "/data/root"))
        .collect();
    assert_eq!(roots, runs);
    assert!(runs.contains(&text_at(&asked.json(), "/data/root")));
    assert!(!runs.contains(&text_at(&asked.json(), "/data/run")));
    // Each run's receiver that wants no more is left alone: of three runs one message was refused for good.
    let told = gone.until_taken(3).await;
    let of_one = |run: &String| {
        told.iter()
            .filter(|got| text_at(&got.json(), "/data/root") == *run)
            .count()
    };
    let mut heard: Vec<usize> = runs.iter().map(of_one).collect();
    heard.sort_unstable();
    assert_eq!(heard[0], 0, "{told:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_had_not_arrived_when_the_process_died_arrives_from_the_next_under_the_same_id() {
    let receiver = Receiver::open(&[200, 500, 500]).await;
    let to = || [Notification::new(receiver.url("/"), SECRET)];
    let store = InMemoryStore::new();
    let desk = Telling::open(store.clone(), to()).await;
    desk.say("one", "go").await;
    // The beginning has arrived, and the end was refused.
    let refused = receiver.until(|got| got.len() >= 2).await;
    assert_eq!(kinds(&refused), ["run.started"]);
    drop(desk);
    store.crash();
    receiver.answers(&[]);
    let before = receiver.got();
    let next = Telling::open(store.another_process(), to()).await;
    let told = receiver.until_taken(2).await;
    assert_eq!(kinds(&told), ["run.started", "run.completed"]);
    assert_eq!(told[1].id(), before[1].id());
    // What has arrived does not come again, and a run that nobody heard of is found.
    next.say("two", "go").await;
    let told = receiver.until_taken(4).await;
    let ids: BTreeSet<String> = told.iter().map(Got::id).collect();
    assert_eq!((ids.len(), told.len()), (4, 4), "{told:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_share_a_store_share_the_work() {
    let receiver = Receiver::open(&[]).await;
    let to = || [Notification::new(receiver.url("/"), SECRET)];
    let store = InMemoryStore::new();
    let one = Telling::open(store.clone(), to()).await;
    let other = Telling::open(store.another_process(), to()).await;
    for number in 0..20 {
        let desk = if number % 2 == 0 { &one } else { &other };
        desk.say(&format!("s{number}"), "go").await;
    }
    let told = receiver.until_taken(40).await;
    let ids: BTreeSet<String> = told.iter().map(Got::id).collect();
    assert_eq!((ids.len(), told.len()), (40, 40));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_has_its_answer_posted_where_the_request_says_and_the_server_allows() {
    let receiver = Receiver::open(&[503]).await;
    let desk = Desk::start(SystemOptions::default(), |server, keys| {
        server
            .keys(keys.clone())
            .deliveries(deliveries(&["127.0.0.1", "*.example.org"]))
    })
    .await;
    let at = now_s();
    let ask = async |reply_to: &str| {
        let body = json!({ "text": "hello", "reply_to": reply_to }).to_string();
        let headers = of_ghostlight(at, &body);
        let path = "/hooks/desk/back";
        desk.client
            .request("POST", path, &headers, Some(&body))
            .await
    };
    for refused in [
        "",
        "no address",
        "http://elsewhere.org/",
        "http://10.0.0.1/",
        "http://169.254.169.254/latest/meta-data",
        "http://[::1]/",
        "file:///etc/passwd",
        "http://user:word@127.0.0.1/",
        "https://example.org/",
    ] {
        assert_eq!(ask(refused).await.status, 422, "{refused}");
    }
    let runs = desk.system.store().runs(RunFilter::default()).await;
    assert!(runs.unwrap().is_empty());
    let to = receiver.url("/answers/7");
    let said = ask(&to).await.is(202).json();
    let told = receiver.until_taken(1).await;
    assert_eq!(told[0].json()["data"]["answer"], "did hello");
    assert_eq!(
        text_at(&told[0].json(), "/data/run"),
        text_at(&said, "/run/id")
    );
    receiver.got()[0].is_signed_with(SIGNED_WITH);
    // The same request again has one answer.
    let again = ask(&to).await.json();
    assert_eq!(text_at(&again, "/run/id"), text_at(&said, "/run/id"));
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(receiver.taken().len(), 1);
    // A server that posts nothing says so.
    let silent = Desk::locked().await;
    let body = json!({ "text": "hello", "reply_to": to }).to_string();
    let headers = of_ghostlight(now_s(), &body);
    let path = "/hooks/desk/back";
    let refused = silent.client.request("POST", path, &headers, Some(&body));
    refused.await.is(503);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_address_gets_nothing_unless_it_is_allowed() {
    let receiver = Receiver::open(&[]).await;
    let team = Agent::from_fn("desk", obey).into_team().unwrap();
    let to = Notification::new(receiver.url("/"), SECRET).events([RunNews::Completed]);
    let team = team.notification(to);
    let system = System::builder(InMemoryStore::new()).team(team).start();
    let system = system.await.unwrap();
    let mut settings = DeliveryOptions::default();
    settings.first_pause = Duration::from_millis(400);
    settings.give_up = Duration::from_millis(100);
    settings.networks = vec!["10.0.0.0/8".to_owned()];
    let server = Server::new(system.clone()).deliveries(Deliveries::new(settings).unwrap());
    let run = system.session("desk", "s").send(Turn::text("go")).await;
    run.unwrap().outcome().await.unwrap();
    // It is tried twice and given up, and with it the subscription.
    let is_done = async {
        let rows = async || {
            system
                .store()
                .scope("server-deliveries".to_owned())
                .await
                .unwrap()
        };
        while rows().await.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        while !rows().await.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    server.deliver(is_done).await;
    assert!(receiver.got().is_empty());
    let wrong = {
        let mut settings = DeliveryOptions::default();
        settings.networks = vec!["everywhere".to_owned()];
        Deliveries::new(settings)
    };
    assert!(wrong.unwrap_err().to_string().contains("everywhere"));
}

/// Where the receiver is, and the key that stands in its address.
static RECEIVER: std::sync::OnceLock<String> = std::sync::OnceLock::new();

fn of_a_file(name: &str) -> Option<String> {
    match name {
        "RECEIVER" => RECEIVER.get().cloned(),
        "RECEIVER_KEY" => Some("hunter2".to_owned()),
        "OF_A_FILE" => Some(SIGNED_WITH.to_owned()),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn variables_of_addresses_and_secrets_are_looked_up_when_they_are_used() {
    let receiver = Receiver::open(&[]).await;
    RECEIVER.set(receiver.url("")).unwrap();
    let url = "${RECEIVER}/hear/${RECEIVER_KEY}";
    let notification = Notification::new(url, "${OF_A_FILE}").events([RunNews::Completed]);
    notification.check().unwrap();
    let mut back = Webhook::new("back", "${OF_A_FILE}")
        .signature(WebhookSignature::Ghostlight)
        .say("{body.text}");
    back.callback = Some("${RECEIVER}/back/${RECEIVER_KEY}/{body.room}".to_owned());
    let desk = Agent::from_fn("desk", obey).into_team().unwrap();
    let desk = desk.notification(notification).webhook(back);
    let system = System::builder(InMemoryStore::new()).team(desk);
    let system = system.start().await.unwrap();
    let seen = system.clone();
    let server = Server::new(system)
        .deliveries(deliveries(&["127.0.0.1"]))
        .variables(of_a_file);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    let task = tokio::spawn(async move {
        let served = server.serve(listener, std::future::pending::<()>());
        served.await.unwrap();
    });
    let client = Client { to, key: None };
    let desk = Telling { client, task };
    // A reference in a value of the request is a text like any other.
    let body = r#"{"text":"note well","room":"${RECEIVER_KEY}$$1"}"#;
    let headers = of_ghostlight(now_s(), body);
    let said = desk
        .client
        .request("POST", "/hooks/desk/back", &headers, Some(body));
    said.await.is(202);
    let told = receiver.until_taken(2).await;
    let mut paths: Vec<&str> = told.iter().map(|got| got.path.as_str()).collect();
    paths.sort_unstable();
    assert_eq!(
        paths,
        ["/back/hunter2/$%7BRECEIVER_KEY%7D$$1", "/hear/hunter2"]
    );
    for got in &told {
        got.is_signed_with(SIGNED_WITH);
    }
    let team = serde_json::to_string(&seen.teams()).unwrap();
    assert!(
        !team.contains("hunter2") && team.contains("RECEIVER_KEY"),
        "{team}"
    );
}
