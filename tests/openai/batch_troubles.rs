//! Requests in batches with several processes and accounts, changed settings, and what is lost at the server or in the
//! store.

use std::time::Duration;

use futures_util::future::join_all;
use ghostlight::models::{Fallback, OpenAi, Secret};
use ghostlight_actors::{
    actor::System,
    contract::{Batch, Expected, RunStatus, StateWrite, StoreHandle},
    definition::Durability,
    run::Agent,
    testing::{InMemoryStore, SimulatedClock},
    vocabulary::Digest,
};
use serde_json::{Value, value::to_raw_value};

use crate::{
    batch_server::{BatchServer, Rules},
    batch_world::{BEGIN, MINUTE, Passing, builder, quick, send, until},
};

/// The answer to a run, within the time of a test.
async fn answered(run: &ghostlight_actors::actor::Run) -> String {
    let outcome = tokio::time::timeout(Duration::from_secs(30), run.outcome()).await;
    outcome.expect("it ends").unwrap().text().to_owned()
}

#[tokio::test]
async fn a_run_that_is_in_memory_is_answered_at_once() {
    let server = BatchServer::start(Rules::default()).await;
    let clock = SimulatedClock::starting_at(BEGIN);
    let brief = Agent::new("brief").into_team().unwrap();
    let system = builder(InMemoryStore::new(), &clock, server.model(quick()))
        .team(brief.durability(Durability::Memory));
    let system = system.start().await.unwrap();
    let _passing = Passing::of(&clock, MINUTE / 6);
    let run = send(&system, "brief", "ann").await;
    assert_eq!(answered(&run).await, "a direct answer");
    assert_eq!(server.batches().len(), 0);
}

#[tokio::test]
async fn a_submission_that_another_process_has_found_is_not_cancelled() {
    let server = BatchServer::start(Rules {
        looks: 100,
        ..Rules::default()
    });
    let server = server.await;
    let (store, clock) = (InMemoryStore::new(), SimulatedClock::starting_at(BEGIN));
    let [first, _other] = [store.clone(), store.another_process()]
        .map(|store| builder(store, &clock, server.model(quick())).start());
    let (first, _other) = (first.await.unwrap(), _other.await.unwrap());
    // Longer than others leave it alone.
    server.slow("submit", Duration::from_millis(200));
    let _passing = Passing::of(&clock, MINUTE / 6);
    let run = send(&first, "desk", "ann").await;
    assert_eq!(answered(&run).await, "answer to from ann");
    let standing: Vec<String> = server.batches().into_iter().map(|it| it.status).collect();
    assert_eq!(standing, ["completed"]);
}

#[tokio::test]
async fn a_request_is_in_one_batch_when_its_run_moves_while_it_is_uploaded() {
    let server = BatchServer::start(Rules::default()).await;
    let (store, clock) = (InMemoryStore::new(), SimulatedClock::starting_at(BEGIN));
    let first = builder(store.clone(), &clock, server.model(quick()));
    let first = first.start().await.unwrap();
    let other = builder(store.another_process(), &clock, server.model(quick()));
    let other = other.start().await.unwrap();
    server.slow("upload", Duration::from_millis(100));
    let _passing = Passing::of(&clock, Duration::from_secs(2));
    let run = send(&first, "desk", "ann").await;
    until(async || server.files() == 1).await;
    let moved = other.resume(run.id(), true).await.unwrap();
    assert_eq!(answered(&moved).await, "answer to from ann");
    assert_eq!(server.submitted_twice(), Vec::<String>::new());
    assert_eq!(server.batches().len(), 1);
}

#[tokio::test]
async fn a_batch_whose_answers_take_longer_than_a_poll_interval_is_finished_by_two_processes() {
    let server = BatchServer::start(Rules::default()).await;
    let (store, clock) = (InMemoryStore::new(), SimulatedClock::starting_at(BEGIN));
    let first = builder(store.clone(), &clock, server.model(quick()));
    let first = first.start().await.unwrap();
    let other = builder(store.another_process(), &clock, server.model(quick()));
    let _other = other.start().await.unwrap();
    server.slow("answers", Duration::from_millis(60));
    let _passing = Passing::of(&clock, MINUTE / 6);
    let run = send(&first, "desk", "ann").await;
    assert_eq!(answered(&run).await, "answer to from ann");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(server.files(), 0, "it is still being finished");
}

