//! A tree with many calls does not starve another.

use std::{sync::Arc, time::Duration};

use futures_util::future;
use ghostlight_actors::{
    actor::System,
    contract::{Model, ModelContext, ModelError},
    run::{Agent, RunContext},
    vocabulary::{Effect, ModelRequest, ModelResponse, Outcome},
};
use parking_lot::Mutex;

use crate::stage::{Stage, ask, call, outcome};

/// How many calls the crowd makes at once, and how long each takes.
const CROWD: usize = 1_000;
const TAKES: Duration = Duration::from_millis(100);

/// A model that counts its calls and takes its time.
struct Slow(Arc<Mutex<Vec<String>>>);

impl Model for Slow {
    async fn respond(
        &self,
        request: ModelRequest,
        _: ModelContext,
    ) -> Result<ModelResponse, ModelError> {
        tokio::time::sleep(TAKES).await;
        self.0.lock().push(request.model.to_string());
        Ok(ModelResponse::text("said"))
    }
}

/// Asks the model so often at once.
fn asker(name: &'static str, times: usize) -> Agent {
    Agent::from_fn(name, move |cx: RunContext| async move {
        let calls = (0..times).map(|_| cx.model(cx.model_request(cx.conversation())));
        future::try_join_all(calls).await?;
        Ok(Outcome::answer("done"))
    })
}

/// Calls the tool so often, one batch after the other.
fn caller(name: &'static str, times: usize) -> Agent {
    Agent::from_fn(name, move |cx: RunContext| async move {
        let calls = (0..times).map(|number| cx.tool_unasked(call(&number.to_string(), "act")));
        future::try_join_all(calls).await?;
        Ok(Outcome::answer("done"))
    })
    .tool_named("act")
}

/// How long a single call of another tree takes while the crowd waits.
async fn waits(system: &System, crowd: &str, single: &str) -> Duration {
    let crowd = ask(system, crowd, "crowd").await;
    tokio::time::sleep(3 * TAKES).await;
    let began = tokio::time::Instant::now();
    outcome(&ask(system, single, "single").await).await;
    let waited = began.elapsed();
    outcome(&crowd).await;
    waited
}

#[tokio::test(start_paused = true)]
async fn a_call_to_a_model_waits_for_one_call_of_another_tree_and_not_for_a_thousand() {
    let (mut stage, asked) = (Stage::new(), Arc::default());
    stage.limits.gateway.concurrency = 1;
    let system = System::builder(stage.store.clone())
        .options(stage.limits)
        .model("default", Slow(Arc::clone(&asked)))
        .team(asker("crowd", CROWD).into_team().unwrap())
        .team(asker("single", 1).into_team().unwrap())
        .start()
        .await
        .unwrap();
    let waited = waits(&system, "crowd", "single").await;
    assert!(waited < 4 * TAKES, "{waited:?}");
    assert_eq!(asked.lock().len(), CROWD + 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_of_a_tool_waits_for_one_call_of_another_tree_and_not_for_a_thousand() {
    // By the bound over all tools, and by the tool's own.
    for (over_all, own) in [(1, None), (256, Some(1))] {
        let mut stage = Stage::new();
        stage.limits.executor.concurrency = over_all;
        let mut act = ghostlight_actors::vocabulary::ToolDefinition::new("act", "takes its time");
        act.effect = Effect::Read;
        act.concurrency = own;
        let system = System::builder(stage.store.clone())
            .options(stage.limits)
            .model("default", crate::stage::silent())
            .tool(stage.log.tool(act, TAKES))
            .team(caller("crowd", CROWD).into_team().unwrap())
            .team(caller("single", 1).into_team().unwrap())
            .start()
            .await
            .unwrap();
        let waited = waits(&system, "crowd", "single").await;
        assert!(waited < 4 * TAKES, "{waited:?}");
        assert_eq!(stage.log.count("act"), CROWD + 1);
    }
}
