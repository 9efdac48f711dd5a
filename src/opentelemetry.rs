//! Traces and metrics of runs, exported to a collector of OpenTelemetry.
//!
//! It is the package `ghostlight-opentelemetry`, which needs the engine alone. The command exports when the environment
//! or its `.env` file says where to ([`OpenTelemetry::where_configured`]). It differs from the interceptors
//! [`Tracing`](crate::interceptors::Tracing) and [`Metrics`](crate::interceptors::Metrics), which see attempts while they are
//! made, in the process that makes them: this sees what is recorded, each thing once.

pub use ghostlight_opentelemetry::*;
