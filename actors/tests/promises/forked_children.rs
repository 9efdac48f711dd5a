//! A fork keeps the children that came to their ends before its place.

use std::time::Duration;

use ghostlight_actors::{
    actor::Fork,
    run::{Agent, RunContext},
    vocabulary::Outcome,
};

use crate::stage::{Stage, ask, pause, text};

#[tokio::test(start_paused = true)]
async fn a_run_is_forked_behind_the_end_of_a_child_that_was_stopped() {
    let stage = Stage::new();
    let worker = Agent::from_fn("worker", |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(900)).await?;
        Ok(Outcome::answer("never"))
    });
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let child = cx.spawn("worker", "go").await?;
        let ended = cx.join(&child).await;
        cx.sleep(Duration::from_secs(60)).await?;
        Ok(Outcome::answer(format!("{:?}", ended.is_ok())))
    });
    let system = stage.start(agent.agent(worker)).await;
    let run = ask(&system, "a", "go").await;
    pause(1000).await;
    let rows = stage.rows().await;
    let child = rows.iter().find(|row| row.agent == "worker").unwrap();
    assert!(system.run(child.run).cancel("enough").await.unwrap());
    pause(10_000).await;
    let fork = run.fork(Fork::latest()).await.unwrap();
    assert_eq!(text(&fork).await, text(&run).await);
}
