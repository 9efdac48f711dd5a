//! The field's conformance scenario 20: a rate limit with a hundred callers at once.

use std::time::Duration;

use futures_util::future::join_all;
use ghostlight::{
    contract::{Model, ModelContext, ModelError},
    interceptors::RateLimit,
    run::{Agent, Intercept, RunContext},
    testing::InMemoryStore,
    vocabulary::{
        Effect, Message, ModelRequest, ModelResponse, Outcome, ToolCall, Transcript, Usage,
    },
};
use serde_json::json;

use crate::{Act, Script, Scripted, System, seconds};

/// A model that thinks for a while, for 50 tokens.
struct Thinking;

impl Model for Thinking {
    async fn respond(&self, _: ModelRequest, _: ModelContext) -> Result<ModelResponse, ModelError> {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let mut answer = ModelResponse::text("thought");
        answer.usage = Usage {
            input_tokens: 40,
            output_tokens: 10,
            ..Usage::default()
        };
        Ok(answer)
    }
}

/// A team whose agent calls its tool, or asks its model, once in each run.
async fn started(agent: Agent, limit: RateLimit) -> System {
    let team = agent.into_team().unwrap().intercept(Intercept::new(limit));
    let builder = System::builder(InMemoryStore::new()).model("default", Thinking);
    builder.team(team).start().await.unwrap()
}

/// How many of so many sessions, all at once, were allowed.
async fn allowed(system: &System, callers: u32) -> usize {
    let ends = (0..callers).map(|caller| async move {
        let session = system.session("a", format!("caller {caller}"));
        let run = session.send("go").await.unwrap();
        run.outcome().await.unwrap().text().to_owned()
    });
    let ends = join_all(ends).await;
    let (allowed, refused): (Vec<_>, Vec<_>) = ends.iter().partition(|end| *end == "done");
    let is_told = |end: &&String| end.contains("its rate limit is used up for another");
    assert!(refused.iter().all(is_told), "{refused:?}");
    allowed.len()
}

#[tokio::test(start_paused = true)]
async fn of_a_hundred_callers_at_once_exactly_the_limit_is_allowed_and_again_in_the_next_window() {
    let script = Script::new(&[Act::Answers]);
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let result = cx.tool(ToolCall::new("1", "act", json!({}))).await?;
        Ok(Outcome::answer(result.text))
    });
    let agent = agent.tool(Scripted(script.clone(), Effect::Read));
    let limit = RateLimit::calls(10, seconds(60)).max_wait(seconds(0));
    let system = started(agent, limit).await;
    for (window, made) in [(0, 10), (60, 20), (3_600, 30)] {
        tokio::time::sleep(seconds(window)).await;
        assert_eq!(allowed(&system, 100).await, 10, "after {window} s");
        assert_eq!(script.made(), made, "who is refused calls nothing");
    }
    // Half a window brings half of them: the limit is a bucket that fills evenly.
    tokio::time::sleep(seconds(30)).await;
    assert_eq!(allowed(&system, 100).await, 5);
}

#[tokio::test(start_paused = true)]
async fn of_a_hundred_callers_at_once_tokens_that_were_reserved_and_not_used_let_others_pass() {
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let asked = Transcript::from_iter([Message::user("x")]);
        Ok(Outcome::answer(
            match cx.model(cx.model_request(asked)).await {
                Ok(_) => "done".to_owned(),
                Err(error) => error.to_string(),
            },
        ))
    });
    // Each call reserves 501 by estimate, 500 of them for its answer.
    let limit = RateLimit::tokens(1_002, seconds(60)).max_wait(seconds(0));
    let system = started(agent, limit).await;
    assert_eq!(allowed(&system, 100).await, 2, "what is reserved is taken");
    // They used 50 each, so that there is room for 501 again, until all have used too much.
    let mut passed = 2;
    while allowed(&system, 1).await == 1 {
        passed += 1;
    }
    assert_eq!(
        passed, 11,
        "11 times 50 leaves less than the next one reserves"
    );
    tokio::time::sleep(seconds(60)).await;
    assert_eq!(allowed(&system, 100).await, 2, "the window has passed");
}
