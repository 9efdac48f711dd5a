//! ReWOO: plans as graphs, evidence in its place, side by side where free.

use std::time::Duration;

use ghostlight::{policies::Recovery, tools::tool_fn};
use ghostlight_actors::{
    actor::SystemError,
    contract::{ToolError, ToolHandle},
    run::Agent,
    session::Turn,
    testing::Reply,
    vocabulary::{Budget, Effect, ErrorKind, Event, Resource, StopReason, ToolDefinition},
};
use serde_json::json;

use crate::stage::{Stage, desk, told};

/// Takes as many seconds as it has letters, and says when it was called.
fn slow() -> ToolHandle {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Slow {
        text: String,
    }
    let definition = ToolDefinition::new("slow", "Thinks for long.").effect(Effect::Read);
    tool_fn(definition, |slow: Slow| async move {
        tokio::time::sleep(Duration::from_secs(slow.text.chars().count() as u64)).await;
        match slow.text.strip_prefix("fail ") {
            Some(reason) => Err(ToolError::new(reason)),
            None => Ok(slow.text),
        }
    })
}

fn agent(settings: serde_json::Value) -> Agent {
    desk("rewoo", settings).tool(slow())
}

#[tokio::test(start_paused = true)]
async fn free_steps_run_side_by_side_and_evidence_is_put_in() {
    let plan = json!({"steps": [
        {"id": "E1", "purpose": "first", "tool": "slow", "input": {"text": "ab"}},
        {"id": "E2", "purpose": "second", "tool": "slow", "input": {"text": "xyz"}},
        {"id": "E3", "purpose": "both", "tool": "slow", "input": {"text": "#E1#E2"}},
        {"id": "E4", "purpose": "early", "tool": "slow", "input": {"text": "#E1"}},
    ]});
    let replies = [plan.to_string(), "abxyz".to_owned(), "next".to_owned()];
    let stage = Stage::of(agent(json!({})), replies).await;
    let started = tokio::time::Instant::now();
    let outcome = stage.ask("join them").await;
    // Three seconds for the longer of the first two, five for what needs both of them.
    let took = started.elapsed();
    assert!((8..9).contains(&took.as_secs()), "{took:?}");
    assert_eq!((outcome.text(), stage.calls()), ("abxyz", 2));
    let solve = stage.last(1);
    for evidence in [
        "#e1 (first): ab",
        "#e2 (second): xyz",
        "#e3 (both): abxyz",
        "#e4 (early): ab",
    ] {
        assert!(solve.contains(evidence), "{solve}");
    }
    assert!(solve.contains("now answer, from this evidence: join them"));
    assert!(stage.request(0).tools.is_empty() && stage.request(1).tools.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_bound_on_parallel_tools_holds_for_plans() {
    let plan = "#E1 = slow[a]\n#E2 = slow[b]\n#E3 = slow[c]\n#E4 = slow[d]";
    let stage = Stage::of(agent(json!({})).parallel_tools(2), [plan, "done"]).await;
    let started = tokio::time::Instant::now();
    stage.ask("go").await;
    assert_eq!(started.elapsed().as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_failed_step_skips_what_needs_it_and_the_rest_is_planned_again() {
    let replies = [
        "#E1 = slow[fail badly]\n#E2 = slow[#E1]\n#E3 = slow[x]",
        "#E4 = slow[#E3y]",
        "done",
    ];
    let stage = Stage::of(agent(json!({})), replies).await;
    let run = stage.say("go").await;
    assert_eq!(run.outcome().await.unwrap().text(), "done");
    stage.check();
    let replan = stage.last(1);
    for evidence in [
        "#e1: failed: badly",
        "#e2: failed: #e1 is missing",
        "#e3: x",
    ] {
        assert!(replan.contains(evidence), "{replan}");
    }
    assert!(stage.last(2).contains("#e4: xy"), "{}", stage.last(2));
    let events = told(&run).await;
    let names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["plan", "replanned", "plan"]);
    assert_eq!(events[1].1, json!({"failed": ["E1", "E2"]}));
    let records = run.events().so_far().await.unwrap();
    let called = records
        .iter()
        .filter(|record| matches!(record.event, Event::ToolCalled { .. }));
    assert_eq!(called.count(), 3);
}

#[tokio::test(start_paused = true)]
async fn planning_again_is_bounded_and_may_find_that_nothing_is_needed() {
    let fails = "#E1 = slow[fail x]";
    let stage = Stage::of(agent(json!({"max_replans": 0})), [fails, "sorry"]).await;
    assert_eq!(stage.ask("go").await.text(), "sorry");
    assert!(stage.last(1).contains("#e1: failed: x"));
    let stage = Stage::of(agent(json!({})), [fails, r#"{"steps": []}"#, "enough"]).await;
    assert_eq!(stage.ask("go").await.text(), "enough");
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_cannot_be_carried_out_goes_back_to_the_model() {
    let replies = ["#E1 = slow[#E2]\n#E2 = slow[#E1]", "#E1 = slow[x]", "done"];
    let stage = Stage::of(agent(json!({})), replies).await;
    assert_eq!(stage.ask("go").await.text(), "done");
    assert!(
        stage.last(1).contains("in a circle: e1, e2"),
        "{}",
        stage.last(1)
    );
    let stage = Stage::of(agent(json!({})), ["no", "no", "no", "no"]).await;
    let Err(SystemError::Failed { error, .. }) = stage.try_ask("go").await else {
        panic!("it must fail");
    };
    assert_eq!(error.kind(), Some(&ErrorKind::Plan));
}

#[tokio::test(start_paused = true)]
async fn the_model_itself_makes_evidence_and_agents_below_do() {
    let team = agent(json!({}))
        .agent(Agent::new("expert").reach(ghostlight_actors::definition::Reach::Delegate));
    let replies: Vec<Reply> = vec![
        "#E1 = llm[What is two?]\n#E2 = delegate_to_expert[Say more than #E1]".into(),
        "2".into(),
        "3".into(),
        "done".into(),
    ];
    let stage = Stage::of(team, replies).await;
    assert_eq!(stage.ask("go").await.text(), "done");
    assert_eq!(stage.said(1), ["user: what is two?"]);
    assert_eq!(stage.said(2), ["user: say more than 2"]);
    assert!(
        stage.last(3).contains("#e1: 2\n#e2: 3"),
        "{}",
        stage.last(3)
    );
}

#[tokio::test(start_paused = true)]
async fn a_used_up_budget_keeps_the_evidence() {
    let plan = "#E1 = slow[a]\n#E2 = slow[#E1b]";
    let stage = Stage::of(agent(json!({})), [plan, "done"]).await;
    let budget = Budget {
        tool_calls: Some(1),
        ..Budget::default()
    };
    let outcome = stage.ask(Turn::text("go").budget(budget)).await;
    let reason = StopReason::BudgetExhausted(Resource::ToolCalls);
    assert_eq!(
        (outcome.stop_reason(), outcome.text()),
        (Some(&reason), "#E1: a")
    );
}

#[tokio::test(start_paused = true)]
async fn where_no_other_plan_comes_the_answer_is_made_from_the_evidence() {
    let fails = "#E1 = slow[fail x]";
    let stage = Stage::of(agent(json!({})), [fails, " ", " ", " ", "sorry"]).await;
    assert_eq!(stage.ask("go").await.text(), "sorry");
}

#[tokio::test(start_paused = true)]
async fn a_new_plan_is_the_reflection_that_recovery_wants() {
    let replies = [
        "#E1 = slow[fail badly]",
        "Plan: the word at its beginning makes it fail, so I leave it out.\n#E2 = slow[fine]",
        "done",
    ];
    let agent = agent(json!({})).policy("recovery", Recovery::default);
    let stage = Stage::of(agent, replies).await;
    let outcome = stage.ask("go").await;
    assert_eq!((outcome.text(), stage.calls()), ("done", 3));
    assert_eq!(outcome.as_answer().unwrap().flagged, None);
    assert!(stage.last(2).contains(": fine"), "{}", stage.last(2));
}
