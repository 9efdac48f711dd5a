//! What a person says to a run is heard, whatever the behavior is doing just then.

use std::time::Duration;

use ghostlight_actors::{
    testing::ScriptedModel,
    vocabulary::{ModelRequest, ModelResponse},
};
use serde_json::json;

use crate::stage::{Stage, desk, echo};

/// Answers by what it is asked for, so that a call more or less changes nothing.
fn reply(behavior: &str, request: &ModelRequest) -> String {
    let instructions = &request.instructions;
    if instructions.contains("Do not do the task yet") {
        let plan = if behavior == "rewoo" {
            "#E1 = llm[x]"
        } else {
            "1. a\n2. b"
        };
        return plan.to_owned();
    }
    if instructions.starts_with("You are a strict and fair critic") {
        return json!({"approved": true, "score": 9, "critique": "none"}).to_string();
    }
    if behavior == "react" {
        "Final: done".to_owned()
    } else {
        "done".to_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn a_word_in_time_reaches_the_answer_of_every_behavior() {
    for (behavior, calls) in [
        ("simple", 1),
        ("function_calling", 1),
        ("react", 1),
        ("reflection", 2),
        ("plan_and_solve", 4),
        ("rewoo", 3),
    ] {
        for spoken_at in 0..calls {
            let answer =
                move |request: &ModelRequest, _| Ok(ModelResponse::text(reply(behavior, request)));
            let model = ScriptedModel::from_fn(answer).delay(Duration::from_secs(1));
            let stage = Stage::with(desk(behavior, json!({})).tool(echo()), model).await;
            let run = stage.say("go").await;
            tokio::time::sleep(Duration::from_millis(500 + 1000 * spoken_at)).await;
            run.steer("mind the gap").await.unwrap();
            assert_eq!(run.outcome().await.unwrap().text(), "done");
            stage.check();
            let requests = stage.model.requests();
            let answered = requests.iter().rev().find(|request| {
                !request
                    .instructions
                    .starts_with("You are a strict and fair critic")
            });
            let last = crate::stage::said(&answered.unwrap().conversation.messages());
            let heard = last.iter().any(|line| line == "user: mind the gap");
            assert!(
                heard,
                "{behavior}, spoken to in model call {spoken_at}: {last:#?}"
            );
        }
    }
}
