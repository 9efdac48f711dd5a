//! Of several credentials that are given for one call the first counts, and whoever gives another one is told so.

use ghostlight_actors::{
    actor::{AnswerError, Run, SystemError},
    contract::{DynStore as _, ItemBody, MailboxItem, Tool, ToolContext, ToolError, ToolOutput},
    run::Agent,
    vocabulary::{Arguments, OperationId, Timestamp, ToolCall, ToolDefinition},
};
use serde_json::json;

use crate::{
    approvals::{caller, questions, results},
    stage::{Stage, ask},
};

/// Tells the length of the password with which it logs in.
struct Login;

impl Tool for Login {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new("login", "logs in").authentication("The password?")
    }

    async fn call(&self, _: Arguments, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let given = cx.credential().ok_or_else(|| ToolError::new("none"))?;
        Ok(ToolOutput::text(given.reveal().len().to_string()))
    }
}

fn agent() -> Agent {
    caller(vec![ToolCall::new("1", "login", json!({}))]).tool(Login)
}

async fn asking(stage: &Stage) -> (Run, OperationId) {
    let system = stage.start(agent()).await;
    let run = ask(&system, "a", "go").await;
    let (operation, _) = questions(&run).await.remove(0);
    (run, operation)
}

fn is_refused(answer: Result<(), SystemError>) -> bool {
    matches!(
        answer,
        Err(SystemError::Answer {
            error: AnswerError::Answered { .. },
            ..
        })
    )
}

#[tokio::test(start_paused = true)]
async fn the_first_credential_counts_and_another_one_is_refused() {
    let stage = Stage::new();
    let (run, asked) = asking(&stage).await;
    let (first, second, again) = tokio::join!(
        biased;
        run.answer(asked, json!("123")),
        run.answer(asked, json!("12345")),
        run.answer(asked, json!("123")),
    );
    first.unwrap();
    assert!(is_refused(second));
    again.unwrap();
    assert_eq!(results(&run).await[0].text, "3");
}

#[tokio::test(start_paused = true)]
async fn a_credential_that_comes_after_a_refusal_is_refused() {
    let stage = Stage::new();
    let (run, asked) = asking(&stage).await;
    let (refusal, given) = tokio::join!(
        biased;
        run.answer(asked, json!(false)),
        run.answer(asked, json!("12345")),
    );
    refusal.unwrap();
    assert!(is_refused(given));
}

#[tokio::test(start_paused = true)]
async fn a_credential_is_refused_where_another_process_was_given_one() {
    let stage = Stage::new();
    let (run, asked) = asking(&stage).await;
    // The other process keeps what it was given; the run asks again.
    let body = ItemBody::Answer {
        operation: asked,
        value: json!({ "given": true }),
    };
    let item = MailboxItem::new(format!("answer/{asked}"), Timestamp(1), body);
    stage.store.post(run.id().into(), item).await.unwrap();
    assert!(is_refused(run.answer(asked, json!("12345")).await));
    let (again, _) = questions(&run).await.remove(0);
    assert_ne!(again, asked);
    run.answer(again, json!("123")).await.unwrap();
    assert_eq!(results(&run).await[0].text, "3");
}
