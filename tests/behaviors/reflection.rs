//! Reflection: a verdict that is a value, and the best draft.

use std::time::Duration;

use ghostlight_actors::{
    session::Turn,
    testing::{Reply, ScriptedModel},
    vocabulary::{Budget, ModelRequest, ModelResponse, Outcome, Resource, StopReason},
};
use serde_json::json;

use crate::stage::{Stage, desk, echo, echo_call, told};

fn verdict(approved: bool, score: u32, critique: &str) -> String {
    json!({"approved": approved, "score": score, "critique": critique}).to_string()
}

fn flag(outcome: &Outcome) -> Option<&str> {
    outcome.as_answer().unwrap().flagged.as_deref()
}

#[tokio::test(start_paused = true)]
async fn a_draft_is_judged_revised_and_approved() {
    let replies: Vec<Reply> = vec![
        echo_call("a", "fact").into(),
        "draft one".into(),
        verdict(false, 4, "Name the source.").into(),
        "draft two".into(),
        verdict(true, 9, "").into(),
        "next".into(),
        verdict(true, 9, "").into(),
    ];
    let stage = Stage::of(desk("reflection", json!({})).tool(echo()), replies).await;
    let run = stage.say("write").await;
    let outcome = run.outcome().await.unwrap();
    assert_eq!((outcome.text(), flag(&outcome)), ("draft two", None));
    let judged = stage.request(2);
    assert!(judged.output.is_some() && judged.tools.is_empty());
    // The critic sees what was really done, not only what the draft says of it.
    let seen: Vec<_> = judged.conversation.messages();
    assert!(seen.iter().any(|message| message.tool_calls().count() == 1));
    assert!(
        seen.iter()
            .any(|message| message.tool_results().count() == 1)
    );
    assert!(stage.last(2).contains("judge the answer above") && stage.last(2).contains("write"));
    assert!(stage.last(3).contains("name the source."));
    assert_eq!(told(&run).await.len(), 2);
    // The critic's part is not in the session, and what was said is.
    stage.ask("and?").await;
    let said = stage.said(5);
    assert_eq!(said.len(), 1 + 2 + 1 + 1 + 1 + 1, "{said:?}");
    assert_eq!(said[5..], ["assistant: draft two", "user: and?"]);
}

