//! Choosing how to work by the task.

use serde_json::json;

use crate::stage::{Stage, desk, echo, told};

#[tokio::test(start_paused = true)]
async fn a_simple_task_is_called_and_a_complex_one_is_planned() {
    let agent = desk("adaptive", json!({})).tool(echo());
    let replies = ["hello", "#E1 = echo[x]", "compared"];
    let stage = Stage::of(agent, replies).await;
    let run = stage.say("Say hello.").await;
    assert_eq!(run.outcome().await.unwrap().text(), "hello");
    let chosen = json!({"behavior": "function_calling", "complexity": 0.5});
    assert_eq!(told(&run).await, [("behavior_chosen".to_owned(), chosen)]);
    let run = stage
        .say("Compare, research and evaluate several offers.")
        .await;
    assert_eq!(run.outcome().await.unwrap().text(), "compared");
    assert_eq!(told(&run).await[0].1["behavior"], "rewoo");
}

#[tokio::test(start_paused = true)]
async fn a_rule_decides_first_and_gives_its_settings() {
    let rule = json!({"words": ["quick"], "use": {"name": "function_calling", "max_steps": 1}});
    let agent = desk("adaptive", json!({ "rules": [rule] })).tool(echo());
    let stage = Stage::of(agent, [crate::stage::echo_call("a", "1")]).await;
    let outcome = stage.ask("Quick: compare and research several plans").await;
    assert!(outcome.stop_reason().is_some());
    assert_eq!(stage.calls(), 1);
}
