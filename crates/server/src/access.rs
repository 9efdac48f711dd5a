//! The checks before every endpoint: the caller, the origin, and the count of the request.

use std::{fmt, time::Instant};

use axum::{
    body::{Body, HttpBody as _},
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use futures_util::StreamExt as _;
use ghostlight_actors::{actor::Run, session::Turn, vocabulary::SessionId};
use http_body_util::{BodyStream, StreamBody};
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio_util::sync::CancellationToken;

use crate::{
    address::without_port,
    api::Asked,
    body,
    caller::Caller,
    cookie,
    endpoint::Access,
    problem::Problem,
    quotas::Slot,
    requests::Held,
    server::{Shared, State as ServerState},
};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The header in which clients of Anthropic's put their key.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// The most bytes of a request id that a client chose.
const MAX_ID: usize = 64;
/// Answers are for their caller alone: no cache keeps them, no browser takes them for something else than they are, and no
/// page of another site embeds them. Those that may be kept say so themselves.
const PRIVATE: [(HeaderName, &str); 3] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// Gives each request an id, counts it, and logs it.
pub(crate) async fn observe(
    State(state): State<Shared>,
    mut request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let given = request
        .headers()
        .get(REQUEST_ID)
        .and_then(|id| id.to_str().ok());
    let fits = |id: &&str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        (1..=MAX_ID).contains(&id.len()) && id.chars().all(fits)
    };
    let id = match given
        .filter(fits)
        .map(str::to_owned)
        .map_or_else(fresh_id, Ok)
    {
        Ok(id) => id,
        Err(problem) => return problem.into_response(),
    };
    let Ok(value) = HeaderValue::from_str(&id) else {
        return Problem::internal(&"a request's id is not a header").into_response();
    };
    request.headers_mut().insert(REQUEST_ID, value.clone());
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or("none", MatchedPath::as_str).to_owned();
    let has_body = !request.body().is_end_stream();
    let mut response = next.run(request).await;
    response.headers_mut().insert(REQUEST_ID, value);
    for (name, value) in PRIVATE {
        let value = HeaderValue::from_static(value);
        response.headers_mut().entry(name).or_insert(value);
    }
    if has_body && response.status().is_client_error() {
        // A request that is refused before its body was read ends its connection, since the rest of the body is still
        // to come.
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    let (status, took) = (response.status().as_u16(), began.elapsed());
    tracing::debug!(%id, %method, route, status, took_us = took.as_micros() as u64, "request");
    state
        .metrics
        .answered(method.as_str(), &route, status, took);
    response
}

/// An id that nobody can guess.
///
/// # Errors
/// When the system gives no random bits: any other id could be another request's.
pub(crate) fn fresh_id() -> Result<String, Problem> {
    let mut bits = [0; 12];
    let drawn = SystemRandom::new().fill(&mut bits);
    drawn.map_err(|_| Problem::internal(&"the system gives no random bits for an id"))?;
    Ok(bits.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Refuses requests from pages of other sites, and requests under unknown host names: by such a name a page could reach
/// a server without keys (DNS rebinding).
pub(crate) async fn same_site(
    State(state): State<Shared>,
    request: Request,
    next: Next,
) -> Response {
    match judge_site(&state, request.headers(), request.uri()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

fn judge_site(state: &ServerState, headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok());
    let (Some(host), None) = (host.or(uri.host()), hosts.next()) else {
        let detail = "a request names one host";
        return Err(Problem::new(StatusCode::BAD_REQUEST, "host", detail));
    };
    let name = without_port(host);
    if !state.hosts.is_empty()
        && !state
            .hosts
            .iter()
            .any(|known| known.eq_ignore_ascii_case(name))
    {
        let detail = "the server does not answer under this name: add it to its hosts";
        return Err(Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            "host",
            detail,
        ));
    }
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let Some(origin) = origins.next() else {
        return Ok(());
    };
    if origins.next().is_some() {
        let detail = "a request comes from one origin";
        return Err(Problem::new(StatusCode::BAD_REQUEST, "origin", detail));
    }
    let origin = origin.to_str().unwrap_or_default();
    let own = origin.split_once("://").is_some_and(|(scheme, from)| {
        matches!(scheme, "http" | "https") && from.eq_ignore_ascii_case(host)
    });
    if own || state.origins.iter().any(|known| known == origin) {
        return Ok(());
    }
    let detail = "pages of other sites may not use the server: add the site to its origins";
    Err(Problem::new(StatusCode::FORBIDDEN, "origin", detail))
}

/// Lets in who may use an endpoint.
pub(crate) async fn check(
    State((state, access)): State<(Shared, Access)>,
    mut request: Request,
    next: Next,
) -> Response {
    match judge(&state, access, &mut request).await {
        Ok(Some((caller, key))) => {
            let begun = caller.subject().map(|subject| {
                state
                    .subjects
                    .begin(subject, state.limits.max_subject_requests)
            });
            let under_way = match begun.transpose() {
                Ok(under_way) => under_way,
                Err(problem) => {
                    // The connection is not kept either.
                    let close = [(header::CONNECTION, HeaderValue::from_static("close"))];
                    return (close, problem).into_response();
                }
            };
            let slot = Slot::default();
            request.extensions_mut().insert(caller.clone());
            request.extensions_mut().insert(slot.clone());
            let mut response = next.run(request).await;
            if let Some(standing) = slot.get() {
                standing.tell(response.headers_mut());
            }
            let response = match key {
                Some(key) if is_stream(&response) => ended_with(key, caller, state, response),
                _ => response,
            };
            match under_way {
                Some(under_way) => response.map(|body| Body::new(Held::new(body, under_way))),
                None => response,
            }
        }
        Ok(None) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

/// Whether a response may go on for long. One of gRPC that is only a status ends with its headers, and has to.
fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let goes_on = !response.body().is_end_stream();
    goes_on && (kind.starts_with("text/event-stream") || kind.starts_with("application/grpc"))
}

/// A stream that ends when its key no longer opens what it did. The key is judged as often as a silent stream sends a
/// sign of life.
fn ended_with(key: Key, caller: Caller, state: Shared, response: Response) -> Response {
    let is_over = async move {
        loop {
            tokio::time::sleep(state.limits.heartbeat).await;
            // Boxed, since streams are many and this is rare. While keys cannot be read, the stream goes on.
            let found = Box::pin(state.caller(&key)).await;
            if found.is_ok_and(|found| found.as_ref() != Some(&caller)) {
                return;
            }
        }
    };
    response.map(|body| {
        let frames = BodyStream::new(body).take_until(Box::pin(is_over));
        Body::new(StreamBody::new(frames))
    })
}

/// A request that the server lets through to a [service](crate::Server::service) of another protocol.
#[derive(Clone)]
pub struct Admitted(Asked);

impl Admitted {
    /// The subject of the request's key; `None` for the operator.
    pub fn subject(&self) -> Option<&str> {
        self.0.caller.subject()
    }

    /// Cancelled when the server stops: a response that ends then was not closed by the client.
    pub fn stopping(&self) -> &CancellationToken {
        &self.0.state.stopping
    }

    /// Sends a turn for the request, where its quotas allow it.
    ///
    /// # Errors
    /// A quota that is used up, a session of another owner, or a failure of the System.
    pub async fn send(&self, session: &SessionId, turn: Turn) -> Result<Run, Problem> {
        self.0.say(session, turn).await.map_err(Problem::from)
    }
}

impl fmt::Debug for Admitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subject = self.subject();
        f.debug_struct("Admitted")
            .field("subject", &subject)
            .finish_non_exhaustive()
    }
}

/// Gives a service of another protocol its caller, and ends its event streams when the server stops.
pub(crate) async fn admit(
    State(state): State<Shared>,
    asked: Asked,
    request: Request,
    next: Next,
) -> Response {
    let mut request = match body::checked(request, &state.limits).await {
        Ok(request) => request,
        Err(problem) => return problem.into_response(),
    };
    request.extensions_mut().insert(Admitted(asked));
    let response = next.run(request).await;
    let kind = response.headers().get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.starts_with("text/event-stream") {
        return response;
    }
    response.map(|body| {
        let until = state.stopping.clone().cancelled_owned();
        Body::from_stream(body.into_data_stream().take_until(Box::pin(until)))
    })
}

/// The text of a key or token.
type Key = Box<str>;

/// The caller of a request, with its key unless it signed the request or nobody needs a key.
async fn judge(
    state: &ServerState,
    access: Access,
    request: &mut Request,
) -> Result<Option<(Caller, Option<Key>)>, Problem> {
    if state.is_open() {
        return Ok(Some((Caller::Operator, None)));
    }
    let unknown = |detail: &str| Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail);
    let found = match given_key(request.headers())? {
        Some(key) => {
            let detail = "the key is unknown, revoked or over: ask the operator for another";
            let found = state.caller(key).await?.ok_or_else(|| unknown(detail))?;
            Some((found, Some(key.into())))
        }
        None => match state.signer(request).await? {
            Some(signer) => Some((signer, None)),
            // A stale cookie counts as none, so that a person can sign in again.
            None => match cookie::key(request.headers()) {
                Some(key) => {
                    let found = state.caller(key).await?;
                    found.map(|found| (found, Some(key.into())))
                }
                None => None,
            },
        },
    };
    let Access::Needs(scope) = access else {
        return Ok(found);
    };
    let detail = "give a key: `Authorization: Bearer KEY`";
    let (caller, key) = found.ok_or_else(|| unknown(detail))?;
    if !caller.may(scope) {
        let detail = format!("the key lacks the scope {scope}");
        return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", detail));
    }
    Ok(Some((caller, key)))
}

/// The key that a request gives; an error where it gives several, or a malformed one.
fn given_key(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let given: Vec<_> = headers
        .get_all(header::AUTHORIZATION)
        .iter()
        .map(|value| (true, value))
        .chain(headers.get_all(API_KEY).iter().map(|value| (false, value)))
        .collect();
    let wrong = |detail: &str| Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail);
    let (bearer, value) = match given.as_slice() {
        [] => return Ok(None),
        [one] => *one,
        _ => return Err(wrong("give one key")),
    };
    let text = value.to_str().map_err(|_| wrong("a key is ASCII"))?;
    if !bearer {
        return Ok(Some(text.trim()));
    }
    let key = text
        .split_once(' ')
        .filter(|(kind, _)| kind.eq_ignore_ascii_case("bearer"));
    let (_, key) = key.ok_or_else(|| wrong("give the key as `Authorization: Bearer KEY`"))?;
    Ok(Some(key.trim()))
}
