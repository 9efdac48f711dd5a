//! Undo steps of a cancelled run: each runs at most once, whenever the process dies.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use ghostlight_actors::{
    actor::System,
    contract::{RunStatus, Tool, ToolContext, ToolError, ToolOutput},
    run::{Agent, RunContext},
    session::Turn,
    testing::InMemoryStore,
    vocabulary::{Arguments, Outcome, ToolCall, ToolDefinition, Transfer},
};
use serde_json::json;

/// Gives back what was booked. It counts its calls, and hangs where it is told to.
#[derive(Clone)]
struct GiveBack {
    calls: Arc<AtomicU32>,
    hangs: bool,
}

impl Tool for GiveBack {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new("give_back", "Gives back what was booked.")
    }

    async fn call(&self, _: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if self.hangs {
            std::future::pending::<()>().await;
        }
        Ok(ToolOutput::text("given back"))
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_goes_on_keeps_what_it_did_before() {
    let calls = Arc::new(AtomicU32::new(0));
    let tool = GiveBack {
        calls: calls.clone(),
        hangs: false,
    };
    let booker = Agent::from_fn("booker", |cx: RunContext| async move {
        cx.on_cancel(ToolCall::new("u", "give_back", json!({})));
        if cx.input().content() != "the last" {
            return Ok(cx.continue_as("the last"));
        }
        let answer = cx.ask("Shall it stay booked?").await?;
        Ok(Outcome::answer(answer.to_string()))
    });
    let team = booker.tool(tool).into_team().unwrap();
    let system = System::builder(InMemoryStore::new()).team(team);
    let system = system.start().await.unwrap();
    let session = system.session("booker", "s");
    let run = session.send(Turn::text("book")).await.unwrap();
    run.wait().await.unwrap();
    assert!(run.cancel("no longer needed").await.unwrap());
    run.outcome().await.unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

async fn start(store: InMemoryStore, tool: GiveBack) -> System {
    let booker = Agent::from_fn("booker", |cx: RunContext| async move {
        cx.on_cancel(ToolCall::new("u", "give_back", json!({})));
        let answer = cx.ask("Shall it stay booked?").await?;
        Ok(Outcome::answer(answer.to_string()))
    });
    let team = booker.tool(tool).into_team().unwrap();
    System::builder(store).team(team).start().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_undoes_what_it_registered() {
    let calls = Arc::new(AtomicU32::new(0));
    let tool = GiveBack {
        calls: calls.clone(),
        hangs: false,
    };
    let system = start(InMemoryStore::new(), tool).await;
    let session = system.session("booker", "s");
    let run = session.send(Turn::text("book")).await.unwrap();
    run.wait().await.unwrap();
    assert!(run.cancel("no longer needed").await.unwrap());
    let outcome = run.outcome().await.unwrap();
    assert!(outcome.stop_reason().is_some(), "{outcome:?}");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert!(
        !run.cancel("again").await.unwrap(),
        "it has ended, so there is nothing to cancel"
    );
}

#[tokio::test(start_paused = true)]
async fn an_undo_step_that_a_crash_interrupted_is_not_run_again() {
    let store = InMemoryStore::new();
    let calls = Arc::new(AtomicU32::new(0));
    let tool = |hangs| GiveBack {
        calls: calls.clone(),
        hangs,
    };
    let first = start(store.clone(), tool(true)).await;
    let session = first.session("booker", "s");
    let run = session.send(Turn::text("book")).await.unwrap().id();
    first.run(run).wait().await.unwrap();
    first.run(run).cancel("no longer needed").await.unwrap();
    while calls.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    store.crash();

    let second = start(store.another_process(), tool(false)).await;
    let run = second.run(run);
    let outcome = run.outcome().await.unwrap();
    assert!(outcome.stop_reason().is_some(), "{outcome:?}");
    assert_eq!(run.status().await.unwrap().status, RunStatus::Cancelled);
    assert_eq!(calls.load(Ordering::SeqCst), 1, "it is a `once` call");
}

#[tokio::test(start_paused = true)]
async fn what_was_registered_before_a_transfer_is_undone_too() {
    let calls = Arc::new(AtomicU32::new(0));
    let tool = GiveBack {
        calls: calls.clone(),
        hangs: false,
    };
    let keeper = Agent::from_fn("keeper", |cx: RunContext| async move {
        let answer = cx.ask("Shall it stay booked?").await?;
        Ok(Outcome::answer(answer.to_string()))
    });
    let booker = Agent::from_fn("booker", |cx: RunContext| async move {
        cx.on_cancel(ToolCall::new("u", "give_back", json!({})));
        Ok(Outcome::Transfer(Transfer::to("keeper")))
    });
    let team = booker.tool(tool).agent(keeper).into_team().unwrap();
    let builder = System::builder(InMemoryStore::new()).team(team);
    let system = builder.start().await.unwrap();
    let session = system.session("booker", "s");
    let run = session.send(Turn::text("book")).await.unwrap();
    run.wait().await.unwrap();
    run.cancel("no longer needed").await.unwrap();
    run.outcome().await.unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}
