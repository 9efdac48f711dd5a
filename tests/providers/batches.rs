//! Requests of Anthropic's models in batches: each is submitted once though batches have no marks there, and each run gets
//! its answer.

use std::time::Duration;

use futures_util::future::join_all;
use ghostlight::{
    actor::{Run, System},
    contract::RunStatus,
    models::{Anthropic, BatchSpec},
    testing::{InMemoryStore, SimulatedClock},
};
use serde_json::Value;

use crate::{
    batch_world::{
        BEGIN, MINUTE, Passing, Provider, builder, killed_at_any_commit, quick, send, until,
    },
    message_batches::{MessageBatches, Reply, Rules},
};

const NONE: [String; 0] = [];
/// A time soon after the begin of a test, at which its server may say that a batch of it was made.
const SOON: &str = "2027-01-15T08:50:00Z";
/// A time after all those of the tests.
const LATER: &str = "2999-01-01T00:00:00Z";

async fn started(server: &MessageBatches, clock: &SimulatedClock) -> System {
    started_with(server, clock, quick()).await
}

async fn started_with(server: &MessageBatches, clock: &SimulatedClock, spec: BatchSpec) -> System {
    server.goes_by(clock);
    let system = builder(InMemoryStore::new(), clock, server.model(spec));
    system.start().await.unwrap()
}

/// The answer to a run, within the time of a test.
async fn answered(run: &Run) -> String {
    let outcome = tokio::time::timeout(Duration::from_secs(30), run.outcome()).await;
    outcome.expect("it ends").unwrap().text().to_owned()
}

#[tokio::test]
async fn killed_at_any_commit_no_message_is_in_two_batches_or_left_unanswered() {
    killed_at_any_commit(async || MessageBatches::start(Rules::default()).await).await;
}

#[tokio::test]
async fn many_runs_share_a_batch_over_a_restart_and_ask_as_they_would_alone() {
    let rules = Rules {
        looks: 40,
        ..Rules::default()
    };
    let server = MessageBatches::start(rules).await;
    let spec = quick().max_requests(300).window(60 * MINUTE);
    let (store, clock) = (InMemoryStore::new(), SimulatedClock::starting_at(BEGIN));
    let first = builder(store.clone(), &clock, server.model(spec));
    let first = first.start().await.unwrap();
    let runs: Vec<Run> = join_all((0..300).map(|n| send(&first, "desk", format!("{n}")))).await;
    until(async || server.batches().len() == 1).await;
    until(async || first.load().live_runs == 0).await;
    assert_eq!(runs[7].status().await.unwrap().status, RunStatus::Waiting);
    first.stop().await.unwrap();
    let system = builder(store.another_process(), &clock, server.model(spec));
    let system = system.start().await.unwrap();
    {
        let _passing = Passing::of(&clock, MINUTE);
        for (n, run) in runs.iter().enumerate() {
            let text = answered(&system.run(run.id())).await;
            assert_eq!(text, format!("answer to from {n}"));
        }
    }
    // The batch is deleted with its answers.
    until(async || server.left() == 0).await;
    let batches = server.batches();
    assert_eq!((batches.len(), batches[0].requests.len()), (1, 300));
    system.stop().await.unwrap();
    // Marks for the cache are the same, too.
    let alone = builder(InMemoryStore::new(), &clock, server.alone());
    let alone = alone.start().await.unwrap();
    answered(&send(&alone, "desk", "7").await).await;
    let is_it = |(_, _, text): &&(String, Value, String)| text == "from 7";
    let params = batches[0].requests.iter().find(is_it).unwrap().1.clone();
    assert_eq!(server.direct(), std::slice::from_ref(&params));
    let marked = &params["messages"][0]["content"][0]["cache_control"];
    assert_eq!(marked["type"], "ephemeral");
    assert_eq!(server.faults(), NONE);
}

#[tokio::test]
async fn a_batch_whose_submission_has_no_answer_is_found_among_those_of_others() {
    for (is_made, batches) in [(true, 1), (false, 1)] {
        let rules = Rules {
            looks: 3,
            ..Rules::default()
        };
        let server = MessageBatches::start(rules).await;
        // Pages of batches of the same size: some older ones, and some that are under way.
        server.strangers(250, "2020-01-01T00:00:00Z", 2);
        server.strangers(120, SOON, 2);
        server.refuse("submit", 500, is_made);
        let clock = SimulatedClock::starting_at(BEGIN);
        let system = started_with(&server, &clock, quick().max_requests(2)).await;
        let runs = ["ann", "bob"].map(|key| send(&system, "desk", key));
        let runs = join_all(runs).await;
        until(async || server.to_refuse() == 0).await;
        let _passing = Passing::of(&clock, MINUTE / 6);
        for (run, key) in runs.iter().zip(["ann", "bob"]) {
            assert_eq!(answered(run).await, format!("answer to from {key}"));
        }
        let own = server.batches().into_iter().skip(370);
        assert_eq!(own.count(), batches, "{is_made}");
        assert_eq!(server.faults(), NONE);
    }
}

