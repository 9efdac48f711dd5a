//! What every workflow promises, over one list of all of them: a new one cannot be left out.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod at_once;
mod chained_tools;
mod graph;
mod graph_files;
mod loops;
mod made_bounds;
mod made_results;
mod making;
mod orchestrator;
mod outcomes;
mod patterns;
mod random_graph_files;
mod random_topics;
mod reactree;
mod scenarios;
mod settings;
mod sizes;
mod state;
mod stopped;
mod stops;
mod topics;
mod transfers;
mod typed_tasks;
mod watched;

use std::{collections::BTreeSet, time::Duration};

use ghostlight::workflows;
use ghostlight_actors::{
    actor::{Run, System},
    contract::{DynStore, RunFilter, RunStatus},
    definition::{BehaviorSpec, Reach},
    run::{Agent, Registry, RunContext},
    testing::{CrashOptions, InMemoryStore, Reply, Scenario, ScriptedModel, crash_everywhere},
    vocabulary::{Event, ModelResponse, Outcome, StopReason, ToolCall, ToolStatus},
};
use serde_json::json;

use patterns::{Disturbance, Pattern, all};

async fn begun(
    store: &InMemoryStore,
    pattern: &Pattern,
    disturbance: Disturbance,
) -> (System, Run) {
    let system = System::builder(store.clone())
        .registry(workflows::register(Registry::new()))
        .model("default", ScriptedModel::turns(pattern.replies.clone()))
        .team(pattern.team(disturbance))
        .start()
        .await
        .unwrap();
    let session = system.session("desk", "session");
    let run = session.send(pattern.task).await.unwrap();
    (system, run)
}

/// The members that got work, in the order of the journal.
async fn asked(run: &Run) -> Vec<String> {
    let records = run.events().so_far().await.unwrap();
    let asked = records.into_iter().filter_map(|record| match record.event {
        Event::Delegated { agent, .. } => Some(agent),
        Event::ToolCalled { result, .. } => Some(result.name),
        _ => None,
    });
    asked.collect()
}

#[test]
fn every_workflow_that_is_registered_is_in_the_list() {
    let registry = workflows::register(Registry::new());
    let registered: BTreeSet<&str> = registry.behavior_names().into_iter().collect();
    let listed: BTreeSet<&str> = all().iter().map(|pattern| pattern.name).collect();
    assert_eq!(registered, listed);
}