#[tokio::test(start_paused = true)]
async fn not_approved_approves_nothing_and_the_best_draft_wins() {
    let replies = [
        "draft one".to_owned(),
        verdict(false, 6, "Not APPROVED yet."),
        "draft two".to_owned(),
        verdict(false, 8, "APPROVED it is not."),
        "draft three".to_owned(),
        verdict(false, 3, "Worse."),
        "next".to_owned(),
        verdict(true, 9, ""),
    ];
    let stage = Stage::of(desk("reflection", json!({"max_rounds": 2})), replies).await;
    let outcome = stage.ask("write").await;
    assert_eq!(outcome.text(), "draft two");
    assert_eq!(flag(&outcome), Some("not approved: APPROVED it is not."));
    assert_eq!(stage.calls(), 6);
    stage.ask("and?").await;
    let said = stage.said(6).join("\n");
    assert!(
        said.contains("draft two") && !said.contains("draft three"),
        "{said}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_verdict_that_cannot_be_read_is_mended_or_flagged() {
    let replies = [
        "draft",
        "I like it",
        "{'approved': true, 'score': 9, 'critique': ''}",
    ];
    let stage = Stage::of(desk("reflection", json!({})), replies).await;
    assert_eq!(flag(&stage.ask("write").await), None);
    let replies = ["draft", "no", "no", "no", "no"];
    let stage = Stage::of(desk("reflection", json!({})), replies).await;
    let outcome = stage.ask("write").await;
    assert_eq!(outcome.text(), "draft");
    assert!(flag(&outcome).unwrap().contains("verdict"));
}

#[tokio::test(start_paused = true)]
async fn a_used_up_budget_keeps_the_best_draft() {
    let replies = [
        "draft one".to_owned(),
        verdict(false, 6, "x"),
        "draft two".to_owned(),
        "x".to_owned(),
    ];
    for (calls, text) in [(1, "draft one"), (2, "draft one"), (3, "draft two")] {
        let stage = Stage::of(desk("reflection", json!({})), replies.clone()).await;
        let budget = Budget {
            model_calls: Some(calls),
            ..Budget::default()
        };
        let outcome = stage.ask(Turn::text("write").budget(budget)).await;
        let reason = StopReason::BudgetExhausted(Resource::ModelCalls);
        assert_eq!(
            (outcome.stop_reason(), outcome.text()),
            (Some(&reason), text)
        );
    }
}

/// Says something during this model call, counted from 0; each takes a second. A critic who hears it
/// judges once more.
async fn spoken_to(
    model: ScriptedModel,
    call: u64,
    settings: serde_json::Value,
    turn: Turn,
) -> (Stage, Outcome) {
    let model = model.delay(Duration::from_secs(1));
    let stage = Stage::with(desk("reflection", settings), model).await;
    let run = stage.say(turn).await;
    tokio::time::sleep(Duration::from_millis(500 + 1000 * call)).await;
    run.steer("mind the gap").await.unwrap();
    let outcome = run.outcome().await.unwrap();
    stage.check();
    (stage, outcome)
}

#[tokio::test(start_paused = true)]
async fn what_a_person_says_during_the_last_critique_is_answered() {
    for first in [verdict(true, 9, ""), verdict(false, 9, "Shorter.")] {
        let model = ScriptedModel::replies([
            "draft one".to_owned(),
            first.clone(),
            first,
            "draft two".to_owned(),
            verdict(true, 5, ""),
        ]);
        let settings = json!({"max_rounds": 0});
        let (stage, outcome) = spoken_to(model, 1, settings, Turn::text("write")).await;
        assert_eq!((outcome.text(), flag(&outcome)), ("draft two", None));
        let heard = stage.said(3).contains(&"user: mind the gap".to_owned());
        assert!(heard, "{:?}", stage.said(3));
    }
}

#[tokio::test(start_paused = true)]
async fn a_draft_from_before_a_persons_word_is_not_the_best_one() {
    let model = ScriptedModel::replies([
        "draft one".to_owned(),
        verdict(false, 9, "Nearly."),
        verdict(false, 9, "Nearly."),
        "draft two".to_owned(),
        verdict(false, 3, "Worse."),
    ]);
    let settings = json!({"max_rounds": 1});
    let (_, outcome) = spoken_to(model, 1, settings, Turn::text("write")).await;
    let told = (outcome.text(), flag(&outcome));
    assert_eq!(told, ("draft two", Some("not approved: Worse.")));
}

#[tokio::test(start_paused = true)]
async fn what_a_person_says_is_answered_although_the_verdict_cannot_be_read() {
    let unreadable = std::iter::repeat_n("no".to_owned(), 5);
    let then = ["draft two".to_owned(), verdict(true, 5, "")];
    let replies = std::iter::once("draft one".to_owned())
        .chain(unreadable)
        .chain(then);
    let model = ScriptedModel::replies(replies);
    let (_, outcome) = spoken_to(model, 2, json!({}), Turn::text("write")).await;
    assert_eq!((outcome.text(), flag(&outcome)), ("draft two", None));
}

#[tokio::test(start_paused = true)]
async fn what_a_person_says_is_kept_when_the_budget_ends_the_run() {
    for (calls, answer) in [(2, "draft 0"), (3, "draft 0"), (4, "draft 3")] {
        let model = ScriptedModel::from_fn(|request: &ModelRequest, number| {
            let judges = request
                .instructions
                .starts_with("You are a strict and fair critic");
            Ok(ModelResponse::text(match judges {
                true => verdict(true, 9, ""),
                false => format!("draft {number}"),
            }))
        });
        let budget = Budget {
            model_calls: Some(calls),
            ..Budget::default()
        };
        let turn = Turn::text("write").budget(budget);
        let (stage, outcome) = spoken_to(model, 1, json!({}), turn).await;
        let reason = StopReason::BudgetExhausted(Resource::ModelCalls);
        assert_eq!(
            (outcome.stop_reason(), outcome.text()),
            (Some(&reason), answer)
        );
        let before = stage.calls();
        stage.ask("and?").await;
        let said = stage.said(before).join("\n");
        assert!(said.contains("user: mind the gap"), "{calls}: {said}");
    }
}
