//! A turn that is said to a run under way, and the run that takes it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ghostlight_actors::{
    actor::System,
    contract::DynStore as _,
    definition::WhileBusy,
    run::{Agent, RunContext, Team},
    testing::{InMemoryStore, ScriptedModel},
    vocabulary::{Effect, ModelResponse, Outcome, SessionId, Usage},
};
use ghostlight_server::{QuotaFor, Server};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::{
    client::{Client, PATIENCE},
    desk::text_at,
    quotas::{quota, served},
};

/// A desk that asks its model once for each turn, which takes 100 tokens. The turn `deaf` then waits for the gate, and the turn
/// `hears` does so before; `asks, deaf` asks a person first.
pub(crate) fn steered(gate: &Arc<Semaphore>) -> Team {
    let gate = gate.clone();
    let desk = Agent::from_fn("desk", move |cx: RunContext| {
        let gate = gate.clone();
        async move {
            let said = cx.input().content();
            let opened = async || {
                let gate = gate.clone();
                let opens = async move {
                    let opened = gate.acquire().await.map(|permit| permit.forget());
                    opened.map_err(|error| error.to_string())
                };
                cx.step("gate", Effect::Read, opens).await
            };
            if said == "hears" {
                opened().await?;
            }
            if said == "asks, deaf" {
                cx.ask("name?").await?;
            }
            let answer = cx.model(cx.model_request(cx.conversation())).await?;
            if said.ends_with("deaf") {
                opened().await?;
            }
            let heard = answer.steering.iter().map(|message| message.content());
            let heard: Vec<String> = heard.collect();
            Ok(Outcome::answer(format!("did {said} {}", heard.join(" "))))
        }
    });
    let usage = Usage {
        output_tokens: 100,
        ..Usage::default()
    };
    let model = ScriptedModel::from_fn(|_, _| Ok(ModelResponse::text("done"))).usage(usage);
    let team = desk.model(model).into_team().unwrap();
    team.define(|team| team.while_busy = WhileBusy::Steer)
}

const TURNS: &str = "/api/v1/sessions/desk/s/turns";

async fn desk(gate: &Arc<Semaphore>, set_up: impl FnOnce(Server) -> Server) -> Client {
    over(&InMemoryStore::new(), gate, set_up).await
}

async fn over(
    store: &InMemoryStore,
    gate: &Arc<Semaphore>,
    set_up: impl FnOnce(Server) -> Server,
) -> Client {
    let system = System::builder(store.clone()).team(steered(gate));
    served(system.start().await.unwrap(), set_up).await
}

