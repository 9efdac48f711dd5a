//! An operation from outside of the engine is a full one: its kind says of which family it is.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use ghostlight_actors::{
    contract::Clock,
    run::{Act, Agent, Begin, Gate, Operation, OperationContext, RunContext, Wait, WaitFor},
    session::Turn,
    vocabulary::{
        Begun, Digest, ErrorKind, Event, ModelResponse, Outcome, Timestamp, ToolCall, ToolResult,
        ToolStatus,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

use crate::stage::{Stage, ask, outcome, pause};

/// Something of this kind that comes to this.
struct Foreign<T>(&'static str, T);

impl<T: Serialize + DeserializeOwned + Send + 'static> Operation for Foreign<T> {
    type Output = T;

    fn kind(&self) -> &'static str {
        self.0
    }

    fn name(&self) -> &str {
        "far"
    }

    fn digest(&self) -> Digest {
        Digest::of(b"")
    }

    fn begin(self, _: OperationContext) -> Begin<T> {
        Begin::Ready(Ok(self.1))
    }
}

fn told(text: &str) -> ToolResult {
    let call = ToolCall::new("1", "far", json!({}));
    ToolResult::new(&call, ToolStatus::Success, text)
}

#[tokio::test(start_paused = true)]
async fn a_call_and_a_response_from_outside_are_told_as_those_of_the_engine() {
    let stage = Stage::new();
    let agent = Agent::from_fn("desk", |cx: RunContext| async move {
        cx.perform(Foreign("tool/remote", told("there"))).await?;
        let said = ModelResponse::text("said");
        cx.perform(Foreign("model/remote", said)).await?;
        cx.perform(Foreign("remote", told("elsewhere"))).await?;
        Ok(Outcome::answer("done"))
    });
    let system = stage.start(agent).await;
    let run = ask(&system, "desk", "go").await;
    run.outcome().await.unwrap();
    let records = run.events().so_far().await.unwrap();
    let told: Vec<String> = records
        .into_iter()
        .filter_map(|record| match record.event {
            Event::ToolCalled { result, .. } => Some(format!("tool {}", result.text)),
            Event::ModelCalled { text, .. } => Some(format!("model {text}")),
            Event::OperationCompleted { kind, .. } => Some(format!("other {kind}")),
            _ => None,
        })
        .collect();
    assert_eq!(told, ["tool there", "model said", "other remote"]);
    system.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_a_model_from_outside_said_is_kept_of_a_run_that_is_broken_off() {
    let stage = Stage::new();
    let agent = Agent::from_fn("desk", |cx: RunContext| async move {
        let said = ModelResponse::text("so far");
        cx.perform(Foreign("model/remote", said)).await?;
        cx.sleep(Duration::from_secs(3600)).await?;
        Ok(Outcome::answer("done"))
    });
    let system = stage.start(agent).await;
    let deadline = stage.clock.now().after(Duration::from_secs(60));
    let turn = Turn::text("go").deadline(deadline);
    let run = system.session("desk", "s").send(turn).await.unwrap();
    assert_eq!(run.outcome().await.unwrap().text(), "so far");
    system.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn words_to_the_run_come_with_the_answer_of_a_model_from_outside() {
    let stage = Stage::new();
    let agent = Agent::from_fn("desk", |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(5)).await?;
        let said = ModelResponse::text("said");
        let answer = cx.perform(Foreign("model/remote", said)).await?;
        let heard = answer.steering.iter().map(|said| said.content());
        Ok(Outcome::answer(heard.collect::<Vec<_>>().join("|")))
    });
    let system = stage.start(agent).await;
    let run = ask(&system, "desk", "go").await;
    run.steer("quicker").await.unwrap();
    assert_eq!(run.outcome().await.unwrap().text(), "quicker");
    system.stop().await.unwrap();
}

/// Waits for a time to come, and pays where its process dies meanwhile.
struct Impatient(Timestamp, Arc<AtomicU32>);

impl Operation for Impatient {
    type Output = ();

    fn kind(&self) -> &'static str {
        "impatient"
    }

    fn digest(&self) -> Digest {
        Digest::of(b"")
    }

    fn begin(self, cx: OperationContext) -> Begin<()> {
        match cx.started {
            None => Begin::Wait(Wait::new(WaitFor::Timer(self.0), |_| Ok(()))),
            Some(Begun::Effect) => Begin::failed(ErrorKind::InDoubt, "paid or not"),
            Some(_) => {
                let act = async move {
                    self.1.fetch_add(1, SeqCst);
                    std::future::pending().await
                };
                Begin::Act(Act::new(Gate::Before, act).recorded(true))
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_act_that_must_not_happen_twice_is_recorded_also_after_a_wait() {
    let mut stage = Stage::new();
    let paid = Arc::new(AtomicU32::new(0));
    let at = stage.clock.now().after(Duration::from_secs(60));
    let desk = || {
        let paid = paid.clone();
        Agent::from_fn("desk", move |cx: RunContext| {
            let paid = paid.clone();
            async move {
                let told = cx.perform(Impatient(at, paid)).await;
                Ok(Outcome::answer(told.unwrap_err().to_string()))
            }
        })
    };
    let system = stage.start(desk()).await;
    let run = ask(&system, "desk", "go").await;
    run.wait().await.unwrap();
    stage.crash(&system).await;
    let system = stage.start(desk()).await;
    let paying = async {
        while paid.load(SeqCst) == 0 {
            pause(100).await;
        }
    };
    let hour = Duration::from_secs(3_600);
    tokio::time::timeout(hour, paying).await.expect("it pays");
    stage.crash(&system).await;
    let system = stage.start(desk()).await;
    let told = outcome(&system.run(run.id())).await;
    assert_eq!(told.text(), "paid or not");
    assert_eq!(paid.load(SeqCst), 1);
}
