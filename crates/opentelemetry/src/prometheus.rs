//! The same metrics as a text, for Prometheus.

use std::{
    fmt::{self, Display},
    time::Duration,
};

use ghostlight_actors::{actor::System, contract::StoreError};
use ghostlight_safety::{metric_head, metric_histogram, metric_line};
use opentelemetry::KeyValue;
use opentelemetry_sdk::{
    error::OTelSdkResult,
    metrics::{
        PeriodicReader, SdkMeterProvider, Temporality,
        data::{AggregatedMetrics, Histogram, Metric, MetricData, ResourceMetrics, ScopeMetrics},
        exporter::PushMetricExporter,
    },
};
use tokio::sync::{OnceCell, watch};

use crate::{following::Following, telemetry::OpenTelemetry};

/// Metrics are collected when they are asked for. The SDK's reader wants an interval, too.
const UNASKED: Duration = Duration::from_secs(24 * 60 * 60);

/// The metrics of [`OpenTelemetry`] for Prometheus, which asks for them: the same names and units, as Prometheus writes
/// them (`gen_ai_client_token_usage`, `ghostlight_runs_ended_total`), and the same attributes as labels.
///
/// Runs are followed from the first time that the text is asked for, apart from any export to a collector: a store that
/// nobody asks about costs nothing. Counters begin at 0 with the process. Of several processes over one store, one counts for
/// all, and another goes on when it ends, so the sum over the processes is right.
pub struct Prometheus {
    system: System,
    telemetry: OpenTelemetry,
    collected: watch::Receiver<String>,
    following: OnceCell<Following>,
}

impl Prometheus {
    /// Metrics of the runs of this System's store.
    pub fn new(system: System) -> Self {
        let (collects, collected) = watch::channel(String::new());
        let reader = PeriodicReader::builder(Collecting(collects));
        let reader = reader.with_interval(UNASKED).build();
        let provider = SdkMeterProvider::builder().with_reader(reader).build();
        Self {
            system,
            telemetry: OpenTelemetry::counting(provider),
            collected,
            following: OnceCell::new(),
        }
    }

    /// The counts up to about half a second ago, in Prometheus's text format, version 0.0.4. The runs that are open are
    /// counted every 30 seconds. It reads no store, but for the first time.
    ///
    /// # Errors
    /// The error of the store when runs begin to be followed. The next call tries it again.
    pub async fn text(&self) -> Result<String, StoreError> {
        let follow = || self.telemetry.follow(&self.system);
        self.following.get_or_try_init(follow).await?;
        if let Some(provider) = self.telemetry.provider().cloned() {
            // It waits for the reader's thread.
            let collected = tokio::task::spawn_blocking(move || provider.force_flush()).await;
            if !matches!(collected, Ok(Ok(()))) {
                tracing::warn!("metrics cannot be collected, so Prometheus gets those of before");
            }
        }
        Ok(self.collected.borrow().clone())
    }
}

impl fmt::Debug for Prometheus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prometheus").finish_non_exhaustive()
    }
}

/// Keeps what is collected, as text.
struct Collecting(watch::Sender<String>);

impl PushMetricExporter for Collecting {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        self.0.send_replace(text_of(metrics));
        Ok(())
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn temporality(&self) -> Temporality {
        Temporality::Cumulative
    }
}

fn text_of(metrics: &ResourceMetrics) -> String {
    let mut text = String::new();
    for metric in metrics.scope_metrics().flat_map(ScopeMetrics::metrics) {
        let lines = match metric.data() {
            AggregatedMetrics::F64(data) => lines(metric, data),
            AggregatedMetrics::U64(data) => lines(metric, data),
            AggregatedMetrics::I64(data) => lines(metric, data),
        };
        let Some((name, kind, mut lines)) = lines else {
            continue;
        };
        // The SDK gives them in another order each time.
        lines.sort_unstable();
        text += &metric_head(&name, metric.description(), kind);
        text += &lines.concat();
    }
    text
}

/// The name of a metric, its kind, and the lines of each of its series. There are no lines for kinds that no instrument of
/// ours has.
fn lines<T: Copy + Display>(
    metric: &Metric,
    data: &MetricData<T>,
) -> Option<(String, &'static str, Vec<String>)> {
    let name = match metric.unit() {
        "s" => format!("{}_seconds", word(metric.name())),
        _ => word(metric.name()),
    };
    match data {
        MetricData::Gauge(gauge) => {
            let points = gauge.data_points();
            let points =
                points.map(|point| line(&name, &labels(point.attributes()), point.value()));
            let lines = points.collect();
            Some((name, "gauge", lines))
        }
        MetricData::Sum(sum) => {
            let name = format!("{name}_total");
            let points = sum.data_points();
            let points =
                points.map(|point| line(&name, &labels(point.attributes()), point.value()));
            let lines = points.collect();
            Some((name, "counter", lines))
        }
        MetricData::Histogram(histogram) => {
            let lines = histogram_lines(&name, histogram);
            Some((name, "histogram", lines))
        }
        MetricData::ExponentialHistogram(_) => None,
    }
}

fn histogram_lines<T: Copy + Display>(name: &str, histogram: &Histogram<T>) -> Vec<String> {
    let points = histogram.data_points().map(|point| {
        let mut within = 0;
        let counts = point.bounds().zip(point.bucket_counts());
        let below = counts.map(|(bound, count)| {
            within += count;
            (bound, within)
        });
        let labels = labels(point.attributes());
        metric_histogram(name, &pairs(&labels), below, point.sum(), point.count())
    });
    points.collect()
}

/// The labels of a series: their names and values.
type Labels = Vec<(String, String)>;

fn line(name: &str, labels: &[(String, String)], value: impl Display) -> String {
    metric_line(name, &pairs(labels), value)
}

fn pairs(labels: &[(String, String)]) -> Vec<(&str, &str)> {
    let labels = labels.iter();
    labels.map(|(name, value)| (&**name, &**value)).collect()
}

fn labels<'a>(attributes: impl Iterator<Item = &'a KeyValue>) -> Labels {
    let labels =
        attributes.map(|attribute| (word(attribute.key.as_str()), attribute.value.to_string()));
    let mut labels: Labels = labels.collect();
    labels.sort_unstable();
    labels
}

/// A name as Prometheus writes it.
fn word(name: &str) -> String {
    let letter = |letter: char| match letter.is_ascii_alphanumeric() {
        true => letter,
        false => '_',
    };
    name.chars().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_leave_its_quotation_marks() {
        let hostile = KeyValue::new("a.name", "x\"} 1\n\\evil{y=\"z");
        let told = line("n", &labels([&hostile].into_iter()), 2);
        assert_eq!(told, "n{a_name=\"x\\\"} 1\\n\\\\evil{y=\\\"z\"} 2\n");
        assert_eq!(line("n", &labels([].into_iter()), 2), "n 2\n");
    }
}