/// Begins a run, and gives its id once it has asked its model.
async fn begin_deaf(client: &Client) -> String {
    let begun = client.post(TURNS, json!({ "text": "deaf" })).await.is(202);
    let run = text_at(&begun.json(), "/run/id");
    let path = format!("/api/v1/runs/{run}/events");
    let mut events = client.events(&path, None, None).await;
    while events.next().await.expect("a model call").name != "model_called" {}
    run
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_a_run_ends_without_is_followed_in_its_own() {
    let gate = Arc::new(Semaphore::new(0));
    let client = desk(&gate, |server| server).await;
    let deaf = begin_deaf(&client).await;
    let body = json!({ "text": "well", "id": "2" });
    let said = client.post(TURNS, body.clone()).await.is(202).json();
    assert_eq!(text_at(&said, "/run/id"), deaf);
    let mut events = client.events(TURNS, None, Some(body.clone())).await;
    let waits = tokio::spawn({
        let (client, body) = (client.clone(), body.clone());
        async move { client.post(&format!("{TURNS}?wait=50"), body).await }
    });
    gate.add_permits(1);
    let answer = waits.await.unwrap().is(200).json();
    let own = text_at(&answer, "/run/id");
    assert_ne!(own, deaf);
    assert_eq!(text_at(&answer, "/end/answer"), "did well ");
    assert_eq!(text_at(&answer, "/run/status"), "answered");
    let path = format!("/api/v1/runs/{own}/events");
    assert_eq!(text_at(&answer, "/events"), path);
    let seen = events.recorded().await;
    let ends = seen.iter().filter(|sent| sent.name == "run_ended");
    let ends: Vec<String> = ends.map(|sent| text_at(&sent.data, "/run")).collect();
    assert_eq!(ends, [deaf, own.clone()]);
    let alone = client.events(&path, None, None).await.recorded().await;
    assert!(seen.ends_with(&alone), "{seen:?}");
    // Sent again, it is that run.
    let again = client.post(TURNS, body).await.is(202).json();
    assert_eq!(text_at(&again, "/run/id"), own);
}

/// Four turns, each sent several times: the second becomes a run of its own, and the fourth is heard by the run of the third.
async fn say_four(client: &Client, gate: &Semaphore) {
    let wait = format!("{TURNS}?wait=50");
    begin_deaf(client).await;
    let well = json!({ "text": "well", "id": "2" });
    for _ in 0..3 {
        client.post(TURNS, well.clone()).await.is(202);
    }
    gate.add_permits(1);
    for _ in 0..3 {
        client.post(&wait, well.clone()).await.is(200);
    }
    let hears = client.post(TURNS, json!({ "text": "hears" })).await;
    let hears = text_at(&hears.is(202).json(), "/run/id");
    let fourth = json!({ "text": "heard", "id": "4" });
    for _ in 0..3 {
        let heard = client.post(TURNS, fourth.clone()).await.is(202).json();
        assert_eq!(text_at(&heard, "/run/id"), hears);
        assert_eq!(text_at(&heard, "/joined"), "true");
    }
    gate.add_permits(1);
    for _ in 0..3 {
        let heard = client.post(&wait, fourth.clone()).await.is(200).json();
        assert_eq!(text_at(&heard, "/end/answer"), "did hears heard");
        assert_eq!(text_at(&heard, "/joined"), "false");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_run_is_paid_once_by_the_turn_that_became_it() {
    let gate = Arc::new(Semaphore::new(0));
    let rule = |server: Server| server.quota(QuotaFor::Team, quota("100000tokens/31d"));
    let client = desk(&gate, rule).await;
    say_four(&client, &gate).await;
    let began = Instant::now();
    for runs in 4.. {
        let path = "/api/v1/sessions/desk/other/turns?wait=50";
        let told = client.post(path, json!({ "text": "well" })).await.is(200);
        let left = &told.headers["ratelimit"];
        let left = left.strip_prefix("\"tokens\";r=").unwrap();
        let left: u64 = left.split(';').next().unwrap().parse().unwrap();
        // What this turn reserves is still missing.
        if left == 100_000 - 100 * (runs - 1) - 4_096 {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{left} are left after {runs}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_a_run_hears_counts_once_however_often_it_is_sent() {
    let gate = Arc::new(Semaphore::new(0));
    let rule = |server: Server| server.quota(QuotaFor::Session, quota("5/31d"));
    let client = desk(&gate, rule).await;
    say_four(&client, &gate).await;
    let more = format!("{TURNS}?wait=50");
    client.post(&more, json!({ "text": "more" })).await.is(200);
    client.post(&more, json!({ "text": "more" })).await.is(429);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_front_end_and_another_agent_are_told_of_one_run_that_goes_on_in_the_other() {
    let gate = Arc::new(Semaphore::new(0));
    let store = InMemoryStore::new();
    let client = over(&store, &gate, |server| server).await;
    begin_deaf(&client).await;
    let input = json!({
        "threadId": "s", "runId": "2", "messages": [{ "id": "m", "role": "user", "content": "well" }],
        "tools": [], "context": [], "state": {}, "forwardedProps": {},
    });
    let mut front_end = client.events("/agui/desk", None, Some(input)).await;
    let message = json!({
        "messageId": "3", "contextId": "s", "role": "ROLE_USER", "parts": [{ "text": "good" }],
    });
    let task = tokio::spawn({
        let (client, body) = (client.clone(), json!({ "message": message }).to_string());
        async move {
            let version = "A2A-Version: 1.0\r\n";
            let path = "/a2a/desk/message:send";
            client.request("POST", path, version, Some(&body)).await
        }
    });
    // It is said, too.
    let session = SessionId {
        team: "desk".into(),
        key: "s".into(),
    };
    while store.mailbox(session.clone().into()).await.unwrap().len() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    gate.add_permits(1);
    let mut told = Vec::new();
    while let Some(sent) = front_end.next().await {
        told.push(sent.data);
    }
    let ends = told.iter().filter(|sent| sent["type"] == "RUN_FINISHED");
    assert_eq!(ends.count(), 1, "{told:?}");
    assert_eq!(told.last().unwrap()["type"], "RUN_FINISHED");
    let said = told
        .iter()
        .filter(|sent| sent["type"] == "TEXT_MESSAGE_CONTENT");
    let said: String = said.map(|sent| text_at(sent, "/delta")).collect();
    assert!(said.ends_with("did well good"), "{said}");
    let task = task.await.unwrap().is(200).json();
    assert!(task.to_string().contains("did well good"), "{task}");
}
