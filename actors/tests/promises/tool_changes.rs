//! What a tool did stays done, whatever becomes of what it wanted to save.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use ghostlight_actors::{
    contract::{DynStore, Tool, ToolContext, ToolError, ToolOutput},
    run::{Agent, RunContext},
    vocabulary::{
        AgentError, Arguments, Effect, Entry, OperationId, Outcome, RunId, Scope, ToolDefinition,
    },
};

use crate::{
    contested::{Contested, start},
    stage::{Stage, ask, call, pause, text},
};

/// Does something, and saves a receipt.
#[derive(Clone)]
struct Pay {
    effect: Effect,
    calls: Arc<AtomicU32>,
}

impl Pay {
    fn new(effect: Effect) -> Self {
        let calls = Arc::default();
        Self { effect, calls }
    }

    fn calls(&self) -> u32 {
        self.calls.load(Ordering::SeqCst)
    }
}

impl Tool for Pay {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new("pay", "pays").effect(self.effect)
    }

    async fn call(&self, _: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let output = ToolOutput::text("paid").set(Scope::Run, "seats", &0)?;
        Ok(output.save(Scope::Session, "receipt", "text/plain", *b"paid"))
    }
}

fn payer(pay: &Pay) -> Agent {
    Agent::from_fn("a", |cx: RunContext| async move {
        let paid = cx.tool_unasked(call("1", "pay")).await;
        let paid = paid.map(|result| (result.status, result.text));
        let receipt = cx.artifacts(Scope::Session).load("receipt").await?;
        let saved = receipt.is_some();
        Ok(Outcome::answer(format!("{paid:?}, saved: {saved}")))
    })
    .tool(pay.clone())
}

/// The results of calls that a journal holds.
async fn results(stage: &Stage, run: RunId) -> Vec<String> {
    let entries = stage.entries(run).await.into_iter();
    let results = entries.filter_map(|entry| match entry {
        Entry::Completed { name, result, .. } if name == "pay" => Some(result.get().to_owned()),
        _ => None,
    });
    results.collect()
}

