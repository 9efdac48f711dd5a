//! Policies that judge answers.

use ghostlight_actors::{
    run::{Agent, Policy, PolicyContext, Verdict},
    vocabulary::AgentError,
};
use serde_json::json;

use crate::stage::{Stage, desk, echo, told};

fn agent() -> Agent {
    desk("function_calling", json!({})).tool(echo())
}

/// Rejects answers until they contain a word.
struct Wants(&'static str);

impl Policy for Wants {
    async fn before_answer(
        &mut self,
        _: &PolicyContext<'_>,
        draft: &str,
    ) -> Result<Verdict, AgentError> {
        Ok(match draft.contains(self.0) {
            true => Verdict::Accept,
            false => Verdict::Reject(format!("It must say {}.", self.0)),
        })
    }
}

/// Scenario 4.
#[tokio::test(start_paused = true)]
async fn an_answer_is_judged_by_all_until_all_accept_it() {
    let agent = agent()
        .policy("A", || Wants("a"))
        .policy("B", || Wants("b"));
    let stage = Stage::of(agent, ["x", "b", "a", "ab"]).await;
    let run = stage.say("go").await;
    let outcome = run.outcome().await.unwrap();
    stage.check();
    assert_eq!(
        (outcome.text(), &outcome.as_answer().unwrap().flagged),
        ("ab", &None)
    );
    let (a, b) = ("It must say a.", "It must say b.");
    let rejected = |policy: &str, reason: &str| {
        (
            "answer_rejected".to_owned(),
            json!({"policy": policy, "reason": reason}),
        )
    };
    let accepted = |policy: &str| ("answer_accepted".to_owned(), json!({"policy": policy}));
    assert_eq!(
        told(&run).await,
        [
            rejected("A", a),
            rejected("B", b),
            rejected("A", a),
            accepted("B"),
            accepted("A"),
            rejected("B", b),
            accepted("A"),
            accepted("B"),
        ]
    );
    assert_eq!(
        stage.said(3)[1..],
        [
            "assistant: x",
            "user: it must say a.\n\nit must say b.",
            "assistant: b",
            "user: it must say a.",
            "assistant: a",
            "user: it must say b."
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn after_too_many_rejections_the_best_draft_is_the_answer_and_flagged() {
    let agent = agent()
        .policy("A", || Wants("a"))
        .policy("B", || Wants("b"));
    let stage = Stage::of(agent.max_rejections(3), ["x", "b", "y", "never asked"]).await;
    let run = stage.say("go").await;
    let outcome = run.outcome().await.unwrap();
    let answer = outcome.as_answer().unwrap();
    assert_eq!(answer.text, "b");
    assert_eq!(answer.flagged.as_deref(), Some("It must say a."));
    let (name, data) = told(&run).await.pop().unwrap();
    assert_eq!((name.as_str(), &data["rejections"]), ("gave_up", &json!(3)));
    // The session goes on from the answer that was given.
    let _ = stage.try_ask("and?").await;
    assert_eq!(
        stage.said(3)[6..],
        [
            "user: it must say a.\n\nit must say b.",
            "assistant: b",
            "user: and?"
        ]
    );
}
