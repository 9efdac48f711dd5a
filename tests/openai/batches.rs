//! Requests in batches: each is submitted once, each run gets its answer, whatever dies and whatever the server says.

use std::time::Duration;

use futures_util::future::join_all;
use ghostlight::models::{BatchSpec, OpenAiResponses};
use ghostlight_actors::{
    actor::{Run, System},
    contract::{Clock as _, RunStatus},
    run::Agent,
    testing::{InMemoryStore, SimulatedClock},
};
use serde_json::json;

use crate::{
    batch_server::{BatchServer, Reply, Rules, completion},
    batch_world::{BEGIN, MINUTE, Passing, builder, killed_at_any_commit, quick, send, until},
};

#[tokio::test]
async fn two_thousand_runs_share_one_batch_and_sleep_for_hours_over_a_restart() {
    let rules = Rules {
        looks: 40,
        ..Rules::default()
    };
    let server = BatchServer::start(rules).await;
    let spec = BatchSpec::default()
        .max_requests(2_000)
        .window(60 * MINUTE)
        .poll_interval(30 * MINUTE);
    let store = InMemoryStore::new().keeping(usize::MAX);
    let clock = SimulatedClock::starting_at(BEGIN);
    let first = builder(store.clone(), &clock, server.model(spec));
    let first = first.start().await.unwrap();
    let sent = (0..2_000).map(|n| send(&first, "desk", format!("{n}")));
    let runs: Vec<Run> = join_all(sent).await;
    until(async || server.batches().len() == 1).await;
    until(async || first.load().live_runs == 0).await;
    let row = runs[7].status().await.unwrap();
    assert_eq!(row.status, RunStatus::Waiting);
    // The process ends, and another one looks after the batch.
    first.stop().await.unwrap();
    let system = builder(store.another_process(), &clock, server.model(spec));
    let system = system.start().await.unwrap();
    let _passing = Passing::of(&clock, 10 * MINUTE);
    for (n, run) in runs.iter().enumerate() {
        let outcome = system.run(run.id()).outcome().await.unwrap();
        assert_eq!(outcome.text(), format!("answer to from {n}"));
    }
    let hours = clock.now().since(BEGIN).as_secs() / 3_600;
    assert!(hours >= 19, "{hours}");
    let batches = server.batches();
    assert_eq!((batches.len(), batches[0].requests.len()), (1, 2_000));
    assert_eq!(server.faults(), Vec::<String>::new());
    until(async || server.files() == 0).await;
}

#[tokio::test]
async fn killed_at_any_commit_no_request_is_in_two_batches_and_no_answer_is_lost() {
    killed_at_any_commit(async || BatchServer::start(Rules::default()).await).await;
}

