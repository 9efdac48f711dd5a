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
        .options(stage.limits)
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

#[tokio::test(start_paused = true)]
async fn teams_whose_agents_are_called_alike_keep_their_own_code() {
    let team = |name: &'static str| {
        let critic = Agent::from_fn("critic", move |_: RunContext| async move {
            Ok(Outcome::answer(name))
        });
        let above = Agent::from_fn(name, |cx: RunContext| async move {
            Ok(Outcome::answer(cx.delegate("critic", "go").await?.text))
        });
        above.agent(critic).into_team().unwrap()
    };
    let stage = Stage::new();
    let builder = System::builder(stage.store.clone());
    let system = builder.team(team("one")).team(team("other")).start();
    let system = system.await.unwrap();
    for name in ["one", "other"] {
        assert_eq!(text(&ask(&system, name, "go").await).await, name);
    }
    let twice = System::builder(stage.store.another_process());
    let twice = twice.team(team("one")).team(team("one")).start().await;
    let error = twice.expect_err("two teams of one name").to_string();
    assert!(error.contains("two teams are called \"one\""), "{error}");
}
