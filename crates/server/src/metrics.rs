//! The server's metrics, for Prometheus.

use std::{
    collections::BTreeMap,
    fmt,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use ghostlight_actors::actor::System;
use ghostlight_safety::{metric_head, metric_histogram, metric_line};
use parking_lot::Mutex;

/// The upper bounds of the buckets for the duration of a request, in seconds.
const BUCKETS: [f64; 10] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0];

/// One kind of request: method, route and status. Routes are patterns, and methods are those of the standard, so the number
/// of kinds is bounded.
type Kind = (&'static str, String, u16);

/// The methods that have a name of their own; every other is `_OTHER`, as in OpenTelemetry.
const METHODS: [&str; 9] = [
    "GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH", "CONNECT", "TRACE",
];

#[derive(Debug, Default)]
pub(crate) struct Metrics {
    requests: Mutex<BTreeMap<Kind, Requests>>,
    connections: AtomicI64,
    streams: AtomicI64,
}

#[derive(Debug, Default)]
struct Requests {
    count: u64,
    seconds: f64,
    within: [u64; BUCKETS.len()],
}

impl Metrics {
    pub(crate) fn answered(&self, method: &str, route: &str, status: u16, took: Duration) {
        let mut requests = self.requests.lock();
        let known = METHODS.into_iter().find(|known| *known == method);
        let kind = (known.unwrap_or("_OTHER"), route.to_owned(), status);
        let requests = requests.entry(kind).or_default();
        let seconds = took.as_secs_f64();
        requests.count += 1;
        requests.seconds += seconds;
        for (within, bound) in requests.within.iter_mut().zip(BUCKETS) {
            *within += u64::from(seconds <= bound);
        }
    }

    pub(crate) fn connected(&self, change: i64) {
        self.connections.fetch_add(change, Ordering::Relaxed);
    }

    pub(crate) fn streaming(&self, change: i64) {
        self.streams.fetch_add(change, Ordering::Relaxed);
    }

    /// The text format of Prometheus, version 0.0.4.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let gauges = [
            (
                "ghostlight_http_connections",
                "Open connections.",
                &self.connections,
            ),
            (
                "ghostlight_http_streams",
                "Open event streams.",
                &self.streams,
            ),
        ];
        for (name, help, gauge) in gauges {
            single(
                &mut text,
                name,
                help,
                "gauge",
                gauge.load(Ordering::Relaxed),
            );
        }
        let name = "ghostlight_http_request_duration_seconds";
        let help = "The time to a response's head.";
        text += &metric_head(name, help, "histogram");
        for ((method, route, status), requests) in self.requests.lock().iter() {
            let status = status.to_string();
            let labels = [
                ("method", *method),
                ("route", route.as_str()),
                ("status", status.as_str()),
            ];
            let below = BUCKETS.into_iter().zip(requests.within);
            let Requests { count, seconds, .. } = requests;
            text += &metric_histogram(name, &labels, below, seconds, *count);
        }
        text
    }
}

/// A metric that has one value.
pub(crate) fn single(
    text: &mut String,
    name: &str,
    help: &str,
    kind: &str,
    value: impl fmt::Display,
) {
    *text += &metric_head(name, help, kind);
    *text += &metric_line(name, &[], value);
}

/// The actors below the root of a System and its live runs, as they stand now. It reads no store.
pub(crate) async fn of_actors(system: &System) -> String {
    let mut text = String::new();
    let help = "Root runs that are live in this process.";
    let live = system.load().live_runs;
    single(&mut text, "ghostlight_live_runs", help, "gauge", live);
    let name = "ghostlight_actor_restarts_total";
    let help = "How often the root supervisor restarted an actor.";
    text += &metric_head(name, help, "counter");
    for child in system.tree().await {
        text += &metric_line(name, &[("actor", child.id.as_str())], child.restarts);
    }
    text
}

type Reading = Pin<Box<dyn Future<Output = String> + Send>>;

/// The reader of the metrics that another package counts.
#[derive(Clone)]
pub(crate) struct Added(Arc<dyn Fn() -> Reading + Send + Sync>);

impl Added {
    pub(crate) fn new<F>(read: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = String> + Send + 'static,
    {
        Self(Arc::new(move || Box::pin(read())))
    }

    pub(crate) async fn text(&self) -> String {
        self.0().await
    }
}

impl fmt::Debug for Added {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Added").finish_non_exhaustive()
    }
}
