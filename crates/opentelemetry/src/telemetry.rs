//! The exporter of one program.

use std::{env, fmt, sync::Arc};

use ghostlight_actors::{actor::System, contract::StoreError};
use opentelemetry::{InstrumentationScope, metrics::MeterProvider};
use opentelemetry_sdk::{
    metrics::SdkMeterProvider,
    trace::{Sampler, ShouldSample, SpanExporter},
};

use crate::{
    environment,
    error::OpenTelemetryError,
    exporting::{Exporting, erased},
    following::Following,
    metrics::Metrics,
    places::Purpose,
    variables::Variables,
};

/// The name under which spans and metrics are made.
const SCOPE: &str = "ghostlight";

/// The scope of all spans and metrics.
pub(crate) fn scope() -> InstrumentationScope {
    InstrumentationScope::builder(SCOPE)
        .with_version(env!("CARGO_PKG_VERSION"))
        .build()
}

/// Exports traces and metrics of the runs of a System. Cloning shares the exporter.
///
/// A span has no prompts, answers, arguments or results, and no texts of errors, unless contents are
/// [opted in](Self::contents). Names that a model made up (of tools that there are not, of agents that it made) are `_OTHER`.
#[derive(Clone)]
pub struct OpenTelemetry(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    /// `None` where traces are not wanted.
    spans: Option<Arc<dyn Exporting>>,
    metrics: Metrics,
    sampler: Box<dyn ShouldSample>,
    has_contents: bool,
    purpose: Purpose,
    /// The provider that was made here, and ends with the exporter.
    provider: Option<Arc<OwnProvider>>,
}

/// A provider that ends when it is dropped, on a thread of its own: it waits for requests, which the thread that drops it
/// may have to send.
struct OwnProvider(SdkMeterProvider);

impl Drop for OwnProvider {
    fn drop(&mut self) {
        let provider = self.0.clone();
        std::thread::spawn(move || provider.shutdown());
    }
}

impl OpenTelemetry {
    /// An exporter over OTLP (`http/protobuf`) by the standard variables of OpenTelemetry:
    ///
    /// * `OTEL_EXPORTER_OTLP_ENDPOINT`, `…_HEADERS`, `…_TIMEOUT` (milliseconds), and the same for one signal, such as
    ///   `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`; without an endpoint `http://localhost:4318`.
    /// * `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES`; the service is `ghostlight` without them.
    /// * `OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG`, which decide about whole trees.
    /// * `OTEL_METRIC_EXPORT_INTERVAL` (milliseconds), a minute without it, and
    ///   `OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE`.
    /// * `OTEL_TRACES_EXPORTER=none` and `OTEL_METRICS_EXPORTER=none`, which leave out a signal, and
    ///   `OTEL_SDK_DISABLED=true`, which leaves out both.
    /// * `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true`, which [opts in](Self::contents) to contents.
    ///
    /// # Errors
    /// A variable that cannot be used; outside of a tokio runtime.
    pub fn from_env() -> Result<Self, OpenTelemetryError> {
        let variables = Variables(&of_process);
        environment::read(&variables, None).map(Self::of)
    }

    /// The exporter by the same variables, where they say where to export to: `None` without an endpoint, and where the SDK
    /// is disabled. Each variable is looked up by `look_up`, which may know more than the process's environment, such as a
    /// file with settings, but is to give what the process has: the SDK sends the headers that it finds there as well.
    ///
    /// # Errors
    /// As [`from_env`](Self::from_env).
    pub fn where_configured(
        look_up: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, OpenTelemetryError> {
        let variables = Variables(&look_up);
        environment::is_configured(&variables)
            .then(|| environment::read(&variables, None).map(Self::of))
            .transpose()
    }

    /// The same exporter to this address, such as `http://localhost:4318`, whatever the variables of endpoints say.
    ///
    /// # Errors
    /// As [`from_env`](Self::from_env).
    pub fn over_http(endpoint: &str) -> Result<Self, OpenTelemetryError> {
        let variables = Variables(&of_process);
        environment::read(&variables, Some(endpoint)).map(Self::of)
    }

    fn of(read: environment::Read) -> Self {
        let provider = read.meter_provider;
        let metrics = match &provider {
            Some(provider) => Metrics::new(provider),
            None => Metrics::none(),
        };
        Self(Arc::new(Inner {
            spans: read.spans,
            metrics,
            sampler: Box::new(read.sampler),
            has_contents: read.has_contents,
            purpose: Purpose::Export,
            provider: provider.map(|provider| Arc::new(OwnProvider(provider))),
        }))
    }

    /// An exporter to these receivers of the caller's. The ids of spans are computed, which no tracer allows, so spans go
    /// to a span exporter; set its resource first. One that fails is asked again, with growing pauses.
    pub fn new(spans: impl SpanExporter + 'static, meters: &impl MeterProvider) -> Self {
        Self(Arc::new(Inner {
            spans: Some(erased(spans)),
            metrics: Metrics::new(meters),
            sampler: Box::new(Sampler::AlwaysOn),
            has_contents: false,
            purpose: Purpose::Export,
            provider: None,
        }))
    }

    /// Counts for readers in this process, and exports nothing.
    pub(crate) fn counting(provider: SdkMeterProvider) -> Self {
        Self(Arc::new(Inner {
            spans: None,
            metrics: Metrics::new(&provider),
            sampler: Box::new(Sampler::AlwaysOff),
            has_contents: false,
            purpose: Purpose::Scrape,
            provider: Some(Arc::new(OwnProvider(provider))),
        }))
    }

    /// Decides which trees are exported, by a digest of the root's id. Nothing else is known then.
    #[must_use]
    pub fn sampler(self, sampler: impl ShouldSample + 'static) -> Self {
        self.with(|inner| inner.sampler = Box::new(sampler))
    }

    /// Whether spans have contents: prompts, answers, arguments, results and the texts of errors, without what looks like
    /// a secret, and up to 8,192 characters of each text.
    #[must_use]
    pub fn contents(self, are_exported: bool) -> Self {
        self.with(|inner| inner.has_contents = are_exported)
    }

    fn with(self, change: impl FnOnce(&mut Inner)) -> Self {
        let mut inner = Arc::unwrap_or_clone(self.0);
        change(&mut inner);
        Self(Arc::new(inner))
    }

    /// Follows all runs of a System's store, those that are open and those that begin later, until the returned handle
    /// is dropped. Of several processes that follow one store, one exports, and another takes over when it ends. The
    /// first to follow a store leaves out the runs that ended before.
    ///
    /// # Errors
    /// The error of the store.
    pub async fn follow(&self, system: &System) -> Result<Following, StoreError> {
        Following::start(self.clone(), system).await
    }

    pub(crate) fn spans(&self) -> Option<&Arc<dyn Exporting>> {
        self.0.spans.as_ref()
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    pub(crate) fn purpose(&self) -> Purpose {
        self.0.purpose
    }

    pub(crate) fn sampling(&self) -> &dyn ShouldSample {
        &*self.0.sampler
    }

    pub(crate) fn has_contents(&self) -> bool {
        self.0.has_contents
    }

    pub(crate) fn provider(&self) -> Option<&SdkMeterProvider> {
        self.0.provider.as_ref().map(|own| &own.0)
    }
}

/// A variable of the process's environment.
fn of_process(name: &str) -> Option<String> {
    env::var(name).ok()
}

impl fmt::Debug for OpenTelemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenTelemetry")
            .field("has_contents", &self.0.has_contents)
            .field("sampler", &self.0.sampler)
            .finish_non_exhaustive()
    }
}
