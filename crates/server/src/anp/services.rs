//! The registry of services.

use axum::{Json, http::StatusCode};
use ghostlight_anp::{Announcement, RegistryError, Service, Statistics};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    address::{Path, Query},
    api::Asked,
    body::Json as Body,
    problem::Problem,
};

/// A client's search.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    /// The type.
    r#type: Option<String>,
    /// The capabilities, all of which it must have; several words are separated by commas.
    capabilities: Option<String>,
    /// The most services of a list, which are then those with the highest scores, the best first.
    limit: Option<usize>,
}

impl Wanted {
    fn capabilities(&self) -> Vec<&str> {
        let words = self.capabilities.iter().flat_map(|words| words.split(','));
        words
            .map(str::trim)
            .filter(|word| !word.is_empty())
            .collect()
    }
}

impl From<RegistryError> for Problem {
    fn from(error: RegistryError) -> Self {
        let detail = error.to_string();
        match error {
            RegistryError::Foreign(_) => Self::conflict(detail),
            RegistryError::Full => Self::new(StatusCode::SERVICE_UNAVAILABLE, "full", detail),
            _ => Self::invalid(detail),
        }
    }
}

pub(super) async fn discover(asked: Asked, Query(wanted): Query<Wanted>) -> Json<Vec<Service>> {
    let services = &asked.state.services;
    let mut found = services.discover(wanted.r#type.as_deref(), &wanted.capabilities());
    if let Some(limit) = wanted.limit {
        found.sort_by(|a, b| b.score.total_cmp(&a.score));
        found.truncate(limit);
    }
    Json(found)
}

pub(super) async fn best(
    asked: Asked,
    Query(wanted): Query<Wanted>,
) -> Result<Json<Service>, Problem> {
    let services = &asked.state.services;
    let best = services.best(wanted.r#type.as_deref(), &wanted.capabilities());
    best.map(Json)
        .ok_or_else(|| Problem::not_found("service that fits"))
}

pub(super) async fn announce(
    asked: Asked,
    Body(announcement): Body<Announcement>,
) -> Result<Json<Service>, Problem> {
    let announced = asked
        .state
        .services
        .announce(asked.caller.subject(), announcement);
    Ok(Json(announced?))
}

pub(super) async fn withdraw(asked: Asked, Path(id): Path<String>) -> Result<StatusCode, Problem> {
    match asked.state.services.withdraw(asked.caller.subject(), &id)? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(Problem::not_found("such service")),
    }
}

pub(super) async fn statistics(asked: Asked) -> Json<Statistics> {
    Json(asked.state.services.statistics())
}
