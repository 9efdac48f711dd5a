//! Waiting for a run, as long as somebody waits for the response.

use std::time::Duration;

use axum::http::StatusCode;
use ghostlight_actors::{
    actor::{Run, SystemError},
    contract::RunStatus,
    vocabulary::{OperationId, Outcome, Question, RunId},
};

use crate::{problem::Problem, server::Shared};

/// The first and the longest pause between two looks whether a run asks something.
const LOOK: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(400));

/// A question that has its answer, by the run that asked and its operation.
pub(crate) type Answered = (RunId, OperationId);

/// What a run came to while somebody waited.
#[derive(Debug)]
pub(crate) enum Waited {
    /// It ended.
    Ended(Outcome),
    /// It goes on when somebody answers.
    Asks(Vec<(RunId, OperationId, Question)>),
    /// It is under way.
    GoesOn,
}

/// Waits for a run's end or its questions, other than those that were answered a moment ago; at most so long, and not
/// when the server stops.
pub(crate) async fn wait(
    state: &Shared,
    run: &Run,
    most: Duration,
    answered: &[Answered],
) -> Result<Waited, Problem> {
    let most = most.min(state.limits.wait);
    tokio::select! {
        biased;
        outcome = run.outcome() => Ok(Waited::Ended(outcome?)),
        questions = asks(run, answered) => Ok(Waited::Asks(questions?)),
        () = tokio::time::sleep(most) => Ok(Waited::GoesOn),
        () = state.stopping.cancelled() => Err(Problem::stopping()),
    }
}

/// The same, where a run that goes on is a failure.
pub(crate) async fn wait_for_end(
    state: &Shared,
    run: &Run,
    answered: &[Answered],
) -> Result<Waited, Problem> {
    match wait(state, run, state.limits.wait, answered).await? {
        Waited::GoesOn => {
            let detail = format!(
                "run {} is still under way; follow it at /api/v1/runs/{}/events",
                run.id(),
                run.id()
            );
            Err(Problem::new(
                StatusCode::GATEWAY_TIMEOUT,
                "still-running",
                detail,
            ))
        }
        waited => Ok(waited),
    }
}

/// Waits until a run asks something else than this, and tells what.
pub(crate) async fn asks(
    run: &Run,
    answered: &[Answered],
) -> Result<Vec<(RunId, OperationId, Question)>, SystemError> {
    let (mut pause, most) = LOOK;
    loop {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(most);
        let status = run.status().await?.status;
        // A run that went on in another journal waits there.
        if matches!(status, RunStatus::Waiting | RunStatus::Continued) {
            let mut questions = run.questions().await?;
            questions.retain(|(asker, operation, _)| !answered.contains(&(*asker, *operation)));
            if !questions.is_empty() {
                return Ok(questions);
            }
        }
    }
}
