//! Looking back over the recorded history of steps: what was really done, whatever the model says.

use std::time::Duration;

use ghostlight::{behaviors, policies::SelfReflection};
use ghostlight_actors::{
    contract::ModelError,
    run::{Agent, Registry},
    testing::{CrashOptions, InMemoryStore, Reply, Scenario, ScriptedModel, crash_everywhere},
    vocabulary::{Effect, ErrorKind, Outcome, ToolDefinition},
};
use serde_json::{Value, json};

use crate::stage::{Stage, desk, echo, echo_call, told};

fn reflective() -> Agent {
    desk("function_calling", json!({}))
        .tool(echo())
        .policy("self_reflection", SelfReflection::default)
}

/// Calls of `echo` with these texts, one a step, and then an answer that praises itself.
fn turn(texts: &[&str]) -> Vec<Reply> {
    let calls = texts.iter().map(|text| Reply::from(echo_call("c", text)));
    calls.chain(["I never repeat myself.".into()]).collect()
}

fn of(told: &[(String, Value)], name: &str) -> Vec<Value> {
    let named = told.iter().filter(|(told, _)| told == name);
    named.map(|(_, data)| data.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn calls_that_return_are_told_whatever_stands_between_also_in_a_later_process() {
    let store = InMemoryStore::new();
    let first = ScriptedModel::replies(turn(&["a", "b", "a", "c", "a"]));
    let stage = Stage::on(&store, reflective(), first).await;
    let run = stage.say("look").await;
    run.outcome().await.unwrap();
    assert_eq!(told(&run).await, [], "three times are none too many");
    store.crash();

    let second = ScriptedModel::replies(turn(&["d", "a", "a"]));
    let stage = Stage::on(&store.another_process(), reflective(), second).await;
    let run = stage.say("look again").await;
    run.outcome().await.unwrap();
    stage.check();
    let told = of(&told(&run).await, "repeated_calls");
    let calls = r#"echo {"text":"a"}"#;
    assert_eq!(
        told,
        [4, 5].map(|times| json!({ "calls": calls, "times": times }))
    );
    let is_told = |request| stage.last(request).starts_with("user: you have made these");
    assert_eq!([0, 1, 2, 3].map(is_told), [false, false, true, true]);
    assert!(stage.last(2).contains("4 times") && stage.last(2).contains(calls));
}

#[tokio::test(start_paused = true)]
async fn the_third_similar_error_of_a_tool_is_told_and_another_sort_is_not_counted_with_it() {
    let errors = [
        "fail no such page: 12",
        "fail the disk is full",
        "fail no such page: 7",
        "well",
        "fail No such page: 3",
    ];
    let stage = Stage::of(reflective(), turn(&errors)).await;
    let run = stage.say("look").await;
    run.outcome().await.unwrap();
    stage.check();
    let told = told(&run).await;
    let found = json!({ "tool": "echo", "error": "No such page: 3", "times": 3 });
    assert_eq!(told, [("similar_errors".to_owned(), found)]);
    let words = "`echo` has failed 3 times in a similar way, the last time with: no such page: 3.";
    assert!(stage.last(5).contains(words), "{}", stage.last(5));
}

#[tokio::test(start_paused = true)]
async fn turns_that_were_long_or_came_to_no_answer_are_told_with_the_next() {
    // Each step is another one. The turns end with an answer, or at the bound of ten steps.
    let model = ScriptedModel::from_reply_fn(|request, number| {
        let said = request.conversation.messages();
        let asked = said.iter().rposition(|message| message.is_from_user());
        let asked = asked.unwrap();
        // What the policy tells stands below the words of the turn.
        match said[asked].content().starts_with("short") {
            true => "done".into(),
            false => echo_call("c", &number.to_string()).into(),
        }
    });
    let agent = reflective().max_steps(10);
    let stage = Stage::with(agent, model).await;
    let mut all = Vec::new();
    for turn in ["long", "long", "long", "short", "long", "short", "short"] {
        let before = stage.calls();
        let run = stage.say(turn).await;
        let outcome = run.outcome().await.unwrap();
        assert_eq!(outcome.stop_reason().is_none(), turn == "short");
        let first = stage.said(before).join("\n");
        let is_told = first.contains("ended with an answer") && first.contains("on average");
        all.push((told(&run).await, is_told));
    }
    stage.check();
    assert!(all[..5].iter().all(|turn| *turn == (vec![], false)));
    let found = |answered: u32, turns: u32, average: f64| {
        let long = json!({ "average": average, "turns": turns });
        let few = json!({ "answered": answered, "turns": turns });
        let found = [("long_turns", long), ("few_answers", few)];
        found
            .map(|(name, data)| (name.to_owned(), data))
            .into_iter()
            .collect::<Vec<_>>()
    };
    assert_eq!(all[5], (found(1, 5, 8.2), true));
    // Each later turn is judged with those before it.
    let (told, _) = &all[6];
    assert_eq!(*told, found(2, 6, 7.0)[1..], "seven steps are not too many");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_fails_counts_as_one_without_an_answer() {
    let model = ScriptedModel::from_reply_fn(|_, number| match number {
        0..2 => Reply::Fail(ModelError::new(ErrorKind::Model, "broken")),
        _ => "done".into(),
    });
    let settings = || {
        let mut settings = SelfReflection::default();
        settings.after_turns = 2;
        settings
    };
    let agent = desk("simple", json!({})).policy("self_reflection", settings);
    let stage = Stage::with(agent, model).await;
    for _ in 0..2 {
        assert!(stage.say("go").await.outcome().await.is_err());
    }
    let run = stage.say("go").await;
    assert_eq!(run.outcome().await.unwrap(), Outcome::answer("done"));
    let few = json!({ "answered": 0, "turns": 2 });
    assert_eq!(told(&run).await, [("few_answers".to_owned(), few)]);
}

#[tokio::test(start_paused = true)]
async fn what_is_told_is_the_same_wherever_the_process_dies() {
    let scenario = Scenario::new("desk", |builder, log| {
        let tool = ToolDefinition::new("echo", "is logged").effect(Effect::Once);
        let settings = json!({ "same_calls": 1, "after_turns": 1, "average_steps": 1 });
        let agent = Agent::new("desk")
            .tool(log.tool(tool, Duration::from_millis(5)))
            .policy("self_reflection", settings);
        let replies = [turn(&["a", "b", "a"]), turn(&["a"])].concat();
        builder
            .registry(ghostlight::policies::register(behaviors::register(
                Registry::new(),
            )))
            .model("default", ScriptedModel::turns(replies))
            .team(agent.into_team().unwrap())
    });
    let scenario = scenario.turn("go").turn("and on");
    let report = crash_everywhere(&scenario, CrashOptions::default()).await;
    assert!(report.violations.is_empty(), "{report}");
    assert!(report.commits >= 12, "{report}");
}
