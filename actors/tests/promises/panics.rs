//! A panic is contained where it happens, and so is a tool that hangs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use ghostlight_actors::{
    actor::{System, SystemError},
    contract::{Tool, ToolContext, ToolError, ToolOutput},
    run::{Agent, RunContext},
    testing::ScriptedModel,
    vocabulary::{Arguments, Effect, Entry, ModelResponse, Outcome, ToolDefinition},
};

use crate::stage::{SlowStore, Stage, ask, call, outcome, text};

struct Panicking(Effect, Arc<AtomicU32>);

impl Tool for Panicking {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new("explode", "panics").effect(self.0)
    }

    async fn call(&self, _: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
        self.1.fetch_add(1, Ordering::SeqCst);
        panic!("boom")
    }
}

#[tokio::test(start_paused = true)]
async fn a_panicking_tool_is_an_error_result_and_in_doubt_where_it_must_not_be_repeated() {
    let expected = [
        (Effect::Read, "Error"),
        (Effect::Idempotent, "Error"),
        (Effect::Once, "Unknown"),
    ];
    for (effect, status) in expected {
        let (stage, calls) = (Stage::new(), Arc::new(AtomicU32::new(0)));
        let agent = Agent::from_fn("a", |cx: RunContext| async move {
            let result = cx.tool_unasked(call("1", "explode")).await?;
            Ok(Outcome::answer(format!("{:?}", result.status)))
        });
        let system = stage
            .start(agent.tool(Panicking(effect, calls.clone())))
            .await;
        assert_eq!(text(&ask(&system, "a", "go").await).await, status);
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    }
}

/// Never ends by itself.
struct Hanging(&'static str, Effect, Duration);

impl Tool for Hanging {
    fn definition(&self) -> ToolDefinition {
        let definition = ToolDefinition::new(self.0, "hangs");
        definition.effect(self.1).timeout(self.2)
    }

    async fn call(&self, _: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn each_tool_is_held_to_its_own_time_and_the_rest_of_the_batch_goes_on() {
    let stage = Stage::new();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let calls = [call("1", "brief"), call("2", "long"), call("3", "pay")];
        let results = cx.tools(calls).await?;
        let told = results.iter().map(|result| format!("{:?}", result.status));
        Ok(Outcome::answer(told.collect::<Vec<_>>().join(" ")))
    });
    let agent = agent
        .tool(Hanging("brief", Effect::Read, Duration::from_secs(2)))
        .tool(Hanging("long", Effect::Once, Duration::from_secs(30)))
        .tool(stage.tool("pay", Effect::Once, 5));
    let system = stage.start(agent).await;
    let began = tokio::time::Instant::now();
    let told = text(&ask(&system, "a", "go").await).await;
    assert_eq!(told, "Error Unknown Success");
    assert_eq!(began.elapsed().as_secs(), 30, "the longest of them");
}

fn exploding(stage: &Stage, times: u32, lives: &Arc<AtomicU32>) -> Agent {
    let lives = lives.clone();
    Agent::from_fn("a", move |cx: RunContext| {
        let lives = lives.clone();
        async move {
            cx.tool_unasked(call("1", "pay")).await?;
            if lives.fetch_add(1, Ordering::SeqCst) < times {
                panic!("boom");
            }
            Ok(Outcome::answer("survived"))
        }
    })
    .tool(stage.tool("pay", Effect::Once, 5))
}

#[tokio::test(start_paused = true)]
async fn a_panicking_function_is_run_again_from_the_journal_after_a_pause() {
    let (stage, lives) = (Stage::new(), Arc::new(AtomicU32::new(0)));
    let system = stage.start(exploding(&stage, 2, &lives)).await;
    let began = tokio::time::Instant::now();
    let run = ask(&system, "a", "go").await;
    assert_eq!(text(&run).await, "survived");
    assert_eq!(stage.log.count("pay"), 1);
    assert!(
        began.elapsed() >= Duration::from_millis(50),
        "there was no pause"
    );
    let entries = stage.entries(run.id()).await;
    let restarts = entries
        .iter()
        .filter(|e| matches!(e, Entry::Restarted { .. }));
    assert_eq!(restarts.count(), 2, "each restart is told, with its reason");
}

#[tokio::test(start_paused = true)]
async fn a_delegated_run_that_fails_ends_its_children() {
    let stage = Stage::new();
    let worker = Agent::from_fn("worker", |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(900)).await?;
        Ok(Outcome::answer("late"))
    });
    let middle = Agent::from_fn("middle", |cx: RunContext| async move {
        let explode = async {
            let _ = cx.sleep(Duration::from_millis(10)).await;
            panic!("boom")
        };
        let (_, ()) = futures_util::join!(cx.delegate("worker", "go"), explode);
        Ok(Outcome::answer("never"))
    });
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let error = cx.delegate("middle", "go").await.unwrap_err();
        Ok(Outcome::answer(format!("{:?}", error.kind())))
    });
    let system = stage.start(agent.agent(middle.agent(worker))).await;
    let run = ask(&system, "a", "go").await;
    assert_eq!(text(&run).await, "Some(Delegation)");
    for row in stage.rows().await {
        assert!(row.status.is_ended(), "{} is {}", row.agent, row.status);
    }
}

