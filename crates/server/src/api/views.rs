//! The views of the JSON interface, whose forms stay when the engine changes.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use ghostlight_actors::{
    contract::RunRow,
    vocabulary::{OperationId, Question, RunId, SessionId},
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::{caller::Caller, problem::Problem};

/// A response with what is recorded, without secrets. The end of a turn, its questions and artifacts go out whole: they
/// are for who asked.
#[derive(Debug)]
pub(crate) struct Shown<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Shown<T> {
    fn into_response(self) -> Response {
        match serde_json::to_value(self.0) {
            Ok(value) => Json(ghostlight_safety::redact_json(&value)).into_response(),
            Err(error) => Problem::internal(&error).into_response(),
        }
    }
}

/// A session's name.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SessionName {
    /// The team.
    pub(crate) team: String,
    /// The key.
    pub(crate) key: String,
}

impl SessionName {
    /// The session as this caller names it; by its whole key, where it is outside of the caller's space.
    pub(crate) fn of(session: &SessionId, caller: &Caller) -> Self {
        Self {
            team: session.team.to_string(),
            key: caller.key_of(session).unwrap_or(&session.key).to_owned(),
        }
    }
}

/// A run and its status.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunView {
    /// Its id.
    pub(crate) id: String,
    /// The root of its tree: the run of the turn itself.
    pub(crate) root: String,
    /// The run that delegated it.
    pub(crate) parent: Option<String>,
    /// The session of a root run.
    pub(crate) session: Option<SessionName>,
    /// The team.
    pub(crate) team: String,
    /// The agent that carries it now.
    pub(crate) agent: String,
    /// The agents from the root's to this one.
    pub(crate) path: Vec<String>,
    /// running, waiting, parked, cancelling, answered, stopped, failed, cancelled or continued.
    pub(crate) status: &'static str,
    /// The first characters of its message.
    pub(crate) title: String,
    /// When it began, in milliseconds since 1970.
    pub(crate) started_at: u64,
    /// When its last entry was written, in milliseconds since 1970.
    pub(crate) updated_at: u64,
    /// When a timer wakes it, in milliseconds since 1970.
    pub(crate) wake_at: Option<u64>,
}

impl RunView {
    pub(crate) fn of(row: &RunRow, caller: &Caller) -> Self {
        Self {
            id: row.run.to_string(),
            root: row.root.to_string(),
            parent: row.parent.map(|parent| parent.to_string()),
            session: row
                .session
                .as_ref()
                .map(|session| SessionName::of(session, caller)),
            team: row.team.clone(),
            agent: row.agent.clone(),
            path: row.path.clone(),
            status: row.status.as_str(),
            title: ghostlight_safety::redact_text(&row.title).into_owned(),
            started_at: row.started_at.0,
            updated_at: row.updated_at.0,
            wake_at: row.wake_at.map(|at| at.0),
        }
    }
}

/// A question that waits for its answer.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct QuestionView {
    /// The asking run; the answer may be given to it or to any run above it.
    pub(crate) run: String,
    /// The operation, which the answer names.
    pub(crate) operation: String,
    /// The question: `kind`, `prompt`, `call`, `digest`, `options`, `schema`, `expires`, `default`, `path`.
    #[schemars(with = "Value")]
    pub(crate) question: Question,
}

impl QuestionView {
    pub(crate) fn all(open: Vec<(RunId, OperationId, Question)>) -> Vec<Self> {
        let view = |(run, operation, question): (RunId, OperationId, Question)| Self {
            run: run.to_string(),
            operation: operation.to_string(),
            question,
        };
        open.into_iter().map(view).collect()
    }
}

/// The result of a run.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct End {
    /// Its answer, or the best answer that it had when it stopped.
    pub(crate) answer: Option<String>,
    /// Why it stopped before its task was done.
    pub(crate) stopped: Option<String>,
    /// The error with which it failed, or for which it is parked.
    pub(crate) error: Option<String>,
}
