//! An exporter of spans, of whatever type.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
    },
};

use opentelemetry_sdk::trace::{SpanData, SpanExporter};

/// Why spans were not taken.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The receiver does not want them: sent again, they would be refused again.
    Final(String),
    /// They may be taken later.
    Passing(String),
}

pub(crate) type Export<'a> = Pin<Box<dyn Future<Output = Result<(), Refusal>> + Send + 'a>>;

/// An exporter of spans, of whatever type.
pub(crate) trait Exporting: Send + Sync {
    fn export(&self, spans: Vec<SpanData>) -> Export<'_>;
}

/// An exporter of a caller's.
struct Callers<E>(E);

impl<E: SpanExporter> Exporting for Callers<E> {
    fn export(&self, spans: Vec<SpanData>) -> Export<'_> {
        Box::pin(async {
            let exported = self.0.export(spans).await;
            exported.map_err(|error| Refusal::Passing(error.to_string()))
        })
    }
}

pub(crate) fn erased(exporter: impl SpanExporter + 'static) -> Arc<dyn Exporting> {
    Arc::new(Callers(exporter))
}

/// An exporter over HTTP, with the status of its latest answer: 0 where there was none.
pub(crate) struct OverHttp<E> {
    pub(crate) exporter: E,
    pub(crate) status: Arc<AtomicU16>,
}

impl<E: SpanExporter> Exporting for OverHttp<E> {
    fn export(&self, spans: Vec<SpanData>) -> Export<'_> {
        Box::pin(async {
            self.status.store(0, Ordering::Relaxed);
            let exported = self.exporter.export(spans).await;
            exported.map_err(|error| match self.status.load(Ordering::Relaxed) {
                // Of the statuses below 500, these two alone ask to come again.
                408 | 429 => Refusal::Passing(error.to_string()),
                400..=499 => Refusal::Final(error.to_string()),
                _ => Refusal::Passing(error.to_string()),
            })
        })
    }
}
