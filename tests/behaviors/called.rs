//! Tools and agents that are called: bounds of their own, and answers that end a step.

use ghostlight::policies::ToolLimits;
use ghostlight_actors::{
    definition::Reach,
    run::{Agent, BeforeTool, Policy, PolicyContext, RunContext},
    testing::Reply,
    vocabulary::{AgentError, ModelResponse, Outcome, ToolCall},
};
use serde_json::json;

use crate::stage::{Stage, call, desk, echo, echo_call};

#[tokio::test(start_paused = true)]
async fn a_tool_is_called_as_often_as_it_may_and_its_model_is_told_so() {
    let limits = || ToolLimits::default().tool("echo", 2);
    let agent = desk("function_calling", json!({})).tool(echo());
    let both = [
        call("b", "echo", json!({"text": "2"})),
        call("c", "echo", json!({"text": "3"})),
    ];
    let replies: Vec<Reply> = vec![
        echo_call("a", "1").into(),
        ModelResponse::tool_calls(both).into(),
        "done".into(),
        echo_call("d", "4").into(),
        "done again".into(),
    ];
    let stage = Stage::of(agent.policy("tool_limits", limits), replies).await;
    assert_eq!(stage.ask("go").await.text(), "done");
    let told = stage.last(2);
    assert!(told.contains("echo=success:2"), "{told}");
    let refused = "echo=blocked:not called: echo may be called 2 times in this run";
    assert!(told.contains(refused), "{told}");
    // The next turn is another run.
    assert_eq!(stage.ask("again").await.text(), "done again");
    assert!(stage.last(4).contains("echo=success:4"));
}

/// Holds the first call back.
struct NotYet(bool);

impl Policy for NotYet {
    async fn before_tool(
        &mut self,
        _: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        Ok(match std::mem::replace(&mut self.0, false) {
            true => BeforeTool::blocked(call, "not yet"),
            false => BeforeTool::Go,
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_another_policy_held_back_does_not_count_against_its_tool() {
    let once = || ToolLimits::default().tool("echo", 1);
    let agent = desk("function_calling", json!({})).tool(echo());
    let agent = agent
        .policy("tool_limits", once)
        .policy("not_yet", || NotYet(true));
    let asks = |id| ModelResponse::tool_calls([call(id, "echo", json!({ "text": id }))]);
    let replies: Vec<Reply> = vec![
        asks("a").into(),
        asks("b").into(),
        asks("c").into(),
        "done".into(),
    ];
    let stage = Stage::of(agent, replies).await;
    assert_eq!(stage.ask("go").await.text(), "done");
    assert!(
        stage.last(2).contains("echo=success:b"),
        "{}",
        stage.last(2)
    );
    assert!(stage.last(3).contains("echo=blocked"), "{}", stage.last(3));
}

#[tokio::test(start_paused = true)]
async fn an_agent_whose_answer_ends_the_step_is_not_summed_up_but_where_it_fails() {
    let expert = Agent::from_fn("expert", |cx: RunContext| async move {
        match cx.input().content().as_str() {
            "hard" => Err(AgentError::failed("too hard")),
            task => Ok(Outcome::answer(format!("the answer to {task}"))),
        }
    });
    let asked = |id, task| {
        let task = json!({ "task": task });
        ModelResponse::tool_calls([call(id, "delegate_to_expert", task)])
    };
    let expert = expert.reach(Reach::Delegate).ends_step();
    let agent = desk("function_calling", json!({})).agent(expert);
    let replies: Vec<Reply> = vec![
        asked("a", "it").into(),
        asked("b", "hard").into(),
        "I do not know".into(),
    ];
    let stage = Stage::of(agent, replies).await;
    let outcome = stage.ask("easy?").await;
    assert_eq!(
        outcome.text(),
        "the answer to it",
        "{:?}",
        stage.said(stage.calls() - 1)
    );
    assert_eq!(stage.calls(), 1);
    // A failure is for the model to reason about.
    assert_eq!(stage.ask("hard?").await.text(), "I do not know");
}
