//! A model call may wait for hours: its run sleeps, and the answer comes through its ticket, once.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ghostlight_actors::{
    actor::{System, SystemBuilder, SystemOptions},
    contract::{
        Interceptor, Model, ModelContext, ModelError, ModelHost, NextModel, RunStatus, Ticket,
    },
    definition::Durability,
    run::{Agent, RunContext},
    testing::{CrashOptions, Scenario, crash_everywhere},
    vocabulary::{
        AgentError, Entry, ErrorKind, Message, ModelRequest, ModelResponse, ModelTicket, Outcome,
        Question, Transcript,
    },
};
use parking_lot::Mutex;
use serde_json::json;

use crate::stage::{Stage, ask, text};

/// A provider that answers after a minute, and that outlives each process: what it was asked stands there.
#[derive(Clone, Default)]
struct Provider {
    asked: Arc<Mutex<BTreeMap<ModelTicket, String>>>,
    /// How often the first answer to a call is a failure.
    failures: usize,
}

/// How long the provider takes. Those who wait for outcomes here give up after ten minutes.
const MINUTE: Duration = Duration::from_secs(60);

impl Provider {
    fn answer_later(&self, host: &ModelHost) {
        for (ticket, text) in self.asked.lock().clone() {
            let host = host.clone();
            tokio::spawn(async move {
                host.clock().sleep(MINUTE).await;
                // A run that has ended, or has not begun in this world, needs none.
                let _ = host.answer(&ticket, text).await;
            });
        }
    }
}

impl Model for Provider {
    async fn respond(
        &self,
        request: ModelRequest,
        cx: ModelContext,
    ) -> Result<ModelResponse, ModelError> {
        let suspension = cx.suspension().unwrap();
        if let Some(answer) = suspension.take_answer() {
            return match answer.as_str() {
                "overloaded" => Err(ModelError::new(ErrorKind::Model, answer).retryable()),
                _ => Ok(ModelResponse::text(answer)),
            };
        }
        cx.free_slot();
        let said = request.conversation.messages();
        let said = said.last().map(|it| it.content()).unwrap_or_default();
        let ticket = suspension.ticket();
        let text = match cx.attempt() as usize <= self.failures {
            true => "overloaded".to_owned(),
            false => format!("<{said}>"),
        };
        self.asked.lock().insert(ticket, text);
        self.answer_later(suspension.host());
        match suspension.suspend().await {}
    }

    async fn attend(&self, host: &ModelHost) {
        self.answer_later(host);
    }
}

fn user(text: impl Into<String>) -> ModelRequest {
    ModelRequest::new(Transcript::from_iter([Message::user(text.into())]))
}

/// Asks once, then twice at the same time.
async fn asks(cx: RunContext) -> Result<Outcome, AgentError> {
    let first = cx.think().await?.content();
    let left = cx.model(user(format!("left {first}")));
    let right = cx.model(user(format!("right {first}")));
    let (left, right) = futures_util::future::join(left, right).await;
    let (left, right) = (left?.content(), right?.content());
    Ok(Outcome::answer(format!("{left} {right}")))
}

fn asker(builder: SystemBuilder, provider: &Provider) -> SystemBuilder {
    let agent = Agent::from_fn("asker", asks);
    builder
        .model("default", provider.clone())
        .team(agent.into_team().unwrap())
}

