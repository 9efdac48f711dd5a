//! What a person said and `send` or `steer` acknowledged is heard once, whatever becomes of the model
//! call that held it.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    task::Poll,
    time::Duration,
};

use ghostlight_actors::{
    actor::System,
    definition::WhileBusy,
    run::{Agent, RunContext},
    session::{SessionFold, Turn},
    testing::{InMemoryStore, ScriptedModel},
    vocabulary::{
        AgentError, Answer, ErrorKind, JournalId, ModelResponse, Outcome, Role, SessionId,
    },
};

use crate::stage::{SlowStore, Stage, ask, pause, text};

const STOP: &str = "stop";

/// Asks its model again and again, also when a call is cancelled, until it is told to stop. How many
/// calls it began it tells here.
fn listener(calls: &Arc<AtomicU32>) -> Agent {
    let calls = calls.clone();
    Agent::from_fn("listener", move |cx: RunContext| {
        let calls = calls.clone();
        async move {
            let mut conversation = cx.conversation();
            let begin = conversation.len();
            for number in 1.. {
                calls.store(number, SeqCst);
                let request = cx.model_request(conversation.clone());
                let answer = match cx.model(request).await {
                    Err(AgentError::Operation(error)) if error.kind == ErrorKind::Cancelled => {
                        continue;
                    }
                    answer => answer?,
                };
                if answer.steering.is_empty() {
                    continue;
                }
                let told = answer.steering.iter().any(|said| said.content() == STOP);
                conversation.push(answer.message.clone());
                conversation.extend(answer.steering.into_iter().map(Arc::new));
                if told {
                    break;
                }
            }
            let answer = Answer::text("stopped");
            let said = conversation.since(begin);
            Ok(Outcome::Answer(answer.with_messages(said)))
        }
    })
}

async fn start(store: &InMemoryStore, calls: &Arc<AtomicU32>) -> System {
    let team = listener(calls).into_team().unwrap();
    let team = team.define(|team| team.while_busy = WhileBusy::Steer);
    let model = ScriptedModel::from_fn(|_, _| Ok(ModelResponse::text("ok")));
    // An answer waits for the commit of what was there before it, so a call that is cancelled has
    // often been answered.
    System::builder(SlowStore::to_commit(store.clone()))
        .model("default", model.delay(Duration::from_millis(10)))
        .team(team)
        .start()
        .await
        .unwrap()
}

/// What users said in the session, in order.
async fn said(store: &InMemoryStore) -> Vec<String> {
    let session = SessionId {
        team: "listener".into(),
        key: "s".into(),
    };
    let store = store.another_process();
    let lines = ghostlight_actors::contract::Journals::read(
        &store,
        JournalId::Session(session),
        0,
        usize::MAX,
    );
    let mut fold = SessionFold::default();
    fold.extend(&lines.await.unwrap(), "s").unwrap();
    let messages = fold.transcript.messages().into_iter();
    let users = messages.filter(|said| said.role == Role::User);
    users.map(|said| said.content()).collect()
}

#[tokio::test(start_paused = true)]
async fn no_word_is_lost_with_a_call_that_is_cancelled_or_a_process_that_dies() {
    let mut cancelled = 0;
    for seed in 1..=6_u64 {
        let mut random = seed;
        let mut below = |bound: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) % bound
        };
        let calls = Arc::new(AtomicU32::new(0));
        let mut disk = InMemoryStore::new();
        let mut system = start(&disk, &calls).await;
        let id = system
            .session("listener", "s")
            .send("go")
            .await
            .unwrap()
            .id();
        let mut acknowledged = vec!["go".to_owned()];
        let dies = [10 + below(20), 40 + below(20)];
        for number in 0..80 {
            let word = format!("{seed}.{number}");
            let said = match below(2) {
                0 => system.run(id).steer(&*word).await.is_ok(),
                _ => {
                    let turn = Turn::text(&*word).id(&*word);
                    let sent = system.session("listener", "s").send(turn).await;
                    sent.is_ok()
                }
            };
            assert!(said, "{word} is refused");
            acknowledged.push(word);
            pause(below(60)).await;
            if below(3) > 0 {
                let call = calls.load(SeqCst) - 1;
                let (run, call) = (system.run(id), format!("0.0.{call}").parse().unwrap());
                tokio::spawn(async move { run.cancel_call(call).await });
                cancelled += 1;
            }
            if dies.contains(&number) {
                disk.crash();
                system.supervisor().unwrap().actor().kill();
                disk = disk.another_process();
                pause(1).await;
                system = start(&disk, &calls).await;
            }
        }
        let session = system.session("listener", "s");
        session.send(Turn::text(STOP).id(STOP)).await.unwrap();
        acknowledged.push(STOP.to_owned());
        system.run(id).outcome().await.unwrap();
        let mut heard = said(&disk).await;
        heard.sort();
        acknowledged.sort();
        assert_eq!(heard, acknowledged, "seed {seed}");
    }
    assert!(cancelled > 100, "hardly any call was cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_word_in_an_answer_that_nobody_looked_at_is_heard_with_the_next() {
    let mut stage = Stage::new();
    let agent = || {
        Agent::from_fn("a", |cx: RunContext| async move {
            let request = cx.model_request(cx.conversation());
            let mut first = Box::pin(cx.model(request.clone()));
            // It is asked and answered, and its answer is never taken.
            poll_fn(|task| Poll::Ready(first.as_mut().poll(task).is_ready())).await;
            cx.sleep(Duration::from_secs(10)).await?;
            drop(first);
            let next = cx.model(request).await?;
            let heard: Vec<String> = next.steering.iter().map(|said| said.content()).collect();
            cx.sleep(Duration::from_secs(60)).await?;
            Ok(Outcome::answer(heard.join(" ")))
        })
    };
    let model = || {
        let model = ScriptedModel::from_fn(|_, _| Ok(ModelResponse::text("ok")));
        model.delay(Duration::from_secs(1))
    };
    let system = stage.start_with(agent(), model()).await;
    let run = ask(&system, "a", "go").await;
    pause(500).await;
    run.steer("slowly").await.unwrap();
    pause(15_000).await;
    stage.crash(&system).await;
    let system = stage.start_with(agent(), model()).await;
    assert_eq!(text(&system.run(run.id())).await, "slowly");
}
