//! In a session that belongs to nobody, the run of each turn is its speaker's: nobody else's words drive or cancel it.

use std::time::Duration;

use ghostlight_actors::{
    actor::{Run, Session, System},
    contract::{DynStore as _, ItemBody, MailboxItem},
    definition::{WhileAsking, WhileBusy},
    run::{Agent, RunContext},
    session::Turn,
    vocabulary::{Outcome, Question, RunId, Timestamp},
};
use serde_json::json;

use crate::{
    stage::{Stage, outcome, pause, text},
    turns::system,
};

const HOUR: Duration = Duration::from_secs(3_600);

async fn owner_of(stage: &Stage, run: &Run) -> Option<String> {
    let mut rows = stage.rows().await.into_iter();
    rows.find(|row| row.run == run.id()).unwrap().owner
}

/// Whose run this is, and its answer.
async fn said(stage: &Stage, run: &Run) -> (Option<String>, String) {
    let answer = text(run).await;
    (owner_of(stage, run).await, answer)
}

fn is(said: &(Option<String>, String), owner: Option<&str>, answer: &str) {
    assert_eq!((said.0.as_deref(), &*said.1), (owner, answer));
}

async fn send(session: &Session, owner: &str, text: &str) -> Run {
    let turn = Turn::text(text).owner(owner).id(text);
    session.send(turn).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_turn_steers_only_a_run_of_its_own_speaker() {
    let stage = Stage::new();
    let system = system(&stage, WhileBusy::Steer).await;
    let session = system.session("worker", "s");
    text(&session.send("deaf").await.unwrap()).await;
    let ada = send(&session, "ada", "one").await;
    assert_eq!(send(&session, "ada", "two").await.id(), ada.id());
    // These two wait for their own runs.
    let bob = tokio::spawn({
        let session = session.clone();
        async move { send(&session, "bob", "three").await }
    });
    pause(10).await;
    let nobody = tokio::spawn({
        let session = session.clone();
        async move { session.send("four").await.unwrap() }
    });
    is(
        &said(&stage, &ada).await,
        Some("ada"),
        "deaf|deaf|one|deaf|deaf|one|two",
    );
    let bob = said(&stage, &bob.await.unwrap()).await;
    assert_eq!(bob.0.as_deref(), Some("bob"));
    assert!(bob.1.ends_with("|three"), "{bob:?}");
    let nobody = said(&stage, &nobody.await.unwrap()).await;
    assert_eq!(nobody.0, None);
    assert!(nobody.1.ends_with("|four"), "{nobody:?}");
}

#[tokio::test(start_paused = true)]
async fn a_run_leaves_what_somebody_else_said_to_the_one_before_it() {
    let stage = Stage::new();
    let system = system(&stage, WhileBusy::Steer).await;
    let session = system.session("worker", "s");
    text(&session.send("deaf").await.unwrap()).await;
    let ada = session.send(Turn::text("deaf").owner("ada")).await.unwrap();
    text(&ada).await;
    let bob = send(&session, "bob", "one").await;
    // The run of ada's for which it was posted has just ended.
    let turn = Turn::text("two").id("2").owner("ada");
    let body = ItemBody::SteeringTurn(Box::new(turn));
    let item = MailboxItem::new("turn/2", Timestamp(1), body);
    let mailbox = session.id().clone().into();
    stage.store.post(mailbox, item).await.unwrap();
    // She is not told of bob's, which does not take her turn.
    let hers = system.acting_for("ada").session("worker", "s");
    let hers = hers.said_to(ada.id(), "2");
    let mut texts = hers.text_stream();
    let mut said = String::new();
    while let Some(piece) = texts.next().await {
        said.push_str(&piece.unwrap().text);
    }
    assert!(said.ends_with("|two"), "{said}");
    assert!(text(&hers).await.ends_with("|two"));
    assert!(!text(&bob).await.contains("two"));
    let own = system.run(RunId::of_turn(session.id(), "2"));
    assert_eq!(owner_of(&stage, &own).await.as_deref(), Some("ada"));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_asks_is_not_cancelled_by_the_next_turn_of_somebody_else() {
    let stage = Stage::new();
    let agent = Agent::from_fn("asker", |cx: RunContext| async move {
        let said = cx.input().content();
        if said == "ask" {
            return Ok(Outcome::answer(
                cx.ask(Question::new("well?")).await?.to_string(),
            ));
        }
        Ok(Outcome::answer(said))
    });
    let team = agent.into_team().unwrap();
    let team = team.define(|team| team.while_asking = WhileAsking::Cancel);
    let builder = System::builder(stage.store.clone()).team(team);
    let system = builder.start().await.unwrap();
    let session = system.session("asker", "s");
    text(&session.send("one").await.unwrap()).await;
    let asking = send(&session, "ada", "ask").await;
    asking.wait().await.unwrap();
    let bob = tokio::spawn({
        let session = session.clone();
        async move { send(&session, "bob", "two").await }
    });
    pause(10_000).await;
    let operation = asking.questions().await.unwrap().remove(0).1;
    let hers = system.acting_for("ada").run(asking.id());
    hers.answer(operation, json!("hers")).await.unwrap();
    assert_eq!(text(&asking).await, "\"hers\"");
    assert_eq!(text(&bob.await.unwrap()).await, "two");
    // Her own next turn cancels it.
    let again = Turn::text("ask").owner("ada").id("again");
    let asking = session.send(again).await.unwrap();
    asking.wait().await.unwrap();
    let next = tokio::time::timeout(HOUR, send(&session, "ada", "three")).await;
    assert_eq!(text(&next.unwrap()).await, "three");
    assert!(outcome(&asking).await.stop_reason().is_some());
}
