//! A session is spoken to from any process, whichever of them carries it.

use std::time::Duration;

use ghostlight_actors::{
    actor::{System, SystemError},
    contract::{Clock as _, DynStore as _, MailboxItem},
    definition::WhileBusy,
    run::{Agent, RunContext},
    session::Turn,
    vocabulary::{Budget, Effect, Entry, Outcome, RunId, SessionId, Timestamp, ToolDefinition},
};

use crate::stage::{Stage, call, pause, silent, text};

/// An agent that calls its tool and says what it was asked and how often.
fn gardener(stage: &Stage) -> Agent {
    Agent::from_fn("gardener", |cx: RunContext| async move {
        let said = cx.input().content();
        cx.sleep(Duration::from_secs(2)).await?;
        let result = cx.tool_unasked(call("1", "water")).await?;
        Ok(Outcome::answer(format!("{said}: {}", result.text)))
    })
    .tool(stage.tool("water", Effect::Once, 10))
}

fn beside(stage: &Stage) -> Stage {
    let mut other = Stage::new();
    other.store = stage.store.another_process();
    other
}

async fn start(stage: &Stage, while_busy: WhileBusy) -> System {
    let mut team = gardener(stage).into_team().unwrap();
    team.spec.while_busy = while_busy;
    System::builder(stage.store.clone())
        .options(stage.limits)
        .clock(stage.clock.clone())
        .model("default", silent())
        .team(team)
        .start()
        .await
        .unwrap()
}