#[tokio::test]
async fn a_submission_whose_answer_is_lost_is_found_and_one_that_failed_is_made_again() {
    for (kind, status, after, batches) in [
        // The batch is there, and nobody was told.
        ("submit", 500, true, 1),
        // It is not there, and nobody knows.
        ("submit", 500, false, 1),
        // It is refused.
        ("submit", 429, false, 1),
        ("upload", 503, false, 1),
        ("look", 500, false, 1),
        ("answers", 500, false, 1),
        ("list", 500, false, 1),
    ] {
        let server = BatchServer::start(Rules::default()).await;
        server.refuse(kind, status, after);
        if kind == "list" {
            server.refuse("submit", 500, true);
        }
        let clock = SimulatedClock::starting_at(BEGIN);
        let model = server.model(quick());
        let system = builder(InMemoryStore::new(), &clock, model);
        let system = system.start().await.unwrap();
        let _passing = Passing::of(&clock, MINUTE / 6);
        let run = send(&system, "desk", "ann").await;
        let outcome = run.outcome().await.unwrap();
        assert_eq!(outcome.text(), "answer to from ann", "{kind} {status}");
        assert_eq!(server.batches().len(), batches, "{kind} {status} {after}");
        assert_eq!(server.faults(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn what_a_server_writes_wrongly_harms_only_the_request_that_it_concerns() {
    let first = |text: &str, batch: usize| match (text.trim_start_matches("from "), batch) {
        ("cut", _) => Reply::Line("{\"custom_id\": \"CUSTOM_ID\", \"respon".to_owned()),
        ("missing", _) => Reply::Missing,
        ("long", _) => Reply::Text("x".repeat(40_000)),
        ("busy", 0) => Reply::Status(503, json!({"error": {"message": "overloaded"}})),
        ("expired", 0) => Reply::Fault("batch_expired"),
        ("wrong", _) => Reply::Status(
            400,
            json!({"error": {"message": "no such tool", "code": "bad"}}),
        ),
        ("empty", _) => Reply::Status(200, json!({"choices": []})),
        ("repeated", _) => {
            let line = |text: &str| json!({"custom_id": "CUSTOM_ID", "response": {"status_code": 200, "body": completion(text)}});
            Reply::Line(format!(
                "{}\n{}",
                line("answer to from repeated"),
                line("another")
            ))
        }
        _ => Reply::Text(format!("answer to {text}")),
    };
    let rules = Rules {
        answers: Box::new(first),
        ..Rules::default()
    };
    let server = BatchServer::start(rules).await;
    // Over 100 MB of lines that nobody asked for.
    let unknown = json!({"custom_id": "00000000000000000000000000000000-0-0-0-0-0000000000",
        "response": {"status_code": 200, "body": completion("not yours")}});
    let mut lines = vec![
        "{".to_owned(),
        String::new(),
        "\u{0}".to_owned(),
        unknown.to_string(),
    ];
    lines.extend((0..101).map(|_| "y".repeat(1_000_000)));
    server.put_before(lines);
    let clock = SimulatedClock::starting_at(BEGIN);
    let keys = [
        "ann", "cut", "missing", "long", "busy", "expired", "wrong", "empty", "repeated", "bob",
    ];
    let spec = quick().max_requests(10);
    let model = server.model(spec).max_response_bytes(20_000);
    let system = builder(InMemoryStore::new(), &clock, model);
    let system = system.start().await.unwrap();
    let runs = join_all(keys.map(|key| send(&system, "desk", key))).await;
    until(async || server.batches().len() == 1).await;
    let _passing = Passing::of(&clock, MINUTE / 6);
    for (run, key) in runs.iter().zip(keys) {
        let outcome = run.outcome().await;
        match key {
            "cut" | "missing" | "long" => {
                let error = outcome.unwrap_err().to_string();
                assert!(error.contains("can be read"), "{key}: {error}");
            }
            "wrong" => {
                let error = outcome.unwrap_err().to_string();
                assert!(
                    error.contains("400") && error.contains("no such tool"),
                    "{error}"
                );
            }
            "empty" => drop(outcome.unwrap_err()),
            _ => assert_eq!(outcome.unwrap().text(), format!("answer to from {key}")),
        }
    }
    let batches = server.batches();
    assert_eq!(batches[0].requests.len(), keys.len());
    let again = batches[1..].iter().flat_map(|it| &it.requests);
    let again: Vec<&str> = again.map(|it| it.1.as_str()).collect();
    assert!(
        again.contains(&"from busy") && again.contains(&"from expired"),
        "{again:?}"
    );
    assert!(!again.contains(&"from wrong"), "{again:?}");
    assert_eq!(server.faults(), Vec::<String>::new());
}

#[tokio::test]
async fn a_batch_that_the_server_does_not_take_or_finish_fails_its_requests_as_it_says() {
    for (end, attempts, told) in [
        ("failed", 4, "Enqueued token limit"),
        ("expired", 4, "within a day"),
        ("cancelled", 1, "at the provider"),
    ] {
        let rules = Rules {
            end,
            answers: Box::new(|_, _| Reply::Missing),
            ..Rules::default()
        };
        let server = BatchServer::start(rules).await;
        let clock = SimulatedClock::starting_at(BEGIN);
        let system = builder(InMemoryStore::new(), &clock, server.model(quick()));
        let system = system.start().await.unwrap();
        let _passing = Passing::of(&clock, MINUTE / 6);
        let run = send(&system, "desk", "ann").await;
        let error = run.outcome().await.unwrap_err();
        assert!(error.to_string().contains(told), "{end}: {error}");
        assert_eq!(server.batches().len(), attempts, "{end}");
    }
}

#[tokio::test]
async fn a_batch_is_cancelled_once_all_its_runs_are() {
    let rules = Rules {
        looks: usize::MAX,
        ..Rules::default()
    };
    let server = BatchServer::start(rules).await;
    let clock = SimulatedClock::starting_at(BEGIN);
    let spec = quick().max_requests(3);
    let system = builder(InMemoryStore::new(), &clock, server.model(spec));
    let system = system.start().await.unwrap();
    // This one leaves before the batch is submitted.
    let early = send(&system, "desk", "early").await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    early.cancel("not needed").await.unwrap();
    early.wait().await.unwrap();
    let ann = send(&system, "desk", "ann").await;
    let bob = send(&system, "desk", "bob").await;
    until(async || server.batches().len() == 1).await;
    let _passing = Passing::of(&clock, MINUTE / 6);
    let batch = || server.batches().remove(0);
    let texts: Vec<String> = batch().requests.into_iter().map(|it| it.1).collect();
    assert_eq!(texts, ["from ann", "from bob"]);
    ann.cancel("not needed").await.unwrap();
    ann.wait().await.unwrap();
    let looks = batch().looks;
    until(async || batch().looks > looks + 3).await;
    assert_eq!(batch().status, "in_progress", "bob waits for it");
    bob.cancel("not needed").await.unwrap();
    until(async || batch().status.starts_with("cancel")).await;
    assert_eq!(server.faults(), Vec::<String>::new());
}

#[cfg(feature = "yaml")]
#[tokio::test]
async fn a_team_file_sends_the_requests_of_its_runs_in_batches() {
    let server = BatchServer::start(Rules::default()).await;
    let text = format!(
        "name: desk\nmodels:\n  default:\n    provider: openai\n    model: test-model\n    base_url: {}\n    \
         batch: {{ window_s: 5, max_requests: 10, poll_interval_s: 30 }}\nagent:\n  name: desk\n",
        server.address()
    );
    let team = ghostlight::config::parse(text, "desk.yaml").unwrap();
    let clock = SimulatedClock::starting_at(BEGIN);
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .clock(clock.clone())
        .team(team.into_spec())
        .start()
        .await
        .unwrap();
    let _passing = Passing::of(&clock, MINUTE / 6);
    let run = send(&system, "desk", "ann").await;
    assert_eq!(run.outcome().await.unwrap().text(), "answer to from ann");
    assert_eq!(server.batches().len(), 1);
}

#[tokio::test]
async fn requests_to_responses_go_in_batches_of_their_own() {
    let server = BatchServer::start(Rules::default()).await;
    let clock = SimulatedClock::starting_at(BEGIN);
    let newer = OpenAiResponses::new("test-model")
        .base_url(server.address())
        .batched(quick());
    let newer_desk = Agent::new("newer").model("newer").into_team().unwrap();
    let system = builder(InMemoryStore::new(), &clock, server.model(quick()));
    let system = system.model("newer", newer).team(newer_desk);
    let system = system.start().await.unwrap();
    let _passing = Passing::of(&clock, MINUTE / 6);
    let runs = ["desk", "newer"].map(|team| send(&system, team, "ann"));
    for run in join_all(runs).await {
        assert_eq!(run.outcome().await.unwrap().text(), "answer to from ann");
    }
    assert_eq!(server.batches().len(), 2);
    assert_eq!(server.faults(), Vec::<String>::new());
}
