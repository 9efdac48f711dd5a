//! Parts of a request's address, whose faults are told as problems.

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

/// What stands behind the `?` of an address.
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
