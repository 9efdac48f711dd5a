//! What is said to a run under way is heard once: by it, by the agent that takes over, or in a turn of
//! its own.

use std::{sync::Arc, time::Duration};

use ghostlight_actors::{
    actor::System,
    contract::{DynStore, ItemBody, RunStatus, Store},
    definition::WhileBusy,
    run::{Agent, Policy, PolicyContext, RunContext, Verdict},
    session::{SessionFold, Turn},
    testing::{Fault, FaultyStore, Harm, InMemoryStore, ScriptedModel, Strike},
    vocabulary::{
        AgentError, Answer, Event, EventRecord, JournalId, Message, ModelRequest, ModelResponse,
        Outcome, Role, SessionId, Transcript, Transfer,
    },
};
use parking_lot::Mutex;

use crate::stage::{Stage, outcome, pause, text};

/// How an agent hears what is said to it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Hearing {
    /// It takes what was said into its request, as behaviors do.
    AtOnce,
    /// What was said comes with the answers of its model.
    WithAnswers,
    /// It asks no model.
    Deaf,
}

use Hearing::{AtOnce, Deaf, WithAnswers};

/// Works for a second, and then asks its model until nothing more is said.
fn worker(hearing: Hearing) -> Agent {
    Agent::from_fn("worker", move |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(1)).await?;
        match hearing {
            Deaf => Ok(Outcome::answer("deaf")),
            WithAnswers => talk(&cx).await,
            AtOnce => listen(&cx).await,
        }
    })
}

async fn listen(cx: &RunContext) -> Result<Outcome, AgentError> {
    let mut conversation = cx.conversation();
    let begin = conversation.len();
    loop {
        conversation.extend(cx.hear());
        let answer = cx.model(cx.model_request(conversation.clone())).await?;
        conversation.push(answer.message.clone());
        let said = answer.steering.into_iter().map(Arc::new).chain(cx.hear());
        let said: Vec<_> = said.collect();
        if said.is_empty() {
            let answer = Answer::text(answer.message.content());
            let said = conversation.since(begin);
            return Ok(Outcome::Answer(answer.with_messages(said)));
        }
        conversation.extend(said);
    }
}

async fn talk(cx: &RunContext) -> Result<Outcome, AgentError> {
    let mut conversation = cx.conversation();
    let begin = conversation.len();
    let mut answer = cx.model(cx.model_request(conversation.clone())).await?;
    while !answer.steering.is_empty() {
        conversation.push(answer.message.clone());
        conversation.extend(answer.steering.into_iter().map(Arc::new));
        answer = cx.model(cx.model_request(conversation.clone())).await?;
    }
    conversation.push(answer.message.clone());
    let answer = Answer::text(answer.content());
    Ok(Outcome::Answer(
        answer.with_messages(conversation.since(begin)),
    ))
}

/// A model that answers with a word, after a second.
fn model() -> ScriptedModel {
    ScriptedModel::from_fn(|_, _| Ok(ModelResponse::text("ok"))).delay(Duration::from_secs(1))
}

async fn start(store: impl Store, agent: Agent) -> System {
    let team = agent.into_team().unwrap();
    let team = team.define(|team| team.while_busy = WhileBusy::Steer);
    let builder = System::builder(store).model("default", model()).team(team);
    builder.start().await.unwrap()
}

/// The session's journal and mailbox.
fn session_of() -> JournalId {
    JournalId::Session(SessionId {
        team: "worker".into(),
        key: "s".into(),
    })
}

/// What users said in the session, in order.
async fn said(store: &InMemoryStore) -> Vec<String> {
    let lines = store.read(session_of(), 0, 1_000).await;
    let mut fold = SessionFold::default();
    fold.extend(&lines.unwrap(), "s").unwrap();
    let messages = fold.transcript.messages().into_iter();
    let users = messages.filter(|said| said.role == Role::User);
    users.map(|said| said.content()).collect()
}

