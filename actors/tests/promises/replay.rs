//! What is recorded is returned, and not done again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use ghostlight_actors::{
    run::{Agent, RunContext},
    testing::ScriptedModel,
    vocabulary::{Effect, Entry, ErrorKind, Outcome},
};

use crate::stage::{Stage, ask, call, pause, text};

#[tokio::test(start_paused = true)]
async fn replay_returns_what_is_recorded_and_performs_nothing_again() {
    let mut stage = Stage::new();
    let model = ScriptedModel::turns(["said"]);
    let runs = Arc::new(AtomicU32::new(0));
    let agent = |stage: &Stage| {
        let (runs, log) = (runs.clone(), stage.log.clone());
        Agent::from_fn("a", move |cx: RunContext| {
            let (runs, log) = (runs.clone(), log.clone());
            async move {
                runs.fetch_add(1, Ordering::SeqCst);
                let at = cx.now().await?;
                let id = cx.uuid().await?;
                let dice = cx.random().await?;
                let said = cx.model(cx.model_request(cx.conversation())).await?;
                let results = cx.tools([call("1", "look"), call("2", "pay")]).await?;
                let step = async move {
                    let brief = Duration::from_millis(1);
                    log.perform("step", "step", Effect::Once, brief).await;
                    Ok::<_, std::io::Error>(7)
                };
                let seven = cx.step("seven", Effect::Once, step).await?;
                let recorded = format!("{at:?} {id} {dice} {} {seven}", said.content());
                cx.emit("recorded", &recorded);
                cx.sleep(Duration::from_secs(60)).await?;
                Ok(Outcome::answer(format!("{recorded} {}", results.len())))
            }
        })
        .tool(stage.tool("look", Effect::Read, 5))
        .tool(stage.tool("pay", Effect::Once, 5))
    };
    let system = stage.start_with(agent(&stage), model.clone()).await;
    let run = ask(&system, "a", "go").await;
    pause(1000).await;
    let (before, effects) = (stage.entries(run.id()).await, stage.log.effects());
    stage.crash(&system).await;
    let system = stage.start_with(agent(&stage), model.clone()).await;
    let answer = text(&system.run(run.id())).await;
    let told = before.iter().find_map(|entry| match entry {
        Entry::Emitted { data, .. } => serde_json::from_str::<String>(data.get()).ok(),
        _ => None,
    });
    assert_eq!(answer, format!("{} 2", told.unwrap()));
    assert_eq!(runs.load(Ordering::SeqCst), 2, "the function was run again");
    assert_eq!((model.calls(), stage.log.effects()), (1, effects));
    let entries = stage.entries(run.id()).await;
    let emitted = entries
        .iter()
        .filter(|e| matches!(e, Entry::Emitted { .. }));
    assert_eq!(emitted.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_recorded_error_is_returned_again() {
    let mut stage = Stage::new();
    let agent = || {
        Agent::from_fn("a", |cx: RunContext| async move {
            let failing = async { Err::<(), _>("no luck") };
            let error = cx.step("try", Effect::Read, failing).await.unwrap_err();
            cx.sleep(Duration::from_secs(60)).await?;
            assert_eq!(error.kind(), Some(&ErrorKind::Other));
            Ok(Outcome::answer(error.to_string()))
        })
    };
    let system = stage.start(agent()).await;
    let run = ask(&system, "a", "go").await;
    pause(1000).await;
    stage.crash(&system).await;
    let system = stage.start(agent()).await;
    assert_eq!(text(&system.run(run.id())).await, "try: no luck");
}

#[tokio::test(start_paused = true)]
async fn a_version_that_was_recorded_stands_and_a_new_run_takes_the_newest() {
    let mut stage = Stage::new();
    let agent = |max: u32| {
        Agent::from_fn("a", move |cx: RunContext| async move {
            let version = cx.version("layout", max).await?;
            cx.sleep(Duration::from_secs(60)).await?;
            Ok(Outcome::answer(version.to_string()))
        })
    };
    let system = stage.start(agent(1)).await;
    let run = ask(&system, "a", "go").await;
    pause(1000).await;
    stage.crash(&system).await;
    let system = stage.start(agent(2)).await;
    assert_eq!(text(&system.run(run.id())).await, "1");
    assert_eq!(text(&ask(&system, "a", "again").await).await, "2");
}

#[tokio::test(start_paused = true)]
async fn a_run_keeps_the_definition_that_it_began_with() {
    let mut stage = Stage::new();
    let agent = |words: &str| {
        Agent::from_fn("a", |cx: RunContext| async move {
            cx.sleep(Duration::from_secs(60)).await?;
            Ok(Outcome::answer(cx.spec().instructions.clone()))
        })
        .instructions(words)
    };
    let system = stage.start(agent("old")).await;
    let run = ask(&system, "a", "go").await;
    pause(1000).await;
    stage.crash(&system).await;
    let system = stage.start(agent("new")).await;
    assert_eq!(text(&system.run(run.id())).await, "old");
    assert_eq!(text(&ask(&system, "a", "again").await).await, "new");
}
