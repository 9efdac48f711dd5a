//! Programs that a model writes, in a team: their calls are calls of the agent like any other.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::{path::PathBuf, sync::Arc, time::Duration};

use ghostlight::{
    contract::ToolHandle,
    definition::{ApprovalRule, BehaviorSpec},
    prelude::*,
    testing::{CrashOptions, Reply, Scenario, crash_everywhere},
    vocabulary::{Event, StopReason, ToolCall, ToolDefinition},
};
use parking_lot::Mutex;
use serde_json::{Value, json};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Text {
    /// Any text.
    text: String,
}

/// What tools were told, in order.
type Told = Arc<Mutex<Vec<String>>>;

fn tool(name: &'static str, effect: Effect, told: &Told) -> ToolHandle {
    let told = told.clone();
    let definition = ToolDefinition::new(name, format!("Does {name}.")).effect(effect);
    tool_fn(definition, move |text: Text| {
        told.lock().push(format!("{name} {}", text.text));
        async move { Ok(format!("{name} is done: {}", text.text)) }
    })
}

/// An agent whose tasks are programs.
fn python(settings: Value) -> Agent {
    let mut all = json!({ "launcher": env!("CARGO_BIN_EXE_ghostlight"), "timeout_s": 10 });
    let all_of = all.as_object_mut().unwrap();
    all_of.extend(settings.as_object().unwrap().clone());
    Agent::new("python").behavior(BehaviorSpec::new("code").settings(all))
}

async fn start(store: &InMemoryStore, model: ScriptedModel, agent: Agent) -> System {
    System::builder(store.clone())
        .registry(ghostlight::builtin())
        .model("default", model)
        .team(agent.into_team().unwrap())
        .start()
        .await
        .unwrap()
}

#[tokio::test]
async fn a_program_is_one_call_of_the_model_and_its_calls_are_recorded() {
    let told = Told::default();
    let worker = python(json!({}))
        .tool(tool("look", Effect::Read, &told))
        .tool(tool("send", Effect::Once, &told));
    let program = "for n in range(3):\n    last = call('look', {'text': str(n)})\nprint(last, call('send', {'text': 'x'}))";
    let call = ToolCall::new("1", "delegate_to_python", json!({ "task": program }));
    let model = ScriptedModel::turns([
        Reply::from(ModelResponse::tool_calls([call])),
        "Sent.".into(),
    ]);
    let store = InMemoryStore::new();
    let system = start(
        &store,
        model.clone(),
        Agent::new("desk").delegate_to(worker),
    )
    .await;
    let run = system.session("desk", "s").send("go").await.unwrap();
    assert_eq!(run.outcome().await.unwrap().text(), "Sent.");
    assert_eq!(*told.lock(), ["look 0", "look 1", "look 2", "send x"]);
    // The model reads one result, and nothing of the calls that it did not ask for.
    let said = model.requests()[1].conversation.messages();
    let results = said.iter().flat_map(|message| message.tool_results());
    let results: Vec<&str> = results.map(|result| result.text.as_str()).collect();
    assert_eq!(results, ["look is done: 2 send is done: x"]);
    // Each call is in the tree's record.
    let records = run.events().so_far().await.unwrap();
    let called = records.iter().filter(|record| {
        matches!(&record.event, Event::ToolCalled { result, .. } if result.name == "look" || result.name == "send")
    });
    assert_eq!(called.count(), 4);
    system.stop().await.unwrap();
}

/// Real processes take real time, so no clock is paused here.
#[tokio::test]
async fn a_program_that_is_killed_anywhere_makes_no_call_twice() {
    let scenario = Scenario::new("python", |builder, log| {
        let tool = |name: &str, effect| {
            let definition = ToolDefinition::new(name, "Is logged.").effect(effect);
            log.tool(definition, Duration::ZERO)
        };
        let worker = python(json!({}))
            .tool(tool("look", Effect::Read))
            .tool(tool("send", Effect::Once))
            .tool(tool("keep", Effect::Idempotent));
        builder
            .registry(ghostlight::builtin())
            .team(worker.into_team().unwrap())
    })
    .turn("call('look')\ncall('send')\nprint(call_all([('keep', {}), ('look', {})]))");
    let report = crash_everywhere(&scenario, CrashOptions::default()).await;
    assert!(report.outcomes[0].contains("keep"), "{:?}", report.outcomes);
    assert!(report.crashes > 10, "{report}");
    assert!(report.violations.is_empty(), "{report}");
}

