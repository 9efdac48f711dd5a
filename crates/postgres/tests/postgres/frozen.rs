//! A node that was frozen between an append and its effect leaves the effect to the node that took its place.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use ghostlight_actors::{
    actor::{Run, System},
    contract::{DynStore as _, Reconciled, Tool, ToolContext, ToolError, ToolHandle, ToolOutput},
    run::{Agent, RunContext, Team},
    session::Turn,
    vocabulary::{AgentError, Arguments, Effect, Outcome, ToolCall, ToolDefinition},
};
use ghostlight_postgres::{Options, PostgresStore};
use serde_json::json;
use tokio::sync::Notify;

use crate::{
    proxy::{Proxy, Way},
    server::{Server, is_left_out},
};

/// A payment that its provider can be asked about.
struct Pay(Arc<AtomicUsize>);

impl Tool for Pay {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new("pay", "pays").effect(Effect::Once)
    }

    async fn call(&self, _: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(ToolOutput::text("paid"))
    }

    async fn reconcile(&self, _: &ToolCall, _: ToolContext) -> Reconciled {
        match self.0.load(Ordering::SeqCst) {
            0 => Reconciled::DidNotHappen,
            _ => Reconciled::Happened(ToolOutput::text("paid")),
        }
    }
}

/// What the test and the agents of both nodes share.
#[derive(Clone, Default)]
struct Stage {
    paid: Arc<AtomicUsize>,
    at_the_till: Arc<Notify>,
    go_on: Arc<Notify>,
}

impl Stage {
    fn team(&self, waits: bool) -> Team {
        let stage = self.clone();
        let work = move |cx: RunContext| {
            let stage = stage.clone();
            async move {
                if waits {
                    stage.at_the_till.notify_one();
                    stage.go_on.notified().await;
                }
                let paid = cx
                    .tool_unasked(ToolCall::new("1", "pay", json!({})))
                    .await?;
                Ok::<_, AgentError>(Outcome::answer(paid.text))
            }
        };
        let agent = Agent::from_fn("shop", work).tool(ToolHandle::new(Pay(self.paid.clone())));
        agent.into_team().unwrap()
    }
}

fn options() -> Options {
    let mut options = Options::default();
    options.lease = Duration::from_millis(300);
    options
}

/// A node behind a proxy, of which one run is about to pay.
async fn at_the_till(stage: &Stage) -> (Server, Proxy, PostgresStore, System, Run) {
    let server = Server::quick();
    let proxy = Proxy::to(server.port()).await;
    let url = server.url_at(proxy.port);
    let store = PostgresStore::open_with(&url, &options()).await.unwrap();
    let builder = System::builder(store.clone()).team(stage.team(true));
    let system = builder.start().await.unwrap();
    let run = system.session("shop", "1").send(Turn::text("pay")).await;
    stage.at_the_till.notified().await;
    (server, proxy, store, system, run.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_froze_after_an_append_leaves_the_effect_to_the_node_in_its_place() {
    if is_left_out() {
        return;
    }
    let stage = Stage::default();
    let (server, proxy, frozen, first, run) = at_the_till(&stage).await;
    let run = run.id();
    // From now on the node hears of no commit, and its lease is not renewed.
    proxy.set(Way::HoldAnswersTo(&[
        "COMMIT",
        "UPDATE nodes",
        "INTO nodes",
    ]));
    stage.go_on.notify_one();
    let client = server.client().await;
    let begun = "SELECT count(*) FROM ghostlight.entries WHERE body LIKE '%pay%effect%'";
    while client.query_one(begun, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    let store = PostgresStore::open_with(&server.url(), &options())
        .await
        .unwrap();
    let builder = System::builder(store.clone()).team(stage.team(false));
    let second = builder.start().await.unwrap();
    while stage.paid.load(Ordering::SeqCst) == 0 {
        second.recover().await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let outcome = second.run(run).outcome().await.unwrap();
    assert_eq!(outcome.text(), "paid");
    assert_eq!(frozen.term(), None, "its lease has run out");

    // It hears of its append, and lives again.
    proxy.set(Way::Open);
    while frozen.term().is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let thawed = Instant::now();
    while thawed.elapsed() < Duration::from_millis(200) {
        assert_eq!(stage.paid.load(Ordering::SeqCst), 1, "paid twice");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(first.run(run).outcome().await.unwrap().text(), "paid");
    for system in [first, second] {
        system.stop().await.unwrap();
    }
}

/// A node that is slow to hear of its commit, but keeps its lease or loses it to nobody, goes on by itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_in_whose_place_nobody_stepped_makes_the_effect_itself() {
    if is_left_out() {
        return;
    }
    let stage = Stage::default();
    let (_server, proxy, store, system, run) = at_the_till(&stage).await;
    proxy.set(Way::Frozen);
    stage.go_on.notify_one();
    while store.term().is_some() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(stage.paid.load(Ordering::SeqCst), 0);
    proxy.set(Way::Open);
    assert_eq!(run.outcome().await.unwrap().text(), "paid");
    assert_eq!(stage.paid.load(Ordering::SeqCst), 1);
    system.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_connection_ends_owns_its_journals_again_at_once() {
    if is_left_out() {
        return;
    }
    let server = Server::quick();
    // It would be renewed only after 20 s.
    let mut options = Options::default();
    options.lease = Duration::from_secs(60);
    let store = PostgresStore::open_with(&server.url(), &options)
        .await
        .unwrap();
    let term = store.term().unwrap();
    let all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE pid <> pg_backend_pid() AND application_name = 'ghostlight'";
    server.client().await.execute(all, &[]).await.unwrap();
    let begun = Instant::now();
    while store.term().is_none_or(|now| now == term) {
        assert!(
            begun.elapsed() < Duration::from_secs(5),
            "it does not live again"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(store.nodes().await.unwrap().iter().all(|node| node.lives));
}

/// The clock of a machine that was asleep may have stood still, so the node goes by the database's.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_ran_out_by_the_databases_clock_begins_another_term() {
    if is_left_out() {
        return;
    }
    let server = Server::quick();
    let mut options = Options::default();
    options.lease = Duration::from_secs(3);
    let store = PostgresStore::open_with(&server.url(), &options)
        .await
        .unwrap();
    let client = server.client().await;
    let held = "SELECT lease_until > clock_timestamp() FROM ghostlight.nodes";
    let is_held = async || client.query_one(held, &[]).await.unwrap().get::<_, bool>(0);
    let before = store.term().unwrap();
    let run_out = "UPDATE ghostlight.nodes SET lease_until = clock_timestamp() - interval '1 s'";
    // A claim that found it dead is not committed yet.
    let mut claimant = server.client().await;
    let claim = claimant.transaction().await.unwrap();
    let lock = "SELECT FROM ghostlight.tail FOR UPDATE";
    claim.query_one(lock, &[]).await.unwrap();
    client.execute(run_out, &[]).await.unwrap();
    let begun = Instant::now();
    while !is_held().await {
        assert!(begun.elapsed() < Duration::from_secs(30));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(store.term(), None, "the claim may still be committed");
    claim.rollback().await.unwrap();
    while store.term().is_none_or(|term| term == before) {
        let waited = begun.elapsed();
        assert!(
            waited < Duration::from_secs(30),
            "it goes on with term {before}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
