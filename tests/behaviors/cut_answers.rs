//! An answer that its provider cut off or held back is told to be so, and nothing half is done.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use ghostlight::tools::tool_fn;
use ghostlight_actors::{
    contract::{ToolError, ToolHandle},
    vocabulary::{Effect, FinishReason, ModelResponse, Part, StopReason, ToolCall, ToolDefinition},
};
use serde_json::json;

use crate::stage::{Stage, call, desk};

/// A tool that takes nothing, so that a call of it is whole wherever it is cut; it counts its calls.
fn wipe(calls: &Arc<AtomicUsize>) -> ToolHandle {
    let definition = ToolDefinition::new("wipe", "Wipes.").effect(Effect::Once);
    let calls = calls.clone();
    tool_fn(definition, move |_: serde_json::Value| {
        calls.fetch_add(1, Ordering::Relaxed);
        async { Ok::<_, ToolError>(String::from("wiped")) }
    })
}

fn cut(mut response: ModelResponse, finish: FinishReason) -> ModelResponse {
    response.finish = finish;
    response
}

fn calls(text: &str, calls: impl IntoIterator<Item = ToolCall>) -> ModelResponse {
    let mut response = ModelResponse::tool_calls(calls);
    let message = Arc::make_mut(&mut response.message);
    message.parts.insert(0, Part::Text(text.to_owned()));
    response
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_cut_off_is_a_stop_that_says_so_with_what_came() {
    for (finish, reason) in [
        (FinishReason::Length, StopReason::Truncated),
        (FinishReason::ContentFilter, StopReason::ContentFilter),
    ] {
        for behavior in ["function_calling", "simple", "reflection"] {
            let half = cut(ModelResponse::text("Do not pay more than"), finish.clone());
            let stage = Stage::of(desk(behavior, json!({})), [half]).await;
            let outcome = stage.ask("How much?").await;
            assert_eq!(outcome.stop_reason(), Some(&reason), "{behavior}");
            assert_eq!(outcome.text(), "Do not pay more than", "{behavior}");
        }
        // All tokens went into reasoning: there is nothing to nudge.
        let nothing = cut(ModelResponse::text(""), finish);
        let stage = Stage::of(desk("function_calling", json!({})), [nothing]).await;
        let outcome = stage.ask("How much?").await;
        assert_eq!((outcome.stop_reason(), stage.calls()), (Some(&reason), 1));
    }
}

#[tokio::test(start_paused = true)]
async fn half_an_answer_is_not_mended_into_one_that_fits_its_schema() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[allow(dead_code)]
    struct Price {
        gross: f64,
    }
    let half = cut(ModelResponse::text(r#"{"gross": 12"#), FinishReason::Length);
    let agent = desk("function_calling", json!({})).output::<Price>();
    let outcome = Stage::of(agent, [half]).await.ask("price?").await;
    assert_eq!(outcome.stop_reason(), Some(&StopReason::Truncated));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_cut_off_is_not_run_and_the_whole_ones_before_it_are() {
    let wiped = Arc::new(AtomicUsize::new(0));
    let agent = desk("function_calling", json!({})).tool(wipe(&wiped));
    let two = [
        call("a", "wipe", json!({})),
        ToolCall::new("b", "wipe", "{}"),
    ];
    let replies = [
        cut(calls("so", two), FinishReason::Length),
        ModelResponse::text("done"),
    ];
    let stage = Stage::of(agent, replies).await;
    let outcome = stage.ask("wipe").await;
    assert_eq!((outcome.text(), outcome.stop_reason()), ("done", None));
    assert_eq!(wiped.load(Ordering::Relaxed), 1);
    let told = stage.last(1);
    assert!(told.contains("wipe=success:wiped"), "{told}");
    assert!(
        told.contains("wipe=interrupted:not run: your answer reached its bound"),
        "{told}"
    );
}

#[tokio::test(start_paused = true)]
async fn calls_that_are_cut_off_again_and_again_stop_the_run() {
    let wiped = Arc::new(AtomicUsize::new(0));
    let agent = desk("function_calling", json!({})).tool(wipe(&wiped));
    let half = |n| {
        let call = ToolCall::new(format!("c{n}"), "wipe", "");
        cut(calls("so", [call]), FinishReason::Length)
    };
    let stage = Stage::of(agent, (0..9).map(half)).await;
    let outcome = stage.ask("wipe").await;
    assert_eq!(outcome.stop_reason(), Some(&StopReason::Truncated));
    assert_eq!(outcome.text(), "so");
    assert_eq!((stage.calls(), wiped.load(Ordering::Relaxed)), (4, 0));
}

#[tokio::test(start_paused = true)]
async fn no_call_of_an_answer_that_was_held_back_is_run() {
    let wiped = Arc::new(AtomicUsize::new(0));
    let agent = desk("function_calling", json!({})).tool(wipe(&wiped));
    let held = calls("so", [call("a", "wipe", json!({}))]);
    let held = cut(held, FinishReason::ContentFilter);
    let stage = Stage::of(agent, [held, ModelResponse::text("later")]).await;
    let outcome = stage.ask("wipe").await;
    assert_eq!(outcome.stop_reason(), Some(&StopReason::ContentFilter));
    assert_eq!(wiped.load(Ordering::Relaxed), 0);
    // The conversation stays one that a provider accepts.
    assert_eq!(stage.ask("again").await.text(), "later");
}

#[tokio::test(start_paused = true)]
async fn the_line_of_an_answer_that_is_cut_off_says_so() {
    let half = cut(ModelResponse::text("Do not"), FinishReason::Length);
    let stage = Stage::of(desk("simple", json!({})), [half]).await;
    let run = stage.say("go").await;
    run.outcome().await.unwrap();
    let mut events = run.events();
    let mut lines = Vec::new();
    while let Some(event) = events.next().await {
        lines.push(event.unwrap().to_string());
    }
    let cut = |line: &String| line.contains("cut off at its bound on tokens");
    assert!(lines.iter().any(cut), "{lines:#?}");
}
