//! A call that was asked for by an answer that never reached the disk.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use ghostlight_actors::{
    actor::System,
    contract::{Batch, Claim, Committed, DynStore, StoreError, StoreWrapper},
    run::{Agent, RunContext},
    testing::{InMemoryStore, ScriptedModel, kill_run},
    vocabulary::{Effect, JournalId, ModelResponse, Outcome, ToolDefinition},
};
use tokio::sync::watch;

use crate::stage::{Stage, call, outcome, pause};

/// A store in which the first model's answer is on its way to the disk until somebody claims its run.
#[derive(Clone, Debug)]
struct HeldAnswer {
    inner: InMemoryStore,
    /// The run whose answer is held.
    held: watch::Sender<Option<JournalId>>,
    is_armed: Arc<AtomicBool>,
}

impl HeldAnswer {
    /// The answer goes on its way if it is of this run.
    fn let_go(&self, journal: &JournalId) {
        self.held
            .send_if_modified(|held| held.take_if(|held| held == journal).is_some());
    }
}

impl StoreWrapper for HeldAnswer {
    fn inner(&self) -> &dyn DynStore {
        &self.inner
    }

    async fn claim(&self, journal: JournalId, take_over: bool) -> Result<Claim, StoreError> {
        let claim = self.inner.claim(journal.clone(), take_over).await;
        self.let_go(&journal);
        claim
    }

    async fn claim_below(
        &self,
        journal: JournalId,
        above: JournalId,
        epoch: u64,
    ) -> Result<Claim, StoreError> {
        let claim = self.inner.claim_below(journal.clone(), above, epoch).await;
        self.let_go(&journal);
        claim
    }

    async fn commit(
        &self,
        batches: Vec<Batch>,
    ) -> Result<Vec<Result<Committed, StoreError>>, StoreError> {
        let answers = |line: &str| line.starts_with("{\"completed\"") && line.contains("\"model\"");
        let appends = batches.iter().flat_map(|batch| &batch.appends);
        let answered = appends
            .into_iter()
            .find(|append| append.lines.iter().any(|line| answers(&line.text)));
        if let Some(append) = answered
            && self.is_armed.swap(false, SeqCst)
        {
            self.held.send_replace(Some(append.journal.clone()));
            let mut held = self.held.subscribe();
            // The sender lives as long as the store.
            let _ = held.wait_for(Option::is_none).await;
        }
        self.inner.commit(batches).await
    }

    fn description(&self) -> String {
        "a store with a slow commit".to_owned()
    }
}

/// Whose answer is lost.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lost {
    Root,
    Child,
    /// That of a run which goes on in another journal.
    GoingOn,
}

/// Asks its model, and makes the calls that it asks for.
fn looking(name: &str, lost: Lost) -> Agent {
    Agent::from_fn(name, move |cx: RunContext| async move {
        let said = cx.model(cx.model_request(cx.conversation())).await?;
        cx.tools(said.calls()).await?;
        if lost == Lost::GoingOn && cx.input().content() == "go" {
            return Ok(cx.continue_as("go on"));
        }
        Ok(Outcome::answer(said.content()))
    })
    .tool_named("look")
}

#[tokio::test(start_paused = true)]
async fn no_tool_begins_for_a_run_that_has_ended_on_an_answer_that_was_lost() {
    for lost in [Lost::Root, Lost::Child, Lost::GoingOn] {
        let stage = Stage::new();
        let answers = Arc::new(AtomicU32::new(0));
        let model = ScriptedModel::from_fn(move |_, _| {
            Ok(match answers.fetch_add(1, SeqCst) {
                0 => ModelResponse::tool_calls([call("1", "look")]),
                _ => ModelResponse::text("nothing to look for"),
            })
        });
        let definition = ToolDefinition::new("look", "is logged").effect(Effect::Read);
        let look = stage
            .log
            .tool(definition.concurrency(1), Duration::from_secs(5));
        let busy = Agent::from_fn("busy", |cx: RunContext| async move {
            Ok(Outcome::answer(
                cx.tool_unasked(call("1", "look")).await?.text,
            ))
        });
        let lead = match lost {
            Lost::Root | Lost::GoingOn => looking("lead", lost),
            Lost::Child => Agent::from_fn("lead", |cx: RunContext| async move {
                let done = cx.delegate("looker", "look").await?.text;
                cx.sleep(Duration::from_secs(60)).await?;
                Ok(Outcome::answer(done))
            })
            .agent(looking("looker", lost)),
        };
        let store = HeldAnswer {
            inner: stage.store.clone(),
            held: watch::channel(None).0,
            is_armed: Arc::new(AtomicBool::new(true)),
        };
        let system = System::builder(store.clone())
            .options(stage.limits)
            .clock(stage.clock.clone())
            .model("default", model)
            .tool(look)
            .team(busy.tool_named("look").into_team().unwrap())
            .team(lead.into_team().unwrap())
            .start()
            .await
            .unwrap();
        // The tool's one slot is taken, so that the call waits.
        let other = system.session("busy", "other").send("go").await.unwrap();
        pause(10).await;
        let run = system.session("lead", "s").send("go").await.unwrap();
        pause(10).await;
        let held = store.held.borrow().clone().expect("the answer is held");
        let JournalId::Run(loser) = held else {
            panic!("{held} is no run");
        };
        assert!(kill_run(&system, loser));

        assert_eq!(outcome(&run).await.text(), "nothing to look for");
        outcome(&other).await;
        pause(20_000).await;
        let begun = stage.log.effects();
        let of_held: Vec<_> = begun
            .iter()
            .filter(|effect| !effect.key.starts_with(&other.id().to_string()))
            .collect();
        assert!(of_held.is_empty(), "{lost:?} {held:?}: {of_held:?}");
        assert_eq!(begun.len(), 1);
    }
}
