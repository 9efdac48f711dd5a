//! The answers that Slack understands.

use std::time::Duration;

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use ghostlight_actors::actor::Run;
use serde_json::{Value, json};

use crate::{
    server::Shared,
    waiting::{Waited, wait},
};

/// The answer to the request with which Slack checks an address; `None` for any other request.
pub(super) fn challenge(body: &Value) -> Option<Response> {
    (body.get("type")? == "url_verification").then_some(())?;
    let challenge = body.get("challenge")?.as_str()?;
    Some(Json(json!({ "challenge": challenge })).into_response())
}

/// The response to a command, after at most this time. Slack shows its text, and takes each status but 200 for a failure.
pub(super) async fn answer(state: &Shared, run: &Run, most: Option<Duration>) -> Response {
    let waited = match most {
        Some(most) => wait(state, run, most, &[]).await,
        None => Ok(Waited::GoesOn),
    };
    let text = match waited {
        Ok(Waited::GoesOn) => return StatusCode::OK.into_response(),
        Ok(Waited::Ended(outcome, _)) => outcome.text().to_owned(),
        Ok(Waited::Asks(open)) => {
            let prompts = open.into_iter().map(|(_, _, question)| question.prompt);
            prompts.collect::<Vec<_>>().join("\n")
        }
        Err(problem) => problem.detail().to_owned(),
    };
    Json(json!({ "text": text })).into_response()
}

/// The form of the news that are posted to an address of Slack.
#[cfg(feature = "deliveries")]
pub(super) fn message() -> Value {
    json!({
        "text": "{body.data.answer}{body.data.stopped}{body.data.error}{body.data.question.prompt}",
    })
}
