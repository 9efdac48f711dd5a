//! Problems in the forms that clients of OpenAI's and Anthropic's expect.

use axum::{
    Json,
    extract::Request,
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};

use crate::problem::Problem;

/// Rewrites problems of these interfaces' endpoints into the form that their clients expect.
pub(crate) async fn in_their_form(request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let render = match path.strip_prefix("/v1/") {
        None => return next.run(request).await,
        Some(rest) if rest.starts_with("messages") => anthropic,
        Some(_) => openai,
    };
    let response = next.run(request).await;
    let Some(problem) = response.extensions().get::<Problem>() else {
        return response;
    };
    let mut theirs = Json(render(problem)).into_response();
    *theirs.status_mut() = problem.status();
    for name in [
        "ratelimit",
        "ratelimit-policy",
        "retry-after",
        "www-authenticate",
    ] {
        if let Some(value) = response.headers().get(name) {
            theirs.headers_mut().insert(name, value.clone());
        }
    }
    theirs
}

/// An error in the form of OpenAI's interface.
pub(super) fn openai(problem: &Problem) -> Value {
    let kind = match problem.status().as_u16() {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    };
    json!({ "error": {
        "message": problem.detail(), "type": kind, "param": null, "code": problem.word(),
    } })
}

/// An error in the form of Anthropic's interface.
pub(super) fn anthropic(problem: &Problem) -> Value {
    let kind = match problem.status().as_u16() {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    };
    json!({ "type": "error", "error": { "type": kind, "message": problem.detail() } })
}
