//! The status of the server itself.

use std::time::Duration;

use axum::{
    Json,
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use ghostlight_actors::{contract::RunFilter, vocabulary::Timestamp};
use serde_json::{Value, json};

use super::{ADMIN, Asked, GET, PUBLIC};
use crate::{
    caller::Scope,
    endpoint::{Access, Endpoints},
    metrics,
    problem::Problem,
    server::Shared,
};

/// How long a store may take to answer while the server counts as ready.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

const METRICS: Access = Access::Needs(Scope::Metrics);

pub(super) fn endpoints(endpoints: Endpoints) -> Endpoints {
    endpoints
        .add(
            GET,
            "/health",
            PUBLIC,
            "Whether the process lives, and how it knows its callers.",
            health,
        )
        .add(
            GET,
            "/ready",
            PUBLIC,
            "Whether the server takes work.",
            ready,
        )
        .add(
            GET,
            "/metrics",
            METRICS,
            "What the server and its agents do, in figures for Prometheus.",
            scraped,
        )
        .add(GET, "/openapi.json", PUBLIC, "This document.", openapi)
        .add(
            GET,
            "/schema",
            PUBLIC,
            "The JSON Schema of team files.",
            schema,
        )
        .add(
            GET,
            "/api/v1/supervision",
            ADMIN,
            "The supervision tree.",
            supervision,
        )
        .gives::<Vec<Value>>()
        .add(
            GET,
            "/api/v1/schedules",
            ADMIN,
            "When teams are woken by themselves.",
            schedules,
        )
        .gives::<Vec<Value>>()
}

async fn health(State(state): State<Shared>) -> Json<Value> {
    let ways = state.knows_by();
    Json(json!({ "status": "ok", "auth": { "required": !ways.is_empty(), "by": ways } }))
}

/// Whether the store answers and the server is not stopping.
async fn ready(State(state): State<Shared>) -> Result<Json<Value>, Problem> {
    if state.stopping.is_cancelled() {
        return Err(Problem::stopping());
    }
    let mut filter = RunFilter::default();
    filter.limit = 1;
    // A read waits for a database that is away longer than a balancer does.
    let read = tokio::time::timeout(ANSWERS_WITHIN, state.system.store().runs(filter));
    let failed = match read.await {
        Ok(Ok(_)) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(late) => Some(late.to_string()),
    };
    if let Some(error) = failed {
        tracing::error!(error, "the store does not answer");
        let detail = "the store does not answer; the server's log says why";
        return Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "not-ready",
            detail,
        ));
    }
    Ok(Json(json!({ "status": "ready" })))
}

async fn scraped(State(state): State<Shared>) -> Response {
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    let text = state.metrics.text() + &metrics::of_actors(&state.system).await;
    #[cfg(feature = "deliveries")]
    let text = match state.deliveries() {
        Ok(deliveries) => text + &deliveries.metrics(),
        Err(_) => text,
    };
    let text = match &state.added {
        Some(added) => text + &added.text().await,
        None => text,
    };
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

async fn openapi(State(state): State<Shared>) -> Json<Value> {
    Json(state.openapi.get().cloned().unwrap_or_default())
}

async fn schema(State(state): State<Shared>) -> Result<Json<Value>, Problem> {
    let schema = state.schema.clone();
    schema
        .map(Json)
        .ok_or_else(|| Problem::not_found("schema of team files here"))
}

async fn supervision(asked: Asked) -> Json<Value> {
    Json(json!(asked.system.tree().await))
}

async fn schedules(asked: Asked) -> Result<Json<Value>, Problem> {
    let all = asked.system.schedules().await?;
    let shown = all.iter().map(|one| {
        let next = one.next.map(|Timestamp(at)| at);
        json!({ "team": one.team, "schedule": one.schedule, "next": next })
    });
    Ok(Json(shown.collect()))
}
