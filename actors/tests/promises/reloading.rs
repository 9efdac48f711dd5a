//! A team's definition is replaced while its System lives.

use ghostlight_actors::{
    actor::SystemError,
    run::{Agent, RunContext},
    vocabulary::Outcome,
};

use crate::stage::{Stage, ask, pause, text};

fn says(text: &'static str) -> Agent {
    Agent::from_fn("desk", move |cx: RunContext| async move {
        cx.sleep(std::time::Duration::from_secs(5)).await?;
        let turns = cx.conversation().messages().len();
        Ok(Outcome::answer(format!("{text} {turns}")))
    })
    .instructions(text)
}

#[tokio::test(start_paused = true)]
async fn a_new_definition_is_for_new_runs_and_sessions_go_on() {
    let stage = Stage::new();
    stage.not_replayed("two definitions carried its runs, each its own");
    let system = stage.start(says("old")).await;
    let first = ask(&system, "desk", "one").await;
    pause(1000).await;
    system
        .reload(says("new").into_team().unwrap())
        .await
        .unwrap();
    let second = tokio::spawn({
        let system = system.clone();
        async move { ask(&system, "desk", "two").await }
    });
    assert!(text(&first).await.starts_with("old"));
    let second = second.await.unwrap();
    let (said, log) = (
        text(&second).await,
        system.session("desk", "s").log().await.unwrap(),
    );
    assert!(said.starts_with("new"), "{said}");
    assert_eq!(log.turns.len(), 2, "the session went on");
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_is_wrong_changes_nothing() {
    let stage = Stage::new();
    let system = stage.start(says("old")).await;
    let mut wrong = says("new").into_team().unwrap();
    wrong.spec.agent.tools.push("nowhere".to_owned());
    let refused = system.reload(wrong).await.unwrap_err();
    assert!(matches!(refused, SystemError::Definition(_)), "{refused}");
    let mut other = says("new").into_team().unwrap();
    other.spec.name = "other".to_owned();
    let refused = system.reload(other).await.unwrap_err();
    assert!(
        matches!(refused, SystemError::UnknownTeam { .. }),
        "{refused}"
    );
    let run = ask(&system, "desk", "one").await;
    assert!(text(&run).await.starts_with("old"));
}
