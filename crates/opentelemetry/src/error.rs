//! Why telemetry cannot be exported.

/// Why an [`OpenTelemetry`](crate::OpenTelemetry) cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenTelemetryError {
    /// A variable of the environment has a value that cannot be used.
    #[error("{variable}={value}: {reason}")]
    Variable {
        /// The variable.
        variable: String,
        /// Its value.
        value: String,
        /// Why it cannot be used, and which values can.
        reason: String,
    },
    /// The exporter cannot be made of the variables whose names begin with `OTEL_EXPORTER_OTLP_`.
    #[error("the OTLP exporter cannot be made: {reason}; check the variables OTEL_EXPORTER_OTLP_…")]
    Exporter {
        /// Why it cannot be made.
        reason: String,
    },
    /// There is no tokio runtime in which requests could be sent.
    #[error("OpenTelemetry is to be made inside of a tokio runtime, which sends its requests")]
    NoRuntime,
}

ghostlight_actors::parts_of_system_error!(OpenTelemetryError);
