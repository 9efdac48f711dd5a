//! An outcome that is told is recorded.

use std::time::Duration;

use ghostlight_actors::{
    actor::System,
    run::{Agent, RunContext},
    vocabulary::Outcome,
};

use crate::stage::{SlowStore, Stage, ask, pause, silent, text};

#[tokio::test(start_paused = true)]
async fn an_outcome_is_told_only_when_it_is_durable() {
    let below = Agent::from_fn("below", |cx: RunContext| async move {
        cx.sleep(Duration::from_millis(50)).await?;
        Ok(Outcome::answer("yes"))
    });
    let above = Agent::from_fn("above", |cx: RunContext| async move {
        let answer = cx.delegate("below", "go").await?.text;
        Ok(Outcome::answer(answer))
    });
    let stage = Stage::new();
    let system = System::builder(SlowStore::new(stage.store.clone()))
        .limits(stage.limits)
        .model("default", silent())
        .team(above.agent(below).into_team().unwrap())
        .start()
        .await
        .unwrap();
    let run = ask(&system, "above", "go").await;
    while stage.rows().await.len() < 2 {
        pause(1).await;
    }
    let child = stage
        .rows()
        .await
        .into_iter()
        .find(|row| row.parent.is_some());
    let child = system.run(child.unwrap().run);
    for run in [child, run] {
        assert_eq!(text(&run).await, "yes");
        assert_eq!(stage.ends(run.id()).await, 1);
    }
}
