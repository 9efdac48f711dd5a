//! The end of a run: its questions are answered, and one that cannot end by itself is cancelled.

use ghostlight_actors::{
    actor::{Run, System, SystemError},
    contract::RunStatus,
    vocabulary::QuestionKind,
};
use serde_json::Value;

use super::Evaluation;
use crate::{cell::CellResult, recording::at_rest, suite::WhenAsked};

impl Evaluation {
    /// Waits until the run has ended, and answers what it asks. A run that cannot end by itself is cancelled; then the
    /// result says why.
    pub(super) async fn settle(
        &self,
        system: &System,
        run: &Run,
    ) -> Result<Option<CellResult>, SystemError> {
        loop {
            let row = at_rest(run).await?;
            let stuck = match row.status {
                RunStatus::Waiting
                    if row.wake_at.is_some() && run.questions().await?.is_empty() =>
                {
                    String::from("it sleeps until a time of its own")
                }
                RunStatus::Waiting => match self.answer(system, run).await? {
                    None => continue,
                    Some(why) => why,
                },
                RunStatus::Parked => String::from("it is parked: `ghostlight show` says why"),
                _ => return Ok(None),
            };
            run.cancel(&stuck).await?;
            run.wait().await?;
            return Ok(Some(CellResult::AgentFailed { why: stuck }));
        }
    }

    /// Answers the open questions of a run, as the suite says; or says why that cannot be done.
    async fn answer(&self, system: &System, run: &Run) -> Result<Option<String>, SystemError> {
        let questions = run.questions().await?;
        if questions.is_empty() {
            return Ok(Some(String::from(
                "it waits for a message or a result from outside",
            )));
        }
        for (asked_by, operation, question) in questions {
            if question.kind == QuestionKind::ToolResult {
                // The sample offered the tool, and nothing is behind it.
                let result = Value::from("The call is recorded.");
                system.run(asked_by).answer(operation, result).await?;
                continue;
            }
            let approves = match (self.suite.questions, &question.kind) {
                (WhenAsked::Approve, QuestionKind::Approval) => true,
                (WhenAsked::Deny, QuestionKind::Approval) => false,
                _ => return Ok(Some(format!("it asked a person: {}", question.prompt))),
            };
            system
                .run(asked_by)
                .answer(operation, Value::Bool(approves))
                .await?;
        }
        Ok(None)
    }
}