#[tokio::test(start_paused = true)]
async fn the_children_of_a_run_that_is_parked_for_crashing_wait_with_it() {
    let (stage, mended) = (Stage::new(), Arc::new(AtomicBool::new(false)));
    let worker = Agent::from_fn("worker", |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(900)).await?;
        Ok(Outcome::answer("late"))
    });
    let is_mended = mended.clone();
    let agent = Agent::from_fn("a", move |cx: RunContext| {
        let mended = is_mended.clone();
        async move {
            let explode = async {
                let _ = cx.sleep(Duration::from_millis(10)).await;
                assert!(mended.load(Ordering::SeqCst), "boom");
            };
            let (done, ()) = futures_util::join!(cx.delegate("worker", "go"), explode);
            Ok(Outcome::answer(done?.text))
        }
    });
    // The children have time to do something while the run is being parked.
    let system = System::builder(SlowStore::to_commit(stage.store.clone()))
        .clock(stage.clock.clone())
        .team(agent.agent(worker).into_team().unwrap())
        .start()
        .await
        .unwrap();
    let run = ask(&system, "a", "go").await;
    let parked = run.outcome().await;
    assert!(
        matches!(parked, Err(SystemError::Parked { .. })),
        "{parked:?}"
    );
    let rows = stage.rows().await;
    let worker = rows.iter().find(|row| row.agent == "worker").unwrap();
    assert!(!worker.status.is_ended(), "{}", worker.status);
    mended.store(true, Ordering::SeqCst);
    run.retry().await.unwrap();
    assert_eq!(text(&run).await, "late");
}

#[tokio::test(start_paused = true)]
async fn a_panicking_model_is_an_error_to_reason_about() {
    let stage = Stage::new();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let request = cx.model_request(cx.conversation());
        let error = cx.model(request).await.unwrap_err();
        Ok(Outcome::answer(format!("{:?}", error.kind())))
    });
    let model = ScriptedModel::from_fn(|_, _| -> Result<ModelResponse, _> { panic!("boom") });
    let system = stage.start_with(agent, model).await;
    assert_eq!(text(&ask(&system, "a", "go").await).await, "Some(Panicked)");
}

#[tokio::test(start_paused = true)]
async fn a_panicking_step_is_in_doubt_where_it_must_not_be_repeated() {
    for (effect, kind) in [(Effect::Read, "Panicked"), (Effect::Once, "InDoubt")] {
        let stage = Stage::new();
        let agent = Agent::from_fn("a", move |cx: RunContext| async move {
            let boom = async {
                if true {
                    panic!("boom");
                }
                Ok::<(), std::io::Error>(())
            };
            let error = cx.step("boom", effect, boom).await.unwrap_err();
            Ok(Outcome::answer(format!("{:?}", error.kind().unwrap())))
        });
        let system = stage.start(agent).await;
        assert_eq!(outcome(&ask(&system, "a", "go").await).await.text(), kind);
    }
}
