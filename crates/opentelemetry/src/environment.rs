//! The exporter that the standard variables of OpenTelemetry describe.

use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry_otlp::{
    MetricExporter, OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_METRICS_ENDPOINT,
    OTEL_EXPORTER_OTLP_METRICS_HEADERS, OTEL_EXPORTER_OTLP_METRICS_TIMEOUT,
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_HEADERS,
    OTEL_EXPORTER_OTLP_TRACES_TIMEOUT, Protocol, RetryPolicy, WithExportConfig as _,
    WithHttpConfig as _,
};
use opentelemetry_sdk::{
    Resource,
    metrics::{PeriodicReader, SdkMeterProvider},
    resource::TelemetryResourceDetector,
    trace::{IdGenerator as _, RandomIdGenerator, Sampler, SpanExporter as _},
};

use crate::{
    console::OnTerminal,
    error::OpenTelemetryError,
    exporting::{Exporting, OverHttp},
    http::Poster,
    variables::{Variables, below, check_address, wrong},
};

const TRACES: &str = "OTEL_TRACES_EXPORTER";
const DISABLED: &str = "OTEL_SDK_DISABLED";
const CONTENTS: &str = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";

/// The content of the variables.
pub(crate) struct Read {
    pub(crate) spans: Option<Arc<dyn Exporting>>,
    pub(crate) meter_provider: Option<SdkMeterProvider>,
    pub(crate) sampler: Sampler,
    pub(crate) has_contents: bool,
}

/// Whether an endpoint is given and the SDK is not disabled.
pub(crate) fn is_configured(variables: &Variables<'_>) -> bool {
    let is_given = has_endpoint(variables) || is_on_terminal(variables);
    !variables.is_true(DISABLED) && is_given
}

fn has_endpoint(variables: &Variables<'_>) -> bool {
    let endpoints = [
        OTEL_EXPORTER_OTLP_ENDPOINT,
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT,
        OTEL_EXPORTER_OTLP_METRICS_ENDPOINT,
    ];
    endpoints.iter().any(|name| variables.get(name).is_some())
}

/// Whether spans are written to the terminal.
fn is_on_terminal(variables: &Variables<'_>) -> bool {
    variables
        .get(TRACES)
        .is_some_and(|exporter| exporter == "console")
}

/// Reads the variables. An endpoint that is given goes before theirs.
pub(crate) fn read(
    variables: &Variables<'_>,
    endpoint: Option<&str>,
) -> Result<Read, OpenTelemetryError> {
    // Whoever reads spans on the terminal may have no collector.
    let is_alone = is_on_terminal(variables) && !has_endpoint(variables) && endpoint.is_none();
    let is_wanted = |name| {
        let usual = if is_alone { "none" } else { "otlp" };
        let exporter = variables.get(name).unwrap_or_else(|| usual.to_owned());
        match exporter.as_str() {
            "otlp" => Ok(!variables.is_true(DISABLED)),
            "none" => Ok(false),
            "console" if name == TRACES => Ok(!variables.is_true(DISABLED)),
            _ => Err(wrong(
                name,
                exporter,
                "there are otlp and none, and for traces console",
            )),
        }
    };
    variables.check_protocol()?;
    if let Some(endpoint) = endpoint {
        check_address("the endpoint", endpoint)?;
    }
    let resource = resource(variables)?;
    let spans = is_wanted(TRACES)?.then(|| match is_on_terminal(variables) {
        true => Ok(Arc::new(OnTerminal) as Arc<dyn Exporting>),
        false => spans(variables, &resource, endpoint),
    });
    let meters =
        is_wanted("OTEL_METRICS_EXPORTER")?.then(|| meters(variables, resource.clone(), endpoint));
    Ok(Read {
        spans: spans.transpose()?,
        meter_provider: meters.transpose()?,
        sampler: variables.sampler()?,
        has_contents: variables.is_true(CONTENTS),
    })
}

fn spans(
    variables: &Variables<'_>,
    resource: &Resource,
    endpoint: Option<&str>,
) -> Result<Arc<dyn Exporting>, OpenTelemetryError> {
    let timeout = variables.timeout(OTEL_EXPORTER_OTLP_TRACES_TIMEOUT)?;
    let poster = Poster::new("traces", timeout)?;
    let status = poster.status.clone();
    let (of_signal, path) = (OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, "/v1/traces");
    let mut builder = opentelemetry_otlp::SpanExporter::builder().with_http();
    if let Some(address) = address(variables, endpoint, of_signal, path)? {
        builder = builder.with_endpoint(address);
    }
    let mut exporter = builder
        .with_headers(variables.headers(OTEL_EXPORTER_OTLP_TRACES_HEADERS)?)
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
    variables: &Variables<'_>,
    resource: Resource,
    endpoint: Option<&str>,
) -> Result<SdkMeterProvider, OpenTelemetryError> {
    let timeout = variables.timeout(OTEL_EXPORTER_OTLP_METRICS_TIMEOUT)?;
    let poster = Poster::new("metrics", timeout)?;
    let (of_signal, path) = (OTEL_EXPORTER_OTLP_METRICS_ENDPOINT, "/v1/metrics");
    let mut builder = MetricExporter::builder().with_http();
    if let Some(address) = address(variables, endpoint, of_signal, path)? {
        builder = builder.with_endpoint(address);
    }
    let exporter = builder
        .with_headers(variables.headers(OTEL_EXPORTER_OTLP_METRICS_HEADERS)?)
        .with_temporality(variables.temporality()?)
        .with_protocol(Protocol::HttpBinary)
        .with_retry_policy(RetryPolicy::disabled())
        .with_http_client(poster)
        .build()
        .map_err(unmade)?;
    let mut reader = PeriodicReader::builder(exporter);
    if let Some(interval) = variables.interval()? {
        reader = reader.with_interval(interval);
    }
    let provider = SdkMeterProvider::builder()
        .with_resource(resource)
        .with_reader(reader.build());
    Ok(provider.build())
}

/// The address of a signal; `None` for where the SDK sends it by itself.
fn address(
    variables: &Variables<'_>,
    endpoint: Option<&str>,
    of_signal: &'static str,
    path: &str,
) -> Result<Option<String>, OpenTelemetryError> {
    match endpoint {
        Some(endpoint) => Ok(Some(below(endpoint, path))),
        None => variables.endpoint(of_signal, path),
    }
}

/// The program, as `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` describe it.
fn resource(variables: &Variables<'_>) -> Result<Resource, OpenTelemetryError> {
    let id = RandomIdGenerator::default().new_trace_id().to_string();
    let by_itself = [
        KeyValue::new("service.name", "ghostlight"),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("service.instance.id", id),
    ];
    let name = variables.get("OTEL_SERVICE_NAME");
    let name = name.map(|name| KeyValue::new("service.name", name));
    // Later ones go before earlier ones.
    let resource = Resource::builder_empty()
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_attributes(by_itself)
        .with_attributes(variables.resource()?)
        .with_attributes(name);
    Ok(resource.build())
}

fn unmade(error: opentelemetry_otlp::ExporterBuildError) -> OpenTelemetryError {
    OpenTelemetryError::Exporter {
        reason: error.to_string(),
    }
}
