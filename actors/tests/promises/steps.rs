//! Each step of an agent has one event of its beginning and one of its end.

use std::{collections::BTreeMap, time::Duration};

use futures_util::future::join_all;
use ghostlight_actors::{
    actor::Run,
    run::{Agent, RunContext},
    testing::ScriptedModel,
    vocabulary::{
        AgentError, Effect, Event, EventRecord, Message, ModelResponse, OperationId, Outcome,
        RunId, ToolCall, Transfer,
    },
};
use serde_json::json;

use crate::stage::{Stage, ask, call, outcome, pause};

/// Asks, calls what the model asks for, and asks again until it asks for nothing.
async fn work(cx: &RunContext) -> Result<String, AgentError> {
    let mut conversation = cx.conversation();
    loop {
        let said = cx.model(cx.model_request(conversation.clone())).await?;
        let calls = said.calls();
        if calls.is_empty() {
            return Ok(said.content());
        }
        conversation.push(said.message.clone());
        conversation.push(Message::results(cx.tools(calls).await?));
    }
}

fn working(name: &str) -> Agent {
    Agent::from_fn(name, |cx: RunContext| async move {
        Ok(Outcome::answer(work(&cx).await?))
    })
}

/// Asks for two calls, one of which goes to another agent or to nobody, and answers then.
fn model() -> ScriptedModel {
    ScriptedModel::from_fn(|request, _| {
        let messages = request.conversation.messages();
        let is_asked = messages.last().is_some_and(|message| {
            message.tool_results().next().is_none() && !request.tools.is_empty()
        });
        Ok(match is_asked {
            true => ModelResponse::tool_calls([
                call("1", "look"),
                ToolCall::new("2", "delegate_to_helper", json!({ "task": "help" })),
                call("3", "no such tool"),
            ]),
            false => ModelResponse::text("done"),
        })
    })
}

async fn recorded(run: &Run) -> Vec<EventRecord> {
    run.events().recorded().so_far().await.unwrap()
}

/// What happened in a run, in short.
fn told(records: &[EventRecord], run: RunId) -> Vec<String> {
    let of_run = records.iter().filter(|record| record.run == run);
    of_run
        .filter_map(|record| match &record.event {
            Event::StepStarted { step, .. } => Some(format!("({step}")),
            Event::StepEnded {
                step,
                calls,
                answered,
                ..
            } => Some(format!("{answered}/{calls} {step})")),
            Event::ModelCalled { .. } => Some("model".to_owned()),
            Event::OperationFailed { kind, .. } => Some(format!("{kind} failed")),
            Event::ToolCalled { result, .. } => Some(format!("result {}", result.call_id)),
            Event::LegStarted { .. } => Some("leg".to_owned()),
            Event::RunEnded { .. } => Some("end".to_owned()),
            _ => None,
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_step_begins_with_its_model_call_and_ends_with_the_last_result_of_its_calls() {
    let stage = Stage::new();
    let agent = working("a")
        .tool(stage.tool("look", Effect::Read, 5))
        .delegate_to(Agent::from_fn("helper", |cx: RunContext| async move {
            Ok(Outcome::answer(work(&cx).await?))
        }));
    let system = stage.start_with(agent, model()).await;
    let run = ask(&system, "a", "go").await;
    let mut stream = run.events().recorded();
    let mut live = Vec::new();
    while let Some(event) = stream.next().await {
        live.push(event.unwrap());
    }
    let later = recorded(&run).await;
    assert_eq!(live, later);
    let told_of_run = told(&later, run.id());
    let mut results: Vec<&str> = told_of_run[2..5].iter().map(String::as_str).collect();
    results.sort_unstable();
    assert_eq!(results, ["result 1", "result 2", "result 3"]);
    assert_eq!(told_of_run[..2], ["(1", "model"]);
    assert_eq!(told_of_run[5..], ["3/3 1)", "(2", "model", "0/0 2)", "end"]);
    let helper = later.iter().find(|record| record.run != run.id()).unwrap();
    assert_eq!(told(&later, helper.run), ["(1", "model", "0/0 1)", "end"]);
}

#[tokio::test(start_paused = true)]
async fn steps_of_branches_side_by_side_do_not_end_each_other() {
    let stage = Stage::new();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let branches = (0..3).map(|n| {
            let branch = cx.lane(format!("branch {n}"));
            async move {
                branch.sleep(Duration::from_millis(20 * n)).await?;
                work(&branch).await
            }
        });
        for said in join_all(branches).await {
            said?;
        }
        Ok(Outcome::answer("done"))
    })
    .tool(stage.tool("look", Effect::Read, 100));
    let system = stage.start_with(agent, model()).await;
    let run = ask(&system, "a", "go").await;
    outcome(&run).await;
    let records = recorded(&run).await;
    let ends = records.iter().filter_map(|record| match &record.event {
        Event::StepEnded {
            calls, answered, ..
        } => Some((*answered, *calls)),
        _ => None,
    });
    let mut ends: Vec<(u32, u32)> = ends.collect();
    ends.sort_unstable();
    assert_eq!(ends, [(0, 0), (0, 0), (0, 0), (3, 3), (3, 3), (3, 3)]);
}

/// That each step has one beginning and one end, in this order, and of a step nothing comes outside of
/// the two.
fn check(records: &[EventRecord]) {
    let mut open: BTreeMap<(RunId, u32), OperationId> = BTreeMap::new();
    let mut begun: BTreeMap<RunId, u32> = BTreeMap::new();
    let mut ids = Vec::new();
    for record in records {
        ids.push(record.id().unwrap());
        match &record.event {
            Event::StepStarted { step, operation } => {
                let count = begun.entry(record.run).or_default();
                *count += 1;
                assert_eq!(count, step);
                assert_eq!(open.insert((record.run, *step), *operation), None);
            }
            Event::StepEnded {
                step,
                operation,
                calls,
                answered,
            } => {
                assert_eq!(open.remove(&(record.run, *step)), Some(*operation));
                assert!(answered <= calls);
            }
            Event::ModelCalled { operation, .. } => {
                assert!(open.values().any(|of| of == operation), "{record}");
            }
            Event::RunEnded { .. } => {
                let left = open.keys().filter(|(run, _)| *run == record.run);
                assert_eq!(left.count(), 0, "a step has no end");
            }
            _ => {}
        }
    }
    assert!(open.is_empty(), "{open:?}");
    assert!(!begun.is_empty());
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count, "two events have one id");
}

