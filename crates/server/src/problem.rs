//! Errors as problem details (RFC 9457).

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use ghostlight_actors::{
    actor::{AnswerError, SystemError},
    contract::StoreError,
};
use ghostlight_safety::redact_text;
use schemars::JsonSchema;
use serde::Serialize;

/// Why a request is refused or fails, as `application/problem+json` (RFC 9457).
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Problem {
    /// A URI that names the kind of the problem: `urn:ghostlight:problem:` and a word.
    #[serde(rename = "type")]
    kind: String,
    /// The HTTP status in words.
    title: String,
    /// The HTTP status.
    status: u16,
    /// The reason, and what to do next.
    detail: String,
    /// The request's id, as the server's log has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<String>,
}

impl Problem {
    /// A problem of this status and kind.
    pub fn new(status: StatusCode, kind: &str, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("urn:ghostlight:problem:{kind}"),
            title: status.canonical_reason().unwrap_or("Error").to_owned(),
            status: status.as_u16(),
            detail: detail.into(),
            instance: None,
        }
    }

    /// The request is malformed, or asks for something impossible.
    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail)
    }

    /// There is no such thing, or none that the caller may know of.
    pub fn not_found(what: impl std::fmt::Display) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "not-found",
            format!("there is no {what}"),
        )
    }

    pub(crate) fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", detail)
    }

    pub(crate) fn stopping() -> Self {
        let detail = "the server stops; its runs go on when it is started again: ask again then";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", detail)
    }

    /// The refusal of a turn whose session works on earlier ones.
    pub(crate) fn busy() -> Self {
        let detail =
            "the turns before it in its session have not ended: send it again, under the same id";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail)
    }

    /// The refusal of something whose answer would have to be posted.
    pub(crate) fn no_deliveries() -> Self {
        let detail = "this server posts nothing to other programs";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "no-deliveries", detail)
    }

    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The reason, and what to do next.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The last part of its type.
    pub(crate) fn word(&self) -> &str {
        self.kind.rsplit(':').next().unwrap_or_default()
    }
}

/// How many seconds a client should wait before it retries a request that was refused for load.
const RETRY_AFTER_S: u64 = 1;

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status();
        let body = serde_json::to_string(&self).unwrap_or_default();
        let kind = HeaderValue::from_static("application/problem+json");
        let mut response = (status, [(header::CONTENT_TYPE, kind)], body).into_response();
        let headers = response.headers_mut();
        if matches!(status.as_u16(), 429 | 503) {
            headers.insert(header::RETRY_AFTER, RETRY_AFTER_S.into());
        }
        if status == StatusCode::UNAUTHORIZED {
            let bearer = HeaderValue::from_static("Bearer realm=\"ghostlight\"");
            headers.insert(header::WWW_AUTHENTICATE, bearer);
        }
        response.extensions_mut().insert(self);
        response
    }
}

impl From<SystemError> for Problem {
    fn from(error: SystemError) -> Self {
        let unavailable = StatusCode::SERVICE_UNAVAILABLE;
        let detail = || redact_text(&error.to_string()).into_owned();
        match &error {
            SystemError::Overloaded { .. } => Self::new(unavailable, "overloaded", detail()),
            SystemError::Stopped => Self::stopping(),
            SystemError::AgentLost { .. } => Self::new(unavailable, "agent-lost", detail()),
            SystemError::UnknownRun(run) => Self::not_found(format!("run {run}")),
            SystemError::UnknownTeam { name, .. } => Self::not_found(format!("team {name:?}")),
            // That the session is another owner's is not told.
            SystemError::UnknownSession { session } | SystemError::Foreign { session } => {
                Self::not_found(format!("session {session}"))
            }
            SystemError::EmptyTurn
            | SystemError::EmptyOwner
            | SystemError::NoSuchTurn { .. }
            | SystemError::Document(_)
            | SystemError::Fork(_)
            | SystemError::Definition(_)
            | SystemError::NotReloaded { .. }
            | SystemError::NotReceived { .. }
            | SystemError::OtherTurn { .. }
            | SystemError::Unwritable { .. } => Self::invalid(detail()),
            SystemError::Answer { error, .. } => match error {
                AnswerError::Unfit { .. } => Self::invalid(detail()),
                AnswerError::Repeated { .. } => {
                    Self::new(StatusCode::CONFLICT, "answered", detail())
                }
                _ => Self::conflict(detail()),
            },
            SystemError::Asking { .. }
            | SystemError::NobodyAnswers { .. }
            | SystemError::Ended(_)
            | SystemError::UnderWay { .. }
            | SystemError::SessionExists { .. }
            | SystemError::TakenBack { .. }
            | SystemError::Refused { .. }
            | SystemError::OutOfReach { .. }
            | SystemError::Parked { .. }
            | SystemError::NoAnswer(_) => Self::conflict(detail()),
            SystemError::Failed { .. } => Self::new(StatusCode::BAD_GATEWAY, "failed", detail()),
            SystemError::Store(error) => Self::of_store(error),
            _ => Self::internal(&error),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Self::of_store(&error)
    }
}

impl Problem {
    fn of_store(error: &StoreError) -> Self {
        match error {
            StoreError::Deleted { .. } => Self::new(StatusCode::GONE, "deleted", error.to_string()),
            error if error.is_elsewhere() => Self::conflict(error.to_string()),
            StoreError::Closed => Self::stopping(),
            // The session went to another process while the request was under way.
            StoreError::Stale { .. } => {
                let detail = "another process carries it now: ask again";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "moved", detail)
            }
            // The process that has noticed that a database lost commits ends; the next one answers.
            StoreError::Io { .. } | StoreError::Truncated { .. } => {
                tracing::error!(%error, "the store does not answer");
                let detail = "the store does not answer; the server's log says why";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "not-ready", detail)
            }
            error => Self::internal(error),
        }
    }

    /// A failure whose details go to the log alone: they may name files and addresses.
    pub(crate) fn internal(error: &dyn std::fmt::Display) -> Self {
        tracing::error!(%error, "a request failed");
        let detail = "the server failed; its log says why";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    }
}
