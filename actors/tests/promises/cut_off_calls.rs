//! A call that the end of its run cuts off has an event of its result, as every other call does.

use std::{collections::BTreeMap, time::Duration};

use ghostlight_actors::{
    actor::{Run, System},
    contract::{Tool, ToolContext, ToolError, ToolOutput},
    definition::ApprovalRule,
    run::{Agent, RunContext},
    testing::ScriptedModel,
    vocabulary::{
        AgentError, AnsweredBy, Arguments, Budget, Effect, Event, EventRecord, ModelResponse,
        Outcome, ToolCall, ToolDefinition, ToolStatus,
    },
};
use serde_json::json;

use crate::stage::{Stage, ask, call, outcome, pause};

const LONG: u64 = 3_600_000;

/// An agent whose model asks for five calls at once, of which one comes to an end.
fn agent(stage: &Stage) -> Agent {
    let helper = Agent::from_fn("helper", |cx: RunContext| async move {
        cx.ask("Shall I?").await?;
        Ok(Outcome::answer("never"))
    });
    Agent::from_fn("a", |cx: RunContext| async move {
        let said = cx.model(cx.model_request(cx.conversation())).await?;
        cx.tools(said.calls()).await?;
        Ok(Outcome::answer("done"))
    })
    .tool(stage.tool("look", Effect::Read, 5))
    .tool(stage.tool("watch", Effect::Read, LONG))
    .tool(stage.tool("pay", Effect::Once, LONG))
    .tool(stage.tool("wipe", Effect::Once, 1))
    .approval("wipe", ApprovalRule::required())
    .delegate_to(helper)
}

fn model() -> ScriptedModel {
    ScriptedModel::replies([ModelResponse::tool_calls([
        call("1", "look"),
        ToolCall::new("2", "watch", json!({ "password": "hunter2" })),
        call("3", "pay"),
        call("4", "wipe"),
        ToolCall::new("5", "delegate_to_helper", json!({ "task": "help" })),
    ])])
}

async fn recorded(run: &Run) -> Vec<EventRecord> {
    run.events().recorded().so_far().await.unwrap()
}

/// The results of the calls of this run, by the ids of the calls.
fn results(records: &[EventRecord], run: &Run) -> BTreeMap<String, (ToolStatus, String)> {
    let mut told = BTreeMap::new();
    for record in records.iter().filter(|record| record.run == run.id()) {
        if let Event::ToolCalled { result, call, .. } = &record.event {
            if result.status == ToolStatus::Interrupted {
                let call = call.as_ref().unwrap();
                assert_eq!(call.by, AnsweredBy::Engine);
                assert!(!call.arguments.text().contains("hunter2"));
            }
            let end = (result.status, result.text.clone());
            let twice = told.insert(result.call_id.clone(), end);
            assert!(twice.is_none(), "{} is told twice", result.call_id);
        }
    }
    told
}

fn statuses(told: &BTreeMap<String, (ToolStatus, String)>) -> Vec<(&str, ToolStatus)> {
    told.iter().map(|(id, end)| (id.as_str(), end.0)).collect()
}

const EXPECTED: [(&str, ToolStatus); 5] = [
    ("1", ToolStatus::Success),
    ("2", ToolStatus::Interrupted),
    // It may have happened.
    ("3", ToolStatus::Unknown),
    ("4", ToolStatus::Interrupted),
    ("5", ToolStatus::Interrupted),
];

#[tokio::test(start_paused = true)]
async fn each_call_of_a_cancelled_run_has_one_result_live_and_later() {
    for crashes in [false, true] {
        let mut stage = Stage::new();
        let mut system: System = stage.start_with(agent(&stage), model()).await;
        let mut run = ask(&system, "a", "go").await;
        pause(2_000).await;
        if crashes {
            stage.crash(&system).await;
            system = stage.start_with(agent(&stage), model()).await;
            run = system.run(run.id());
            pause(2_000).await;
        }
        let mut stream = run.events().recorded();
        run.cancel("enough").await.unwrap();
        let mut live = Vec::new();
        while let Some(event) = stream.next().await {
            live.push(event.unwrap());
        }
        let later = recorded(&run).await;
        assert_eq!(live, later);
        let told = results(&later, &run);
        assert_eq!(statuses(&told), EXPECTED, "crashes: {crashes}");
        assert!(told["2"].1.contains("enough"), "{}", told["2"].1);
        // They come before the ends of their step and their run, and no two have one id.
        let of_run = later.iter().filter(|record| record.run == run.id());
        let names: Vec<&str> = of_run.map(|record| record.event.name()).collect();
        // The next life knows of the call in doubt, and its model is told.
        let cut_off = if crashes { 3 } else { 4 };
        let (rest, ends) = names.split_at(names.len() - 2);
        assert_eq!(ends, ["step_ended", "run_ended"]);
        assert!(rest.ends_with(&vec!["tool_called"; cut_off]), "{names:?}");
        let operations: Vec<_> = later
            .iter()
            .filter_map(|record| match &record.event {
                Event::ToolCalled { operation, .. } => Some((record.run, *operation)),
                _ => None,
            })
            .collect();
        let distinct: std::collections::BTreeSet<_> = operations.iter().collect();
        assert_eq!(distinct.len(), operations.len());
        let Some(Event::StepEnded {
            calls, answered, ..
        }) = later
            .iter()
            .map(|record| &record.event)
            .find(|event| matches!(event, Event::StepEnded { calls: 5, .. }))
        else {
            panic!("the step has no end");
        };
        assert_eq!((*calls, *answered as usize), (5, 5 - cut_off));
    }
}

