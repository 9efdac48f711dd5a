//! OpenTelemetry of agents, made of what is recorded.
//!
//! [`OpenTelemetry`] follows all trees of runs of a System: each run, model call and tool call is a span, exported when its end
//! is recorded, with the times that are recorded. A run that was killed and went on in another process is one span. Ids
//! are computed from the run and the operation, so the same work has the same ids whenever its spans are made. Names are
//! those of OpenTelemetry's conventions for generative AI.
//!
//! How far each tree was exported is kept in the store. So nothing is queued in memory: while a collector is away the
//! spans stay in the journal, and no run ever waits for one.
//!
//! ```no_run
//! use ghostlight_actors::actor::System;
//! use ghostlight_opentelemetry::OpenTelemetry;
//!
//! # async fn example(system: System) -> Result<(), Box<dyn std::error::Error>> {
//! // By OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_SERVICE_NAME and so on.
//! let following = OpenTelemetry::from_env()?.follow(&system).await?;
//! // … sessions, turns …
//! following.shutdown().await;
//! system.stop().await?;
//! # Ok(())
//! # }
//! ```

mod console;
mod content;
mod conventions;
mod definitions;
mod environment;
mod error;
mod exporting;
mod following;
mod http;
mod ids;
mod metrics;
mod places;
mod prometheus;
mod telemetry;
mod tree;
mod variables;
mod words;

pub use error::OpenTelemetryError;
pub use following::{FlushError, Following};
pub use opentelemetry;
pub use opentelemetry_sdk;
pub use prometheus::Prometheus;
pub use telemetry::OpenTelemetry;