#[tokio::test(start_paused = true)]
async fn each_answers_and_its_members_work_in_their_order() {
    for pattern in all() {
        let (system, run) = begun(&InMemoryStore::new(), &pattern, Disturbance::None).await;
        let mut live = run.events().recorded();
        let outcome = run.outcome().await.unwrap();
        assert_eq!(outcome, Outcome::answer(pattern.answer), "{}", pattern.name);
        assert_eq!(asked(&run).await, pattern.asked, "{}", pattern.name);
        let mut seen = Vec::new();
        while let Some(record) = live.next().await {
            seen.push(record.unwrap());
        }
        assert_eq!(
            run.events().so_far().await.unwrap(),
            seen,
            "{}",
            pattern.name
        );
        system.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn each_comes_to_the_same_end_when_it_is_crashed_anywhere() {
    for pattern in all() {
        let played = pattern.clone();
        let scenario = Scenario::new("desk", move |builder, _| {
            builder
                .registry(workflows::register(Registry::new()))
                .model("default", ScriptedModel::turns(played.replies.clone()))
                .team(played.team(Disturbance::None))
        });
        let scenario = scenario.named(pattern.name).turn(pattern.task);
        let report = crash_everywhere(&scenario, CrashOptions::default()).await;
        assert!(report.violations.is_empty(), "{report}");
        assert!(report.crashes >= 4, "{report}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_can_be_cancelled_while_any_of_its_members_works() {
    for pattern in all() {
        let members: BTreeSet<&str> = pattern.asked.iter().copied().collect();
        for member in members {
            let store = InMemoryStore::new();
            let (system, run) = begun(&store, &pattern, Disturbance::Hang(member)).await;
            let mut events = run.events();
            while let Some(record) = events.next().await {
                match record.unwrap().event {
                    Event::Delegated { agent, .. } if agent == member => break,
                    Event::ToolStarted { tool, .. } if tool == member => break,
                    _ => {}
                }
            }
            let place = format!("{} at {member}", pattern.name);
            assert!(run.cancel("enough").await.unwrap(), "{place}");
            let outcome = run.outcome().await.unwrap();
            let reason = outcome.stop_reason();
            assert_eq!(
                reason,
                Some(&StopReason::Cancelled("enough".into())),
                "{place}"
            );
            let rows = store.runs(RunFilter::default()).await.unwrap();
            assert!(
                rows.iter().all(|row| row.status.is_ended()),
                "{place}: {rows:?}"
            );
            system.stop().await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failing_member_ends_each_as_its_settings_say() {
    for pattern in all() {
        let (member, expected) = pattern.when_broken;
        let (system, run) =
            begun(&InMemoryStore::new(), &pattern, Disturbance::Break(member)).await;
        let name = pattern.name;
        match (run.outcome().await, expected) {
            (Ok(outcome), Ok(answer)) => assert_eq!(outcome, Outcome::answer(answer), "{name}"),
            (Err(error), Err(reason)) => {
                let told = error.to_string();
                assert!(told.contains(reason), "{name}: {told}");
            }
            (found, expected) => panic!("{name}: {found:?} instead of {expected:?}"),
        }
        system.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_takes_too_long_is_cancelled_and_fails_each_as_its_settings_say() {
    for pattern in all().into_iter().filter(|pattern| !pattern.has_tools()) {
        let name = pattern.name;
        let (member, expected) = pattern.when_broken;
        let in_time = |told: &str| told.replace("it broke", "not done within 1s");
        let store = InMemoryStore::new();
        let pattern = pattern.within(Duration::from_secs(1));
        let (system, run) = begun(&store, &pattern, Disturbance::Hang(member)).await;
        match (run.outcome().await, expected) {
            (Ok(outcome), Ok(answer)) => {
                assert_eq!(outcome, Outcome::answer(in_time(answer)), "{name}");
            }
            (Err(error), Err(reason)) => {
                let told = error.to_string();
                assert!(told.contains(&in_time(reason)), "{name}: {told}");
            }
            (found, expected) => panic!("{name}: {found:?} instead of {expected:?}"),
        }
        let rows = store.runs(RunFilter::default()).await.unwrap();
        let mut late = rows.iter().filter(|row| row.agent == member);
        assert!(late.any(|row| row.status == RunStatus::Cancelled), "{name}");
        assert!(rows.iter().all(|row| row.status.is_ended()), "{name}");
        system.stop().await.unwrap();
    }
}

/// What comes of a workflow whose member leaves by this tool, and how often that member's model
/// was asked.
async fn left(pattern: &Pattern, member: &'static str, tool: ToolCall) -> (Outcome, usize) {
    let leaver = ScriptedModel::from_reply_fn(move |_, _| {
        Reply::from(ModelResponse::tool_calls([tool.clone()]))
    });
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .model("default", ScriptedModel::turns(pattern.replies.clone()))
        .model("leaver", leaver.clone())
        .team(pattern.team(Disturbance::Leave(member)))
        .start()
        .await
        .unwrap();
    let session = system.session("desk", "session");
    let outcome = session.send(pattern.task).await.unwrap().outcome().await;
    system.stop().await.unwrap();
    (outcome.unwrap(), leaver.calls())
}

#[tokio::test(start_paused = true)]
async fn a_member_that_escalates_or_exits_ends_each_without_another_model_call() {
    let escalate = ToolCall::new("1", "escalate", json!({"reason": "no access"}));
    let exit = ToolCall::new("1", "exit_loop", json!({}));
    let escalated = StopReason::Escalated("no access".to_owned());
    for pattern in all().into_iter().filter(|pattern| !pattern.has_tools()) {
        let member = pattern.when_broken.0;
        let (outcome, calls) = left(&pattern, member, escalate.clone()).await;
        let place = format!("{}: {outcome:?}", pattern.name);
        match pattern.name {
            // The next member, and the model that hands out the work, deal with it.
            "fallback" => assert_eq!(
                outcome,
                Outcome::answer("b([stopped: escalated: no access])"),
            ),
            "coordinator" => assert_eq!(outcome, Outcome::answer("both")),
            _ => assert_eq!(outcome.stop_reason(), Some(&escalated), "{place}"),
        }
        assert_eq!(calls, 1, "{place}");
        let (outcome, calls) = left(&pattern, member, exit.clone()).await;
        let place = format!("{}: {outcome:?}", pattern.name);
        match pattern.name {
            "loop" | "round_robin" | "role_play" => {
                assert!(matches!(outcome, Outcome::Answer(_)), "{place}");
            }
            _ => assert_eq!(
                outcome.stop_reason(),
                Some(&StopReason::LoopExited),
                "{place}"
            ),
        }
        assert_eq!(calls, 1, "{place}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_escalation_reaches_the_model_above_which_reasons_about_it() {
    let worker = Agent::new("worker")
        .model("worker")
        .policy("control", json!({}));
    let line = Agent::new("line")
        .behavior(BehaviorSpec::new("sequential"))
        .reach(Reach::Delegate)
        .agent(worker)
        .agent(Agent::new("never"));
    let ask = ToolCall::new("1", "delegate_to_line", json!({"task": "do it"}));
    let desk = ScriptedModel::turns([
        Reply::from(ModelResponse::tool_calls([ask])),
        "I do it myself.".into(),
    ]);
    let escalate = ToolCall::new("1", "escalate", json!({"reason": "no access"}));
    let worker = ScriptedModel::turns([Reply::from(ModelResponse::tool_calls([escalate]))]);
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .model("default", desk.clone())
        .model("worker", worker)
        .team(Agent::new("desk").agent(line).into_team().unwrap())
        .start()
        .await
        .unwrap();
    let run = system.session("desk", "s").send("go").await.unwrap();
    assert_eq!(run.outcome().await.unwrap().text(), "I do it myself.");
    let said = desk.requests()[1].conversation.messages();
    let results = said.iter().flat_map(|message| message.tool_results());
    let told: Vec<&str> = results.map(|result| result.text.as_str()).collect();
    assert_eq!(told, ["Stopped before the end: escalated: no access."]);
    system.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_child_that_dies_is_an_error_result_which_the_model_above_reads_and_goes_on() {
    let worker = Agent::from_fn("worker", |cx: RunContext| async move {
        assert_ne!(cx.input().content(), "die", "the machine is on fire");
        Ok(Outcome::answer("done"))
    });
    let desk = Agent::new("desk").agent(worker.reach(Reach::Delegate));
    let task =
        |id: &str, task: &str| ToolCall::new(id, "delegate_to_worker", json!({ "task": task }));
    let model = ScriptedModel::turns([
        Reply::from(ModelResponse::tool_calls([
            task("1", "die"),
            task("2", "go"),
        ])),
        "Half of it is done.".into(),
    ]);
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .model("default", model.clone())
        .team(desk.into_team().unwrap())
        .start()
        .await
        .unwrap();
    let run = system.session("desk", "s").send("go").await.unwrap();
    let outcome = run.outcome().await.unwrap();
    assert_eq!(outcome, Outcome::answer("Half of it is done."));
    let last = model.requests()[1].conversation.last().unwrap();
    let results: Vec<_> = last.tool_results().collect();
    let statuses: Vec<ToolStatus> = results.iter().map(|result| result.status).collect();
    assert_eq!(statuses, [ToolStatus::Error, ToolStatus::Success]);
    let died = &results[0].text;
    assert!(
        died.contains("crashed") && died.contains("the machine is on fire"),
        "{died}"
    );
    assert_eq!(results[1].text, "done");
    system.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_member_is_not_offered_to_hand_its_task_to_those_beside_or_above() {
    let below = Agent::new("below");
    let desk = Agent::new("desk")
        .behavior(BehaviorSpec::new("sequential"))
        .agent(Agent::new("a").agent(below))
        .agent(Agent::new("b"));
    let model = ScriptedModel::replies(["one", "two"]);
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .model("default", model.clone())
        .team(desk.into_team().unwrap())
        .start()
        .await
        .unwrap();
    let run = system.session("desk", "s").send("go").await.unwrap();
    assert_eq!(run.outcome().await.unwrap(), Outcome::answer("two"));
    let offered: Vec<Vec<String>> = model
        .requests()
        .iter()
        .map(|request| request.tools.iter().map(|tool| tool.name.clone()).collect())
        .collect();
    assert_eq!(offered, [vec!["transfer_to_below".to_owned()], Vec::new()]);
    system.stop().await.unwrap();
}
