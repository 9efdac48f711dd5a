//! Waiting for a run, as long as somebody waits for the response.

use std::time::Duration;

use ghostlight_actors::{
    actor::{Run, SystemError},
    contract::RunStatus,
    vocabulary::{OperationId, Outcome, Question, RunId},
};

use crate::{problem::Problem, server::Shared};

/// The first and the longest pause between two looks whether a run asks something.
const LOOK: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(400));

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

/// Waits for a run's end or its questions, at most so long, and not when the server stops.
pub(crate) async fn wait(state: &Shared, run: &Run, most: Duration) -> Result<Waited, Problem> {
    let most = most.min(state.limits.wait);
    tokio::select! {
        biased;
        outcome = run.outcome() => Ok(Waited::Ended(outcome?)),
        questions = asks(run) => Ok(Waited::Asks(questions?)),
        () = tokio::time::sleep(most) => Ok(Waited::GoesOn),
        () = state.stopping.cancelled() => Err(Problem::stopping()),
    }
}

async fn asks(run: &Run) -> Result<Vec<(RunId, OperationId, Question)>, SystemError> {
    let (mut pause, most) = LOOK;
    loop {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(most);
        let status = run.status().await?.status;
        // A run that went on in another journal waits there.
        if matches!(status, RunStatus::Waiting | RunStatus::Continued) {
            let questions = run.questions().await?;
            if !questions.is_empty() {
                return Ok(questions);
            }
        }
    }
}
