//! Waiting for a run on behalf of a request.

use std::time::Duration;

use axum::http::StatusCode;
use ghostlight_actors::{
    actor::{Run, SystemError},
    contract::RunStatus,
    vocabulary::{OperationId, Outcome, Question, RunId, Spent},
};

use crate::{problem::Problem, server::Shared};

/// The first and the longest pause between two checks whether a run asks a question.
const LOOK: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(400));

/// The longest that a request waits for a cancelled run to come to rest.
const REST: Duration = Duration::from_secs(60);

/// An answered question: the asking run and its operation.
pub(crate) type Answered = (RunId, OperationId);

/// The result of waiting for a run.
#[derive(Debug)]
pub(crate) enum Waited {
    /// The run ended, and consumed this.
    Ended(Outcome, Spent),
    /// It waits for answers.
    Asks(Vec<(RunId, OperationId, Question)>),
    /// It is still under way.
    GoesOn,
}

/// Waits for a run's end or its questions, without those that were just answered. Ends after this time at the latest,
/// and when the server stops.
pub(crate) async fn wait(
    state: &Shared,
    run: &Run,
    most: Duration,
    answered: &[Answered],
) -> Result<Waited, Problem> {
    let most = most.min(state.limits.max_wait);
    tokio::select! {
        biased;
        ended = run.outcome_and_spent() => {
            let (outcome, spent) = ended?;
            Ok(Waited::Ended(outcome, spent))
        }
        questions = asks(run, answered) => Ok(Waited::Asks(questions?)),
        () = tokio::time::sleep(most) => Ok(Waited::GoesOn),
        () = state.stopping.cancelled() => Err(Problem::stopping()),
    }
}

/// The same, where a run that is still under way is an error.
pub(crate) async fn wait_for_end(
    state: &Shared,
    run: &Run,
    answered: &[Answered],
) -> Result<Waited, Problem> {
    match wait(state, run, state.limits.max_wait, answered).await? {
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

/// Waits until a run that was cancelled has come to rest: its children and calls are ended first, within their grace. Ends
/// after a minute at the latest, and when the server stops.
pub(crate) async fn quiet(state: &Shared, run: &Run) -> Result<(), Problem> {
    let most = state.limits.max_wait.min(REST);
    tokio::select! {
        biased;
        quiet = run.quiet() => drop(quiet?),
        () = tokio::time::sleep(most) => {}
        () = state.stopping.cancelled() => return Err(Problem::stopping()),
    }
    Ok(())
}

/// Waits until a run has questions other than these, and returns them.
pub(crate) async fn asks(
    run: &Run,
    answered: &[Answered],
) -> Result<Vec<(RunId, OperationId, Question)>, SystemError> {
    let (mut pause, most) = LOOK;
    let mut run = run.clone();
    loop {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(most);
        let status = run.status().await?.status;
        if status.is_ended() {
            // Another run may have taken the turn that was said to this one.
            run = run.taker().await?;
        }
        // A run that continues in another journal may wait there.
        if matches!(status, RunStatus::Waiting | RunStatus::Continued) {
            let mut questions = run.questions().await?;
            questions.retain(|(asker, operation, _)| !answered.contains(&(*asker, *operation)));
            if !questions.is_empty() {
                return Ok(questions);
            }
        }
    }
}
