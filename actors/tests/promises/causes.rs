//! The journal says which call of a model asked for what, so that nobody has to guess it.

use ghostlight_actors::{
    definition::ApprovalRule,
    run::{Agent, RunContext},
    testing::ScriptedModel,
    vocabulary::{
        AskedBy, Effect, Entry, Event, ModelResponse, Outcome, ToolCall, ToolResult, ToolStatus,
    },
};
use serde_json::json;

use crate::stage::{Stage, ask, call, outcome, pause};

/// What an entry is about in words, and the place of the call that asked for it.
fn cause(entry: &Entry) -> Option<(String, Option<u32>)> {
    let first = "0.0.0".parse().unwrap();
    let place = |asked_by: &Option<AskedBy>| {
        asked_by.map(|asked_by| {
            assert_eq!(asked_by.model, first);
            asked_by.index
        })
    };
    Some(match entry {
        Entry::Started {
            kind,
            name,
            asked_by,
            ..
        } => (format!("{kind} {name} began"), place(asked_by)),
        Entry::Completed {
            kind,
            name,
            asked_by,
            ..
        } => (format!("{kind} {name}"), place(asked_by)),
        Entry::CallAnswered {
            result, asked_by, ..
        } => (format!("answer of {}", result.name), place(asked_by)),
        _ => return None,
    })
}

#[tokio::test(start_paused = true)]
async fn each_operation_names_the_call_that_asked_for_it_after_a_crash_too() {
    let mut stage = Stage::new();
    let agent = |stage: &Stage| {
        let helper = Agent::from_fn("helper", |_: RunContext| async { Ok(Outcome::answer("h")) });
        Agent::from_fn("a", |cx: RunContext| async move {
            let said = cx.model(cx.model_request(cx.conversation())).await?;
            // Its own call has the id of a model's.
            cx.tool(call("1", "look")).await?;
            for call in said.calls() {
                cx.tool(call).await?;
            }
            Ok(Outcome::answer("done"))
        })
        .tool(stage.tool("look", Effect::Read, 5))
        .tool(stage.tool("pay", Effect::Once, 5))
        .tool(stage.tool("wipe", Effect::Once, 5))
        .approval("wipe", ApprovalRule::required())
        .delegate_to(helper)
    };
    let model = || {
        ScriptedModel::replies([ModelResponse::tool_calls([
            call("1", "look"),
            call("2", "pay"),
            ToolCall::new("3", "delegate_to_helper", json!({ "task": "help" })),
            call("4", "nothing"),
            call("5", "wipe"),
        ])])
    };
    let system = stage.start_with(agent(&stage), model()).await;
    let run = ask(&system, "a", "go").await;
    pause(1_000).await;
    stage.crash(&system).await;
    let system = stage.start_with(agent(&stage), model()).await;
    let run = system.run(run.id());
    let (_, question, _) = run.questions().await.unwrap().remove(0);
    run.answer(question, json!(true)).await.unwrap();
    outcome(&run).await;
    let entries = stage.entries(run.id()).await;
    let causes: Vec<_> = entries.iter().filter_map(cause).collect();
    let expected = [
        ("model scripted", None),
        ("tool look", None),
        ("tool look", Some(0)),
        ("tool pay began", Some(1)),
        ("tool pay", Some(1)),
        ("delegate helper began", Some(2)),
        ("delegate helper", Some(2)),
        ("answer of delegate_to_helper", Some(2)),
        ("answer of nothing", Some(3)),
        ("ask wipe began", Some(4)),
        ("ask wipe", Some(4)),
        ("tool wipe began", Some(4)),
        ("tool wipe", Some(4)),
    ];
    let causes: Vec<_> = causes.iter().map(|(of, at)| (of.as_str(), *at)).collect();
    let of_model = causes[0].0;
    assert!(of_model.starts_with("model "), "{of_model}");
    assert_eq!(causes[1..], expected[1..]);
}

/// The results in the session of a run that is cancelled after its function has done what it can.
async fn broken_off(agent: Agent, model: ScriptedModel, stage: &Stage) -> Vec<ToolResult> {
    let system = stage.start_with(agent, model).await;
    let run = ask(&system, "a", "go").await;
    pause(1_000).await;
    run.cancel("enough").await.unwrap();
    outcome(&run).await;
    let session = system.session("a", "s");
    let said = session.transcript().await.unwrap().messages();
    let results = said.iter().flat_map(|message| message.tool_results());
    results.cloned().collect()
}

#[tokio::test(start_paused = true)]
async fn a_call_answered_without_a_tool_keeps_its_answer_when_broken_off() {
    let stage = Stage::new();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let said = cx.model(cx.model_request(cx.conversation())).await?;
        cx.tools(said.calls()).await?;
        Ok(Outcome::answer("done"))
    })
    .tool(stage.tool("watch", Effect::Read, 3_600_000));
    let model = ScriptedModel::replies([ModelResponse::tool_calls([
        call("1", "nothing"),
        call("2", "watch"),
    ])]);
    let results = broken_off(agent, model, &stage).await;
    let statuses: Vec<_> = results.iter().map(|result| result.status).collect();
    assert_eq!(statuses, [ToolStatus::Error, ToolStatus::Interrupted]);
    assert!(results[0].text.contains("There is no tool"), "{results:?}");
}

#[tokio::test(start_paused = true)]
async fn a_functions_own_call_gives_no_result_to_a_models_of_the_same_id() {
    let stage = Stage::new();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        cx.model(cx.model_request(cx.conversation())).await?;
        cx.tool(call("1", "look")).await?;
        cx.ask("Shall I go on?").await?;
        Ok(Outcome::answer("done"))
    })
    .tool(stage.tool("look", Effect::Read, 5));
    let model = ScriptedModel::replies([ModelResponse::tool_calls([call("1", "look")])]);
    let results = broken_off(agent, model, &stage).await;
    let statuses: Vec<_> = results.iter().map(|result| result.status).collect();
    assert_eq!(statuses, [ToolStatus::Interrupted]);
}

/// The approving tool is called with the id of the call that it decides about.
#[tokio::test(start_paused = true)]
async fn the_decision_of_an_approving_tool_does_not_end_the_step_of_the_call() {
    let stage = Stage::new();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let said = cx.model(cx.model_request(cx.conversation())).await?;
        cx.tools(said.calls()).await?;
        Ok(Outcome::answer("done"))
    })
    .tool(stage.tool("wipe", Effect::Once, 5))
    .tool(stage.tool("judge", Effect::Read, 5))
    .approval("wipe", ApprovalRule::required().by("judge"));
    let model = ScriptedModel::replies([ModelResponse::tool_calls([call("1", "wipe")])]);
    let system = stage.start_with(agent, model).await;
    let run = ask(&system, "a", "go").await;
    outcome(&run).await;
    let records = run.events().recorded().so_far().await.unwrap();
    let of_step = records.iter().filter_map(|record| match &record.event {
        Event::ToolCalled { result, .. } => Some(result.name.as_str()),
        Event::StepEnded { .. } => Some("the end"),
        _ => None,
    });
    assert_eq!(of_step.collect::<Vec<_>>(), ["judge", "wipe", "the end"]);
}
