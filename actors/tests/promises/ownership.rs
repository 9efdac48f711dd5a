//! A run has one writer, whoever else has the store open.

use std::time::Duration;

use ghostlight_actors::{
    actor::{SystemError, supervisor::Supervisor},
    contract::StoreError,
    run::{Agent, RunContext},
    vocabulary::{Effect, Entry, Outcome},
};

use crate::stage::{Stage, ask, call, pause, text};

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