#[tokio::test]
async fn nothing_is_submitted_again_while_a_batch_may_be_its_own() {
    let rules = Rules {
        looks: usize::MAX,
        ..Rules::default()
    };
    let server = MessageBatches::start(rules).await;
    server.strangers(1, SOON, 1);
    server.refuse("submit", 500, false);
    let clock = SimulatedClock::starting_at(BEGIN);
    let system = started_with(&server, &clock, quick().max_requests(1)).await;
    let run = send(&system, "desk", "ann").await;
    until(async || server.to_refuse() == 0).await;
    let _passing = Passing::of(&clock, MINUTE / 6);
    until(async || server.batches()[0].looks > 5).await;
    assert_eq!(server.batches().len(), 1);
    assert_eq!(run.status().await.unwrap().status, RunStatus::Running);
    // It is not theirs, as it turns out.
    server.archive();
    until(async || server.batches().len() == 2).await;
    assert_eq!(server.faults(), NONE);
}

#[tokio::test]
async fn batches_of_another_time_do_not_keep_a_lost_one_undecided() {
    let rules = Rules {
        looks: usize::MAX,
        ..Rules::default()
    };
    let server = MessageBatches::start(rules).await;
    // Pages of batches of the same size that do not end.
    server.strangers(30, "2020-01-01T00:00:00Z", 1);
    server.strangers(220, LATER, 1);
    server.refuse("submit", 500, false);
    let clock = SimulatedClock::starting_at(BEGIN);
    let system = started_with(&server, &clock, quick().max_requests(1)).await;
    let _run = send(&system, "desk", "ann").await;
    until(async || server.to_refuse() == 0).await;
    let _passing = Passing::of(&clock, MINUTE / 6);
    until(async || server.batches().len() == 251).await;
    assert_eq!(server.faults(), NONE);
}

#[tokio::test]
async fn each_result_of_a_batch_ends_its_own_request_as_the_provider_says() {
    let first = |text: &str, batch: usize| match (text.trim_start_matches("from "), batch) {
        ("wrong", _) => Reply::Errored("invalid_request_error", "tools.0: no such tool"),
        ("busy", 1) => Reply::Errored("overloaded_error", "Overloaded"),
        ("limited", 1) => Reply::Errored("rate_limit_error", "slower"),
        ("late", 1) => Reply::Expired,
        ("gone", _) => Reply::Canceled,
        ("cut", _) => Reply::Line("{\"custom_id\": \"CUSTOM_ID\", \"resu"),
        ("newer", _) => Reply::Line(r#"{"custom_id": "CUSTOM_ID", "result": {"type": "newer"}}"#),
        ("missing", _) => Reply::Missing,
        _ => Reply::Text(format!("answer to {text}")),
    };
    let rules = Rules {
        answers: Box::new(first),
        ..Rules::default()
    };
    let server = MessageBatches::start(rules).await;
    let clock = SimulatedClock::starting_at(BEGIN);
    let keys = [
        "ann", "wrong", "busy", "limited", "late", "gone", "cut", "newer", "missing", "bob",
    ];
    let system = started_with(&server, &clock, quick().max_requests(10)).await;
    let runs = join_all(keys.map(|key| send(&system, "desk", key))).await;
    until(async || server.batches().len() == 1).await;
    let _passing = Passing::of(&clock, MINUTE / 6);
    for (run, key) in runs.iter().zip(keys) {
        let outcome = run.outcome().await;
        let told = match key {
            "wrong" => "400 (invalid_request_error): tools.0: no such tool",
            "gone" => "cancelled at the provider",
            "cut" | "newer" | "missing" => "can be read",
            _ => {
                assert_eq!(outcome.unwrap().text(), format!("answer to from {key}"));
                continue;
            }
        };
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains(told), "{key}: {error}");
    }
    let again = server.batches().into_iter().skip(1);
    let again: Vec<String> = again.flat_map(|it| it.requests).map(|it| it.2).collect();
    for key in keys {
        let is_again = again.contains(&format!("from {key}"));
        let is_due = ["busy", "limited", "late"].contains(&key);
        assert_eq!(is_again, is_due, "{key}");
    }
    assert_eq!(server.faults(), NONE);
}

