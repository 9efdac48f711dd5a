//! A turn to a session that another process has taken over goes to that process.

use std::time::Duration;

use ghostlight_actors::{
    contract::DynStore as _,
    run::{Agent, RunContext},
    session::Turn,
    vocabulary::{Outcome, RunId},
};

use crate::stage::{Stage, pause, text};

fn echo() -> Agent {
    Agent::from_fn("echo", |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(1)).await?;
        Ok(Outcome::answer(cx.input().content()))
    })
}

#[tokio::test(start_paused = true)]
async fn the_first_turn_after_a_take_over_is_passed_on() {
    let stage = Stage::new();
    let before = stage.start(echo()).await;
    let session = before.session("echo", "s");
    let mut other = Stage::new();
    other.store = stage.store.another_process();
    let after = other.start(echo()).await;
    for round in ["1", "2"] {
        assert_eq!(text(&session.send("one").await.unwrap()).await, "one");
        let journal = session.id().clone().into();
        other.store.claim(journal, true).await.unwrap();
        // It has the session in memory, and does not know.
        let turn = Turn::text("two").id(round);
        let second = session.send(turn).await.unwrap();
        assert_eq!(second.id(), RunId::of_turn(session.id(), round));
        assert_eq!(text(&second).await, "two");
        // The other process has it in memory now, and loses it again.
        let journal = session.id().clone().into();
        stage.store.claim(journal, true).await.unwrap();
        let theirs = after.session("echo", "s");
        assert_eq!(text(&theirs.send("three").await.unwrap()).await, "three");
    }
    pause(100).await;
    assert_eq!(session.log().await.unwrap().turns.len(), 6);
}

#[tokio::test(start_paused = true)]
async fn turns_that_wait_when_the_session_is_taken_over_are_passed_on() {
    let stage = Stage::new();
    let before = stage.start(echo()).await;
    let session = before.session("echo", "s");
    session.send("one").await.unwrap();
    let waiting = ["two", "three"].map(|said| {
        let session = session.clone();
        tokio::spawn(async move { session.send(said).await })
    });
    pause(100).await;
    let mut other = Stage::new();
    other.store = stage.store.another_process();
    let after = other.start(echo()).await;
    let open = stage.rows().await.remove(0).run;
    after.resume(open, true).await.unwrap();
    assert_eq!(text(&after.run(open)).await, "one");
    for (said, sent) in ["two", "three"].into_iter().zip(waiting) {
        assert_eq!(text(&sent.await.unwrap().unwrap()).await, said);
    }
}

/// The run waits in the store alone when it is taken over, and ends in the other process.
#[tokio::test(start_paused = true)]
async fn a_turn_behind_a_run_that_another_process_ended_is_passed_on() {
    let mut stage = Stage::new();
    stage.limits.linger = Duration::from_millis(100);
    let asker = || {
        Agent::from_fn("echo", |cx: RunContext| async move {
            let said = cx.input().content();
            if said == "wait" {
                cx.sleep(Duration::from_secs(60)).await?;
            }
            Ok(Outcome::answer(said))
        })
    };
    let before = stage.start(asker()).await;
    let session = before.session("echo", "s");
    let first = session.send("wait").await.unwrap();
    pause(5_000).await;
    let mut other = Stage::new();
    other.store = stage.store.another_process();
    let after = other.start(asker()).await;
    after.resume(first.id(), true).await.unwrap();
    assert_eq!(text(&after.run(first.id())).await, "wait");
    let hour = Duration::from_secs(3_600);
    let second = tokio::time::timeout(hour, session.send("two")).await;
    let second = second.expect("the turn waits for ever").unwrap();
    assert_eq!(text(&second).await, "two");
}
