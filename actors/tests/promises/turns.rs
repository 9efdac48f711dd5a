//! A turn that comes while another is under way waits, is refused, or steers, by setting.

use std::time::Duration;

use ghostlight_actors::{
    actor::{System, SystemError},
    definition::WhileBusy,
    run::{Agent, RunContext},
    session::Turn,
    testing::ScriptedModel,
    vocabulary::{Message, Outcome, Question},
};

use crate::stage::{Stage, outcome, pause, text};

/// Works for a while, and then asks its model, unless it is told to be deaf.
fn worker() -> Agent {
    Agent::from_fn("worker", |cx: RunContext| async move {
        let said = cx.input().content();
        if said == "ask" {
            cx.ask(Question::new("go on?")).await?;
        }
        cx.sleep(Duration::from_secs(1)).await?;
        if said == "deaf" {
            return Ok(Outcome::answer("deaf"));
        }
        let mut conversation = cx.conversation();
        let mut answer = cx.model(cx.model_request(conversation.clone())).await?;
        while !answer.steering.is_empty() {
            conversation.push(answer.message.clone());
            conversation.extend(answer.steering.into_iter().map(std::sync::Arc::new));
            answer = cx.model(cx.model_request(conversation.clone())).await?;
        }
        Ok(Outcome::answer(answer.content()))
    })
}

async fn system(stage: &Stage, rule: WhileBusy) -> System {
    let model = ScriptedModel::from_fn(|request, _| {
        let said = request.conversation.messages().into_iter();
        let said: Vec<String> = said
            .map(|message: std::sync::Arc<Message>| message.content())
            .collect();
        Ok(ghostlight_actors::vocabulary::ModelResponse::text(
            said.join("|"),
        ))
    });
    let team = worker()
        .into_team()
        .unwrap()
        .define(|team| team.while_busy = rule);
    let builder = System::builder(stage.store.clone())
        .model("default", model)
        .team(team);
    builder.start().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_comes_meanwhile_waits_for_the_one_before_it() {
    let stage = Stage::new();
    let system = system(&stage, WhileBusy::Queue).await;
    let session = system.session("worker", "s");
    let first = session.send("one").await.unwrap();
    let second = session.send("two").await.unwrap();
    assert_ne!(first.id(), second.id());
    assert_eq!(text(&second).await, "one|one|two");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_comes_meanwhile_is_refused_and_said_again_later() {
    let stage = Stage::new();
    let system = system(&stage, WhileBusy::Refuse).await;
    let session = system.session("worker", "s");
    let first = session.send(Turn::text("one").id("1")).await.unwrap();
    let refused = session.send("two").await.unwrap_err();
    let named = matches!(&refused, SystemError::UnderWay { run, .. } if *run == first.id());
    assert!(named, "{refused}");
    let again = session.send(Turn::text("one").id("1")).await.unwrap();
    assert_eq!(again.id(), first.id(), "said twice is said once");
    outcome(&first).await;
    let second = session.send("two").await.unwrap();
    assert_eq!(text(&second).await, "one|one|two");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_comes_meanwhile_steers_the_run_under_way_once() {
    let stage = Stage::new();
    let system = system(&stage, WhileBusy::Steer).await;
    let session = system.session("worker", "s");
    let first = session.send("one").await.unwrap();
    for _ in 0..2 {
        let second = session.send(Turn::text("and two").id("2")).await.unwrap();
        assert_eq!(second.id(), first.id());
    }
    assert_eq!(text(&first).await, "one|one|and two");
    pause(100).await;
    assert_eq!(session.log().await.unwrap().turns.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_run_ends_without_having_read_is_a_turn_of_its_own() {
    let stage = Stage::new();
    let system = system(&stage, WhileBusy::Steer).await;
    let session = system.session("worker", "s");
    let first = session.send("deaf").await.unwrap();
    session.send(Turn::text("two").id("2")).await.unwrap();
    assert_eq!(text(&first).await, "deaf");
    pause(5_000).await;
    let turns = session.log().await.unwrap().turns;
    let said: Vec<&str> = turns.iter().map(|turn| turn.said.as_str()).collect();
    assert_eq!(said, ["deaf", "two"]);
    assert_eq!(turns[1].answer.as_deref(), Some("deaf|deaf|two"));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_asks_a_person_is_not_steered_past_its_question() {
    let stage = Stage::new();
    let system = system(&stage, WhileBusy::Steer).await;
    let session = system.session("worker", "s");
    let asking = session.send("ask").await.unwrap();
    pause(100).await;
    let refused = session.send("two").await.unwrap_err();
    assert!(matches!(refused, SystemError::Asking { run } if run == asking.id()));
}
