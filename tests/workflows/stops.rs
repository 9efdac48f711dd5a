//! What ends a workflow before its end loses nothing of what was made by then, in each of them.

use std::{collections::BTreeMap, time::Duration};

use ghostlight::workflows;
use ghostlight_actors::{
    actor::{Run, System},
    run::Registry,
    session::Turn,
    testing::{InMemoryStore, ScriptedModel},
    vocabulary::{Budget, Event, Outcome, Resource, RunId, RunResult, StopReason, ToolStatus},
};

use crate::patterns::{Disturbance, OUT_OF_TOKENS, Pattern, all};

/// A member's work: what it was asked and what it answered.
#[derive(Default)]
struct Work {
    agent: String,
    input: String,
    answer: Option<String>,
}

async fn begun(pattern: &Pattern, disturbance: Disturbance, turn: Turn) -> (System, Run) {
    let system = System::builder(InMemoryStore::new())
        .registry(workflows::register(Registry::new()))
        .model("default", ScriptedModel::turns(pattern.replies.clone()))
        .team(pattern.team(disturbance))
        .start()
        .await
        .unwrap();
    let run = system.session("desk", "session").send(turn).await.unwrap();
    (system, run)
}

/// The members' answers that nobody who answered later was given. What only divides the work is
/// not among them.
async fn made(run: &Run) -> Vec<String> {
    let mut works: BTreeMap<RunId, Work> = BTreeMap::new();
    let mut tools: Vec<String> = Vec::new();
    for record in run.events().so_far().await.unwrap() {
        if let Event::ToolCalled { result, .. } = &record.event
            && result.status == ToolStatus::Success
        {
            tools.push(result.text.clone());
        }
        if record.run == run.id() {
            continue;
        }
        let work = works.entry(record.run).or_default();
        match record.event {
            Event::RunStarted { agent, input, .. } => (work.agent, work.input) = (agent, input),
            Event::RunEnded {
                end: RunResult::Answered(text),
                ..
            } => work.answer = Some(text),
            _ => {}
        }
    }
    let answered = || works.values().filter(|work| work.answer.is_some());
    let divides = |work: &&Work| {
        let answer = work.answer.as_deref();
        work.agent == "plan" || matches!(answer, Some("do it" | "ENOUGH"))
    };
    let is_open = |text: &String| !answered().any(|work| work.input.contains(text.as_str()));
    let answers = answered().filter(|work| !divides(work));
    let answers = answers.filter_map(|work| work.answer.clone());
    let mut open: Vec<String> = answers.filter(is_open).collect();
    // A tool's echo has in it what the tool was given.
    let is_last = |text: &&String| {
        !tools
            .iter()
            .any(|other| other != *text && other.contains(*text))
    };
    open.extend(tools.iter().filter(is_last).cloned());
    open
}

async fn nothing_is_lost(place: &str, run: &Run, outcome: &Outcome) {
    for text in made(run).await {
        let partial = outcome.text();
        assert!(
            partial.contains(&text),
            "{place}: {text:?} is not in {partial:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_stops_a_member_of_any_workflow_leaves_what_the_others_made() {
    let mut stops = 0;
    for pattern in all().into_iter().filter(|pattern| !pattern.has_tools()) {
        for member in pattern.asked.clone() {
            let place = format!("{} at {member}", pattern.name);
            let exhausted = Disturbance::Exhaust(member);
            let (system, run) = begun(&pattern, exhausted, pattern.task.into()).await;
            let outcome = run.outcome().await;
            let outcome = outcome.unwrap_or_else(|error| panic!("{place}: {error}"));
            if let Some(reason) = outcome.stop_reason() {
                assert_eq!(reason, &OUT_OF_TOKENS, "{place}");
                nothing_is_lost(&place, &run, &outcome).await;
                stops += 1;
            }
            system.stop().await.unwrap();
        }
    }
    assert!(stops > 15, "only {stops} of them stopped");
}

#[tokio::test(start_paused = true)]
async fn a_budget_of_calls_leaves_what_the_calls_before_it_made() {
    for pattern in all().into_iter().filter(Pattern::has_tools) {
        for calls in 1..pattern.asked.len() as u64 {
            let place = format!("{} after {calls} calls", pattern.name);
            let budget = Budget {
                tool_calls: Some(calls),
                ..Budget::default()
            };
            let turn = Turn::text(pattern.task).budget(budget);
            let (system, run) = begun(&pattern, Disturbance::None, turn).await;
            let outcome = run.outcome().await.unwrap();
            let reason = StopReason::BudgetExhausted(Resource::ToolCalls);
            assert_eq!(outcome.stop_reason(), Some(&reason), "{place}");
            assert!(!outcome.text().is_empty(), "{place}");
            nothing_is_lost(&place, &run, &outcome).await;
            system.stop().await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_or_a_bound_on_time_leaves_what_was_made_by_then_in_any_workflow() {
    for pattern in all() {
        let mut members = pattern.asked.clone();
        members.sort_unstable();
        members.dedup();
        for member in members {
            for cancels in [true, false] {
                let place = format!("{} at {member}, cancelled: {cancels}", pattern.name);
                let budget = Budget {
                    wall_time: (!cancels).then_some(Duration::from_secs(60)),
                    ..Budget::default()
                };
                let turn = Turn::text(pattern.task).budget(budget);
                let (system, run) = begun(&pattern, Disturbance::Hang(member), turn).await;
                if cancels {
                    tokio::time::sleep(Duration::from_secs(60)).await;
                    assert!(run.cancel("enough").await.unwrap(), "{place}");
                }
                let outcome = run.outcome().await.unwrap();
                assert!(outcome.stop_reason().is_some(), "{place}");
                // What a model's own calls came to is in its conversation.
                if pattern.name != "reactree" {
                    nothing_is_lost(&place, &run, &outcome).await;
                }
                system.stop().await.unwrap();
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_several_made_says_who_made_it() {
    let expected = [
        ("parallel", "last", "### a\na(go)\n\n### b\nb(go)"),
        ("for_each", "b", "### a (1)\na(1 x)\n\n### a (3)\na(3 z)"),
        ("fan_out", "sum", "### b: one\nb(one)\n\n### a: two\na(two)"),
        (
            "graph",
            "d",
            "### a\na(go)\n\n### b\nb(a(go))\n\n### c\nc(a(go))",
        ),
        (
            "debate",
            "j",
            "### a\na(there are wrong)\n\n### b\nb(there are wrong)",
        ),
        ("orchestrator", "b", r#"{"completed":{"1":"a(one)"},"#),
        ("sequential", "c", "b(a(go))"),
    ];
    for (name, member, partial) in expected {
        let pattern = all().into_iter().find(|pattern| pattern.name == name);
        let pattern = pattern.unwrap();
        let exhausted = Disturbance::Exhaust(member);
        let (system, run) = begun(&pattern, exhausted, pattern.task.into()).await;
        let outcome = run.outcome().await.unwrap();
        assert_eq!(outcome.stop_reason(), Some(&OUT_OF_TOKENS), "{name}");
        let told = outcome.text();
        assert!(told.starts_with(partial), "{name}: {told}");
        system.stop().await.unwrap();
    }
}