#[tokio::test(start_paused = true)]
async fn whatever_becomes_of_a_step_it_has_one_end() {
    let stage = Stage::new();
    // Branches side by side, calls that nobody makes, a model that fails, and another leg.
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let ask =
            |cx: RunContext| async move { cx.model(cx.model_request(cx.conversation())).await };
        let branches = (0..3).map(|n| ask(cx.lane(format!("branch {n}"))));
        for said in join_all(branches).await {
            drop(said?.calls());
        }
        let mut request = cx.model_request(cx.conversation());
        request.tools = Default::default();
        cx.model(request.clone()).await?;
        request.conversation.push(Message::user("fail"));
        cx.model(request).await.unwrap_err();
        work(&cx).await?;
        Ok(Outcome::Transfer(Transfer::to("b")))
    })
    .tool(stage.tool("look", Effect::Read, 5))
    .agent(
        Agent::from_fn("b", |cx: RunContext| async move {
            let said = cx.think().await?;
            cx.tool_unasked(said.calls().remove(0)).await?;
            cx.sleep(Duration::from_secs(3600)).await?;
            Ok(Outcome::answer("never"))
        })
        .tool_named("look")
        .reach(ghostlight_actors::definition::Reach::Transfer),
    );
    let model = ScriptedModel::from_fn(|request, _| {
        let last = request.conversation.messages().last().cloned();
        if last.as_ref().is_some_and(|last| last.content() == "fail") {
            return Err(ghostlight_actors::contract::ModelError::new(
                ghostlight_actors::vocabulary::ErrorKind::InvalidInput,
                "as it was told",
            ));
        }
        let is_answered = last.is_some_and(|last| last.tool_results().next().is_some());
        Ok(match is_answered || request.tools.is_empty() {
            true => ModelResponse::text("done"),
            false => ModelResponse::tool_calls([call("1", "look"), call("2", "look")]),
        })
    });
    let system = stage.start_with(agent, model).await;
    let run = ask(&system, "a", "go").await;
    pause(60_000).await;
    assert!(
        run.cancel("enough").await.unwrap(),
        "{:?}",
        run.outcome().await
    );
    outcome(&run).await;
    let records = recorded(&run).await;
    check(&records);
    let told = told(&records, run.id());
    let failed = told.iter().position(|told| told == "model failed").unwrap();
    assert_eq!(
        told[failed - 1..=failed + 1],
        ["(5", "model failed", "0/0 5)"]
    );
    assert!(told.ends_with(&["1/2 8)".into(), "end".into()]), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_reader_goes_on_after_any_event_with_exactly_those_that_follow() {
    let stage = Stage::new();
    let agent = working("a")
        .tool(stage.tool("look", Effect::Read, 5))
        .delegate_to(working("helper"));
    let system = stage.start_with(agent, model()).await;
    let run = ask(&system, "a", "go").await;
    outcome(&run).await;
    let all = recorded(&run).await;
    check(&all);
    for (place, stopped) in all.iter().enumerate() {
        let events = run.events().recorded();
        let rest = events.after_event(stopped.position.unwrap(), stopped.part);
        let rest = rest.so_far().await.unwrap();
        assert_eq!(rest, all[place + 1..], "after {stopped}");
        let mut live = run.events().recorded().after(stopped.position.unwrap());
        let mut read = Vec::new();
        while let Some(record) = live.next().await {
            read.push(record.unwrap());
        }
        let behind: Vec<EventRecord> = all[place..]
            .iter()
            .filter(|record| record.position > stopped.position)
            .cloned()
            .collect();
        assert_eq!(read, behind, "after {stopped}");
    }
}