#[tokio::test]
async fn a_call_of_a_program_waits_for_a_person_over_a_restart() {
    let told = Told::default();
    let worker = || {
        python(json!({}))
            .tool(tool("look", Effect::Read, &told))
            .tool(tool("send", Effect::Once, &told))
            .approval("send", ApprovalRule::required())
    };
    let store = InMemoryStore::new();
    let no_model = || ScriptedModel::replies(Vec::<&str>::new());
    let system = start(&store, no_model(), worker()).await;
    let program = "call('look', {'text': 'a'})\nfor text in 'bc':\n    try: print(call('send', {'text': text}))\n    except ToolError as error: print(error.status)";
    let run = system.session("python", "s").send(program).await.unwrap();
    let id = run.id();
    run.wait().await.unwrap();
    assert_eq!(*told.lock(), ["look a"]);
    store.crash();
    drop(system);

    let system = start(&store.another_process(), no_model(), worker()).await;
    let run = system.run(id);
    for approved in [true, false] {
        run.wait().await.unwrap();
        let (asking, operation, question) = run.questions().await.unwrap().remove(0);
        assert!(question.prompt.contains("send"), "{}", question.prompt);
        let answer = json!({ "approved": approved });
        system.run(asking).answer(operation, answer).await.unwrap();
    }
    let outcome = run.outcome().await.unwrap();
    assert_eq!(outcome.text(), "send is done: b\ndenied");
    // What was recorded before the restart was not done again.
    assert_eq!(*told.lock(), ["look a", "send b"]);
    system.stop().await.unwrap();
}

#[tokio::test]
async fn a_program_that_depends_on_chance_is_ended_when_it_is_run_again() {
    let told = Told::default();
    let worker = || {
        python(json!({}))
            .tool(tool("look", Effect::Read, &told))
            .tool(tool("send", Effect::Once, &told))
            .approval("send", ApprovalRule::required())
    };
    let store = InMemoryStore::new();
    let no_model = || ScriptedModel::replies(Vec::<&str>::new());
    let system = start(&store, no_model(), worker()).await;
    let program = "import os\ncall('look', {'text': os.urandom(8).hex()})\nprint(call('send', {'text': 'x'}))";
    let run = system.session("python", "s").send(program).await.unwrap();
    let id = run.id();
    run.wait().await.unwrap();
    store.crash();
    drop(system);
    let system = start(&store.another_process(), no_model(), worker()).await;
    let run = system.run(id);
    run.wait().await.unwrap();
    let (asking, operation, _) = run.questions().await.unwrap().remove(0);
    system
        .run(asking)
        .answer(operation, true.into())
        .await
        .unwrap();
    let error = run.outcome().await.unwrap_err().to_string();
    assert!(error.contains("depends on the time, on chance"), "{error}");
    assert!(error.contains("not repeated: look, send"), "{error}");
    assert_eq!(told.lock().len(), 2);
    system.stop().await.unwrap();
}

#[tokio::test]
async fn what_holds_for_the_agent_holds_for_its_programs() {
    let told = Told::default();
    let program = "for n in range(4):\n    try: call('look', {'text': str(n)})\n    except ToolError as error: print(error.status)";
    // A policy that bounds a tool.
    let limits = json!({ "calls": { "look": 2 } });
    let worker = python(json!({}))
        .tool(tool("look", Effect::Read, &told))
        .policy("tool_limits", limits);
    let store = InMemoryStore::new();
    let no_model = || ScriptedModel::replies(Vec::<&str>::new());
    let system = start(&store, no_model(), worker).await;
    let run = system.session("python", "s").send(program).await.unwrap();
    assert_eq!(run.outcome().await.unwrap().text(), "blocked\nblocked");
    assert_eq!(told.lock().len(), 2);
    system.stop().await.unwrap();
    // A budget of the run.
    let worker = python(json!({})).tool(tool("look", Effect::Read, &told));
    let budget = Budget {
        tool_calls: Some(1),
        ..Budget::default()
    };
    let team = worker.into_team().unwrap().budget(budget);
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .model("default", no_model())
        .team(team)
        .start()
        .await
        .unwrap();
    let run = system.session("python", "s").send(program).await.unwrap();
    let outcome = run.outcome().await.unwrap();
    assert!(
        matches!(outcome.stop_reason(), Some(StopReason::BudgetExhausted(_))),
        "{outcome:?}"
    );
    assert_eq!(told.lock().len(), 3);
    system.stop().await.unwrap();
}

#[tokio::test]
async fn a_cancelled_run_leaves_no_process() {
    let told = Told::default();
    let worker = python(json!({})).tool(tool("look", Effect::Read, &told));
    let store = InMemoryStore::new();
    let system = start(&store, ScriptedModel::replies(["x"]), worker).await;
    let program = "import os\ncall('look', {'text': str(os.getpid())})\nwhile True: pass";
    let run = system.session("python", "s").send(program).await.unwrap();
    while told.lock().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let process = told.lock()[0].replace("look ", "/proc/");
    assert!(PathBuf::from(&process).exists());
    run.cancel("no longer needed").await.unwrap();
    let _ = run.outcome().await;
    // Its entry is there until its parent has heard of its end.
    while std::fs::read_to_string(format!("{process}/cmdline")).is_ok_and(|line| !line.is_empty()) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    system.stop().await.unwrap();
}

#[test]
fn a_team_file_that_this_machine_cannot_run_is_refused_with_what_is_missing() {
    let text =
        "agent:\n  name: python\n  behavior:\n    name: code\n    interpreter: /nowhere/python3\n";
    let team = ghostlight::config::parse(text, "team.yaml").unwrap();
    let fault = team.resolve(ghostlight::builtin()).unwrap_err().to_string();
    assert!(fault.contains("/nowhere/python3"), "{fault}");
}