/// What is in the session's mailbox.
async fn waiting(stage: &Stage) -> Vec<MailboxItem> {
    let session = SessionId {
        team: "gardener".into(),
        key: "s".into(),
    };
    stage.store.mailbox(session.into()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_turn_to_a_session_of_another_process_runs_there_and_is_followed_from_here() {
    let stage = Stage::new();
    let owner = stage.start(gardener(&stage)).await;
    let first = owner.session("gardener", "s").send("roses").await.unwrap();
    let other = beside(&stage);
    let beside = other.start(gardener(&other)).await;
    let turn = Turn::text("tulips").id("t2");
    // The first is under way, and the second waits behind it.
    let second = beside.session("gardener", "s").send(turn).await.unwrap();
    assert_eq!(
        second.id(),
        RunId::of_turn(beside.session("gardener", "s").id(), "t2")
    );
    let mut events = second.events();
    let mut seen = 0;
    while let Some(event) = events.next().await {
        event.unwrap();
        seen += 1;
    }
    assert!(seen >= 3, "{seen} events were seen from here");
    assert_eq!(text(&first).await, "roses: water {}");
    assert_eq!(text(&second).await, "tulips: water {}");
    assert_eq!((stage.log.count("water"), other.log.count("water")), (2, 0));
    // Nothing stays behind, and the same turn said again is the same run.
    assert_eq!(waiting(&stage).await, []);
    let again = Turn::text("tulips").id("t2");
    let again = beside.session("gardener", "s").send(again).await.unwrap();
    assert_eq!(again.id(), second.id());
    let log = owner.session("gardener", "s").log().await.unwrap();
    assert_eq!(log.turns.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn fifty_turns_from_two_processes_are_fifty_runs_of_one_session() {
    let stage = Stage::new();
    let owner = stage.start(gardener(&stage)).await;
    let first = owner.session("gardener", "s").send("0").await.unwrap();
    let other = beside(&stage);
    let beside = other.start(gardener(&other)).await;
    let turns = (1..50).map(|n| {
        let system = if n % 2 == 0 { &owner } else { &beside };
        let session = system.session("gardener", "s");
        async move {
            let run = session
                .send(Turn::text(format!("{n}")).id(format!("{n}")))
                .await;
            text(&run.unwrap()).await
        }
    });
    let said = futures_util::future::join_all(turns).await;
    assert_eq!(text(&first).await, "0: water {}");
    for (n, said) in (1..50).zip(said) {
        assert_eq!(said, format!("{n}: water {{}}"));
    }
    assert_eq!(
        (stage.log.count("water"), other.log.count("water")),
        (50, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_posted_turn_outlives_the_owner_of_its_session() {
    let mut stage = Stage::new();
    let owner = stage.start(gardener(&stage)).await;
    let first = owner.session("gardener", "s").send("roses").await.unwrap();
    let other = beside(&stage);
    let beside = other.start(gardener(&other)).await;
    let session = beside.session("gardener", "s");
    let sending = tokio::spawn(async move { session.send("tulips").await });
    pause(300).await;
    stage.crash(&owner).await;
    // The sender finds that nobody carries the session any more, and goes on with it.
    beside.recover().await.unwrap();
    let second = sending.await.unwrap().unwrap();
    assert_eq!(text(&beside.run(first.id())).await, "roses: water {}");
    assert_eq!(text(&second).await, "tulips: water {}");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_its_sessions_owner_refuses_is_refused_here_with_the_reason() {
    let stage = Stage::new();
    let owner = start(&stage, WhileBusy::Refuse).await;
    let turn = Turn::text("roses").owner("ada");
    let first = owner.session("gardener", "s").send(turn).await.unwrap();
    let other = beside(&stage);
    let beside = start(&other, WhileBusy::Refuse).await;
    let session = beside.session("gardener", "s");
    let busy = Turn::text("tulips").id("t").owner("ada");
    let refused = session.send(busy.clone()).await.unwrap_err();
    assert!(
        matches!(&refused, SystemError::Refused { reason, .. } if reason.contains("has not ended")),
        "{refused}"
    );
    let stranger = Turn::text("tulips").owner("eve");
    let refused = session.send(stranger).await.unwrap_err();
    assert!(matches!(refused, SystemError::Refused { .. }), "{refused}");
    text(&first).await;
    // Refused is not said: under the same id it may be said again.
    let second = session.send(busy).await.unwrap();
    assert_eq!(text(&second).await, "tulips: water {}");
    assert_eq!(waiting(&stage).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_posted_turn_may_be_said_to_the_run_that_is_under_way() {
    let stage = Stage::new();
    let owner = start(&stage, WhileBusy::Steer).await;
    let first = owner.session("gardener", "s").send("roses").await.unwrap();
    let other = beside(&stage);
    let beside = start(&other, WhileBusy::Steer).await;
    let told = beside
        .session("gardener", "s")
        .send("and tulips")
        .await
        .unwrap();
    assert_eq!(told.id(), first.id());
    // That one asks no model, so it does not hear it.
    assert_eq!(text(&told).await, "and tulips: water {}");
    assert_eq!(text(&first).await, "roses: water {}");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_no_run_heard_begins_though_its_team_steers_no_more() {
    for restarts in [false, true] {
        let mut stage = Stage::new();
        let mut system = start(&stage, WhileBusy::Steer).await;
        let session = system.session("gardener", "s");
        let first = session.send("roses").await.unwrap().id();
        let tulips = Turn::text("tulips").id("t2");
        assert_eq!(session.send(tulips).await.unwrap().id(), first);
        if restarts {
            let store = stage.store.another_process();
            system.stop().await.unwrap();
            stage.store = store;
            system = start(&stage, WhileBusy::Queue).await;
        } else {
            let mut team = gardener(&stage).into_team().unwrap();
            team.spec.while_busy = WhileBusy::Queue;
            system.reload(team).await.unwrap();
        }
        assert_eq!(text(&system.run(first)).await, "roses: water {}");
        for _ in 0..100 {
            pause(100).await;
            if waiting(&stage).await.is_empty() {
                break;
            }
        }
        let second = RunId::of_turn(session.id(), "t2");
        assert_eq!(text(&system.run(second)).await, "tulips: water {}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_posted_turn_begins_with_all_that_was_said_with_it() {
    let stage = Stage::new();
    let owner = stage.start(gardener(&stage)).await;
    let first = Turn::text("roses").owner("ada");
    owner.session("gardener", "s").send(first).await.unwrap();
    let other = beside(&stage);
    let beside = other.start(gardener(&other)).await;
    let turn = Turn::text("tulips")
        .id("t2")
        .owner("ada")
        .budget(Budget {
            tool_calls: Some(7),
            ..Budget::default()
        })
        .deadline(Timestamp(stage.clock.now().0 + 3_600_000))
        .dry_run()
        .streaming(false)
        .tool(ToolDefinition::new("dig", "digs"));
    let second = beside.session("gardener", "s").send(turn.clone()).await;
    let entries = stage.entries(second.unwrap().id()).await;
    let Entry::RunStarted(start) = &entries[0] else {
        panic!("{entries:?}");
    };
    assert_eq!((&start.owner, start.deadline), (&turn.owner, turn.deadline));
    assert_eq!(start.budget.tool_calls, Some(7));
    assert_eq!((start.dry_run, start.streaming), (true, Some(false)));
    assert_eq!(start.tools, turn.tools);
}

#[tokio::test(start_paused = true)]
async fn the_run_of_a_turn_of_somebody_else_is_not_given_away_by_another_process_either() {
    let stage = Stage::new();
    let owner = stage.start(gardener(&stage)).await;
    let turn = Turn::text("roses").owner("ada").id("t");
    owner.session("gardener", "s").send(turn).await.unwrap();
    let other = beside(&stage);
    let beside = other.start(gardener(&other)).await;
    for stranger in [Turn::text("roses"), Turn::text("roses").owner("eve")] {
        let told = beside.session("gardener", "s").send(stranger.id("t")).await;
        assert!(matches!(told, Err(SystemError::Foreign { .. })), "{told:?}");
    }
}