#[tokio::test]
async fn requests_of_a_batch_that_the_server_has_lost_go_into_another_one() {
    let server = BatchServer::start(Rules::default()).await;
    let clock = SimulatedClock::starting_at(BEGIN);
    let spec = quick().poll_interval(10 * MINUTE);
    let system = builder(InMemoryStore::new(), &clock, server.model(spec));
    let system = system.start().await.unwrap();
    let _passing = Passing::of(&clock, MINUTE / 6);
    let run = send(&system, "desk", "ann").await;
    until(async || server.batches().len() == 1).await;
    until(async || run.status().await.unwrap().status == RunStatus::Waiting).await;
    server.lose();
    // A wrong key may be put right meanwhile.
    clock.advance(46 * 60 * MINUTE);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(run.status().await.unwrap().status, RunStatus::Waiting);
    clock.advance(2 * 60 * MINUTE);
    assert_eq!(answered(&run).await, "answer to from ann");
    assert_eq!(server.batches().len(), 1);
}

#[tokio::test]
async fn runs_that_wait_are_answered_though_the_model_goes_in_batches_no_more() {
    let server = BatchServer::start(Rules::default()).await;
    let (store, clock) = (InMemoryStore::new(), SimulatedClock::starting_at(BEGIN));
    let first = builder(store.clone(), &clock, server.model(quick()));
    let first = first.start().await.unwrap();
    let run = {
        let _passing = Passing::of(&clock, Duration::from_secs(2));
        let run = send(&first, "twice", "ann").await;
        until(async || server.batches().len() == 1).await;
        until(async || first.load().live_runs == 0).await;
        run
    };
    first.stop().await.unwrap();
    let alone = OpenAi::new("test-model").base_url(server.address());
    let system = builder(store.another_process(), &clock, alone);
    let system = system.start().await.unwrap();
    let _passing = Passing::of(&clock, MINUTE / 6);
    assert_eq!(answered(&system.run(run.id())).await, "a direct answer");
    assert_eq!(server.batches().len(), 1);
    until(async || server.files() == 0).await;
}

#[tokio::test]
async fn a_model_that_is_asked_for_another_one_gets_the_answer_of_its_batch() {
    let server = BatchServer::start(Rules::default()).await;
    let clock = SimulatedClock::starting_at(BEGIN);
    let down = OpenAi::new("small").base_url("http://127.0.0.1:9/v1");
    let model = Fallback::new(down).or(server.model(quick()));
    let system = builder(InMemoryStore::new(), &clock, model);
    let system = system.start().await.unwrap();
    let _passing = Passing::of(&clock, MINUTE / 6);
    let run = send(&system, "desk", "ann").await;
    assert_eq!(answered(&run).await, "answer to from ann");
    assert_eq!(server.batches().len(), 1, "it is paid once");
}

#[tokio::test]
async fn models_with_other_keys_have_batches_of_their_own() {
    let server = BatchServer::start(Rules::default()).await;
    let clock = SimulatedClock::starting_at(BEGIN);
    let with_key = |key: &str| {
        let model = server.model(quick());
        model.with(|settings| settings.api_key = Some(Secret::value(key)))
    };
    let theirs = Agent::new("theirs").model("theirs").into_team().unwrap();
    let system = builder(InMemoryStore::new(), &clock, with_key("ours"))
        .model("theirs", with_key("theirs"))
        .team(theirs);
    let system = system.start().await.unwrap();
    let _passing = Passing::of(&clock, MINUTE / 6);
    let runs = ["desk", "theirs"].map(|team| send(&system, team, team));
    for (run, team) in join_all(runs).await.iter().zip(["desk", "theirs"]) {
        assert_eq!(answered(run).await, format!("answer to from {team}"));
    }
    let batches = server.batches();
    let mut keys: Vec<_> = batches.iter().map(|it| it.key.as_deref()).collect();
    keys.sort_unstable();
    assert_eq!(keys, [Some("Bearer ours"), Some("Bearer theirs")]);
}

