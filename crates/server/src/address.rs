//! Addresses: the parts of a request's own, whose faults are told as problems, and those that the server tells.

use axum::{
    extract::{
        FromRequestParts,
        rejection::{PathRejection, QueryRejection},
    },
    http::request::Parts,
};
use serde::de::DeserializeOwned;

use crate::problem::Problem;

/// The places of an endpoint's path.
#[derive(Debug)]
pub(crate) struct Path<T>(pub(crate) T);

/// The query behind the `?` of an address.
#[derive(Debug)]
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = axum::extract::Path::from_request_parts(parts, state).await;
        path.map(|path| Self(path.0))
            .map_err(|fault: PathRejection| {
                Problem::new(fault.status(), "invalid", fault.body_text())
            })
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = axum::extract::Query::from_request_parts(parts, state).await;
        query
            .map(|query| Self(query.0))
            .map_err(|fault: QueryRejection| {
                Problem::new(fault.status(), "invalid", fault.body_text())
            })
    }
}

/// The host of an authority.
pub(crate) fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        // An IPv6 address stands in brackets, so no other colon is the port's.
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// The server's address, as its clients name it.
#[cfg(any(feature = "a2a", feature = "anp"))]
pub(crate) fn base(state: &crate::server::State, headers: &axum::http::HeaderMap) -> String {
    if let Some(address) = &state.address {
        return address.trim_end_matches('/').to_owned();
    }
    let host = headers
        .get(axum::http::header::HOST)
        .and_then(|host| host.to_str().ok());
    let scheme = if state.has_tls { "https" } else { "http" };
    format!("{scheme}://{}", host.unwrap_or("localhost"))
}
