//! Traces of a team: what a collector of OpenTelemetry would get, printed as a tree. Nothing leaves this program.
//!
//! `cargo run --example opentelemetry --features opentelemetry`
//!
//! A real program exports to a collector instead, by the variables of OpenTelemetry:
//! `OpenTelemetry::from_environment()?.follow(&system).await?`.

#![allow(clippy::print_stdout)]

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use ghostlight::{
    opentelemetry::{
        OpenTelemetry,
        opentelemetry::{metrics::noop::NoopMeterProvider, trace::SpanId},
        opentelemetry_sdk::{
            error::OTelSdkResult,
            trace::{SpanData, SpanExporter},
        },
    },
    prelude::*,
};

/// Adds VAT to a net price.
#[tool(effect = "read")]
async fn add_vat(net: f64, percent: f64) -> Result<f64, ToolError> {
    Ok(net * (100.0 + percent) / 100.0)
}

/// Keeps the spans that it gets.
#[derive(Clone, Debug, Default)]
struct Kept(Arc<Mutex<Vec<SpanData>>>);

impl SpanExporter for Kept {
    async fn export(&self, spans: Vec<SpanData>) -> OTelSdkResult {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(spans);
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let billing = Agent::new("billing")
        .description("prices and VAT")
        .tool(add_vat);
    let desk = Agent::new("desk").delegate_to(billing);
    let system = System::builder(InMemoryStore::new())
        .registry(ghostlight::builtin())
        .model("default", OfflineModel)
        .team(desk.into_team()?)
        .start()
        .await?;

    let spans = Kept::default();
    let telemetry = OpenTelemetry::new(spans.clone(), &NoopMeterProvider::new());
    let following = telemetry.follow(&system).await?;

    let session = system.session("desk", "ada");
    let run = session.send("What is 80 euro with 19% VAT?").await?;
    println!("{}\n", run.outcome().await?.text());

    following.flush().await?;
    let mut below: BTreeMap<String, Vec<SpanData>> = BTreeMap::new();
    let kept = std::mem::take(&mut *spans.0.lock().unwrap_or_else(PoisonError::into_inner));
    for span in kept {
        let parent = span.parent_span_id.to_string();
        below.entry(parent).or_default().push(span);
    }
    print(&below, SpanId::INVALID, 0);
    following.shutdown().await;
    system.stop().await?;
    Ok(())
}

/// Prints the spans below this one, each with how long it took.
fn print(below: &BTreeMap<String, Vec<SpanData>>, parent: SpanId, depth: usize) {
    let mut spans: Vec<&SpanData> = below
        .get(&parent.to_string())
        .into_iter()
        .flatten()
        .collect();
    spans.sort_by_key(|span| (span.start_time, span.end_time));
    for span in spans {
        let took = span.end_time.duration_since(span.start_time);
        let took = took.unwrap_or_default().as_millis();
        println!("{}{} ({took} ms)", "  ".repeat(depth), span.name);
        print(below, span.span_context.span_id(), depth + 1);
    }
}