#[tokio::test(start_paused = true)]
async fn what_was_acknowledged_is_heard_once_wherever_the_process_dies() {
    for hearing in [AtOnce, WithAnswers, Deaf] {
        let mut crashed = 0;
        for call in 1.. {
            let disk = InMemoryStore::new();
            let strike = [Strike::Before, Strike::After][call % 2];
            let fault = Fault {
                call: 1 + call as u64 / 2,
                strike,
                harm: Harm::Crash,
            };
            let store = FaultyStore::at_commit(disk.clone(), fault);
            let system = start(store.clone(), worker(hearing)).await;
            let heard = Arc::new(Mutex::new(Vec::new()));
            let working = tokio::spawn({
                let (session, heard) = (system.session("worker", "s"), heard.clone());
                async move {
                    for (text, wait) in [("one", 900), ("two", 600), ("three", 9_000)] {
                        if session.send(Turn::text(text).id(text)).await.is_ok() {
                            heard.lock().push(text);
                        }
                        pause(wait).await;
                    }
                }
            });
            let died = tokio::select! {
                biased;
                () = store.crashed() => true,
                _ = working => false,
            };
            system.supervisor().unwrap().actor().kill();
            disk.crash();
            pause(1).await;
            let next = disk.another_process();
            let system = start(next.clone(), worker(hearing)).await;
            pause(20_000).await;
            let what = format!("{hearing:?}, call {call}, {:?}", heard.lock());
            let there = said(&next).await;
            for word in heard.lock().iter() {
                let times = there.iter().filter(|said| said == word).count();
                assert_eq!(times, 1, "{word} of {there:?}, {what}");
            }
            // Said again it is said once.
            let session = system.session("worker", "s");
            for word in ["one", "two", "three"] {
                let run = session.send(Turn::text(word).id(word)).await.unwrap();
                outcome(&run).await;
            }
            let there = said(&next).await;
            assert_eq!(there.len(), 3, "{there:?}, {what}");
            for run in system.runs(Default::default()).await.unwrap() {
                let left = next.mailbox(run.run.into()).await.unwrap();
                assert_eq!(left, [], "{what}");
            }
            assert_eq!(next.mailbox(session_of()).await.unwrap(), [], "{what}");
            if !died {
                break;
            }
            crashed += 1;
        }
        assert!(crashed > 8, "{crashed}");
    }
}

