//! The consumption of failed attempts at a model call is charged, whatever becomes of the call.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use ghostlight_actors::{
    actor::{Run, System},
    contract::{Interceptor, Model, ModelContext, ModelError, NextModel},
    run::{Agent, RunContext},
    session::Turn,
    testing::{ScriptedModel, kill_run},
    vocabulary::{
        Budget, Effect, Entry, ErrorKind, Message, ModelRequest, ModelResponse, Outcome, Spent,
        Transcript, Usage,
    },
};

use crate::{
    outages::{MINUTE, hurrying, patient, waits},
    stage::{Stage, ask, call, outcome, pause, text},
};

fn consumed(input_tokens: u64) -> Usage {
    Usage {
        input_tokens,
        ..Usage::default()
    }
}

fn down() -> ModelError {
    let error = ModelError::new(ErrorKind::Model, "no server").retryable();
    error.usage(consumed(10))
}

fn answer(tokens: u64) -> ModelResponse {
    let mut response = ModelResponse::text("hello");
    response.usage = consumed(tokens);
    response
}

/// The consumption of a run at its end: model calls, and tokens of requests.
async fn spent(stage: &Stage, run: &Run) -> (u64, u64) {
    let entries = stage.entries(run.id()).await;
    let Some(Entry::RunEnded(end)) = entries.last() else {
        panic!("it has not ended");
    };
    let Spent {
        model_calls, usage, ..
    } = end.spent();
    (model_calls, usage.input_tokens)
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_budget_is_used_up_while_it_waits_is_still_charged() {
    let stage = patient(60 * MINUTE);
    let model = ScriptedModel::from_fn(|request, _| {
        let said = request.conversation.messages();
        match said[0].content().as_str() {
            "first" => Err(down()),
            _ => Ok(answer(100)),
        }
    });
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let request = |text: &str| ModelRequest::new(Transcript::from_iter([Message::user(text)]));
        let first = cx.model(request("first"));
        let second = async {
            cx.sleep(Duration::from_secs(10)).await?;
            cx.model(request("second")).await
        };
        let (first, second) = futures_util::join!(first, second);
        second?;
        Ok(Outcome::answer(format!("{:?}", first.unwrap_err().kind())))
    });
    let system = stage.start_with(agent, model.clone()).await;
    let budget = Budget {
        tokens: Some(50),
        ..Budget::default()
    };
    let turn = Turn::text("go").budget(budget);
    let run = system.session("a", "s").send(turn).await.unwrap();
    assert_eq!(text(&run).await, "Some(Budget(Tokens))");
    assert_eq!(model.calls(), 2, "it is asked no more");
    assert_eq!(spent(&stage, &run).await, (2, 110));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_began_comes_to_its_end_though_the_journal_is_full() {
    let mut stage = Stage::new();
    let payer = |stage: &Stage| {
        let agent = Agent::from_fn("payer", |cx: RunContext| async move {
            let paid = cx.tool_unasked(call("1", "pay")).await?;
            Ok(Outcome::answer(format!("{:?}", paid.status)))
        });
        agent.tool(stage.tool("pay", Effect::Once, 60_000))
    };
    let system = stage.start(payer(&stage)).await;
    let run = ask(&system, "payer", "go").await.id();
    pause(1_000).await;
    let entries = stage.entries(run).await;
    stage.crash(&system).await;
    stage.limits.max_entries = entries.len() as u64;
    let system = stage.start(payer(&stage)).await;
    // It may have been paid, so it is not told as a call that was never made.
    assert_eq!(text(&system.run(run)).await, "Unknown");
}

/// Fails four times in all processes together, and the first time only after half a minute.
#[derive(Clone, Default)]
struct FailsFourTimes(Arc<AtomicU32>);