#[tokio::test(start_paused = true)]
async fn a_bound_on_time_and_a_failure_cut_calls_off_in_the_same_way() {
    let stage = Stage::new();
    let system = stage.start_with(agent(&stage), model()).await;
    let budget = Budget {
        wall_time: Some(Duration::from_secs(30)),
        ..Budget::default()
    };
    let turn = ghostlight_actors::session::Turn::text("go").budget(budget);
    let run = system.session("a", "s").send(turn).await.unwrap();
    let stopped = outcome(&run).await;
    assert!(stopped.stop_reason().is_some());
    assert_eq!(statuses(&results(&recorded(&run).await, &run)), EXPECTED);
    system.stop().await.unwrap();

    // The function leaves its calls and fails.
    let stage = Stage::new();
    let fails = Agent::from_fn("a", |cx: RunContext| async move {
        let said = cx.model(cx.model_request(cx.conversation())).await?;
        cx.tool_unasked(said.calls().remove(0)).await?;
        Err::<Outcome, _>(AgentError::failed("no more"))
    });
    let fails = fails.tool(stage.tool("look", Effect::Read, 5));
    let model = ScriptedModel::replies([ModelResponse::tool_calls([
        call("1", "look"),
        call("2", "look"),
    ])]);
    let system = stage.start_with(fails, model).await;
    let run = ask(&system, "a", "go").await;
    run.outcome().await.unwrap_err();
    let told = results(&recorded(&run).await, &run);
    let expected = [("1", ToolStatus::Success), ("2", ToolStatus::Interrupted)];
    assert_eq!(statuses(&told), expected);
    assert!(told["2"].1.contains("no more"), "{}", told["2"].1);
}

/// Calls that a function leaves aside by itself were not cut off.
#[tokio::test(start_paused = true)]
async fn a_function_that_makes_no_use_of_its_calls_and_answers_cuts_nothing_off() {
    let stage = Stage::new();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        cx.model(cx.model_request(cx.conversation())).await?;
        Ok(Outcome::answer("I know it"))
    });
    let agent = agent.tool(stage.tool("look", Effect::Read, 5));
    let model = ScriptedModel::replies([ModelResponse::tool_calls([call("1", "look")])]);
    let system = stage.start_with(agent, model).await;
    let run = ask(&system, "a", "go").await;
    outcome(&run).await;
    assert!(results(&recorded(&run).await, &run).is_empty());
}

/// Always fails.
struct Broken;

impl Tool for Broken {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new("break", "fails").effect(Effect::Read)
    }

    async fn call(&self, _: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
        Err(ToolError::new("broken"))
    }
}

/// As many calls as an answer may have by far, each with arguments of a kilobyte.
#[tokio::test(start_paused = true)]
async fn of_thousands_of_calls_that_fail_or_are_cut_off_each_has_one_result() {
    const MANY: usize = 1_000;
    let stage = Stage::alone();
    let asked = |from: usize, name: &str| -> Vec<ToolCall> {
        let filling = "x".repeat(1_000);
        let call = |n: usize| ToolCall::new(n.to_string(), name, json!({ "n": n, "x": filling }));
        (from..from + MANY).map(call).collect()
    };
    let calls = [asked(0, "break"), asked(MANY, "watch")].concat();
    let model = ScriptedModel::replies([ModelResponse::tool_calls(calls)]);
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let said = cx.model(cx.model_request(cx.conversation())).await?;
        cx.tools(said.calls()).await?;
        Ok(Outcome::answer("done"))
    })
    .tool(Broken)
    .tool(stage.tool("watch", Effect::Read, LONG));
    let system = stage.start_with(agent, model).await;
    let run = ask(&system, "a", "go").await;
    pause(20_000).await;
    assert!(run.cancel("enough").await.unwrap());
    outcome(&run).await;
    let told = results(&recorded(&run).await, &run);
    let of = |status| told.values().filter(|end| end.0 == status).count();
    assert_eq!(
        (of(ToolStatus::Error), of(ToolStatus::Interrupted)),
        (MANY, MANY)
    );
}
