//! Sessions: one run at a time, a turn is one run, and a checkpoint is only a cache.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use futures_util::future::join_all;
use ghostlight_actors::{
    actor::{System, SystemError},
    contract::DynStore,
    run::{Agent, RunContext},
    session::Turn,
    vocabulary::{Outcome, SessionId, Transfer},
};

use crate::{
    contested::Contested,
    stage::{Stage, ask, pause, text},
};

fn echo() -> Agent {
    Agent::from_fn("echo", |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(1)).await?;
        let said = cx.conversation().messages();
        let said: Vec<String> = said.iter().map(|message| message.content()).collect();
        Ok(Outcome::answer(said.join("|")))
    })
}

fn session_id() -> SessionId {
    SessionId {
        team: "echo".into(),
        key: "s".into(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_carries_one_run_at_a_time_in_the_order_of_its_turns() {
    let stage = Stage::new();
    let system = stage.start(echo()).await;
    let mut turns = Vec::new();
    for text in ["a", "b", "c"] {
        let session = system.session("echo", "s");
        turns.push(tokio::spawn(async move { session.send(text).await }));
        pause(1).await;
    }
    let mut said = Vec::new();
    for turn in turns {
        said.push(text(&turn.await.unwrap().unwrap()).await);
    }
    assert_eq!(said, ["a", "a|a|b", "a|a|b|a|a|b|c"]);
    let rows = stage.rows().await;
    let (mut begun, mut ended) = (Vec::new(), Vec::new());
    for row in rows.iter().rev() {
        begun.push(row.started_at);
        ended.push(row.updated_at);
    }
    assert!(
        begun[1] >= ended[0] && begun[2] >= ended[1],
        "{begun:?} {ended:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_sent_twice_is_one_run_also_over_a_restart() {
    let mut stage = Stage::new();
    let system = stage.start(echo()).await;
    let turn = || Turn::text("a").id("t1");
    let session = system.session("echo", "s");
    let (one, two) = futures_util::join!(session.send(turn()), session.send(turn()));
    let (one, two) = (one.unwrap().id(), two.unwrap().id());
    assert_eq!(one, two);
    let status = system.run(one).status().await.unwrap().status;
    assert!(
        !status.is_ended(),
        "nobody waits for the end to learn the run"
    );
    stage.crash(&system).await;
    let system = stage.start(echo()).await;
    let again = system.session("echo", "s").send(turn()).await.unwrap();
    assert_eq!(again.id(), one);
    assert_eq!(text(&again).await, "a");
    let later = system.session("echo", "s").send(turn()).await.unwrap();
    assert_eq!((later.id(), stage.rows().await.len()), (one, 1));
}

#[tokio::test(start_paused = true)]
async fn a_session_belongs_to_the_first_owner_that_is_named() {
    let mut stage = Stage::new();
    let system = stage.start(echo()).await;
    let turn = |owner: &str| Turn::text("x").owner(owner);
    let run = system.session("echo", "s").send(turn("ada")).await.unwrap();
    text(&run).await;
    stage.crash(&system).await;
    let system = stage.start(echo()).await;
    let session = system.session("echo", "s");
    for stranger in [turn("bob"), Turn::text("x")] {
        let refused = session.send(stranger).await.unwrap_err();
        assert!(matches!(refused, SystemError::Foreign { .. }), "{refused}");
    }
    assert_eq!(
        text(&session.send(turn("ada")).await.unwrap()).await,
        "x|x|x"
    );
}

#[tokio::test(start_paused = true)]
async fn the_first_turn_makes_its_session_unless_another_process_has_made_it() {
    let mut stage = Stage::new();
    let first = stage.start(echo()).await;
    let store = Contested::over(stage.store.another_process());
    let (early, claims) = (store.early_reads.clone(), store.claims.clone());
    let second = System::builder(store).team(echo().into_team().unwrap());
    let second = second.start().await.unwrap();
    let say = async |system: &System, key: &str, what: &str| {
        let session = system.session("echo", key);
        session.send(Turn::text(what)).await
    };
    let run = say(&second, "new", "a").await.unwrap();
    assert_eq!((text(&run).await, claims.load(SeqCst)), ("a".to_owned(), 0));

    for key in ["s", "t"] {
        text(&say(&first, key, "a").await.unwrap()).await;
    }
    early.store(1, SeqCst);
    // The process that has it carries the turn.
    let run = say(&second, "s", "b").await.unwrap();
    assert_eq!(text(&run).await, "a|a|b");
    stage.crash(&first).await;
    // One whose maker is gone by then.
    early.store(1, SeqCst);
    let run = say(&second, "t", "b").await.unwrap();
    assert_eq!(text(&run).await, "a|a|b");
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_that_is_gone_cut_off_or_older_is_rebuilt_from_the_journal() {
    let (mut old, mut unharmed) = (None, None);
    for harm in ["none", "deleted", "cut off", "foreign", "older"] {
        let mut stage = Stage::new();
        let system = stage.start(echo()).await;
        for said in ["a", "b"] {
            text(&ask(&system, "echo", said).await).await;
        }
        pause(100).await;
        let kept = stage.store.checkpoint(session_id()).await.unwrap();
        let older = old.get_or_insert_with(|| kept.clone().unwrap()).clone();
        for said in ["c", "d"] {
            text(&ask(&system, "echo", said).await).await;
        }
        pause(100).await;
        stage.crash(&system).await;
        let kept = stage.store.checkpoint(session_id()).await.unwrap().unwrap();
        let bytes = match harm {
            "deleted" => None,
            "cut off" => Some(kept[..kept.len() / 2].to_vec()),
            "foreign" => Some(b"something else".to_vec()),
            "older" => Some(older),
            _ => Some(kept),
        };
        stage
            .store
            .put_checkpoint(session_id(), bytes)
            .await
            .unwrap();
        let system = stage.start(echo()).await;
        let said = text(&ask(&system, "echo", "e").await).await;
        assert!(said.starts_with("a|a|b|a|a|b|c") && said.ends_with("|e"));
        assert_eq!(unharmed.get_or_insert(said.clone()), &said, "{harm}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_agent_that_took_over_answers_the_next_turn_also_over_a_restart() {
    let mut stage = Stage::new();
    let team = || {
        let billing = Agent::from_fn("billing", |cx: RunContext| async move {
            Ok(Outcome::answer(format!(
                "billing: {}",
                cx.input().content()
            )))
        });
        Agent::from_fn("desk", |_cx: RunContext| async move {
            Ok(Outcome::Transfer(Transfer::to("billing")))
        })
        .agent(billing)
    };
    let system = stage.start(team()).await;
    let first = ask(&system, "desk", "a").await;
    assert_eq!(text(&first).await, "billing: a");
    stage.crash(&system).await;
    let system = stage.start(team()).await;
    let second = ask(&system, "desk", "b").await;
    assert_eq!(text(&second).await, "billing: b");
    assert_eq!(second.status().await.unwrap().path, ["billing"]);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_put_to_sleep_loses_no_turn_that_comes_at_that_moment() {
    let mut stage = Stage::new();
    stage.limits.passivate_after = Duration::from_millis(500);
    let agent = Agent::from_fn("brief", |_cx: RunContext| async move {
        Ok(Outcome::answer("yes"))
    });
    let system = stage.start(agent).await;
    let session = system.session("brief", "s");
    for number in 0..60u64 {
        let run = session.send(number.to_string()).await.unwrap();
        text(&run).await;
        // Turns fall before, into and after the moment in which the agent is ended.
        pause(470 + number).await;
        for _ in 0..number % 7 {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(stage.rows().await.len(), 60);
}

/// The sessions whose agent is in memory.
async fn in_memory(system: &System) -> Vec<String> {
    let tree = system.tree().await;
    let teams = tree.iter().find(|child| child.id == "teams").unwrap();
    teams
        .children
        .iter()
        .map(|child| child.id.clone())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn no_more_sessions_without_anything_to_do_stay_in_memory_than_their_bound() {
    let mut stage = Stage::new();
    stage.limits.passivate_after = Duration::from_secs(3_600);
    stage.limits.max_idle_sessions = 3;
    let system = stage.start(echo()).await;
    for said in ["x", "x|x|x"] {
        for number in 0..10 {
            let run = system
                .session("echo", number.to_string())
                .send("x")
                .await
                .unwrap();
            // A session that has left memory goes on with what was said in it.
            assert_eq!(text(&run).await, said, "session {number}");
        }
        pause(100).await;
        assert_eq!(in_memory(&system).await, ["echo/7", "echo/8", "echo/9"]);
    }
}

#[tokio::test(start_paused = true)]
async fn sessions_leave_memory_as_quickly_as_they_come() {
    let mut stage = Stage::new();
    stage.limits.passivate_after = Duration::from_secs(3_600);
    stage.limits.max_idle_sessions = 3;
    let system = stage.start(echo()).await;
    for number in 0..500 {
        let session = system.session("echo", number.to_string());
        assert_eq!(text(&session.send("x").await.unwrap()).await, "x");
    }
    pause(100).await;
    let left = in_memory(&system).await;
    assert_eq!(left, ["echo/497", "echo/498", "echo/499"]);
}

#[tokio::test(start_paused = true)]
async fn turns_that_are_sent_at_once_to_a_new_session_are_one_conversation() {
    let stage = Stage::new();
    let counter = Agent::from_fn("counter", |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(1)).await?;
        let said = cx.conversation().messages().len();
        Ok(Outcome::answer(said.to_string()))
    });
    let system = stage.start(counter).await;
    let sent = (0..16).map(|number: u32| {
        let session = system.session("counter", "s");
        async move { session.send(number.to_string()).await.unwrap() }
    });
    let mut lengths = Vec::new();
    for run in join_all(sent).await {
        lengths.push(text(&run).await.parse::<usize>().unwrap());
    }
    lengths.sort_unstable();
    let expected: Vec<usize> = (0..16).map(|turn| 2 * turn + 1).collect();
    assert_eq!(lengths, expected, "each turn sees all that were before it");
}
