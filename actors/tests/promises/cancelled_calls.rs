//! One call is cancelled and its run goes on; of finishing and cancelling one wins; nothing starts
//! and nothing is lost once a run is cancelled; and the caller learns when all is quiet.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ghostlight_actors::{
    actor::System,
    contract::{DynStore, RunStatus, Tool, ToolContext, ToolError, ToolHandle, ToolOutput},
    definition::Reach,
    run::{Agent, RunContext, operations::Scope},
    testing::{ScriptedModel, check_transcript},
    vocabulary::{
        AgentError, Arguments, Effect, Entry, JournalId, Message, ModelResponse, OperationId,
        Outcome, Question, Role, RunId, ToolCall, ToolDefinition, ToolStatus,
    },
};

use crate::{
    cancellation::{ALL, waiting},
    contested::start,
    lost_actors::kill,
    stage::{SlowStore, Stage, ask, call, outcome, pause, text},
};

fn operation(text: &str) -> OperationId {
    text.parse().unwrap()
}

/// Waits for one thing, and tells how that ended.
fn surviving(stage: &Stage, what: &'static str) -> (Agent, ScriptedModel) {
    let (_, model) = waiting(stage, what);
    let worker = Agent::from_fn("worker", |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(900)).await?;
        Ok(Outcome::answer("late"))
    });
    let agent = Agent::from_fn("a", move |cx: RunContext| async move {
        let end = match what {
            "model" | "back-off" => {
                let answer = cx.model(cx.model_request(cx.conversation())).await;
                answer.map(drop)
            }
            "tool" => cx.tool_unasked(call("1", "look")).await.map(drop),
            "once" => cx.tool_unasked(call("1", "pay")).await.map(drop),
            "delegation" => cx.delegate("worker", "go").await.map(drop),
            "spawned" => {
                let child = cx.spawn("worker", "go").await?;
                cx.join(&child).await.map(drop)
            }
            "sleep" => cx.sleep(Duration::from_secs(900)).await,
            _ => cx.ask(Question::new("well?")).await.map(drop),
        };
        Ok(Outcome::answer(format!(
            "{:?}",
            end.map_err(|e| e.kind().cloned())
        )))
    })
    .tool(stage.tool("look", Effect::Read, 900_000))
    .tool(stage.tool("pay", Effect::Once, 900_000))
    .agent(worker);
    (agent, model)
}

