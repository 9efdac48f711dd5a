//! What a person says to a run is heard, whatever the behavior is doing just then.

use std::time::Duration;

use ghostlight::tools::tool_fn;
use ghostlight_actors::{
    contract::ToolHandle,
    run::{Policy, PolicyContext, Verdict},
    testing::{InMemoryStore, ScriptedModel},
    vocabulary::{
        AgentError, Effect, Event, ModelRequest, ModelResponse, StopReason, ToolDefinition,
    },
};
use serde_json::{Value, json};

use crate::stage::{Stage, call, desk, echo};

/// Answers by what it is asked for, so that a call more or less changes nothing.
fn reply(behavior: &str, request: &ModelRequest) -> String {
    let instructions = &request.instructions;
    if instructions.contains("Do not do the task yet") {
        let plan = if behavior == "rewoo" {
            "#E1 = llm[x]"
        } else {
            "1. a\n2. b"
        };
        return plan.to_owned();
    }
    if instructions.starts_with("You are a strict and fair critic") {
        return json!({"approved": true, "score": 9, "critique": "none"}).to_string();
    }
    if behavior == "react" {
        "Final: done".to_owned()
    } else {
        "done".to_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn a_word_in_time_reaches_the_answer_of_every_behavior() {
    for (behavior, calls) in [
        ("simple", 1),
        ("function_calling", 1),
        ("react", 1),
        ("reflection", 2),
        ("plan_and_solve", 4),
        ("rewoo", 3),
    ] {
        for spoken_at in 0..calls {
            let answer =
                move |request: &ModelRequest, _| Ok(ModelResponse::text(reply(behavior, request)));
            let model = ScriptedModel::from_fn(answer).delay(Duration::from_secs(1));
            let stage = Stage::with(desk(behavior, json!({})).tool(echo()), model).await;
            let run = stage.say("go").await;
            tokio::time::sleep(Duration::from_millis(500 + 1000 * spoken_at)).await;
            run.steer("mind the gap").await.unwrap();
            assert_eq!(run.outcome().await.unwrap().text(), "done");
            stage.check();
            let requests = stage.model.requests();
            let answered = requests.iter().rev().find(|request| {
                !request
                    .instructions
                    .starts_with("You are a strict and fair critic")
            });
            let last = crate::stage::said(&answered.unwrap().conversation.messages());
            let heard = last.iter().any(|line| line == "user: mind the gap");
            assert!(
                heard,
                "{behavior}, spoken to in model call {spoken_at}: {last:#?}"
            );
        }
    }
}

/// A tool that takes three seconds.
fn slow() -> ToolHandle {
    let definition = ToolDefinition::new("slow", "Takes its time.").effect(Effect::Read);
    tool_fn(definition, |_: Value| async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        Ok("it took long")
    })
}

/// Calls the slow tool once, in the way of each behavior.
fn with_slow_tool(behavior: &str, request: &ModelRequest) -> ModelResponse {
    let plain = reply(behavior, request);
    let said = crate::stage::said(&request.conversation.messages()).join("\n");
    let plans = request.instructions.contains("Do not do the task yet");
    let judges = request.instructions.starts_with("You are a strict");
    let is_done = said.contains("it took long") || said.contains("1. a\n   done");
    match behavior {
        _ if judges || is_done => ModelResponse::text(plain),
        "rewoo" if plans => ModelResponse::text("#E1 = slow[x]"),
        "plan_and_solve" if plans => ModelResponse::text("1. a"),
        "react" => ModelResponse::text("Action: slow\nArgs: {}"),
        _ if plans => ModelResponse::text(plain),
        _ => ModelResponse::tool_calls([call("c", "slow", json!({}))]),
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_said_while_a_tool_runs_is_in_the_very_next_request() {
    // The number of model calls before the tool's, and of all that are made when nobody says a thing.
    for (behavior, before, all) in [
        ("function_calling", 1, 2),
        ("react", 1, 2),
        ("reflection", 1, 3),
        ("plan_and_solve", 2, 4),
        ("rewoo", 1, 2),
    ] {
        for dies in [false, true] {
            let answer = move |request: &ModelRequest, _| Ok(with_slow_tool(behavior, request));
            let model = || ScriptedModel::from_fn(answer).delay(Duration::from_millis(100));
            let store = InMemoryStore::new();
            let agent = || desk(behavior, json!({})).tool(slow());
            let mut stage = Stage::on(&store, agent(), model()).await;
            let mut run = stage.say("go").await;
            tokio::time::sleep(Duration::from_secs(2)).await;
            assert_eq!(stage.calls(), before, "{behavior}: the tool runs");
            run.steer("do NOT write any note").await.unwrap();
            let mut made = before;
            if dies {
                // While the model answers the request that has it.
                tokio::time::sleep(Duration::from_millis(1_000 + 100 * before as u64 + 50)).await;
                assert_eq!(stage.calls(), before + 1, "{behavior}");
                store.crash();
                stage = Stage::on(&store.another_process(), agent(), model()).await;
                run = stage.system.run(run.id());
                made = 0;
            }
            assert_eq!(run.outcome().await.unwrap().text(), "done", "{behavior}");
            stage.check();
            let next = stage.said(made);
            let heard = next.iter().filter(|said| said.contains("do not write"));
            assert_eq!(heard.count(), 1, "{behavior}, {dies}: {next:#?}");
            let again = if dies { before } else { 0 };
            assert_eq!(stage.calls() + again, all, "{behavior}: no call more");
            let records = run.events().so_far().await.unwrap();
            let drifted = records
                .iter()
                .any(|record| matches!(record.event, Event::Drifted { .. }));
            assert!(!drifted, "{behavior}");
            // The session keeps it where it was said.
            let _ = stage.try_ask("and?").await;
            let last = stage.calls() - 1;
            let kept = stage.said(last);
            let kept = kept.iter().filter(|said| said.contains("do not write"));
            assert_eq!(kept.count(), 1, "{behavior}");
        }
    }
}

/// Takes a second to judge an answer.
struct Judge;

impl Policy for Judge {
    async fn before_answer(
        &mut self,
        cx: &PolicyContext<'_>,
        _: &str,
    ) -> Result<Verdict, AgentError> {
        cx.sleep(Duration::from_secs(1)).await?;
        Ok(Verdict::Accept)
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_said_while_an_answer_is_judged_is_answered() {
    let model = ScriptedModel::replies(["done", "in French: fini"]);
    let agent = desk("function_calling", json!({})).policy("judge", || Judge);
    let stage = Stage::with(agent, model.delay(Duration::from_secs(1))).await;
    let run = stage.say("go").await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    run.steer("in French").await.unwrap();
    assert_eq!(run.outcome().await.unwrap().text(), "in French: fini");
    stage.check();
    assert_eq!(stage.last(1), "user: in french");
}

#[tokio::test(start_paused = true)]
async fn what_is_said_while_the_last_answer_is_judged_does_not_spoil_it() {
    let agent = desk("function_calling", json!({})).policy("judge", || Judge);
    let model = ScriptedModel::replies(["done"]).delay(Duration::from_secs(1));
    let stage = Stage::with(agent.max_steps(1), model).await;
    let run = stage.say("go").await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    run.steer("in French").await.unwrap();
    let outcome = run.outcome().await.unwrap();
    assert_eq!((outcome.text(), outcome.stop_reason()), ("done", None));
    stage.check();
}

#[tokio::test(start_paused = true)]
async fn what_was_heard_stays_in_the_session_of_a_run_that_is_cancelled() {
    let model = ScriptedModel::from_fn(|request, _| {
        let said = crate::stage::said(&request.conversation.messages()).join("\n");
        Ok(match said.contains("it took long") {
            false => ModelResponse::tool_calls([call("c", "slow", json!({}))]),
            true => ModelResponse::text("ok"),
        })
    });
    let agent = desk("function_calling", json!({})).tool(slow());
    let stage = Stage::with(agent, model.delay(Duration::from_secs(1))).await;
    let run = stage.say("go").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    run.steer("mind the gap").await.unwrap();
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    run.cancel("enough").await.unwrap();
    let outcome = run.outcome().await.unwrap();
    assert!(matches!(
        outcome.stop_reason(),
        Some(StopReason::Cancelled(_))
    ));
    stage.ask("and?").await;
    let kept = stage.said(stage.calls() - 1);
    let heard = kept.iter().position(|said| said == "user: mind the gap");
    assert_eq!(heard, Some(3), "{kept:#?}");
}