#[tokio::test(start_paused = true)]
async fn turns_without_ids_are_different_ones() {
    let stage = Stage::new();
    let system = start(stage.store.clone(), worker(WithAnswers)).await;
    let session = system.session("worker", "s");
    let run = session.send("one").await.unwrap();
    for text in ["two", "two", "three"] {
        assert_eq!(session.send(text).await.unwrap().id(), run.id());
    }
    text(&run).await;
    assert_eq!(said(&stage.store).await, ["one", "two", "two", "three"]);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_was_heard_is_known_under_its_id() {
    let stage = Stage::new();
    let system = start(stage.store.clone(), worker(WithAnswers)).await;
    let session = system.session("worker", "s");
    let run = session.send("one").await.unwrap();
    let heard = Turn::text("two").id("2");
    session.send(heard.clone()).await.unwrap();
    text(&run).await;
    let again = session.send(heard.clone()).await.unwrap();
    assert_eq!(again.id(), run.id());
    system.stop().await.unwrap();
    let next = stage.store.another_process();
    let system = start(next.clone(), worker(WithAnswers)).await;
    let again = system.session("worker", "s").send(heard).await.unwrap();
    assert_eq!(again.id(), run.id(), "after a restart too");
    assert_eq!(said(&next).await, ["one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_is_not_said_to_a_run_that_is_none() {
    let stage = Stage::new();
    let system = start(stage.store.clone(), worker(WithAnswers)).await;
    let session = system.session("worker", "s");
    let run = session.send("one").await.unwrap();
    let dry = session.send(Turn::text("two").dry_run()).await.unwrap();
    assert_ne!(dry.id(), run.id());
    text(&dry).await;
    assert_eq!(said(&stage.store).await, ["one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn what_an_agent_did_not_hear_the_one_that_takes_over_does() {
    let stage = Stage::new();
    let clerk = Agent::from_fn("clerk", |cx: RunContext| async move { talk(&cx).await });
    let desk = Agent::from_fn("worker", |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(1)).await?;
        let mut transfer = Transfer::to("clerk");
        transfer
            .messages
            .push(Arc::new(Message::assistant("over to you")));
        Ok(Outcome::Transfer(transfer))
    });
    let system = start(stage.store.clone(), desk.agent(clerk)).await;
    let run = system.session("worker", "s").send("one").await.unwrap();
    pause(500).await;
    run.steer("two").await.unwrap();
    text(&run).await;
    assert_eq!(said(&stage.store).await, ["one", "two"]);
    let left = stage.store.mailbox(run.id().into()).await.unwrap();
    let steered = left
        .iter()
        .filter(|item| matches!(item.body, ItemBody::Steer(_)));
    assert_eq!(steered.count(), 0);
}

/// Notes what the turn asks for when the model is called.
struct Asked(Arc<Mutex<Vec<String>>>);

impl Policy for Asked {
    async fn before_model(
        &mut self,
        cx: &PolicyContext<'_>,
        _: &mut ModelRequest,
    ) -> Result<Option<ModelResponse>, AgentError> {
        let asked = cx.asked();
        *self.0.lock() = asked.iter().map(|message| message.content()).collect();
        Ok(None)
    }
}

#[tokio::test(start_paused = true)]
async fn what_one_agent_heard_is_a_part_of_what_the_next_is_asked() {
    let stage = Stage::new();
    let asked = Arc::new(Mutex::default());
    let noted = asked.clone();
    let clerk = Agent::from_fn("clerk", |cx: RunContext| async move { talk(&cx).await });
    let clerk = clerk.policy("asked", move || Asked(noted.clone()));
    let noted = asked.clone();
    let desk = Agent::from_fn("worker", |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(1)).await?;
        let said = talk(&cx).await?.messages().to_vec();
        Ok(Outcome::Transfer(Transfer::to("clerk").with_messages(said)))
    });
    let desk = desk.policy("asked", move || Asked(noted.clone()));
    let system = start(stage.store.clone(), desk.agent(clerk)).await;
    let run = system.session("worker", "s").send("one").await.unwrap();
    pause(500).await;
    run.steer("two").await.unwrap();
    assert_eq!(text(&run).await, "ok");
    assert_eq!(*asked.lock(), ["one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_said_to_a_run_that_is_parked_for_crashing_is_heard_by_the_next() {
    for dies in [false, true] {
        let crashing = || {
            Agent::from_fn("worker", |cx: RunContext| async move {
                cx.sleep(Duration::from_secs(1)).await?;
                assert_ne!(cx.input().content(), "one", "it is poison");
                talk(&cx).await
            })
        };
        let mut stage = Stage::new();
        let mut system = start(stage.store.clone(), crashing()).await;
        let session = system.session("worker", "s");
        let run = session.send(Turn::text("one").id("1")).await.unwrap();
        pause(500).await;
        let second = session.send(Turn::text("two").id("2")).await.unwrap();
        assert_eq!(second.id(), run.id(), "it is said to the run under way");
        while run.status().await.unwrap().status != RunStatus::Parked {
            pause(10).await;
        }
        if dies {
            stage.crash(&system).await;
            system = start(stage.store.clone(), crashing()).await;
            // Somebody comes back to the session.
            let three = Turn::text("three").id("3");
            system.session("worker", "s").send(three).await.unwrap();
        }
        pause(20_000).await;
        let heard = said(&stage.store).await;
        let times = heard.iter().filter(|said| *said == "two").count();
        assert_eq!(times, 1, "{heard:?}");
    }
}

/// A write that fails may be durable nevertheless.
#[tokio::test(start_paused = true)]
async fn what_was_acknowledged_is_heard_once_whichever_write_fails() {
    let crashing = || {
        Agent::from_fn("worker", |cx: RunContext| async move {
            cx.sleep(Duration::from_secs(1)).await?;
            assert_ne!(cx.input().content(), "one", "it is poison");
            talk(&cx).await
        })
    };
    for how in ["hears at once", "hears", "is deaf", "is parked"] {
        for call in 2.. {
            let disk = InMemoryStore::new();
            let fault = Fault {
                call: call / 2,
                strike: [Strike::Before, Strike::After][call as usize % 2],
                harm: Harm::Fail,
            };
            let store = FaultyStore::at_commit(disk.clone(), fault);
            let agent = match how {
                "is parked" => crashing(),
                "is deaf" => worker(Deaf),
                "hears" => worker(WithAnswers),
                _ => worker(AtOnce),
            };
            let system = start(store.clone(), agent).await;
            let (session, mut heard) = (system.session("worker", "s"), Vec::new());
            for (text, wait) in [("one", 900), ("two", 600), ("three", 20_000)] {
                if session.send(Turn::text(text).id(text)).await.is_ok() {
                    heard.push(text);
                }
                pause(wait).await;
            }
            let (there, what) = (said(&disk).await, format!("it {how}, {fault:?}"));
            heard.retain(|word| how != "is parked" || *word != "one");
            for word in &heard {
                let times = there.iter().filter(|said| said == word).count();
                assert_eq!(times, 1, "{word} of {there:?}, {what}");
            }
            for run in system.runs(Default::default()).await.unwrap() {
                assert_eq!(disk.mailbox(run.run.into()).await.unwrap(), [], "{what}");
            }
            assert_eq!(disk.mailbox(session_of()).await.unwrap(), [], "{what}");
            if store.calls() < fault.call {
                assert!(fault.call > 5, "{what}");
                break;
            }
            system.stop().await.unwrap();
        }
    }
}

/// What the model was told, as the texts of its last request.
fn told(model: &ScriptedModel) -> Vec<String> {
    let last = model.requests().pop();
    let messages = last.map_or_else(Vec::new, |request| request.conversation.messages());
    messages.iter().map(|message| message.content()).collect()
}

#[tokio::test(start_paused = true)]
async fn what_was_heard_before_a_request_is_in_it_again_in_the_next_life() {
    let agent = || {
        Agent::from_fn("worker", |cx: RunContext| async move {
            let mut conversation = cx.conversation();
            conversation.extend(cx.hear());
            cx.sleep(Duration::from_secs(10)).await?;
            conversation.extend(cx.hear());
            // Recorded operations may rest on what was heard.
            cx.sleep(Duration::from_secs(1)).await?;
            conversation.extend(cx.hear());
            let answer = cx.model(cx.model_request(conversation)).await?;
            Ok(Outcome::answer(answer.content()))
        })
    };
    let heard = [
        // Before the second place, while the process lives, and again while none does.
        (5_000, 10_500, vec!["one", "two", "three"]),
        // Only the last place hears it: the others are recorded without.
        (10_500, 10_600, vec!["one", "two", "three"]),
    ];
    for (says_at, dies_at, expected) in heard {
        let mut stage = Stage::new();
        let system = stage.start_with(agent(), model()).await;
        let run = system.session("worker", "s").send("one").await.unwrap();
        pause(says_at).await;
        run.steer("two").await.unwrap();
        pause(dies_at - says_at).await;
        stage.crash(&system).await;
        let again = model();
        let system = stage.start_with(agent(), again.clone()).await;
        let run = system.run(run.id());
        run.steer("three").await.unwrap();
        assert_eq!(text(&run).await, "ok");
        assert_eq!(told(&again), expected);
        let records = run.events().so_far().await.unwrap();
        let drifted = |record: &EventRecord| matches!(record.event, Event::Drifted { .. });
        assert!(!records.iter().any(drifted));
        assert_eq!(stage.store.mailbox(run.id().into()).await.unwrap(), []);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_run_hears_is_an_event_once() {
    for hearing in [AtOnce, WithAnswers] {
        let stage = Stage::new();
        let system = stage.start_with(worker(hearing), model()).await;
        let run = system.session("worker", "s").send("one").await.unwrap();
        pause(100).await;
        run.steer("two").await.unwrap();
        assert_eq!(text(&run).await, "ok");
        let records = run.events().so_far().await.unwrap();
        let heard = records.iter().filter_map(|record| match &record.event {
            Event::Heard { text, .. } => Some(text.as_str()),
            _ => None,
        });
        assert_eq!(heard.collect::<Vec<_>>(), ["two"], "{hearing:?}");
    }
}

/// Asks a model of its own before each answer.
struct Judge;

impl Policy for Judge {
    async fn before_answer(
        &mut self,
        cx: &PolicyContext<'_>,
        draft: &str,
    ) -> Result<Verdict, AgentError> {
        assert!(cx.hear().is_empty(), "it is not said to a policy");
        let asked = Transcript::from_iter([Message::user(draft)]);
        let judged = cx.model(ModelRequest::new(asked)).await?;
        assert!(judged.steering.is_empty(), "it is not said to a policy");
        Ok(Verdict::Pass)
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_said_while_a_policy_asks_a_model_is_not_lost() {
    let stage = Stage::new();
    let agent = worker(AtOnce).policy("judge", || Judge);
    let system = start(stage.store.clone(), agent).await;
    let session = system.session("worker", "s");
    let run = session.send("one").await.unwrap();
    // A second of work, one of the model and one of the judge.
    pause(2_500).await;
    session.send("two").await.unwrap();
    text(&run).await;
    pause(20_000).await;
    assert_eq!(said(&stage.store).await, ["one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn what_a_function_heard_with_an_answer_is_in_its_session_though_it_gives_only_a_text() {
    let agent = Agent::from_fn("worker", |cx: RunContext| async move {
        Ok(Outcome::answer(cx.think().await?.content()))
    });
    let store = InMemoryStore::new();
    let system = start(store.clone(), agent).await;
    let session = system.session("worker", "s");
    let run = session.send(Turn::text("one")).await.unwrap();
    pause(500).await;
    session.send(Turn::text("two")).await.unwrap();
    assert_eq!(run.outcome().await.unwrap().text(), "ok");
    assert_eq!(said(&store).await, ["one", "two"]);
}