impl Model for FailsFourTimes {
    async fn respond(&self, _: ModelRequest, _: ModelContext) -> Result<ModelResponse, ModelError> {
        match self.0.fetch_add(1, SeqCst) {
            0 => {
                tokio::time::sleep(MINUTE / 2).await;
                Err(down())
            }
            1..=3 => Err(down()),
            _ => Ok(answer(10)),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_another_process_has_outdone_is_not_recorded_again() {
    let stage = patient(60 * MINUTE);
    let model = FailsFourTimes::default();
    let start = async |stage: &Stage| {
        let agent = Agent::from_fn("a", |cx: RunContext| async move {
            Ok(Outcome::answer(cx.think().await?.content()))
        });
        let builder = System::builder(stage.store.clone())
            .options(stage.limits)
            .clock(stage.clock.clone());
        let builder = builder.model("default", model.clone());
        let system = builder.team(agent.into_team().unwrap()).start();
        system.await.unwrap()
    };
    let first = start(&stage).await;
    let run = ask(&first, "a", "go").await.id();
    pause(1_000).await;
    let mut other = patient(60 * MINUTE);
    (other.store, other.clock) = (stage.store.another_process(), stage.clock.clone());
    let second = start(&other).await;
    second.resume(run, true).await.unwrap();
    pause(1_000).await;
    // The first process does not know yet that it has lost the run, and keeps its call.
    assert!(kill_run(&first, run));
    while waits(&other, run).await.len() < 2 {
        pause(1_000).await;
    }
    other.crash(&second).await;
    let run = first.resume(run, true).await.unwrap();
    assert_eq!(text(&run).await, "hello");
    let tries: Vec<u32> = waits(&stage, run.id())
        .await
        .iter()
        .map(|wait| wait.tries)
        .collect();
    assert_eq!(tries, [1, 2, 3]);
    // Nobody knows of the attempts that the first process made in vain.
    assert_eq!(spent(&stage, &run).await, (1, 40));
}

/// Asks again after a minute, twice at most.
struct Repeating;

impl Interceptor for Repeating {
    async fn model(
        &self,
        request: ModelRequest,
        cx: ModelContext,
        next: NextModel<'_>,
    ) -> Result<ModelResponse, ModelError> {
        for _ in 0..2 {
            if let Ok(response) = next.respond(request.clone(), cx.clone()).await {
                return Ok(response);
            }
            next.pause(MINUTE).await;
        }
        next.respond(request, cx).await
    }
}

#[tokio::test(start_paused = true)]
async fn failed_attempts_are_charged_when_a_call_ends_between_or_after_them() {
    for is_repeated in [false, true] {
        for end in ["cancelled", "dropped", "late", "answered"] {
            let mut stage = patient(Duration::ZERO);
            // The run stays awake between two attempts.
            stage.limits.linger = 60 * MINUTE;
            let model = ScriptedModel::from_fn(|_, number| match number {
                0 | 1 => Err(down()),
                _ => Ok(answer(10)),
            });
            let most = match end {
                "dropped" => Duration::from_secs(20),
                _ => 60 * MINUTE,
            };
            let agent = Agent::from_fn("a", move |cx: RunContext| hurrying(cx, most));
            let builder = System::builder(stage.store.clone())
                .options(stage.limits)
                .clock(stage.clock.clone());
            let mut builder = builder.model("default", model.clone());
            if is_repeated {
                builder = builder.intercept(Repeating);
            }
            let system = builder.team(agent.into_team().unwrap()).start();
            let system = system.await.unwrap();
            let budget = Budget {
                wall_time: (end == "late").then_some(Duration::from_secs(20)),
                ..Budget::default()
            };
            let turn = Turn::text("go").budget(budget);
            let run = system.session("a", "s").send(turn).await.unwrap();
            pause(5_000).await;
            if end == "cancelled" {
                assert!(run.cancel("enough").await.unwrap());
            }
            outcome(&run).await;
            let attempts = if end == "answered" { 3 } else { 1 };
            assert_eq!(model.calls(), attempts);
            let spent = spent(&stage, &run).await;
            let place = format!("{end}, repeated by an interceptor: {is_repeated}");
            assert_eq!(spent, (1, 10 * attempts as u64), "{place}");
        }
    }
}
