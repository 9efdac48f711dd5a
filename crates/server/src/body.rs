//! Bodies of requests, within their bounds of size and time.

use std::time::Duration;

use axum::{
    body::Body,
    extract::{FromRequest, Request},
    http::{HeaderMap, StatusCode, header},
};
use bytes::BytesMut;
use ghostlight_safety::unambiguous_json;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::{DeserializeOwned, Error as _};
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;

use crate::{
    options::ServerOptions,
    problem::Problem,
    server::{Shared, State},
};

/// The most bytes of a body that anybody may send.
const SHORT: usize = 16 << 10;

/// A body of JSON.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

/// A body of JSON that may be left out.
#[derive(Debug)]
pub(crate) struct MaybeJson<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Shared> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &Shared) -> Result<Self, Problem> {
        demand_json(request.headers())?;
        let body = read(request, &state.limits).await?;
        parse(&body).map(Self)
    }
}

impl<T: DeserializeOwned + Default> FromRequest<Shared> for MaybeJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &Shared) -> Result<Self, Problem> {
        let is_json = demand_json(request.headers());
        let body = read(request, &state.limits).await?;
        if body.is_empty() {
            return Ok(Self(T::default()));
        }
        is_json?;
        parse(&body).map(Self)
    }
}

/// A body of JSON that is read later.
#[cfg(any(feature = "a2a", feature = "anp"))]
#[derive(Debug)]
pub(crate) struct Bytes(pub(crate) bytes::Bytes);

#[cfg(any(feature = "a2a", feature = "anp"))]
impl FromRequest<Shared> for Bytes {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &Shared) -> Result<Self, Problem> {
        demand_json(request.headers())?;
        read(request, &state.limits).await.map(Self)
    }
}

/// A message of gRPC, with its frame.
#[cfg(feature = "a2a")]
#[derive(Debug)]
pub(crate) struct Message(pub(crate) bytes::Bytes);

#[cfg(feature = "a2a")]
impl FromRequest<Shared> for Message {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &Shared) -> Result<Self, Problem> {
        if !is_grpc(request.headers()) {
            let detail = "the service speaks gRPC alone: application/grpc";
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "media-type",
                detail,
            ));
        }
        read(request, &state.limits).await.map(Self)
    }
}

/// Whether a request is one of gRPC.
#[cfg(feature = "a2a")]
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split([';', '+']).next() == Some("application/grpc")
}

/// Whether a request is a form.
pub(crate) fn is_form(headers: &HeaderMap) -> bool {
    media_type(headers) == "application/x-www-form-urlencoded"
}

fn media_type(headers: &HeaderMap) -> String {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default();
    kind.trim().to_ascii_lowercase()
}

/// Demands the media type of JSON, which a page of another site cannot send without permission (CORS).
fn demand_json(headers: &HeaderMap) -> Result<(), Problem> {
    let kind = media_type(headers);
    if kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json")) {
        return Ok(());
    }
    let detail = "the body is JSON, and its content type says so: application/json";
    Err(Problem::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "media-type",
        detail,
    ))
}

/// The body of a request that only this body can prove: JSON or a form. It takes room among all such bodies until it is
/// proven.
pub(crate) async fn unverified(
    request: Request,
    state: &State,
) -> Result<(bytes::Bytes, Option<OwnedSemaphorePermit>), Problem> {
    if !is_form(request.headers()) {
        demand_json(request.headers())?;
    }
    let most = state.limits.max_body_bytes;
    let mut body = bounded(request, most)?;
    let gathered = async {
        let (mut bytes, mut room) = (BytesMut::new(), None::<OwnedSemaphorePermit>);
        while let Some(frame) = body.frame().await {
            let Ok(piece) = frame.map_err(|error| broken(&*error, most))?.into_data() else {
                continue;
            };
            let size = u32::try_from(piece.len()).unwrap_or(u32::MAX);
            let taken = state.unverified.clone().try_acquire_many_owned(size);
            let taken = taken.map_err(|_| {
                let detail = "too many requests are not proven yet: send it again";
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail)
            })?;
            match &mut room {
                Some(room) => room.merge(taken),
                none => *none = Some(taken),
            }
            bytes.extend_from_slice(&piece);
        }
        Ok((bytes.freeze(), room))
    };
    in_time(state.limits.body_time, gathered).await
}

