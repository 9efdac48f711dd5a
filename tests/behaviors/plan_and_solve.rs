//! Plan-and-solve: results reach later steps, steps use tools, failures are planned around.

use ghostlight_actors::{
    actor::SystemError,
    run::Agent,
    session::Turn,
    testing::Reply,
    vocabulary::{Budget, ErrorKind, Resource, StopReason},
};
use serde_json::json;

use crate::stage::{Stage, call, desk, echo, echo_call, told};

fn agent(settings: serde_json::Value) -> Agent {
    desk("plan_and_solve", settings)
        .instructions("You are exact.")
        .tool(echo())
}

#[tokio::test(start_paused = true)]
async fn later_steps_see_earlier_results_and_use_tools() {
    let replies: Vec<Reply> = vec![
        r#"{"steps": ["find the net price", "add the VAT"]}"#.into(),
        echo_call("a", "80").into(),
        "The net price is 80.".into(),
        "It is 95.20.".into(),
        "95.20 euro".into(),
        "next".into(),
    ];
    let stage = Stage::of(agent(json!({})), replies).await;
    let outcome = stage.ask("gross price?").await;
    assert_eq!(outcome.text(), "95.20 euro");
    let plan = stage.request(0);
    assert!(
        plan.instructions
            .starts_with("You are exact.\n\nDo not do the task yet.")
    );
    assert!(plan.instructions.contains("- echo:") && plan.tools.is_empty());
    let first = stage.last(1);
    assert!(
        first.contains("find the net price") && first.contains("none yet"),
        "{first}"
    );
    assert!(stage.request(1).tools.get("echo").is_some());
    let second = stage.last(3);
    assert!(
        second.contains("now, and nothing else: add the vat"),
        "{second}"
    );
    assert!(
        second.contains("1. find the net price\n   the net price is 80."),
        "{second}"
    );
    let solve = stage.last(4);
    assert!(
        solve.contains("it is 95.20.") && solve.contains("now answer: gross price?"),
        "{solve}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_failed_step_has_the_rest_planned_again() {
    let replies = [
        "1. ask the oracle\n2. sum up",
        "FAILED: there is no oracle",
        r#"{"steps": ["look it up"]}"#,
        "found",
        "the answer",
    ];
    let stage = Stage::of(agent(json!({})), replies).await;
    let run = stage.say("go").await;
    assert_eq!(run.outcome().await.unwrap().text(), "the answer");
    stage.check();
    assert!(
        stage.last(2).contains("failed: there is no oracle"),
        "{}",
        stage.last(2)
    );
    let events: Vec<String> = told(&run).await.into_iter().map(|(name, _)| name).collect();
    assert_eq!(events, ["plan", "step_failed", "replanned", "plan"]);
    let results = stage.last(4);
    assert!(
        results.contains("failed: there is no oracle") && results.contains("found"),
        "{results}"
    );
    assert!(!results.contains("sum up"), "{results}");
}

#[tokio::test(start_paused = true)]
async fn planning_again_is_bounded_and_the_answer_tells_what_failed() {
    let replies = ["1. a", "FAILED: x", "1. b", "FAILED: y", "sorry"];
    let stage = Stage::of(agent(json!({"max_replans": 1})), replies).await;
    assert_eq!(stage.ask("go").await.text(), "sorry");
    let results = stage.last(4);
    assert!(
        results.contains("failed: x") && results.contains("failed: y"),
        "{results}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_step_that_runs_out_of_steps_fails_and_nothing_else() {
    let replies: Vec<Reply> = vec![
        "1. a".into(),
        echo_call("a", "1").into(),
        echo_call("a", "1").into(),
        r#"{"steps": []}"#.into(),
        "done".into(),
    ];
    let stage = Stage::of(agent(json!({"max_steps": 2})), replies).await;
    assert_eq!(stage.ask("go").await.text(), "done");
    assert!(
        stage.last(3).contains("the bound of 2 steps was reached"),
        "{}",
        stage.last(3)
    );
}

#[tokio::test(start_paused = true)]
async fn without_a_plan_there_is_an_error_that_says_so() {
    let replies = ["no", "no", "no", "no"];
    let stage = Stage::of(agent(json!({})), replies).await;
    let Err(SystemError::Failed { error, .. }) = stage.try_ask("go").await else {
        panic!("it must fail");
    };
    assert_eq!(error.kind(), Some(&ErrorKind::Plan));
    assert!(error.to_string().contains("made no plan"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_used_up_budget_keeps_the_results_so_far() {
    let replies = ["1. a\n2. b", "alpha", "beta"];
    let stage = Stage::of(agent(json!({})), replies).await;
    let budget = Budget {
        model_calls: Some(2),
        ..Budget::default()
    };
    let outcome = stage.ask(Turn::text("go").budget(budget)).await;
    let reason = StopReason::BudgetExhausted(Resource::ModelCalls);
    assert_eq!(outcome.stop_reason(), Some(&reason));
    assert_eq!(outcome.text(), "1. a\n   alpha");
}

#[tokio::test(start_paused = true)]
async fn a_step_may_hand_the_conversation_over() {
    let replies: Vec<Reply> = vec![
        "1. ask billing".into(),
        call("a", "transfer_to_billing", json!({"request": "the VAT"})).into(),
        "19 percent".into(),
    ];
    let billing = Agent::new("billing").instructions("You are billing.");
    let stage = Stage::of(agent(json!({})).agent(billing), replies).await;
    assert_eq!(stage.ask("VAT?").await.text(), "19 percent");
    assert_eq!(stage.said(2)[1], "assistant: 1. ask billing");
}

#[tokio::test(start_paused = true)]
async fn where_no_other_plan_comes_the_answer_is_made_from_what_there_is() {
    let replies = ["1. a", "FAILED: x", " ", " ", " ", "sorry"];
    let stage = Stage::of(agent(json!({})), replies).await;
    assert_eq!(stage.ask("go").await.text(), "sorry");
}
