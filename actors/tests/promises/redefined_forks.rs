//! A fork goes on with another definition of its team, where that can be done with the code that is there.

use std::time::Duration;

use ghostlight_actors::{
    actor::{Fork, System, SystemError, pinned_team},
    definition::{InterceptorSpec, ModelSpec, TeamSpec},
    run::{Agent, RunContext},
    testing::ScriptedModel,
    vocabulary::Outcome,
};

use crate::stage::{Stage, ask, pause, text};

/// Says by which model and after which instructions it answers, half a second after it was asked.
fn speaker() -> Agent {
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let said = cx.model(cx.model_request(cx.conversation())).await?;
        cx.sleep(Duration::from_millis(500)).await?;
        let instructions = &cx.agent().instructions;
        let said = said.content();
        Ok(Outcome::answer(format!("{said}, {instructions}")))
    });
    agent.instructions("be kind")
}

async fn start(stage: &Stage) -> System {
    let says = |name: &'static str| ScriptedModel::from_reply_fn(move |_, _| name.into());
    let team = speaker().into_team().unwrap();
    System::builder(stage.store.clone())
        .clock(stage.clock.clone())
        .model("default", says("small"))
        .model("other", says("large"))
        .team(team)
        .start()
        .await
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_fork_goes_on_with_another_model_and_other_instructions_also_after_a_crash() {
    let mut stage = Stage::new();
    let system = start(&stage).await;
    let run = ask(&system, "a", "go").await;
    assert_eq!(text(&run).await, "small, be kind");
    let pinned = pinned_team(system.store(), run.id()).await.unwrap();
    let mut team = pinned.clone();
    team.agent.model = Some("other".to_owned());
    team.agent.instructions = "be brief".into();
    let fork = Fork::at(1).team(team.clone()).session("f");
    let fork = run.fork(fork).await.unwrap();
    let again = Fork::at(1).team(team.clone()).session("f");
    assert_eq!(run.fork(again).await.unwrap().id(), fork.id());
    let other = run
        .fork(Fork::at(1).team(pinned.clone()).session("f"))
        .await;
    assert!(matches!(other, Err(SystemError::SessionExists { .. })));
    pause(100).await;
    stage.crash(&system).await;
    let system = start(&stage).await;
    let fork = system.run(fork.id());
    assert_eq!(text(&fork).await, "large, be brief");
    assert_eq!(pinned_team(system.store(), fork.id()).await.unwrap(), team);
    // The run, and those that begin later, are as they were.
    assert_eq!(text(&system.run(run.id())).await, "small, be kind");
    assert_eq!(
        text(&ask(&system, "a", "again").await).await,
        "small, be kind"
    );
    stage.not_replayed("the fork has a definition of its own");
}

#[tokio::test(start_paused = true)]
async fn a_definition_with_which_a_fork_cannot_go_on_is_refused_and_nothing_is_made() {
    let stage = Stage::new();
    let system = start(&stage).await;
    let run = ask(&system, "a", "go").await;
    text(&run).await;
    let pinned = pinned_team(system.store(), run.id()).await.unwrap();
    let changed = |change: fn(&mut TeamSpec)| {
        let mut team = pinned.clone();
        change(&mut team);
        team
    };
    for (team, reason) in [
        (
            changed(|team| team.agent.model = Some("huge".to_owned())),
            "huge",
        ),
        (changed(|team| team.agent.tools.push("rm".to_owned())), "rm"),
        (
            changed(|team| team.agent.behavior.name = "dance".to_owned()),
            "dance",
        ),
        (
            changed(|team| team.name = "b".to_owned()),
            "one of team \"a\"",
        ),
        (
            changed(|team| {
                team.models
                    .insert("mine".to_owned(), ModelSpec::new("somebody"));
            }),
            "`models`",
        ),
        (
            changed(|team| team.interceptors.push(InterceptorSpec::new("spy"))),
            "`interceptors`",
        ),
    ] {
        let error = run.fork(Fork::at(1).team(team).session("f")).await;
        let error = error.unwrap_err();
        let is_refused = matches!(
            error,
            SystemError::Definition(_) | SystemError::NotReloaded { .. }
        );
        assert!(is_refused, "{error:?}");
        assert!(error.to_string().contains(reason), "{error}");
    }
    // The session is still free.
    let fork = run.fork(Fork::at(1).session("f")).await.unwrap();
    assert_eq!(text(&fork).await, "small, be kind");
}
