//! A turn that is said to a run under way, and the run that takes it.

use std::{sync::Arc, time::Instant};

use ghostlight_actors::{
    actor::System,
    definition::WhileBusy,
    run::{Agent, RunContext, Team},
    testing::{InMemoryStore, ScriptedModel},
    vocabulary::{Effect, ModelResponse, Outcome, Usage},
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
/// `hears` does so before.
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
            let answer = cx.model(cx.model_request(cx.conversation())).await?;
            if said == "deaf" {
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
    let system = System::builder(InMemoryStore::new()).team(steered(gate));
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

#[tokio::test(flavor = "multi_thread")]
async fn each_run_is_paid_once_by_the_turn_that_became_it() {
    let gate = Arc::new(Semaphore::new(0));
    let rule = |server: Server| server.quota(QuotaFor::Team, quota("100000tokens/31d"));
    let client = desk(&gate, rule).await;
    // The second turn becomes a run of its own, and the fourth is heard by the run of the third.
    begin_deaf(&client).await;
    let well = json!({ "text": "well", "id": "2" });
    client.post(TURNS, well.clone()).await.is(202);
    gate.add_permits(1);
    let wait = format!("{TURNS}?wait=50");
    client.post(&wait, well).await.is(200);
    let hears = client.post(TURNS, json!({ "text": "hears" })).await;
    let hears = text_at(&hears.is(202).json(), "/run/id");
    let heard = client.post(TURNS, json!({ "text": "heard" })).await;
    assert_eq!(text_at(&heard.is(202).json(), "/run/id"), hears);
    gate.add_permits(1);
    let began = Instant::now();
    loop {
        let path = "/api/v1/sessions/desk/other/turns?wait=50";
        let told = client.post(path, json!({ "text": "well" })).await.is(200);
        let left = &told.headers["ratelimit"];
        let left = left.strip_prefix("\"tokens\";r=").unwrap();
        let left: u64 = left.split(';').next().unwrap().parse().unwrap();
        let runs = client.get("/api/v1/runs?all=true").await.is(200).json();
        let runs = runs["runs"].as_array().unwrap().len() as u64;
        // What this turn reserves is still missing.
        if left == 100_000 - 100 * (runs - 1) - 4_096 {
            break;
        }
        assert!(
            began.elapsed() < PATIENCE,
            "{left} are left after {runs} runs"
        );
    }
}