/// Reads the body of a caller that may be anybody, which is short.
pub(crate) async fn short<T: DeserializeOwned>(
    request: Request,
    limits: &ServerOptions,
) -> Result<T, Problem> {
    demand_json(request.headers())?;
    parse(&gathered(request, SHORT, limits).await?)
}

/// Takes the body out of a request.
#[cfg(feature = "anp")]
pub(crate) async fn taken(
    request: &mut Request,
    limits: &ServerOptions,
) -> Result<bytes::Bytes, Problem> {
    let mut taken = Request::new(std::mem::take(request.body_mut()));
    *taken.headers_mut() = request.headers().clone();
    read(taken, limits).await
}

/// Reads a body.
async fn read(request: Request, limits: &ServerOptions) -> Result<bytes::Bytes, Problem> {
    gathered(request, limits.max_body_bytes, limits).await
}

async fn gathered(
    request: Request,
    most: usize,
    limits: &ServerOptions,
) -> Result<bytes::Bytes, Problem> {
    let body = bounded(request, most)?;
    let gathered = async {
        let body = body.collect().await;
        Ok(body.map_err(|error| broken(&*error, most))?.to_bytes())
    };
    in_time(limits.body_time, gathered).await
}

/// The body of a request, which ends with an error behind this many bytes. One that announces more is refused at once.
fn bounded(request: Request, most: usize) -> Result<Limited<Body>, Problem> {
    let told = request.headers().get(header::CONTENT_LENGTH);
    let told = told.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    match told.is_some_and(|told| told > most as u64) {
        true => Err(too_large(most)),
        false => Ok(Limited::new(request.into_body(), most)),
    }
}

fn too_large(most: usize) -> Problem {
    let detail = format!("the body has more than {most} bytes");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
}

fn broken(error: &(dyn std::error::Error + Send + Sync + 'static), most: usize) -> Problem {
    if error.downcast_ref::<LengthLimitError>().is_some() {
        return too_large(most);
    }
    let detail = "the body did not come as it was announced";
    Problem::new(StatusCode::BAD_REQUEST, "body", detail)
}

async fn in_time<T>(
    most: Duration,
    read: impl Future<Output = Result<T, Problem>>,
) -> Result<T, Problem> {
    let detail = "the body took too long to come";
    let late = |_| Problem::new(StatusCode::REQUEST_TIMEOUT, "too-slow", detail);
    tokio::time::timeout(most, read).await.map_err(late)?
}

/// Parses JSON. An object that has a name twice is refused, since readers differ in which of the two counts: a proxy or a
/// log may have seen another decision than the one that is carried out.
pub(crate) fn json(body: &[u8]) -> Result<Value, serde_json::Error> {
    let text = std::str::from_utf8(body);
    unambiguous_json(text.map_err(|_| serde_json::Error::custom("it is not UTF-8"))?)
}

/// Reads the body of a request and puts it back, so that nothing behind it reads JSON that is ambiguous.
pub(crate) async fn checked(request: Request, limits: &ServerOptions) -> Result<Request, Problem> {
    if demand_json(request.headers()).is_err() {
        return Ok(request);
    }
    let (parts, body) = request.into_parts();
    let mut reading = Request::new(body);
    *reading.headers_mut() = parts.headers.clone();
    let body = read(reading, limits).await?;
    if let Err(error) = json(&body)
        && error.is_data()
    {
        return Err(Problem::invalid(format!("the body: {error}")));
    }
    Ok(Request::from_parts(parts, Body::from(body)))
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let parsed = json(body).and_then(|value| match value {
        // A list would be taken for the values of the fields in their order.
        Value::Object(_) => serde_json::from_value(value),
        _ => Err(serde_json::Error::custom("it is an object")),
    });
    parsed.map_err(|error| match error.classify() {
        serde_json::error::Category::Data => Problem::invalid(format!("the body: {error}")),
        _ => {
            let detail = format!("the body is not JSON: {error}");
            Problem::new(StatusCode::BAD_REQUEST, "syntax", detail)
        }
    })
}
