//! What happens in a run: its events, live and again from its journal, and its trace (takes 1 s).
//!
//!     cargo run --example observe --features opentelemetry
#![allow(clippy::print_stdout)]

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use ghostlight::{
    actor::EventStream,
    builtin,
    contract::StoreError,
    opentelemetry::{
        OpenTelemetry,
        opentelemetry::{metrics::noop::NoopMeterProvider, trace::SpanId},
        opentelemetry_sdk::{
            error::OTelSdkResult,
            trace::{SpanData, SpanExporter},
        },
    },
    prelude::*,
    vocabulary::{EventId, EventRecord},
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    events().await?;
    trace().await
}

/// Looks for a lamp in the rooms of a house.
#[tool(effect = "read")]
async fn find_lamp(
    /// The number of rooms.
    rooms: u32,
    cx: &ToolContext,
) -> String {
    for room in 1..=rooms {
        cx.progress(
            Some(f64::from(room) / f64::from(rooms)),
            format!("looking into room {room}"),
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    format!("the lamp stands in room {rooms}")
}

type Ids = Vec<Option<EventId>>;

/// Reads a stream to its end, pausing before each event.
async fn watch(mut events: EventStream, pause: Duration) -> Result<Ids, StoreError> {
    let mut seen = Ids::new();
    while let Some(event) = events.next().await {
        seen.push(event?.id());
        tokio::time::sleep(pause).await;
    }
    Ok(seen)
}

/// A stream reads the journal at its own pace, so a slow one holds nobody up and misses nothing that is recorded. Previews
/// (a streamed answer, a tool's progress) are only shown live.
async fn events() -> Result<(), ghostlight::Error> {
    let finder = Agent::new("finder")
        .instructions("Find lamps.")
        .streaming()
        .tool(find_lamp);
    let system = System::builder(InMemoryStore::new())
        .registry(builtin())
        .model("default", OfflineModel)
        .team(finder.into_team()?)
        .start()
        .await?;

    let run = system
        .session("finder", "ada")
        .send("Find the lamp in a house of 3 rooms.")
        .await?;
    let slow = tokio::spawn(watch(run.events().recorded(), Duration::from_millis(50)));

    println!("live (· is a preview, which is not recorded):");
    let mut live = Ids::new();
    let mut events = run.events();
    while let Some(record) = events.next().await {
        let record = record?;
        match record.id() {
            Some(id) => println!("  {:>2} {record}", id.sequence),
            None => println!("   · {record}"),
        }
        live.push(record.id());
    }
    let previews = live.iter().filter(|id| id.is_none()).count();
    live.retain(Option::is_some);

    let again = run.events().so_far().await?;
    let again: Ids = again.iter().map(EventRecord::id).collect();
    let slow = slow.await.map_err(|_| ghostlight::Error::Stopped)??;
    println!("\n{} recorded, {previews} previews", live.len());
    println!("read again from the journal: the same is {}", again == live);
    println!("read by a slow subscriber:   the same is {}", slow == live);
    system.stop().await
}

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

/// Prints what a collector of OpenTelemetry would get. A real program exports to one instead, by the variables of
/// OpenTelemetry: `OpenTelemetry::from_env()?.follow(&system).await?`.
async fn trace() -> Result<(), Box<dyn std::error::Error>> {
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
