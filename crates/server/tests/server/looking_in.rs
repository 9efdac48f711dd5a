//! What the operator sees of a System at work, and the definition with which a fork goes on.

use ghostlight_actors::actor::SystemOptions;
use ghostlight_server::Scope;
use serde_json::json;

use crate::desk::{Desk, text_at};

#[tokio::test(flavor = "multi_thread")]
async fn slots_topics_and_budgets_are_shown_as_they_are_used() {
    let mut limits = SystemOptions::default();
    (limits.max_live_runs, limits.executor.concurrency) = (12, 5);
    let desk = Desk::start(limits, |server, _| server).await;
    let said = "/api/v1/sessions/desk/s/turns?wait=50";
    let said =
        json!({ "text": "publish hello", "budget": { "model_calls": 3 } }).to_string() + said;
    let (body, path) = said.split_at(said.find("/api").unwrap());
    let asked = desk.client.request("POST", path, "", Some(body)).await;
    let run = text_at(&asked.is(202).json(), "/run/id");
    let get = async |path: &str| desk.client.get(path).await.is(200).json();
    let load = get("/api/v1/load").await;
    assert_eq!(text_at(&load, "/live_runs/used"), "1");
    assert_eq!(text_at(&load, "/live_runs/most"), "12");
    assert_eq!(text_at(&load, "/tools/0/name"), "all tools");
    assert_eq!(text_at(&load, "/tools/0/slots"), "5");
    let of_run = get(&format!("/api/v1/runs/{run}/topics")).await;
    let all = get("/api/v1/topics").await;
    assert_eq!(text_at(&all, "/0/run/id"), run);
    assert_eq!(all[0]["topics"], of_run);
    assert_eq!(text_at(&of_run, "/0/name"), "news");
    assert_eq!(text_at(&of_run, "/0/published"), "1");
    assert_eq!(text_at(&of_run, "/0/queues/0/name"), "readers");
    assert_eq!(text_at(&of_run, "/0/queues/0/waiting"), "1");
    assert_eq!(text_at(&of_run, "/0/queues/0/capacity"), "64");
    let budgets = get("/api/v1/budgets?limit=1000").await;
    assert_eq!(text_at(&budgets, "/0/run/id"), run);
    assert_eq!(text_at(&budgets, "/0/allowance/budget/model_calls"), "3");
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_found_by_the_owner_of_their_session() {
    let desk = Desk::locked().await;
    let all = [Scope::Read, Scope::Run];
    let (ada, eve) = (desk.client_of("ada", &all), desk.client_of("eve", &all));
    let operator = desk.client_of("root", &[Scope::Admin]);
    let hers = desk.say(&ada, "s", "well").await.is(200).json();
    desk.say(&eve, "s", "well").await.is(200);
    let found = operator.get("/api/v1/runs?owner=ada").await.is(200).json();
    assert_eq!(found["runs"].as_array().unwrap().len(), 1);
    assert_eq!(text_at(&found, "/runs/0/id"), text_at(&hers, "/run/id"));
    let nobody = operator.get("/api/v1/runs?owner=zoe&team=desk").await;
    assert_eq!(nobody.is(200).json()["runs"], json!([]));
    // Others learn nothing by it.
    let found = eve.get("/api/v1/runs?owner=ada").await.is(200).json();
    assert_eq!(found["runs"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_goes_on_with_another_definition_that_the_operator_gives() {
    let desk = Desk::locked().await;
    let ada = desk.client_of("ada", &[Scope::Read, Scope::Run]);
    let operator = desk.client_of("root", &[Scope::Admin]);
    let said = desk.say(&ada, "s", "well").await.is(200).json();
    let path = format!("/api/v1/runs/{}", text_at(&said, "/run/id"));
    ada.get(&format!("{path}/definition")).await.is(403);
    let pinned = operator.get(&format!("{path}/definition")).await;
    let mut definition = pinned.is(200).json();
    definition["agent"]["instructions"] = json!("be brief");
    let fork = |definition: &serde_json::Value| json!({ "at": 1, "definition": definition });
    let to = format!("{path}/fork");
    ada.post(&to, fork(&definition)).await.is(403);
    let forked = operator.post(&to, fork(&definition)).await.is(200).json();
    let other = format!("/api/v1/runs/{}/definition", text_at(&forked, "/id"));
    let other = operator.get(&other).await.is(200).json();
    assert_eq!(text_at(&other, "/agent/instructions"), "be brief");
    definition["agent"]["tools"] = json!(["rm"]);
    let refused = operator.post(&to, fork(&definition)).await.is(422);
    assert!(refused.body.contains("rm"), "{refused:?}");
    definition["agent"] = json!("none");
    operator.post(&to, fork(&definition)).await.is(422);
}
