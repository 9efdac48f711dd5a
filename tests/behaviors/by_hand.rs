//! The loop driven by hand, and strategies of one's own.

use std::sync::Mutex;

use ghostlight::behaviors::{AgentLoop, ModelTurn, Reading, TurnFormat};
use ghostlight_actors::{
    run::{Agent, RunContext},
    testing::Reply,
    vocabulary::{
        AgentError, Message, ModelRequest, ModelResponse, Outcome, ToolResult, ToolStatus,
    },
};

use crate::stage::{Stage, echo, echo_call, said};

/// Scenario 1 of the conformance list: the first of two calls is overridden before it runs, the
/// second after it ran.
#[tokio::test(start_paused = true)]
async fn results_can_be_put_in_the_place_of_calls_before_and_after_they_run() {
    let ran: &'static Mutex<Vec<String>> = Box::leak(Box::default());
    let agent = Agent::from_fn("desk", move |cx: RunContext| async move {
        let mut agent = AgentLoop::new(&cx)?;
        loop {
            match agent.think().await? {
                ModelTurn::Calls(calls) => {
                    let overridden = ToolResult::new(&calls[0], ToolStatus::Blocked, "held back");
                    let mut acted = agent.call(&calls[1..]).await?;
                    ran.lock()
                        .unwrap()
                        .extend(acted.results.iter().map(|result| result.text.clone()));
                    acted.results[0].text = "[redacted]".to_owned();
                    let mut results = acted.results;
                    results.push(overridden);
                    agent.record(results);
                }
                ModelTurn::Answer(text) => return Ok(agent.answer(text)),
                other => return Err(AgentError::failed(format!("{other:?}"))),
            }
        }
    });
    let calls = vec![echo_call("a", "one"), echo_call("b", "secret")];
    let replies: Vec<Reply> = vec![calls.into(), "done".into()];
    let stage = Stage::of(agent.tool(echo()), replies).await;
    assert_eq!(stage.ask("go").await.text(), "done");
    assert_eq!(*ran.lock().unwrap(), ["secret"]);
    assert_eq!(
        stage.last(1),
        "tool: echo=blocked:held back | echo=success:[redacted]"
    );
}

#[tokio::test(start_paused = true)]
async fn calls_that_the_driver_forgets_are_closed_before_the_next_request() {
    let agent = Agent::from_fn("desk", |cx: RunContext| async move {
        let mut agent = AgentLoop::new(&cx)?;
        agent.think().await?;
        agent.say("Never mind.");
        agent.think().await?;
        agent.think().await?;
        Ok(agent.answer("done"))
    });
    let calls = || Reply::from(vec![echo_call("a", "1"), echo_call("b", "2")]);
    let stage = Stage::of(
        agent.tool(echo()),
        [calls(), calls(), "x".into(), "y".into()],
    )
    .await;
    assert_eq!(stage.ask("go").await.text(), "done");
    let results = "tool: echo=interrupted:not run. | echo=interrupted:not run.";
    assert_eq!(stage.said(1)[2..], [results, "user: never mind."]);
    assert_eq!(stage.last(2), results);
}

/// Answers in capitals, and asks at a low temperature with the last message alone.
struct Loud;

impl TurnFormat for Loud {
    fn request(&self, mut request: ModelRequest) -> ModelRequest {
        let mut settings = (*request.settings).clone();
        settings.temperature = Some(0.0);
        let last = request.conversation.last();
        request.conversation = last.into_iter().collect();
        request.settings(settings)
    }

    fn read(&self, response: &ModelResponse, _step: u32) -> Reading {
        let text = response.content().to_uppercase();
        Reading::new(Message::assistant(text.as_str()), ModelTurn::Answer(text))
    }
}

#[tokio::test(start_paused = true)]
async fn a_strategy_changes_how_a_request_is_built_and_a_response_is_read() {
    async fn loud(cx: RunContext) -> Result<Outcome, AgentError> {
        AgentLoop::new(&cx)?.format(Loud).run().await
    }
    let stage = Stage::of(Agent::from_fn("desk", loud), ["quiet", "still"]).await;
    assert_eq!(stage.ask("go").await.text(), "QUIET");
    assert_eq!(stage.request(0).settings.temperature, Some(0.0));
    // The conversation is transformed in the request and nowhere else.
    assert_eq!(stage.ask("and on").await.text(), "STILL");
    assert_eq!(stage.said(1), ["user: and on"]);
    let session = stage.system.session("desk", "session");
    let kept = said(&session.transcript().await.unwrap().messages());
    let whole = [
        "user: go",
        "assistant: quiet",
        "user: and on",
        "assistant: still",
    ];
    assert_eq!(kept, whole);
}
