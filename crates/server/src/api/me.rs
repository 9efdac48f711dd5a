//! Who asks, and how a browser keeps its key.

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Asked, GET, POST, PUBLIC, READ};
use crate::{
    body::Json as Body,
    caller::{Caller, Scope},
    cookie,
    endpoint::Endpoints,
    problem::Problem,
    server::Shared,
};

pub(super) fn endpoints(endpoints: Endpoints) -> Endpoints {
    endpoints
        .add(GET, "/api/v1/me", READ, "Who asks, and what it may do.", me)
        .gives::<Me>()
        .add(
            POST,
            "/sign-in",
            PUBLIC,
            "Keeps a key in a cookie of the browser, which no script reads and no other site sends.",
            sign_in,
        )
        .takes::<SignInBody>()
        .add(
            POST,
            "/sign-out",
            PUBLIC,
            "Lets the browser forget its key.",
            sign_out,
        )
}

/// Who asks.
#[derive(Debug, Serialize, JsonSchema)]
struct Me {
    /// Whether it is the operator, who may do everything.
    operator: bool,
    /// The subject of its key; `null` for the operator.
    subject: Option<String>,
    /// What it may do.
    scopes: Vec<Scope>,
}

async fn me(asked: Asked) -> Json<Me> {
    let scopes = match &asked.caller {
        Caller::Operator => Scope::ALL.to_vec(),
        Caller::Subject(_, scopes) => scopes.clone(),
    };
    Json(Me {
        operator: asked.caller == Caller::Operator,
        subject: asked.caller.subject().map(str::to_owned),
        scopes,
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SignInBody {
    /// The key.
    key: String,
}

async fn sign_in(
    State(state): State<Shared>,
    headers: HeaderMap,
    Body(body): Body<SignInBody>,
) -> Result<Response, Problem> {
    let key = body.key.trim();
    let unknown = || {
        let detail = "the key is unknown, revoked or over: ask the operator for another";
        Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
    };
    state.caller(key).await?.ok_or_else(unknown)?;
    let cookie = cookie::set(&state, &headers, key).ok_or_else(unknown)?;
    let cookie = [(header::SET_COOKIE, cookie)];
    Ok((StatusCode::NO_CONTENT, cookie).into_response())
}

async fn sign_out(State(state): State<Shared>, headers: HeaderMap) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    if let Some(cookie) = cookie::clear(&state, &headers) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}
