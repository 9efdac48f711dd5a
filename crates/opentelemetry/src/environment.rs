//! The standard variables of OpenTelemetry.

use std::{env, sync::Arc, time::Duration};

use opentelemetry::KeyValue;
use opentelemetry_otlp::{
    MetricExporter, OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_METRICS_ENDPOINT,
    OTEL_EXPORTER_OTLP_METRICS_TIMEOUT, OTEL_EXPORTER_OTLP_TIMEOUT,
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_TIMEOUT, Protocol, RetryPolicy,
    WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::{
    Resource,
    metrics::{PeriodicReader, SdkMeterProvider},
    trace::{Config, IdGenerator as _, RandomIdGenerator, ShouldSample, SpanExporter as _},
};

use crate::{
    error::OpenTelemetryError,
    exporting::{Exporting, OverHttp},
    http::Poster,
};

/// The time limit of a request where no variable sets one.
const TIMEOUT: Duration = Duration::from_secs(10);
const CONTENTS: &str = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";

/// What the variables say.
pub(crate) struct Read {
    pub(crate) spans: Option<Arc<dyn Exporting>>,
    pub(crate) meter_provider: Option<SdkMeterProvider>,
    pub(crate) sampler: Box<dyn ShouldSample>,
    pub(crate) has_contents: bool,
}

/// Whether an endpoint is given and the SDK is not disabled.
pub(crate) fn is_configured() -> bool {
    let endpoints = [
        OTEL_EXPORTER_OTLP_ENDPOINT,
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT,
        OTEL_EXPORTER_OTLP_METRICS_ENDPOINT,
    ];
    !is_disabled() && endpoints.iter().any(|name| variable(name).is_some())
}

/// Reads the variables. An endpoint that is given goes before theirs.
pub(crate) fn read(endpoint: Option<&str>) -> Result<Read, OpenTelemetryError> {
    let is_wanted = |name| {
        let exporter = variable(name).unwrap_or_else(|| "otlp".to_owned());
        match exporter.as_str() {
            "otlp" => Ok(!is_disabled()),
            "none" => Ok(false),
            _ => Err(wrong(name, exporter, "there are otlp and none")),
        }
    };
    check_protocol()?;
    let resource = resource();
    let spans = is_wanted("OTEL_TRACES_EXPORTER")?.then(|| spans(&resource, endpoint));
    let meters = is_wanted("OTEL_METRICS_EXPORTER")?.then(|| meters(resource, endpoint));
    Ok(Read {
        spans: spans.transpose()?,
        meter_provider: meters.transpose()?,
        sampler: Config::default().sampler,
        has_contents: is_true(CONTENTS),
    })
}

fn spans(
    resource: &Resource,
    endpoint: Option<&str>,
) -> Result<Arc<dyn Exporting>, OpenTelemetryError> {
    let poster = Poster::new("traces", timeout(OTEL_EXPORTER_OTLP_TRACES_TIMEOUT)?)?;
    let status = poster.status.clone();
    let mut builder = opentelemetry_otlp::SpanExporter::builder().with_http();
    if let Some(endpoint) = endpoint {
        builder = builder.with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')));
    }
    let mut exporter = builder
        .with_protocol(Protocol::HttpBinary)
        // Whoever exports tries again, and knows for how long.
        .with_retry_policy(RetryPolicy::disabled())
        .with_http_client(poster)
        .build()
        .map_err(unmade)?;
    exporter.set_resource(resource);
    Ok(Arc::new(OverHttp { exporter, status }))
}

fn meters(
    resource: Resource,
    endpoint: Option<&str>,
) -> Result<SdkMeterProvider, OpenTelemetryError> {
    let poster = Poster::new("metrics", timeout(OTEL_EXPORTER_OTLP_METRICS_TIMEOUT)?)?;
    let mut builder = MetricExporter::builder().with_http();
    if let Some(endpoint) = endpoint {
        builder = builder.with_endpoint(format!("{}/v1/metrics", endpoint.trim_end_matches('/')));
    }
    let exporter = builder
        .with_protocol(Protocol::HttpBinary)
        .with_retry_policy(RetryPolicy::disabled())
        .with_http_client(poster)
        .build()
        .map_err(unmade)?;
    let provider = SdkMeterProvider::builder()
        .with_resource(resource)
        .with_reader(PeriodicReader::builder(exporter).build());
    Ok(provider.build())
}

/// The program, as `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` describe it.
fn resource() -> Resource {
    let attributes = variable("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    let has = |name: &str| {
        let names = attributes
            .split(',')
            .filter_map(|pair| pair.split_once('='));
        names.into_iter().any(|(found, _)| found.trim() == name)
    };
    let mut builder = Resource::builder();
    if variable("OTEL_SERVICE_NAME").is_none() && !has("service.name") {
        builder = builder.with_service_name("ghostlight");
    }
    if !has("service.version") {
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        builder = builder.with_attribute(version);
    }
    if !has("service.instance.id") {
        let id = RandomIdGenerator::default().new_trace_id().to_string();
        builder = builder.with_attribute(KeyValue::new("service.instance.id", id));
    }
    builder.build()
}

fn check_protocol() -> Result<(), OpenTelemetryError> {
    let variables = [
        "OTEL_EXPORTER_OTLP_PROTOCOL",
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
    ];
    for name in variables {
        if let Some(protocol) = variable(name).filter(|protocol| protocol != "http/protobuf") {
            let reason = "http/protobuf is spoken, which collectors take at port 4318";
            return Err(wrong(name, protocol, reason));
        }
    }
    Ok(())
}

fn timeout(of_signal: &'static str) -> Result<Duration, OpenTelemetryError> {
    for name in [of_signal, OTEL_EXPORTER_OTLP_TIMEOUT] {
        if let Some(given) = variable(name) {
            return match given.parse() {
                Ok(ms) if ms > 0 => Ok(Duration::from_millis(ms)),
                _ => Err(wrong(name, given, "give a number of milliseconds above 0")),
            };
        }
    }
    Ok(TIMEOUT)
}

fn unmade(error: opentelemetry_otlp::ExporterBuildError) -> OpenTelemetryError {
    OpenTelemetryError::Exporter {
        reason: error.to_string(),
    }
}

fn wrong(name: &str, value: String, reason: &str) -> OpenTelemetryError {
    OpenTelemetryError::Variable {
        variable: name.to_owned(),
        value,
        reason: reason.to_owned(),
    }
}

/// A variable that is set, and not to nothing.
fn variable(name: &str) -> Option<String> {
    let value = env::var(name).ok()?;
    let value = value.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

fn is_true(name: &str) -> bool {
    variable(name).is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

fn is_disabled() -> bool {
    is_true("OTEL_SDK_DISABLED")
}