#[tokio::test]
async fn an_answer_of_a_batch_that_pauses_goes_on_at_once() {
    let rules = Rules {
        answers: Box::new(|_, _| Reply::Paused("I search".to_owned())),
        ..Rules::default()
    };
    let server = MessageBatches::start(rules).await;
    let clock = SimulatedClock::starting_at(BEGIN);
    let system = started(&server, &clock).await;
    let _passing = Passing::of(&clock, MINUTE / 6);
    let run = send(&system, "desk", "ann").await;
    assert_eq!(answered(&run).await, "I searchanswer to I search");
    let direct = server.direct();
    assert_eq!((server.batches().len(), direct.len()), (1, 1));
    let said = direct[0]["messages"].as_array().unwrap();
    assert_eq!(said.last().unwrap()["role"], "assistant");
    let usage = run.outcome_and_spent().await.unwrap().1.usage;
    assert_eq!((usage.input_tokens, usage.output_tokens), (2_000, 200));
    assert_eq!(server.faults(), NONE);
}

#[tokio::test]
async fn a_batch_of_messages_is_cancelled_once_all_its_runs_are() {
    let rules = Rules {
        looks: usize::MAX,
        ..Rules::default()
    };
    let server = MessageBatches::start(rules).await;
    let clock = SimulatedClock::starting_at(BEGIN);
    let system = started_with(&server, &clock, quick().max_requests(2)).await;
    let ann = send(&system, "desk", "ann").await;
    let bob = send(&system, "desk", "bob").await;
    until(async || server.batches().len() == 1).await;
    let _passing = Passing::of(&clock, MINUTE / 6);
    let batch = || server.batches().remove(0);
    ann.cancel("not needed").await.unwrap();
    ann.wait().await.unwrap();
    let looks = batch().looks;
    until(async || batch().looks > looks + 3).await;
    assert!(!batch().is_cancelled, "bob waits for it");
    bob.cancel("not needed").await.unwrap();
    until(async || batch().is_cancelled).await;
    until(async || server.left() == 0).await;
    assert_eq!(server.faults(), NONE);
}

#[tokio::test]
async fn requests_whose_answers_were_archived_unread_go_into_another_batch() {
    let server = MessageBatches::start(Rules::default()).await;
    let clock = SimulatedClock::starting_at(BEGIN);
    let system = started_with(&server, &clock, quick().poll_interval(60 * MINUTE)).await;
    let _passing = Passing::of(&clock, MINUTE / 6);
    let run = send(&system, "desk", "ann").await;
    until(async || server.batches().len() == 1).await;
    server.archive();
    assert_eq!(answered(&run).await, "answer to from ann");
    assert_eq!(server.batches().len(), 2);
    assert_eq!(server.faults(), NONE);
}

#[cfg(feature = "yaml")]
#[tokio::test]
async fn a_team_file_sends_the_messages_of_its_runs_in_batches() {
    let server = MessageBatches::start(Rules::default()).await;
    let text = format!(
        "name: desk\nmodels:\n  default:\n    provider: anthropic\n    model: claude-test\n    base_url: {}\n    \
         api_key: ${{PATH}}\n    \
         batch: {{ window_s: 5, poll_interval_s: 30 }}\nagent:\n  name: desk\n",
        server.address()
    );
    let team = ghostlight::config::parse(text, "desk.yaml").unwrap();
    let clock = SimulatedClock::starting_at(BEGIN);
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .clock(clock.clone())
        .team(team.into_spec());
    let system = system.start().await.unwrap();
    let _passing = Passing::of(&clock, MINUTE / 6);
    let run = send(&system, "desk", "ann").await;
    assert_eq!(answered(&run).await, "answer to from ann");
    assert_eq!(server.batches().len(), 1);
    assert_eq!(server.faults(), NONE);
}

#[test]
fn batches_in_vertex_ai_are_refused_before_a_call() {
    let model = Anthropic::new("claude-test")
        .base_url(
            "https://europe-west1-aiplatform.googleapis.com/v1/projects/p/locations/europe-west1/publishers/anthropic",
        )
        .batched(BatchSpec::default());
    let error = model.check().unwrap_err();
    assert!(error.message.contains("Vertex AI"), "{error}");
}
