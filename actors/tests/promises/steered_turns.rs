//! A turn that is said to a run under way: which run takes it, and whose answer its sender gets.

use std::{sync::Arc, time::Duration};

use ghostlight_actors::{
    actor::{EventStream, Run, Session, System, SystemError},
    contract::{Clock as _, DynStore as _, ItemBody, MailboxItem, StoreHandle},
    definition::WhileBusy,
    run::{Agent, RunContext},
    session::{SessionFold, Turn},
    testing::{Fault, FaultyStore, Harm, InMemoryStore, Strike},
    vocabulary::{Budget, Effect, Entry, Event, Message, Outcome, Role, RunId, Timestamp},
};

use crate::{
    stage::{Stage, crash, outcome, pause, text},
    turns::{model, system, team},
};

const HOUR: Duration = Duration::from_secs(3_600);

/// What was said in each turn of the session, with its answer.
async fn turns(session: &Session) -> Vec<(String, String)> {
    let turns = session.log().await.unwrap().turns.into_iter();
    let turn = turns.map(|turn| (turn.said, turn.answer.unwrap_or_default()));
    turn.collect()
}

fn is(turns: &[(String, String)], expected: &[(&str, &str)]) {
    let found = turns.iter().map(|(said, answer)| (&**said, &**answer));
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_turn_is_not_said_to_a_dry_run() {
    let stage = Stage::new();
    let system = system(&stage, WhileBusy::Steer).await;
    let session = system.session("worker", "s");
    let dry = Turn::text("one").dry_run();
    let dry = session.send(dry).await.unwrap();
    let own = session.send("two").await.unwrap();
    assert_ne!(own.id(), dry.id());
    assert_eq!(text(&dry).await, "one");
    assert_eq!(text(&own).await, "one|one|two");
    let entries = stage.entries(own.id()).await;
    assert!(matches!(&entries[0], Entry::RunStarted(start) if !start.dry_run));
}

#[tokio::test(start_paused = true)]
async fn a_turn_with_bounds_of_its_own_has_a_run_of_its_own() {
    let stage = Stage::new();
    let system = system(&stage, WhileBusy::Steer).await;
    let session = system.session("worker", "s");
    let first = session.send("one").await.unwrap();
    let budget = Budget {
        tool_calls: Some(7),
        ..Budget::default()
    };
    let deadline = Timestamp(stage.clock.now().0 + 3_600_000);
    let mut answer = "one".to_owned();
    for turn in [
        Turn::text("two").budget(budget),
        Turn::text("three").deadline(deadline),
    ] {
        let said = turn.message.content();
        let own = session.send(turn).await.unwrap();
        assert_ne!(own.id(), first.id());
        answer = format!("{answer}|{answer}|{said}");
        assert_eq!(text(&own).await, answer);
    }
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_leaves_what_was_said_to_the_run_before_it() {
    let stage = Stage::new();
    let system = system(&stage, WhileBusy::Steer).await;
    let session = system.session("worker", "s");
    let dry = Turn::text("one").dry_run();
    let dry = session.send(dry).await.unwrap();
    // The run for which it was posted has just ended.
    let body = ItemBody::SteeringTurn(Box::new(Turn::text("two").id("2")));
    let item = MailboxItem::new("turn/2", Timestamp(1), body);
    let mailbox = session.id().clone().into();
    stage.store.post(mailbox, item).await.unwrap();
    assert_eq!(text(&dry).await, "one");
    pause(5_000).await;
    is(
        &turns(&session).await,
        &[("one", "one"), ("two", "one|one|two")],
    );
}

#[tokio::test(start_paused = true)]
async fn what_no_run_heard_comes_before_the_turns_that_wait() {
    let stage = Stage::new();
    let system = system(&stage, WhileBusy::Steer).await;
    let session = system.session("worker", "s");
    let first = session.send("deaf").await.unwrap();
    let steers = session.send(Turn::text("two").id("2")).await.unwrap();
    assert_eq!(steers.id(), first.id());
    // A dry run waits for the run under way, and so does another turn under the same id.
    let waits = |turn: Turn| {
        let session = session.clone();
        tokio::spawn(async move { session.send(turn.dry_run()).await })
    };
    let (third, other) = (waits("three".into()), waits(Turn::text("other").id("2")));
    text(&third.await.unwrap().unwrap()).await;
    let refused = other.await.unwrap().unwrap_err();
    assert!(
        matches!(refused, SystemError::OtherTurn { .. }),
        "{refused}"
    );
    let turns = turns(&session).await;
    let said: Vec<&str> = turns.iter().map(|(said, _)| &**said).collect();
    assert_eq!(said, ["deaf", "two", "three"]);
    assert_eq!(turns[1].1, "deaf|deaf|two");
}

#[tokio::test(start_paused = true)]
async fn whether_a_turn_steers_is_told_by_the_team_of_now_and_by_the_run() {
    let stage = Stage::new();
    let system = system(&stage, WhileBusy::Queue).await;
    let session = system.session("worker", "s");
    // The team steers from now on; the run that began before does not hear it.
    let first = session.send("one").await.unwrap();
    system.reload(team(WhileBusy::Steer)).await.unwrap();
    let second = session.send("two").await.unwrap();
    assert_ne!(second.id(), first.id());
    // This one hears it.
    let same = session.send("three").await.unwrap();
    assert_eq!(same.id(), second.id());
    // The team steers no more, though the run would hear it.
    system.reload(team(WhileBusy::Queue)).await.unwrap();
    let third = session.send("four").await.unwrap();
    assert_ne!(third.id(), second.id());
    text(&third).await;
    let turns = turns(&session).await;
    let told: Vec<&str> = turns.iter().map(|(_, answer)| &**answer).collect();
    let second = "one|one|two|one|one|two|three";
    assert_eq!(told[..2], ["one", second]);
    assert_eq!(turns[2].0, "four");
    system.reload(team(WhileBusy::Refuse)).await.unwrap();
    session.send("five").await.unwrap();
    assert!(session.send("six").await.is_err(), "the team refuses now");
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_a_turn_is_that_of_the_run_that_took_it() {
    let stage = Stage::new();
    let system = system(&stage, WhileBusy::Steer).await;
    let session = system.session("worker", "s");
    // A run that hears the turn answers it.
    let hears = session.send("one").await.unwrap();
    let heard = session.send(Turn::text("two").id("2")).await.unwrap();
    assert_eq!(heard.id(), hears.id());
    assert_eq!(text(&heard).await, "one|one|two");
    // One that ends without having heard them does not; of the two turns the first becomes a run, which hears the second.
    let deaf = session.send("deaf").await.unwrap();
    let (three, four) = (session.send("three").await, session.send("four").await);
    let (three, four) = (three.unwrap(), four.unwrap());
    assert_eq!((three.id(), four.id()), (deaf.id(), deaf.id()));
    let answer = text(&three).await;
    let is_heard = answer.contains("|deaf|deaf|three|") && answer.ends_with("|four");
    assert!(is_heard, "{answer}");
    assert_eq!(text(&four).await, answer);
    assert_eq!(text(&deaf).await, "deaf");
    // It is so for all that waits for an answer.
    session.send("deaf").await.unwrap();
    let asked = session.ask("five").await.unwrap();
    assert!(asked.text.ends_with("|deaf|deaf|five"), "{asked:?}");
    session.send("deaf").await.unwrap();
    let submitted = session.submit("six").unwrap();
    let answer = submitted.outcome().await.unwrap().text().to_owned();
    assert!(answer.ends_with("|deaf|deaf|six"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn the_answer_is_no_end_of_a_run_that_was_cancelled_before_it_heard() {
    let stage = Stage::new();
    let system = system(&stage, WhileBusy::Steer).await;
    let session = system.session("worker", "s");
    let first = session.send("one").await.unwrap();
    let second = session.send("two").await.unwrap();
    assert_eq!(second.id(), first.id());
    first.cancel("enough").await.unwrap();
    assert!(outcome(&first).await.stop_reason().is_some());
    assert!(text(&second).await.ends_with("|two"));
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_no_run_heard_begins_with_all_that_was_said_with_it() {
    let stage = Stage::new();
    let system = system(&stage, WhileBusy::Steer).await;
    let session = system.session("worker", "s");
    session.send("deaf").await.unwrap();
    let turn = Turn::text("two")
        .id("2")
        .owner("ada")
        .budget(Budget {
            tool_calls: Some(7),
            ..Budget::default()
        })
        .deadline(Timestamp(stage.clock.now().0 + 3_600_000))
        .streaming(true);
    text(&session.send(turn.clone()).await.unwrap()).await;
    let own = RunId::of_turn(session.id(), "2");
    let entries = stage.entries(own).await;
    let Entry::RunStarted(start) = &entries[0] else {
        panic!("{entries:?}");
    };
    assert_eq!((&start.owner, start.deadline), (&turn.owner, turn.deadline));
    assert_eq!(start.budget.tool_calls, Some(7));
    assert_eq!(start.streaming, Some(true));
}

/// The owner of the session dies before or after each of its commits, while another process waits for the answer.
#[tokio::test(start_paused = true)]
async fn the_answer_to_a_turn_comes_although_its_sessions_process_dies() {
    for call in 1.. {
        let disk = InMemoryStore::new();
        let start = |store: StoreHandle| {
            let builder = System::builder(store).model("default", model());
            builder.team(team(WhileBusy::Steer)).start()
        };
        let beside = StoreHandle::new(disk.another_process());
        let beside = start(beside).await.unwrap();
        let fault = crash(call);
        let store = FaultyStore::at_commit(disk.clone(), fault);
        let owner = start(StoreHandle::new(store.clone())).await.unwrap();
        let session = owner.session("worker", "s");
        tokio::select! {
            biased;
            () = store.crashed() => {}
            deaf = session.send("deaf") => drop(deaf.unwrap()),
        }
        let dying = async {
            store.crashed().await;
            owner.supervisor().unwrap().actor().kill();
            disk.crash();
            beside.recover().await.unwrap();
        };
        let session = beside.session("worker", "s");
        let turn = Turn::text("two").id("2");
        let what = format!("{fault:?}");
        let (answer, _) = tokio::join!(answer(&session, &turn, &what), async {
            tokio::select! {
                () = dying => {}
                () = pause(20_000) => {}
            }
        });
        assert!(answer.contains("two"), "{answer}, {what}");
        if !store.is_dead() {
            assert!(call > 8, "{what}");
            break;
        }
        beside.stop().await.unwrap();
    }
}

/// The turn's run, or its refusal. The test fails if its sender waits for ever.
async fn sent(session: &Session, turn: &Turn, what: &str) -> Result<Run, SystemError> {
    let sent = tokio::time::timeout(HOUR, session.send(turn.clone())).await;
    sent.unwrap_or_else(|_| panic!("{turn:?} waits for ever, {what}"))
}

/// The answer to a turn that is sent until it is taken.
async fn answer(session: &Session, turn: &Turn, what: &str) -> String {
    loop {
        // A store that fails may refuse the turn, or an answer to it.
        if let Ok(run) = sent(session, turn, what).await {
            let outcome = tokio::time::timeout(HOUR, run.outcome()).await;
            if let Ok(outcome) = outcome.unwrap_or_else(|_| panic!("it hangs, {what}")) {
                return outcome.text().to_owned();
            }
        }
        pause(1_000).await;
    }
}

fn failing_at(call: u64) -> Fault {
    Fault {
        call: call.div_ceil(2),
        strike: [Strike::Before, Strike::After][(call % 2) as usize],
        harm: Harm::Fail,
    }
}

#[tokio::test(start_paused = true)]
async fn each_turn_is_answered_by_its_run_whichever_call_of_the_store_fails() {
    for call in 1.. {
        let (stage, fault) = (Stage::alone(), failing_at(call));
        let what = format!("{fault:?}");
        let store = FaultyStore::at_call(stage.store.clone(), fault);
        let builder = System::builder(store.clone()).options(stage.limits);
        let builder = builder.model("default", model());
        let Ok(system) = builder.team(team(WhileBusy::Steer)).start().await else {
            continue;
        };
        let session = system.session("worker", "s");
        let mut acknowledged = Vec::new();
        for text in ["deaf", "two", "three"] {
            if let Ok(run) = sent(&session, &Turn::text(text).id(text), &what).await {
                acknowledged.push((text, run));
            }
        }
        for (text, run) in &acknowledged {
            // Another error than that of the store is a wrong one.
            match tokio::time::timeout(HOUR, run.outcome())
                .await
                .expect(&what)
            {
                Ok(outcome) => {
                    assert!(outcome.text().contains(text), "{text}: {outcome:?}, {what}")
                }
                Err(error) => assert!(matches!(error, SystemError::Store(_)), "{error}, {what}"),
            }
        }
        pause(20_000).await;
        let journal = session.id().clone().into();
        let lines = stage.store.read(journal, 0, 1_000).await.unwrap();
        let mut fold = SessionFold::default();
        fold.extend(&lines, "s").unwrap();
        let messages = fold.transcript.messages();
        for (text, _) in acknowledged {
            let is_it = |said: &&Arc<Message>| said.role == Role::User && said.content() == text;
            let times = messages.iter().filter(is_it).count();
            assert!(times <= 1, "{text} in {messages:?}, {what}");
            assert!(fold.turns.contains_key(text), "{text} is lost, {what}");
        }
        if store.calls() < fault.call {
            assert!(fault.call > 20, "{what}");
            break;
        }
        system.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn behind_an_interrupted_run_a_turn_begins_whichever_call_fails() {
    let team = || {
        let agent = Agent::from_fn("worker", |cx: RunContext| async move {
            let work = async {
                tokio::time::sleep(Duration::from_secs(5)).await;
                Ok::<_, String>(())
            };
            cx.step("work", Effect::Read, work).await?;
            Ok(Outcome::answer(cx.input().content()))
        });
        agent.into_team().unwrap()
    };
    for call in 1.. {
        let (mut stage, fault) = (Stage::alone(), failing_at(call));
        let what = format!("{fault:?}");
        let first = System::builder(stage.store.clone()).team(team());
        let first = first.start().await.unwrap();
        first.session("worker", "s").send("one").await.unwrap();
        pause(1_000).await;
        stage.crash(&first).await;
        let store = FaultyStore::at_call(stage.store.clone(), fault);
        let builder = System::builder(store.clone()).options(stage.limits);
        let Ok(system) = builder.team(team()).recover(false).start().await else {
            continue;
        };
        let (session, turn) = (system.session("worker", "s"), Turn::text("two").id("2"));
        assert_eq!(answer(&session, &turn, &what).await, "two", "{what}");
        if store.calls() < fault.call {
            assert!(fault.call > 20, "{what}");
            break;
        }
        system.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_events_of_a_turn_go_on_with_those_of_the_run_that_took_it() {
    let stage = Stage::new();
    let system = system(&stage, WhileBusy::Steer).await;
    let session = system.session("worker", "s");
    let deaf = session.send("deaf").await.unwrap();
    let said = |text: &str, id: &str| session.send(Turn::text(text).id(id));
    let (three, four) = (said("three", "3").await, said("four", "4").await);
    let (three, four) = (three.unwrap(), four.unwrap());
    assert_eq!(three.taker().await.unwrap().id(), deaf.id());
    // The first becomes a run, which hears the second.
    let mut said = String::new();
    let mut texts = four.text_stream();
    while let Some(piece) = texts.next().await {
        said.push_str(&piece.unwrap().text);
    }
    assert!(said.starts_with("deaf\n\n"), "{said}");
    assert!(said.ends_with("|three|deaf|deaf|three|four"), "{said}");
    for (run, turn) in [(&three, "3"), (&four, "4")] {
        let taker = run.taker().await.unwrap();
        assert_ne!(taker.id(), deaf.id());
        assert_eq!(taker.taker().await.unwrap().id(), taker.id());
        let all = ends(run.events().recorded()).await;
        assert_eq!(all, [deaf.id(), taker.id()]);
        // A reader that goes on behind the end of the first run gets the rest.
        let own = ends(deaf.events().recorded()).await;
        assert_eq!(own, [deaf.id()]);
        let past = deaf.events().recorded().so_far().await.unwrap();
        let position = past.last().and_then(|record| record.position).unwrap();
        let rest = ends(run.events().recorded().after(position)).await;
        assert_eq!(rest, [taker.id()]);
        // A program that kept the ids has the same handle.
        let again = session.said_to(deaf.id(), turn);
        assert_eq!(again.outcome().await.unwrap(), run.outcome().await.unwrap());
    }
}

/// The runs whose ends a stream gives.
async fn ends(mut events: EventStream) -> Vec<RunId> {
    let mut ends = Vec::new();
    while let Some(record) = events.next().await {
        let record = record.unwrap();
        if matches!(record.event, Event::RunEnded { .. }) {
            ends.push(record.run);
        }
    }
    ends
}
