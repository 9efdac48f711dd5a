//! A run has one writer, whoever else has the store open.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use ghostlight_actors::{
    actor::{SystemError, supervisor::Supervisor},
    contract::{DynStore, StoreError, StoreWrapper},
    run::{Agent, RunContext},
    testing::InMemoryStore,
    vocabulary::{Effect, Entry, JournalId, Outcome},
};

use crate::{
    contested::start,
    stage::{Stage, ask, call, pause, text},
};

fn payer(stage: &Stage) -> Agent {
    let helper = Agent::from_fn("helper", |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(20)).await?;
        let result = cx.tool_unasked(call("2", "pay")).await?;
        Ok(Outcome::answer(result.text))
    })
    .tool_named("pay");
    Agent::from_fn("payer", |cx: RunContext| async move {
        cx.tool_unasked(call("1", "pay")).await?;
        let helped = cx.delegate("helper", "help").await?;
        Ok(Outcome::answer(helped.text))
    })
    .tool(stage.tool("pay", Effect::Once, 10))
    .agent(helper)
}

#[tokio::test(start_paused = true)]
async fn a_second_system_is_refused_before_any_effect_while_the_owner_lives() {
    let stage = Stage::new();
    let first = stage.start(payer(&stage)).await;
    let run = ask(&first, "payer", "go").await;
    pause(1000).await;
    let mut other = Stage::new();
    other.store = stage.store.another_process();
    let second = other.start(payer(&other)).await;
    let refused = second.resume(run.id(), false).await.unwrap_err();
    let owned = matches!(refused, SystemError::Store(StoreError::Owned { .. }));
    assert!(owned, "{refused}");
    assert_eq!(text(&run).await, "pay {}");
    // The other one sees the outcome all the same.
    assert_eq!(text(&second.run(run.id())).await, "pay {}");
    assert_eq!((stage.log.count("pay"), other.log.count("pay")), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_take_over_fences_the_first_owner_and_takes_the_children_along() {
    let stage = Stage::new();
    let first = stage.start(payer(&stage)).await;
    let run = ask(&first, "payer", "go").await;
    pause(1000).await;
    let mut other = Stage::new();
    other.store = stage.store.another_process();
    let second = other.start(payer(&other)).await;
    let taken = second.resume(run.id(), true).await.unwrap();
    assert_eq!(text(&taken).await, "pay {}");
    pause(100_000).await;
    // One call each: the first owner made the first, and started nothing more.
    assert_eq!((stage.log.count("pay"), other.log.count("pay")), (1, 1));
    for row in stage.rows().await {
        assert_eq!(stage.ends(row.run).await, 1);
    }
    let entries = stage.entries(run.id()).await;
    let recovered = entries
        .iter()
        .filter(|e| matches!(e, Entry::Activated { .. }));
    assert_eq!(recovered.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_was_taken_over_and_wakes_takes_no_child_back() {
    let stage = Stage::new();
    let first = stage.start(payer(&stage)).await;
    let run = ask(&first, "payer", "go").await;
    pause(1000).await;
    let mut other = Stage::new();
    other.store = stage.store.another_process();
    let second = other.start(payer(&other)).await;
    let taken = second.resume(run.id(), true).await.unwrap();
    pause(500).await;
    // The first one has not heard of it, and takes its child up again after its agent was lost.
    let teams = first.supervisor().unwrap().find_child("teams").await;
    let teams = Supervisor::from_actor(teams.unwrap().unwrap()).unwrap();
    let session = teams.find_child("payer/s").await.unwrap().unwrap();
    session
        .get_children()
        .into_iter()
        .next_back()
        .unwrap()
        .kill();
    assert_eq!(text(&taken).await, "pay {}");
    pause(100_000).await;
    assert_eq!((stage.log.count("pay"), other.log.count("pay")), (1, 1));
    for row in stage.rows().await {
        let entries = stage.entries(row.run).await;
        let recovered = |entry: &&Entry| matches!(entry, Entry::Activated { .. });
        let times = entries.iter().filter(recovered).count();
        assert_eq!(
            times, 1,
            "{} was recovered by the second one only",
            row.agent
        );
    }
}

/// A store whose process is never sure that it owns its journals still, and that counts how often it is asked.
struct Unsure(InMemoryStore, Arc<AtomicU32>);

impl StoreWrapper for Unsure {
    fn inner(&self) -> &dyn DynStore {
        &self.0
    }

    fn term(&self) -> Option<u64> {
        None
    }

    async fn confirm(&self, journal: JournalId, epoch: u64) -> Result<u64, StoreError> {
        self.1.fetch_add(1, SeqCst);
        self.0.confirm(journal, epoch).await
    }
}

#[tokio::test(start_paused = true)]
async fn the_store_is_asked_once_before_an_effect_and_not_before_a_read() {
    let stage = Stage::new();
    let asked = Arc::new(AtomicU32::new(0));
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        cx.tool_unasked(call("1", "look")).await?;
        cx.tool_unasked(call("2", "put")).await?;
        cx.tool_unasked(call("3", "pay")).await?;
        Ok(Outcome::answer("done"))
    })
    .tool(stage.tool("look", Effect::Read, 10))
    .tool(stage.tool("put", Effect::Idempotent, 10))
    .tool(stage.tool("pay", Effect::Once, 10));
    let store = Unsure(stage.store.clone(), asked.clone());
    let system = start(&stage, store, agent).await;
    assert_eq!(text(&ask(&system, "a", "go").await).await, "done");
    assert_eq!(asked.load(SeqCst), 2);
}
