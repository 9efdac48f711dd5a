//! A turn that comes while another is under way waits, is refused, or steers, by setting.

use std::{sync::atomic::Ordering, time::Duration};

use ghostlight_actors::{
    actor::{Run, Session, System, SystemError},
    definition::{WhileAsking, WhileBusy},
    run::{Agent, RunContext, Team},
    session::Turn,
    testing::ScriptedModel,
    vocabulary::{Effect, Message, Outcome, Question, Transfer},
};

use crate::{
    contested::Contested,
    stage::{Stage, outcome, pause, text},
};

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

/// A model that answers with all that was said.
pub(crate) fn model() -> ScriptedModel {
    ScriptedModel::from_fn(|request, _| {
        let said = request.conversation.messages().into_iter();
        let said: Vec<String> = said
            .map(|message: std::sync::Arc<Message>| message.content())
            .collect();
        Ok(ghostlight_actors::vocabulary::ModelResponse::text(
            said.join("|"),
        ))
    })
}

pub(crate) fn team(rule: WhileBusy) -> Team {
    let team = worker().into_team().unwrap();
    team.define(|team| team.while_busy = rule)
}

pub(crate) async fn system(stage: &Stage, rule: WhileBusy) -> System {
    let builder = System::builder(stage.store.clone())
        .options(stage.limits)
        .model("default", model())
        .team(team(rule));
    builder.start().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn one_turn_has_one_id_over_transfers_below_agents_and_after_a_crash() {
    let team = || {
        let helper = Agent::from_fn("helper", |cx: RunContext| async move {
            cx.sleep(Duration::from_secs(5)).await?;
            Ok(Outcome::answer(cx.start().root.to_string()))
        });
        let clerk = Agent::from_fn("clerk", |cx: RunContext| async move {
            let below = cx.delegate("helper", "which turn is it?").await?.text;
            Ok(Outcome::answer(format!("{} {below}", cx.run())))
        });
        Agent::from_fn("desk", |cx: RunContext| async move {
            cx.sleep(Duration::from_secs(1)).await?;
            Ok(Outcome::Transfer(Transfer::to("clerk")))
        })
        .agent(clerk.agent(helper))
    };
    let mut stage = Stage::new();
    let system = stage.start(team()).await;
    let turn = Turn::text("go").id("1");
    let run = system
        .session("desk", "s")
        .send(turn.clone())
        .await
        .unwrap();
    pause(3_000).await;
    stage.crash(&system).await;
    let system = stage.start(team()).await;
    let same = system.session("desk", "s").send(turn).await.unwrap();
    assert_eq!(same.id(), run.id());
    assert_eq!(text(&same).await, format!("{0} {0}", run.id()));
    let rows = stage.rows().await;
    assert_eq!(rows.len(), 2, "one run of the turn, and one below it");
    assert!(rows.iter().all(|row| row.root == run.id()), "{rows:?}");
    let events = same.events().so_far().await.unwrap();
    let of_tree = |run| rows.iter().any(|row| row.run == run);
    assert!(events.iter().all(|record| of_tree(record.run)));
    let turns = system.session("desk", "s").log().await.unwrap().turns;
    let ids: Vec<_> = turns
        .iter()
        .map(|turn| (turn.run, turn.carried_by))
        .collect();
    assert_eq!(ids, [(run.id(), run.id())]);
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
    let other = session.send(Turn::text("and three").id("2")).await;
    let other = other.map(|run| run.id()).unwrap_err();
    assert!(matches!(other, SystemError::OtherTurn { run, .. } if run == first.id()));
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

/// Asks at once or after a while, or does something else for a while.
fn asker(while_asking: WhileAsking) -> Team {
    let agent = Agent::from_fn("asker", |cx: RunContext| async move {
        let said = cx.input().content();
        if said != "ask now" {
            cx.sleep(Duration::from_secs(1)).await?;
        }
        if said.starts_with("ask") {
            cx.ask(Question::new("go on?")).await?;
        }
        Ok(Outcome::answer(said))
    });
    let team = agent.into_team().unwrap();
    team.define(|team| team.while_asking = while_asking)
}

/// Says a turn, and gives its run or its refusal. The test fails if the caller waits for ever.
async fn said(session: &Session, text: &str) -> Result<Run, SystemError> {
    let time = Duration::from_secs(3_600);
    let said = tokio::time::timeout(time, session.send(text)).await;
    said.expect("the turn waits for ever")
}

#[tokio::test(start_paused = true)]
async fn turns_that_wait_are_told_when_the_run_before_them_begins_to_ask() {
    for while_asking in [WhileAsking::Refuse, WhileAsking::Cancel] {
        let stage = Stage::new();
        let builder = System::builder(stage.store.clone()).team(asker(while_asking));
        let system = builder.start().await.unwrap();
        // The next comes while the run is under way; and before it begins, since another is under way.
        for (case, before) in [("ask", None), ("ask now", Some("work"))] {
            let session = system.session("asker", case);
            if let Some(before) = before {
                session.send(before).await.unwrap();
            }
            let (asking, next) = tokio::join!(said(&session, case), async {
                pause(500).await;
                said(&session, "next").await
            });
            let asking = asking.unwrap();
            if while_asking == WhileAsking::Cancel {
                let outcome = outcome(&asking).await;
                assert!(outcome.stop_reason().is_some(), "{case}: {outcome:?}");
                assert_eq!(text(&next.unwrap()).await, "next");
                continue;
            }
            let refused = next.unwrap_err();
            let named =
                matches!(&refused, SystemError::UnderWay { run, .. } if *run == asking.id());
            assert!(named, "{case}: {refused}");
            assert_eq!(asking.questions().await.unwrap().len(), 1);
            // There is a question now, which the next may be meant to answer.
            let refused = said(&session, "yes").await.unwrap_err();
            let named = matches!(&refused, SystemError::Asking { run } if *run == asking.id());
            assert!(named, "{case}: {refused}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_asks_is_cancelled_for_the_next_turn_once_the_store_takes_it() {
    let stage = Stage::new();
    let store = Contested::over(stage.store.clone());
    let failed = store.failed_posts.clone();
    let system = System::builder(store).team(asker(WhileAsking::Cancel));
    let system = system.start().await.unwrap();
    let session = system.session("asker", "s");
    let asking = said(&session, "ask now").await.unwrap();
    pause(100).await;
    failed.store(3, Ordering::SeqCst);
    let next = said(&session, "next").await.unwrap();
    assert!(outcome(&asking).await.stop_reason().is_some());
    assert_eq!(text(&next).await, "next");
    assert_eq!(failed.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_comes_while_a_run_that_asks_is_recovered_is_told_that_it_asks() {
    let agent = || {
        Agent::from_fn("asker", |cx: RunContext| async move {
            let work = cx.step("work", Effect::Read, async {
                tokio::time::sleep(Duration::from_secs(5)).await;
                Ok::<_, String>(())
            });
            let (answer, worked) = tokio::join!(cx.ask(Question::new("go on?")), work);
            worked?;
            Ok(Outcome::answer(answer?.to_string()))
        })
    };
    let mut stage = Stage::new();
    let system = stage.start(agent()).await;
    let run = system.session("asker", "s").send("go").await.unwrap();
    pause(1_000).await;
    stage.crash(&system).await;
    // Its question is recorded, and it is at work.
    let system = stage.start(agent()).await;
    let refused = said(&system.session("asker", "s"), "two").await;
    let refused = refused.unwrap_err();
    assert!(
        matches!(&refused, SystemError::Asking { run: asking } if *asking == run.id()),
        "{refused}"
    );
}

#[tokio::test(start_paused = true)]
async fn another_turn_under_a_known_id_is_refused_and_the_same_one_is_the_same_run() {
    let mut stage = Stage::new();
    let first = system(&stage, WhileBusy::Queue).await;
    let session = first.session("worker", "s");
    let run = session.send(Turn::text("one").id("T1")).await.unwrap();
    // Two wait under one id; the other text learns at once that it is none of them.
    let waits = |text: &str| {
        let (session, turn) = (session.clone(), Turn::text(text).id("T2"));
        tokio::spawn(async move { session.send(turn).await })
    };
    let (waiting, again, other) = (waits("two"), waits("two"), waits("three"));
    let refused = |said: Result<Run, SystemError>, id: &str, run: &Run| {
        let said = said.map(|run| run.id()).unwrap_err().to_string();
        let expected = format!(
            "the turn {id:?} was sent to session worker/s before, with another message, as run {}: \
             send this one under an id of its own",
            run.id()
        );
        assert_eq!(said, expected);
    };
    refused(session.send(Turn::text("two").id("T1")).await, "T1", &run);
    assert_eq!(text(&run).await, "one");
    let second = waiting.await.unwrap().unwrap();
    assert_eq!(again.await.unwrap().unwrap().id(), second.id());
    refused(other.await.unwrap(), "T2", &second);
    outcome(&second).await;
    // So it is for other processes, and for the next.
    let elsewhere = System::builder(stage.store.another_process())
        .team(worker().into_team().unwrap())
        .recover(false)
        .start()
        .await
        .unwrap();
    let there = elsewhere.session("worker", "s");
    let same = there.send(Turn::text("one").id("T1")).await.unwrap();
    assert_eq!(same.id(), run.id());
    refused(there.send(Turn::text("two").id("T1")).await, "T1", &run);
    elsewhere.stop().await.unwrap();
    stage.crash(&first).await;
    let next = system(&stage, WhileBusy::Queue).await;
    let session = next.session("worker", "s");
    let same = session.send(Turn::text("one").id("T1")).await.unwrap();
    assert_eq!(same.id(), run.id());
    refused(session.send(Turn::text("two").id("T1")).await, "T1", &run);
}
