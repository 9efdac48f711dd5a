//! The caller's own account, and the cookie of a browser.

use axum::{
    Json,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ADMIN, Asked, GET, POST, PUBLIC, READ};
use crate::{
    body::{self, Json as Body},
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
            "/api/v1/quotas/reset",
            ADMIN,
            "Gives a subject, tenant, team, session or key the whole of its quotas again.",
            reset,
        )
        .takes::<ResetBody>()
        .gives::<Reset>()
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

/// The caller.
#[derive(Debug, Serialize, JsonSchema)]
struct Me {
    /// Whether the caller is the operator, with all rights.
    operator: bool,
    /// The subject of the key or token; `null` for the operator.
    subject: Option<String>,
    /// The tenant of that subject, where it has one.
    tenant: Option<String>,
    /// The caller's scopes.
    scopes: Vec<Scope>,
    /// The caller's quotas, without those of teams.
    quotas: Vec<QuotaView>,
}

/// A quota and its standing.
#[derive(Debug, Serialize, JsonSchema)]
struct QuotaView {
    /// The owner of the quota: `key`, `subject` or `tenant`.
    whose: &'static str,
    /// The quota as text, such as `100turns/3600s`, `5000tokens/60s` or `2.5cost/86400s`.
    quota: String,
    /// How many turns or tokens are left, or how much money in millionths of the currency.
    left: u64,
    /// In how many seconds the whole amount is available again.
    full_in_s: u64,
}

async fn me(asked: Asked) -> Result<Json<Me>, Problem> {
    let standings = asked.state.quotas.standings(&asked.caller).await?;
    let quotas = standings
        .into_iter()
        .map(|(whose, quota, left, full_in_s)| QuotaView {
            whose,
            quota: quota.to_string(),
            left,
            full_in_s,
        });
    Ok(Json(Me {
        operator: asked.caller == Caller::Operator,
        subject: asked.caller.subject().map(str::to_owned),
        tenant: asked.caller.tenant().map(str::to_owned),
        scopes: asked.caller.scopes().to_vec(),
        quotas: quotas.collect(),
    }))
}

/// Whose quotas are reset.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ResetBody {
    /// `subject`, `tenant`, `team`, `session` or `key`.
    whose: Whose,
    /// Its name; of a session `TEAM/KEY`, and of a key its id.
    name: String,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Whose {
    Subject,
    Tenant,
    Team,
    Session,
    Key,
}

/// The quotas that were reset.
#[derive(Serialize, JsonSchema)]
struct Reset {
    /// How many quotas had something taken, and are whole again.
    quotas: usize,
}

async fn reset(asked: Asked, Body(body): Body<ResetBody>) -> Result<Json<Reset>, Problem> {
    let whose = match body.whose {
        Whose::Subject => "subject",
        Whose::Tenant => "tenant",
        Whose::Team => "team",
        Whose::Session => "session",
        Whose::Key => "key",
    };
    let quotas = asked.state.quotas.reset(whose, &body.name).await?;
    Ok(Json(Reset { quotas }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SignInBody {
    /// The key.
    key: String,
}

async fn sign_in(State(state): State<Shared>, request: Request) -> Result<Response, Problem> {
    let headers = request.headers().clone();
    let body: SignInBody = body::short(request, &state.limits).await?;
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
