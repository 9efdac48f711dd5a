//! An evaluation is scored from what is recorded whenever the operator looks, and is the operator's alone.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use ghostlight_actors::{
    actor::{System, SystemOptions},
    definition::{AgentSpec, TeamSpec},
    run::{BehaviorHandle, Registry, RunContext},
    testing::InMemoryStore,
    vocabulary::{AgentError, Outcome},
};
use ghostlight_evals::{
    Evaluation, Recording,
    scorers::{Score, Scorer},
    suite::{Sample, SuiteSpec},
};
use ghostlight_server::Scope;
use serde_json::{Value, json};

use crate::desk::{Desk, text_at};

/// Says yes where its instructions say so, and where it is asked for the second sample.
async fn says(cx: RunContext) -> Result<Outcome, AgentError> {
    let yes = cx.spec().instructions == "yes" || cx.input().content() == "two";
    Ok(Outcome::answer(if yes { "yes" } else { "no" }))
}

/// An evaluation of two variants over two samples.
pub(crate) fn evaluation() -> Evaluation {
    let mut agent = AgentSpec::new("desk");
    agent.behavior = serde_json::from_value(json!("says")).unwrap();
    let suite: SuiteSpec = serde_json::from_value(json!({
        "evaluation": "polite", "team": PathBuf::from("desk.yaml"), "data": [], "scorers": [{ "answer": {} }],
        "variants": { "base": {}, "kind": { "agent": { "instructions": "yes" } } },
    }))
    .unwrap();
    let samples = ["one", "two"].map(|id| Sample::new(id, id).expected("yes"));
    Evaluation::new(suite, &TeamSpec::new(agent), samples.into()).unwrap()
}

/// Carries an evaluation out over this store, as another process does.
async fn carry_out(evaluation: &Evaluation, store: &InMemoryStore) {
    let registry = Registry::new().behavior("says", |_| Ok(BehaviorHandle::from_fn(says)));
    let teams = evaluation.teams(&registry).into_iter();
    let builder = System::builder(store.another_process()).recover(false);
    let builder = teams.fold(builder, |builder, team| builder.team(team));
    let system = builder.start().await.unwrap();
    evaluation.run(&system, |_| {}).await.unwrap();
    system.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_is_shown_as_far_as_it_is_recorded() {
    let (store, shown) = (InMemoryStore::new(), Arc::new(evaluation()));
    let limits = SystemOptions::default();
    let desk = Desk::over(store.another_process(), limits, |server, _| {
        server.evaluation(shown.clone())
    });
    let desk = desk.await;
    let at = "/api/v1/evaluations";
    let all = desk.client.get(at).await.is(200).json();
    assert_eq!(
        all,
        json!([{ "name": "polite", "variants": ["base", "kind"], "scorers": ["answer"], "cells": 4 }])
    );
    let report = desk.client.get("/api/v1/evaluations/polite").await.is(200);
    let report = report.json();
    assert_eq!(report["variants"][0]["counts"]["not_run"], 2);
    assert!(report["cells"][0]["success"].is_null());

    carry_out(&shown, &store).await;
    let report = desk.client.get("/api/v1/evaluations/polite").await.is(200);
    let report = report.json();
    let cells = report["cells"].as_array().unwrap();
    let success = |cell: &Value| cell["success"].as_bool().unwrap();
    let passed: Vec<bool> = cells.iter().map(success).collect();
    assert_eq!(passed, [false, true, true, true], "the worst cell is first");
    // Its run is there to be opened.
    let run = text_at(&cells[0], "/runs/0");
    let run = desk.client.get(&format!("/api/v1/runs/{run}")).await;
    assert_eq!(text_at(&run.is(200).json(), "/end/answer"), "no");

    let compared = "/api/v1/evaluations/polite/comparison?base=base&other=kind";
    let compared = desk.client.get(compared).await.is(200).json();
    assert_eq!(compared["gained"][0]["sample"], "one");
    assert_eq!(compared["measures"][0]["difference"], 0.5);
    for unknown in [
        "/api/v1/evaluations/rude",
        "/api/v1/evaluations/polite/comparison?base=base&other=rude",
    ] {
        desk.client.get(unknown).await.is(404);
    }
}

/// Counts how often it scores.
struct Counts(Arc<AtomicUsize>);

impl Scorer for Counts {
    fn name(&self) -> &'static str {
        "counts"
    }

    fn score(&self, _: &Recording, _: &Sample) -> Score {
        self.0.fetch_add(1, Ordering::SeqCst);
        Score::pass("counted")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_is_scored_once_until_a_run_of_it_changes() {
    let (store, scored) = (InMemoryStore::new(), Arc::new(AtomicUsize::new(0)));
    let shown = Arc::new(evaluation().scorer(Counts(scored.clone())));
    let limits = SystemOptions::default();
    let desk = Desk::over(store.another_process(), limits, |server, _| {
        server.evaluation(shown.clone())
    });
    let desk = desk.await;
    let look = || desk.client.get("/api/v1/evaluations/polite");
    look().await.is(200);
    assert_eq!(scored.load(Ordering::SeqCst), 0);
    carry_out(&shown, &store).await;
    scored.store(0, Ordering::SeqCst);
    let (one, two, three) = tokio::join!(look(), look(), look());
    let reports = [one, two, three].map(|report| report.is(200).json());
    assert!(reports.iter().all(|report| *report == reports[0]));
    assert_eq!(reports[0]["cells"][0]["scores"]["counts"]["value"], 1.0);
    assert_eq!(scored.load(Ordering::SeqCst), 4, "each cell once");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_is_the_operators_alone() {
    let desk = Desk::start(SystemOptions::default(), |server, keys| {
        server.keys(keys.clone()).evaluation(evaluation())
    });
    let desk = desk.await;
    let ada = desk.client_of("ada", &[Scope::Read, Scope::Run]);
    let root = desk.client_of("root", &[Scope::Admin]);
    for at in [
        "/api/v1/evaluations",
        "/api/v1/evaluations/polite",
        "/api/v1/evaluations/polite/comparison?base=base&other=kind",
    ] {
        desk.client.get(at).await.is(401);
        ada.get(at).await.is(403);
        root.get(at).await.is(200);
    }
}
