//! Two versions of a program are at work at once: a run stays with processes that have its code.

use std::time::Duration;

use ghostlight_actors::{
    actor::{Run, System, SystemError},
    contract::{RunStatus, StoreError},
    run::{Agent, RunContext, Team},
    session::Turn,
    testing::InMemoryStore,
    vocabulary::{Effect, Outcome},
};

use crate::stage::{Stage, call, outcome, pause, silent};

/// The second version checks before it files.
fn clerk(stage: &Stage, version: u32) -> Team {
    let agent = Agent::from_fn("clerk", move |cx: RunContext| async move {
        if version > 1 && cx.version("checks first", 1).await? > 0 {
            cx.tool_unasked(call("0", "check")).await?;
        }
        cx.tool_unasked(call("1", "file")).await?;
        cx.sleep(Duration::from_secs(60)).await?;
        Ok(Outcome::answer(format!("filed by version {version}")))
    });
    let agent = agent.tool(stage.tool("file", Effect::Once, 10));
    let agent = agent.tool(stage.tool("check", Effect::Read, 10));
    let team = agent.into_team().unwrap();
    team.define(|team| team.version = version)
}

async fn start(stage: &Stage, store: &InMemoryStore, version: u32) -> System {
    System::builder(store.clone())
        .clock(stage.clock.clone())
        .model("default", silent())
        .team(clerk(stage, version))
        .start()
        .await
        .unwrap()
}

async fn begin(system: &System, session: &str) -> Run {
    system.session("clerk", session).send("go").await.unwrap()
}

async fn end(store: &InMemoryStore, system: &System) {
    store.crash();
    system.supervisor().unwrap().actor().kill();
    pause(1).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_stays_with_processes_that_have_its_code() {
    let stage = Stage::new();
    let (old_store, new_store) = (stage.store.another_process(), stage.store.another_process());
    let old = start(&stage, &old_store, 1).await;
    let new = start(&stage, &new_store, 2).await;
    let of_new = begin(&new, "new").await.id();
    let of_old = begin(&old, "old").await.id();
    pause(1000).await;
    end(&new_store, &new).await;

    // The old process sees a run that nobody carries and whose time has come, and leaves it alone.
    for _ in 0..60 {
        old.recover().await.unwrap();
        pause(5000).await;
    }
    let row = old.store().run(of_new).await.unwrap().unwrap();
    assert_eq!((row.status, row.version), (RunStatus::Waiting, 2));
    let refused = old.resume(of_new, true).await.unwrap_err();
    assert!(
        matches!(
            refused,
            SystemError::Store(StoreError::LaterCode {
                version: 2,
                known: 1,
                ..
            })
        ),
        "{refused}"
    );
    // A turn of the run's session waits for a process that has the code.
    let turn = {
        let old = old.clone();
        let said = async move {
            let turn = Turn::text("and now?").id("t2");
            old.session("clerk", "new").send(turn).await.unwrap().id()
        };
        tokio::spawn(said)
    };
    pause(5000).await;
    assert!(!turn.is_finished());
    assert_eq!(outcome(&old.run(of_old)).await.text(), "filed by version 1");
    let new_store = stage.store.another_process();
    let new = start(&stage, &new_store, 2).await;
    assert_eq!(outcome(&new.run(of_new)).await.text(), "filed by version 2");
    let turn = turn.await.unwrap();
    assert_eq!(outcome(&new.run(turn)).await.text(), "filed by version 2");

    let of_old = begin(&old, "old").await.id();
    pause(1000).await;

    // The old process is stopped: the new one goes on with what it leaves, which is no run for the old one from then on.
    old.stop().await.unwrap();
    new.resume(of_old, false).await.unwrap();
    pause(1000).await;
    end(&new_store, &new).await;
    let old = start(&stage, &stage.store.another_process(), 1).await;
    pause(120_000).await;
    let row = old.store().run(of_old).await.unwrap().unwrap();
    assert_eq!((row.status, row.version), (RunStatus::Waiting, 2));
    old.stop().await.unwrap();
    let new = start(&stage, &stage.store.another_process(), 2).await;
    assert_eq!(outcome(&new.run(of_old)).await.text(), "filed by version 2");
}