#[tokio::test]
async fn a_batch_whose_key_has_changed_is_looked_after_with_the_new_one() {
    let rules = Rules {
        looks: 3,
        ..Rules::default()
    };
    let server = BatchServer::start(rules).await;
    let (store, clock) = (InMemoryStore::new(), SimulatedClock::starting_at(BEGIN));
    // The server takes both keys for the same account.
    let model = |header: &str| {
        let model = server.model(quick());
        model.with(|settings| drop(settings.headers.insert("x-team".into(), header.into())))
    };
    let first = builder(store.clone(), &clock, model("before"));
    let first = first.start().await.unwrap();
    let run = {
        let _passing = Passing::of(&clock, Duration::from_secs(2));
        let run = send(&first, "desk", "ann").await;
        until(async || server.batches().len() == 1).await;
        until(async || first.load().live_runs == 0).await;
        run
    };
    first.stop().await.unwrap();
    let system = builder(store.another_process(), &clock, model("after"));
    let system = system.start().await.unwrap();
    let _passing = Passing::of(&clock, MINUTE);
    let run = system.run(run.id());
    assert_eq!(answered(&run).await, "answer to from ann");
    assert_eq!(server.batches().len(), 1);
}

#[cfg(feature = "yaml")]
#[tokio::test]
async fn a_reload_changes_how_requests_are_gathered() {
    let server = BatchServer::start(Rules::default()).await;
    let team = |window_s: u32| {
        let text = format!(
            "name: desk\nmodels:\n  default:\n    provider: openai\n    model: test-model\n    base_url: {}\n    \
             batch: {{ window_s: {window_s}, poll_interval_s: 30 }}\nagent:\n  name: desk\n",
            server.address()
        );
        ghostlight::config::parse(text, "desk.yaml")
            .unwrap()
            .into_spec()
    };
    let clock = SimulatedClock::starting_at(BEGIN);
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .clock(clock.clone())
        .team(team(1_000_000));
    let system = system.start().await.unwrap();
    system.reload(team(5)).await.unwrap();
    let _passing = Passing::of(&clock, MINUTE / 6);
    let run = send(&system, "desk", "ann").await;
    assert_eq!(answered(&run).await, "answer to from ann");
}

#[tokio::test]
async fn a_list_of_requests_that_cannot_be_read_is_not_taken_for_an_empty_one() {
    let server = BatchServer::start(Rules::default()).await;
    let (store, clock) = (InMemoryStore::new(), SimulatedClock::starting_at(BEGIN));
    let system = builder(store.clone(), &clock, server.model(quick()));
    let system = system.start().await.unwrap();
    let passing = Passing::of(&clock, Duration::from_secs(2));
    let run = send(&system, "desk", "ann").await;
    until(async || server.batches().len() == 1).await;
    until(async || system.load().live_runs == 0).await;
    drop(passing);
    let host = server.address().trim_start_matches("http://");
    let host = host.trim_end_matches("/v1");
    let name = format!("test-model at {host}/v1/chat/completions");
    let name = &Digest::of(name.as_bytes()).to_string()[..16];
    let scope = format!("model-batches/{name}/requests");
    let store = StoreHandle::new(store);
    let (key, kept) = store.scope(scope.clone()).await.unwrap().remove(0);
    let put = async |value: Value| {
        let mut batch = Batch::default();
        batch.writes.push(StateWrite {
            scope: scope.clone(),
            key: key.clone(),
            value: Some(to_raw_value(&value).unwrap()),
            expected: Expected::Any,
        });
        store.commit(vec![batch]).await.unwrap().remove(0).unwrap();
    };
    put(Value::from("nonsense")).await;
    let _passing = Passing::of(&clock, MINUTE / 6);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(server.batches()[0].status, "completed");
    put(kept.value).await;
    assert_eq!(answered(&run).await, "answer to from ann");
}