#[tokio::test(start_paused = true)]
async fn a_call_that_must_not_be_repeated_keeps_its_result_where_others_are_always_faster() {
    for (effect, expected) in [
        (
            Effect::Once,
            "Ok((Success, \"paid\\n[What this call wanted to save was not saved: others \
                        kept changing the value first. The call itself was made, and must not be \
                        repeated.]\")), saved: false",
        ),
        (
            Effect::Idempotent,
            "Ok((Error, \"Nothing was saved: others kept changing the value \
                              first.\")), saved: false",
        ),
    ] {
        let (stage, pay) = (Stage::new(), Pay::new(effect));
        let store = Contested::over(stage.store.clone());
        store.conflicts.store(1000, Ordering::SeqCst);
        let system = start(&stage, store, payer(&pay)).await;
        assert_eq!(text(&ask(&system, "a", "go").await).await, expected);
        assert_eq!(pay.calls(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_call_saves_is_saved_however_often_others_were_faster() {
    let (stage, pay) = (Stage::new(), Pay::new(Effect::Once));
    let store = Contested::over(stage.store.clone());
    store.conflicts.store(20, Ordering::SeqCst);
    let system = start(&stage, store, payer(&pay)).await;
    let said = text(&ask(&system, "a", "go").await).await;
    assert!(
        said.starts_with("Ok((Success, \"paid\\n[saved as"),
        "{said}"
    );
    assert!(said.ends_with("saved: true"), "{said}");
    assert_eq!(pay.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_under_a_call_never_tells_that_it_may_be_made_again() {
    for effect in [Effect::Once, Effect::Idempotent] {
        let (stage, pay) = (Stage::new(), Pay::new(effect));
        let store = Contested::over(stage.store.clone());
        store.failures.store(1, Ordering::SeqCst);
        let system = start(&stage, store, payer(&pay)).await;
        let said = text(&ask(&system, "a", "go").await).await;
        if effect == Effect::Once {
            assert!(said.contains("Unknown"), "its end is in doubt: {said}");
            assert!(said.contains("it was not repeated"), "{said}");
            assert_eq!(pay.calls(), 1);
        } else {
            assert!(said.starts_with("Ok((Success"), "{said}");
            assert!(said.ends_with("saved: true"), "{said}");
            assert_eq!(pay.calls(), 2, "it may be called as often as needed");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_has_ended_was_not_interrupted_while_it_waited_to_save() {
    for effect in [Effect::Once, Effect::Idempotent] {
        let (stage, pay) = (Stage::new(), Pay::new(effect));
        let store = Contested::over(stage.store.clone());
        store.reads_wait.send_replace(true);
        let system = start(&stage, store, payer(&pay)).await;
        let run = ask(&system, "a", "go").await;
        pause(500).await;
        assert_eq!(pay.calls(), 1);
        assert!(run.cancel("enough").await.unwrap());
        assert!(run.outcome().await.unwrap().stop_reason().is_some());
        let results = results(&stage, run.id()).await;
        let [result] = results.as_slice() else {
            panic!("{results:?}");
        };
        assert!(result.starts_with("{\"Ok\""), "{result}");
        assert!(
            result.contains("not saved") || result.contains("Nothing was saved"),
            "{result}"
        );
        assert_eq!(result.contains("paid"), effect == Effect::Once, "{result}");
    }
}

#[tokio::test(start_paused = true)]
async fn cancelling_a_call_that_waits_to_save_gives_what_it_did() {
    let (stage, pay) = (Stage::new(), Pay::new(Effect::Once));
    let store = Contested::over(stage.store.clone());
    store.reads_wait.send_replace(true);
    let held = store.reads_wait.clone();
    let system = start(&stage, store, payer(&pay)).await;
    let run = ask(&system, "a", "go").await;
    pause(500).await;
    let operation: OperationId = "0.0.0".parse().unwrap();
    let told = tokio::spawn({
        let run = run.clone();
        async move { run.cancel_call(operation).await.unwrap() }
    });
    pause(100).await;
    held.send_replace(false);
    assert!(!told.await.unwrap(), "it had come to its own end");
    let said = text(&run).await;
    assert!(
        said.starts_with("Ok((Success, \"paid\\n[What this call wanted"),
        "{said}"
    );
    assert!(said.ends_with("saved: false"), "{said}");
    assert_eq!(stage.store.mailbox(run.id().into()).await.unwrap(), []);
}

/// Books seats in a run below, which gives them back when it is cancelled, and looks.
fn booker(pay: &Pay) -> Agent {
    let below = Agent::from_fn("below", |cx: RunContext| async move {
        cx.memory().set("seats", &4).await?;
        cx.on_cancel(call("u", "pay"));
        cx.sleep(std::time::Duration::from_secs(900)).await?;
        Ok(Outcome::answer("never"))
    });
    Agent::from_fn("a", |cx: RunContext| async move {
        let booking = cx.delegate("below", "book");
        let second = std::time::Duration::from_secs(1);
        assert!(cx.timeout(second, booking).await.is_err());
        cx.sleep(second).await?;
        let seats: Option<u32> = cx.memory().get("seats").await?;
        // Its receipt is in the working memory of the tree.
        let receipt = cx.artifacts(Scope::Run).load("receipt").await?;
        let receipt = receipt.ok_or(AgentError::Ended)?;
        Ok(Outcome::answer(format!(
            "{seats:?} {}",
            receipt.info.version
        )))
    })
    .agent(below.tool(pay.clone()))
}

#[tokio::test(start_paused = true)]
async fn what_an_undo_step_changes_is_seen_at_once_and_waits_its_turn() {
    for conflicts in [0, 1, 20] {
        let (stage, pay) = (Stage::new(), Pay::new(Effect::Once));
        let store = Contested::over(stage.store.clone());
        let left = store.conflicts.clone();
        let system = start(&stage, store, booker(&pay)).await;
        let run = ask(&system, "a", "go").await;
        pause(500).await;
        left.store(conflicts, Ordering::SeqCst);
        assert_eq!(text(&run).await, "Some(0) 1", "after {conflicts}");
        assert_eq!(pay.calls(), 1);
    }
}