#[tokio::test(start_paused = true)]
async fn any_call_is_cancelled_by_its_id_and_its_run_goes_on() {
    for what in ALL {
        let stage = Stage::new();
        let (agent, model) = surviving(&stage, what);
        let system = stage.start_with(agent, model).await;
        let run = ask(&system, "a", "go").await;
        pause(700).await;
        let (awaited, other) = match what {
            "spawned" => (operation("0.0.1"), operation("0.0.0")),
            _ => (operation("0.0.0"), operation("0.0.1")),
        };
        assert!(
            !run.cancel_call(operation("7.0.0")).await.unwrap(),
            "{what}"
        );
        assert!(!run.cancel_call(other).await.unwrap(), "{what}");
        let both = tokio::join!(run.cancel_call(awaited), run.cancel_call(awaited));
        assert!(both.0.unwrap() && both.1.unwrap(), "{what}");
        let expected = match what {
            "once" => "Err(Some(InDoubt))",
            _ => "Err(Some(Cancelled))",
        };
        assert_eq!(text(&run).await, expected, "{what}");
        assert!(run.cancel_call(awaited).await.unwrap(), "{what}: it was");
        assert!(!run.cancel_call(other).await.unwrap(), "{what}");
        for row in stage.rows().await {
            assert!(
                row.status.is_ended(),
                "{what}: {} is {}",
                row.agent,
                row.status
            );
        }
        let nobody = system.run(RunId::from_random(7));
        assert!(!nobody.cancel_call(awaited).await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_is_cancelled_from_another_process_and_while_its_run_sleeps() {
    for (what, before) in [("tool", 700), ("once", 700), ("sleep", 100_000)] {
        let stage = Stage::new();
        let (agent, model) = surviving(&stage, what);
        let system = stage.start_with(agent, model).await;
        let run = ask(&system, "a", "go").await;
        pause(before).await;
        let other = System::builder(stage.store.another_process())
            .start()
            .await
            .unwrap();
        let far = other.run(run.id());
        assert!(
            !far.cancel_call(operation("0.0.5")).await.unwrap(),
            "{what}"
        );
        assert!(far.cancel_call(operation("0.0.0")).await.unwrap(), "{what}");
        assert!(text(&run).await.starts_with("Err"), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_of_a_closed_journal_is_over_whatever_the_next_one_calls_so() {
    let stage = Stage::new();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        if cx.input().content() == "go" {
            cx.tool_unasked(call("1", "look")).await?;
            return Ok(cx.continue_as("next"));
        }
        Ok(Outcome::answer(
            match cx.tool_unasked(call("2", "stare")).await {
                Ok(_) => "stared",
                Err(_) => "cancelled",
            },
        ))
    });
    let agent = agent
        .tool(stage.tool("look", Effect::Read, 10))
        .tool(stage.tool("stare", Effect::Read, 900_000));
    let system = stage.start(agent).await;
    let run = ask(&system, "a", "go").await;
    pause(700).await;
    let first = operation("0.0.0");
    assert!(!run.cancel_call(first).await.unwrap(), "it has ended");
    let next = system.run(run.id().next());
    assert!(next.cancel_call(first).await.unwrap());
    assert_eq!(text(&run).await, "cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_once_call_that_ends_within_its_grace_was_not_cancelled() {
    let stage = Stage::new();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let paid = cx.tool_unasked(call("1", "pay")).await?;
        Ok(Outcome::answer(format!("{:?}", paid.status)))
    });
    let system = stage
        .start(agent.tool(stage.tool("pay", Effect::Once, 3000)))
        .await;
    let run = ask(&system, "a", "go").await;
    pause(500).await;
    assert!(!run.cancel_call(operation("0.0.0")).await.unwrap());
    assert_eq!(text(&run).await, "Success");
    assert_eq!(stage.log.count("pay"), 1);
}

#[tokio::test(start_paused = true)]
async fn of_finishing_and_cancelling_exactly_one_wins_at_every_moment() {
    let (mut cancelled, mut answered) = (0, 0);
    for yields in 0..40 {
        let stage = Stage::new();
        let worker = Agent::from_fn("worker", |cx: RunContext| async move {
            let id = cx.uuid().await?;
            Ok(Outcome::answer(id.to_string()))
        });
        let agent = Agent::from_fn("a", |cx: RunContext| async move {
            let mut all = String::new();
            for _ in 0..40 {
                let (done, said) = futures_util::future::join(
                    cx.delegate("worker", "go"),
                    cx.model(cx.model_request(cx.conversation())),
                )
                .await;
                all = format!("{all} {} {}", done?.text, said?.content());
            }
            Ok(Outcome::answer(all))
        });
        let model = ScriptedModel::turns(["said"]);
        let system = stage.start_with(agent.agent(worker), model).await;
        // A task among the others, so that it is polled between any two of their steps.
        let asking = system.clone();
        let cancelling = tokio::spawn(async move {
            let run = ask(&asking, "a", "go").await;
            for _ in 0..yields {
                tokio::task::yield_now().await;
            }
            let told = run.cancel("enough").await.unwrap();
            (run, told)
        });
        let (run, told) = cancelling.await.unwrap();
        let quiet = run.quiet().await.unwrap();
        let stopped = outcome(&run).await.stop_reason().is_some();
        let entries = stage.entries(run.id()).await;
        let requested = |entry: &Entry| matches!(entry, Entry::CancelRequested { .. });
        assert_eq!(entries.iter().any(requested), stopped, "after {yields}");
        assert!(told || !stopped, "after {yields}");
        let expected = if stopped {
            RunStatus::Cancelled
        } else {
            RunStatus::Answered
        };
        assert_eq!(quiet.status, expected, "after {yields}");
        for row in stage.rows().await {
            assert!(row.status.is_ended(), "after {yields}: {}", row.agent);
            assert_eq!(stage.ends(row.run).await, 1, "after {yields}");
        }
        let counter = if stopped {
            &mut cancelled
        } else {
            &mut answered
        };
        *counter += 1;
        let many = stage.entries(run.id()).await.len();
        pause(1000).await;
        assert_eq!(stage.entries(run.id()).await.len(), many, "it is quiet");
        system.stop().await.unwrap();
    }
    assert!(cancelled >= 3 && answered >= 3, "{cancelled} {answered}");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_cancelled_while_a_child_begins_closes_at_every_moment() {
    for moment in 0..60 {
        let stage = Stage::new();
        let worker = Agent::from_fn("worker", |cx: RunContext| async move {
            cx.sleep(Duration::from_secs(900)).await?;
            Ok(Outcome::answer("late"))
        });
        let agent = Agent::from_fn("a", |cx: RunContext| async move {
            let (paid, done) = futures_util::future::join(
                cx.tool_unasked(call("1", "pay")),
                cx.delegate("worker", "go"),
            )
            .await;
            paid?;
            Ok(Outcome::answer(done?.text))
        })
        .tool(stage.tool("pay", Effect::Once, 900))
        .agent(worker);
        // A child's first entry takes its time to be durable: until then it is under way.
        let system = start(&stage, SlowStore::new(stage.store.clone()), agent).await;
        let run = ask(&system, "a", "go").await;
        pause(moment).await;
        assert!(run.cancel("enough").await.unwrap(), "after {moment}");
        let stopped = outcome(&run).await.stop_reason().is_some();
        assert!(stopped, "after {moment}");
        for row in stage.rows().await {
            assert!(row.status.is_ended(), "after {moment}: {}", row.agent);
            assert_eq!(stage.ends(row.run).await, 1, "after {moment}");
        }
    }
}

/// Calls its tool again and again, in several branches, and so do the agents below it.
fn busy(stage: &Stage) -> Agent {
    async fn branch(cx: RunContext) -> Result<(), AgentError> {
        loop {
            cx.tool_unasked(call("1", "look")).await?;
        }
    }
    let work = |cx: RunContext| async move {
        let below = cx.lane("below");
        let branches = (0..4).map(|number| branch(cx.lane(number.to_string())));
        let branches = futures_util::future::try_join_all(branches);
        let deeper = match cx.spec().name.as_str() {
            "top" => "middle",
            "middle" => "bottom",
            _ => return branches.await.map(|_| Outcome::answer("never")),
        };
        let deeper = below.delegate(deeper, "go");
        futures_util::future::try_join(branches, deeper).await?;
        Ok(Outcome::answer("never"))
    };
    let bottom = Agent::from_fn("bottom", work).tool_named("look");
    let middle = Agent::from_fn("middle", work)
        .tool_named("look")
        .agent(bottom);
    Agent::from_fn("top", work)
        .tool(stage.tool("look", Effect::Read, 3))
        .agent(middle)
}

#[tokio::test(start_paused = true)]
async fn nothing_starts_anywhere_once_the_cancellation_is_recorded() {
    for moment in 0..12 {
        let mut stage = Stage::new();
        // Calls wait for one another, so that some are ready to start at any time.
        stage.limits.executor.concurrency = 5;
        let system = stage.start(busy(&stage)).await;
        let run = ask(&system, "top", "go").await;
        pause(50 + moment).await;
        let cancelling = tokio::spawn({
            let run = run.clone();
            async move { run.cancel("enough").await.unwrap() }
        });
        let (store, log, id) = (stage.store.clone(), stage.log.clone(), run.id());
        let watching = tokio::spawn(async move {
            loop {
                let lines = store.read(JournalId::Run(id), 0, 10_000).await.unwrap();
                if lines
                    .iter()
                    .any(|line| line.line.text.contains("cancel_requested"))
                {
                    return log.effects().len();
                }
                tokio::task::yield_now().await;
            }
        });
        let begun = watching.await.unwrap();
        assert!(cancelling.await.unwrap());
        run.quiet().await.unwrap();
        pause(1000).await;
        assert!(begun > 50, "{begun}");
        assert_eq!(stage.log.effects().len(), begun, "after {moment}");
    }
}

/// Asks its model, which asks for two calls, of which one never ends.
fn talking(stage: &Stage, fails: bool) -> (Agent, ScriptedModel) {
    let agent = Agent::from_fn("a", move |cx: RunContext| async move {
        if cx.input().content() == "next" {
            return Ok(Outcome::answer("well"));
        }
        let mut conversation = cx.conversation();
        loop {
            let said = cx.model(cx.model_request(conversation.clone())).await?;
            let calls = said.calls();
            conversation.push(said.message.clone());
            if fails && calls.len() > 1 {
                return Err(AgentError::Failed("no more".to_owned()));
            }
            let results = cx.tools(calls).await?;
            conversation.push(Message::results(results));
        }
    })
    .tool(stage.tool("look", Effect::Read, 5))
    .tool(stage.tool("slow", Effect::Read, 900_000));
    let model = ScriptedModel::turns([
        ModelResponse::tool_calls([call("c1", "look")]),
        ModelResponse::tool_calls([call("c2", "slow"), call("c3", "look")]),
    ]);
    (agent, model)
}

#[tokio::test(start_paused = true)]
async fn what_was_said_in_a_cancelled_or_failed_turn_stays_in_its_session() {
    for fails in [false, true] {
        for crashes in [false, true] {
            let mut stage = Stage::new();
            let (agent, model) = talking(&stage, fails);
            let mut system = stage.start_with(agent, model.clone()).await;
            let run = ask(&system, "a", "go").await;
            pause(700).await;
            if !fails {
                run.cancel("enough").await.unwrap();
            }
            if crashes {
                stage.crash(&system).await;
                let (agent, _) = talking(&stage, fails);
                system = stage.start_with(agent, model.clone()).await;
            }
            let _ = system.run(run.id()).outcome().await;
            let said = system.session("a", "s").transcript().await.unwrap();
            let messages = said.messages();
            assert_eq!(check_transcript(&messages), Ok(()), "{messages:?}");
            let roles: Vec<Role> = messages.iter().map(|message| message.role).collect();
            let (asks, told) = (Role::Assistant, Role::Tool);
            assert_eq!(roles, [Role::User, asks, told, asks, told, asks]);
            let statuses: Vec<ToolStatus> = messages
                .iter()
                .flat_map(|message| message.tool_results())
                .map(|result| result.status)
                .collect();
            let last = if fails {
                ToolStatus::Interrupted
            } else {
                ToolStatus::Success
            };
            let expected = [ToolStatus::Success, ToolStatus::Interrupted, last];
            assert_eq!(statuses, expected);
            let note = messages[5].content();
            let why = if fails { "no more" } else { "enough" };
            assert!(note.contains(why), "{note}");
            let next = ask(&system, "a", "next").await;
            assert_eq!(text(&next).await, "well");
        }
    }
}

/// What a function calls of itself may have the id of what its model asked for.
#[tokio::test(start_paused = true)]
async fn a_call_of_the_functions_own_is_no_answer_to_the_models_call_of_the_same_id() {
    let stage = Stage::new();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        cx.model(cx.model_request(cx.conversation())).await?;
        cx.tool_unasked(call("1", "put")).await?;
        Err(AgentError::failed("no more"))
    });
    let agent = agent
        .tool(stage.tool("look", Effect::Read, 1))
        .tool(stage.tool("put", Effect::Idempotent, 1));
    let model = ScriptedModel::replies([ModelResponse::tool_calls([call("1", "look")])]);
    let system = stage.start_with(agent, model).await;
    let run = ask(&system, "a", "go").await;
    assert!(run.outcome().await.is_err());
    let messages = system.session("a", "s").transcript().await.unwrap();
    let messages = messages.messages();
    assert_eq!(check_transcript(&messages), Ok(()), "{messages:?}");
    let results = messages.iter().flat_map(|message| message.tool_results());
    let told: Vec<_> = results.map(|r| (r.name.as_str(), r.status)).collect();
    assert_eq!(told, [("look", ToolStatus::Interrupted)]);
}

/// What a delegation came to answers the model's call that asked for it, also in a turn that fails.
#[tokio::test(start_paused = true)]
async fn a_delegation_that_ended_in_a_failed_turn_keeps_its_answer() {
    let stage = Stage::new();
    let worker = Agent::from_fn("worker", |_| async { Ok(Outcome::answer("found it")) });
    let worker = worker.define(|spec| spec.reach = Reach::Delegate);
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let said = cx.model(cx.model_request(cx.conversation())).await?;
        cx.tools(said.message.tool_calls().cloned()).await?;
        Err(AgentError::failed("no more"))
    });
    let asks = ToolCall::new("1", "delegate_to_worker", r#"{"task":"look"}"#);
    let model = ScriptedModel::replies([ModelResponse::tool_calls([asks])]);
    let system = stage.start_with(agent.agent(worker), model).await;
    let run = ask(&system, "a", "go").await;
    assert!(run.outcome().await.is_err());
    let said = system.session("a", "s").transcript().await.unwrap();
    let messages = said.messages();
    let results = messages.iter().flat_map(|message| message.tool_results());
    let told: Vec<_> = results.map(|r| (r.status, r.text.as_str())).collect();
    assert_eq!(told, [(ToolStatus::Success, "found it")]);
}

/// Says when its future is gone.
struct Gone(Arc<AtomicBool>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Waits for ever, whatever it is told.
struct Deaf(Arc<AtomicBool>);

impl Tool for Deaf {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new("deaf", "waits").effect(Effect::Read)
    }

    async fn call(&self, _: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
        let _gone = Gone(self.0.clone());
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_does_not_listen_is_ended_when_its_call_is_cancelled_and_the_run_goes_on() {
    let stage = Stage::new();
    let gone = Arc::new(AtomicBool::new(false));
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let ended = cx.tool_unasked(call("1", "deaf")).await;
        cx.sleep(Duration::from_secs(3600)).await?;
        Ok(Outcome::answer(format!("{}", ended.is_err())))
    });
    let agent = agent.tool(ToolHandle::new(Deaf(gone.clone())));
    let system = stage.start(agent).await;
    let run = ask(&system, "a", "go").await;
    pause(700).await;
    assert!(run.cancel_call(operation("0.0.0")).await.unwrap());
    let limits = stage.limits.executor.grace + Duration::from_secs(60);
    tokio::time::sleep(limits).await;
    assert!(gone.load(Ordering::SeqCst), "the call is still under way");
    assert_eq!(text(&run).await, "true");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_an_earlier_life_of_its_run_began_is_ended_when_it_is_cancelled() {
    let stage = Stage::new();
    let gone = Arc::new(AtomicBool::new(false));
    let agent = Agent::from_fn("busy", |cx: RunContext| async move {
        let ended = cx.tool_unasked(call("1", "deaf")).await;
        cx.sleep(Duration::from_secs(3600)).await?;
        Ok(Outcome::answer(format!("{}", ended.is_err())))
    });
    let agent = agent.tool(ToolHandle::new(Deaf(gone.clone())));
    let system = stage.start(agent).await;
    let run = ask(&system, "busy", "go").await;
    pause(700).await;
    assert!(kill(&system, "run").await);
    pause(1000).await;
    assert!(!gone.load(Ordering::SeqCst), "the next life waits for it");
    assert!(run.cancel_call(operation("0.0.0")).await.unwrap());
    pause(60_000).await;
    assert!(gone.load(Ordering::SeqCst), "the call is still under way");
    assert_eq!(text(&run).await, "true");
}

#[tokio::test(start_paused = true)]
async fn the_child_of_a_cancelled_delegation_is_cancelled_while_its_parent_goes_on() {
    let stage = Stage::new();
    let worker = Agent::from_fn("worker", |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(900)).await?;
        Ok(Outcome::answer("late"))
    });
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let ended = cx.delegate("worker", "go").await;
        cx.sleep(Duration::from_secs(3600)).await?;
        Ok(Outcome::answer(format!("{}", ended.is_err())))
    });
    let system = stage.start(agent.agent(worker)).await;
    let run = ask(&system, "a", "go").await;
    pause(700).await;
    assert!(run.cancel_call(operation("0.0.0")).await.unwrap());
    pause(1000).await;
    for row in stage.rows().await {
        let expected = match row.parent {
            None => RunStatus::Waiting,
            Some(_) => RunStatus::Cancelled,
        };
        assert_eq!(row.status, expected, "{}", row.agent);
    }
    assert_eq!(text(&run).await, "true");
}

#[tokio::test(start_paused = true)]
async fn a_change_of_state_that_was_made_has_one_end_although_its_run_is_cancelled_later() {
    let stage = Stage::new();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        cx.state(Scope::Session).set("colour", &"red").await?;
        cx.sleep(Duration::from_secs(900)).await?;
        Ok(Outcome::answer("late"))
    });
    let system = stage.start(agent).await;
    let run = ask(&system, "a", "go").await;
    pause(700).await;
    run.cancel("enough").await.unwrap();
    run.quiet().await.unwrap();
    let entries = stage.entries(run.id()).await;
    let ends = entries.iter().filter(|entry| match entry {
        Entry::Completed { op, .. } | Entry::Dropped { op, .. } => *op == operation("0.0.0"),
        _ => false,
    });
    assert_eq!(ends.count(), 1, "{entries:?}");
}