#[tokio::test(start_paused = true)]
async fn killed_at_any_commit_a_suspended_call_gets_its_answer_and_is_asked_once() {
    // With the shortest linger the run sleeps also until a call that failed is made again.
    for (failures, linger) in [(0, MINUTE), (1, MINUTE), (1, Duration::ZERO)] {
        let provider = Provider {
            failures,
            ..Provider::default()
        };
        let asked = provider.asked.clone();
        let mut options = SystemOptions::default();
        options.linger = linger;
        let scenario = Scenario::new("asker", move |b, _| asker(b.options(options), &provider));
        let scenario = scenario.turn("go");
        let report = crash_everywhere(&scenario, CrashOptions::default().again(2)).await;
        assert!(report.violations.is_empty(), "{report}");
        assert!(report.crashes > 20, "{report}");
        // Three calls, each with as many tickets as it had answers: over all lives they are the same.
        assert_eq!(asked.lock().len(), 3 * (1 + failures), "{:?}", asked.lock());
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_call_is_suspended_sleeps_and_holds_no_slot() {
    let provider = Provider::default();
    let stage = Stage::new();
    let mut options = SystemOptions::default();
    options.gateway.concurrency = 1;
    options.linger = Duration::from_secs(1);
    let system = System::builder(stage.store.clone()).options(options);
    let system = asker(system, &provider).start().await.unwrap();
    let mut runs = Vec::new();
    for session in ["ann", "bob", "cleo"] {
        runs.push(
            system
                .session("asker", session)
                .send(session)
                .await
                .unwrap(),
        );
    }
    tokio::time::sleep(Duration::from_secs(20)).await;
    for run in &runs {
        assert_eq!(run.status().await.unwrap().status, RunStatus::Waiting);
    }
    assert_eq!(system.load().live_runs, 0, "they are rows");
    assert_eq!(provider.asked.lock().len(), 3, "one slot was enough");
    for (run, session) in runs.iter().zip(["ann", "bob", "cleo"]) {
        let expected = format!("<left <{session}>> <right <{session}>>");
        assert_eq!(text(run).await, expected);
    }
}

/// Counts what passes, and marks answers.
struct Marking(Arc<AtomicUsize>);

impl Interceptor for Marking {
    async fn model(
        &self,
        request: ModelRequest,
        cx: ModelContext,
        next: NextModel<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let answer = next.respond(request, cx).await?;
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(ModelResponse::text(format!("{}!", answer.content())))
    }
}

#[tokio::test(start_paused = true)]
async fn interceptors_see_the_answer_to_a_suspended_call_and_nothing_before() {
    let (provider, heard) = (Provider::default(), Arc::new(AtomicUsize::new(0)));
    let stage = Stage::new();
    let marking = Marking(heard.clone());
    let system = asker(System::builder(stage.store.clone()), &provider).intercept(marking);
    let system = system.start().await.unwrap();
    let run = ask(&system, "asker", "go").await;
    assert_eq!(text(&run).await, "<left <go>!>! <right <go>!>!");
    assert_eq!(heard.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_differs_in_each_life_is_asked_once() {
    let (provider, lives) = (Provider::default(), Arc::new(AtomicUsize::new(0)));
    let stage = Stage::new();
    let mut options = SystemOptions::default();
    options.linger = Duration::from_millis(1);
    let agent = Agent::from_fn("asker", move |cx: RunContext| {
        // As instructions with the time of day are.
        let life = lives.fetch_add(1, Ordering::SeqCst);
        let asked = cx.model(user(format!("in life {life}")));
        async move { Ok(Outcome::answer(asked.await?.content())) }
    });
    let system = System::builder(stage.store.clone())
        .options(options)
        .model("default", provider.clone())
        .team(agent.into_team().unwrap());
    let system = system.start().await.unwrap();
    let run = ask(&system, "asker", "go").await;
    assert_eq!(text(&run).await, "<in life 0>");
    assert_eq!(
        provider.asked.lock().len(),
        1,
        "{:?}",
        provider.asked.lock()
    );
}

/// Says whether its calls may be suspended.
struct Suspendable;

impl Model for Suspendable {
    async fn respond(
        &self,
        _: ModelRequest,
        cx: ModelContext,
    ) -> Result<ModelResponse, ModelError> {
        let suspends = cx.suspension().is_some();
        Ok(ModelResponse::text(suspends.to_string()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_in_memory_is_not_suspended_since_no_other_process_can_answer_it() {
    let stage = Stage::new();
    let mut system = System::builder(stage.store.clone()).model("default", Suspendable);
    for (name, durability) in [("lasting", Durability::Sync), ("brief", Durability::Memory)] {
        let agent = Agent::from_fn(name, |cx: RunContext| async move {
            Ok(Outcome::answer(cx.think().await?.content()))
        });
        system = system.team(agent.into_team().unwrap().durability(durability));
    }
    let system = system.start().await.unwrap();
    assert_eq!(text(&ask(&system, "lasting", "go").await).await, "true");
    assert_eq!(text(&ask(&system, "brief", "go").await).await, "false");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_for_its_model_alone_is_not_stalled() {
    let provider = Provider::default();
    let stage = Stage::new();
    let agent = Agent::from_fn("asker", |cx: RunContext| async move {
        let said = cx.think().await?.content();
        cx.ask(Question::new("And now?")).await?;
        Ok(Outcome::answer(said))
    });
    let system = System::builder(stage.store.clone())
        .model("default", provider.clone())
        .team(agent.into_team().unwrap());
    let system = system.start().await.unwrap();
    let run = ask(&system, "asker", "go").await;
    assert!(!run.is_stalled().await.unwrap(), "it is at work");
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(run.status().await.unwrap().status, RunStatus::Waiting);
    assert!(!run.is_stalled().await.unwrap(), "it waits for its model");
    tokio::time::sleep(MINUTE).await;
    assert!(run.is_stalled().await.unwrap(), "it waits for a person");
    let (asker, operation, _) = run.questions().await.unwrap().remove(0);
    system
        .run(asker)
        .answer(operation, json!("no"))
        .await
        .unwrap();
    assert_eq!(text(&run).await, "<go>");
    assert!(!run.is_stalled().await.unwrap(), "it has ended");
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_no_answer_to_the_call_leaves_it_waiting() {
    let provider = Provider::default();
    let stage = Stage::new();
    let system = asker(System::builder(stage.store.clone()), &provider);
    let system = system.start().await.unwrap();
    let run = ask(&system, "asker", "go").await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let entries = stage.entries(run.id()).await;
    let operation = entries.iter().find_map(|entry| match entry {
        Entry::Started { op, .. } => Some(*op),
        _ => None,
    });
    let ticket = Ticket {
        run: run.id(),
        operation: operation.unwrap(),
    };
    system
        .complete(ticket, Ok("rm -rf".to_owned()))
        .await
        .unwrap();
    assert_eq!(text(&run).await, "<left <go>> <right <go>>");
}
