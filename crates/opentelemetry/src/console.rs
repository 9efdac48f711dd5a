//! Spans on the terminal, one JSON object a line.

use std::{
    io::{self, Write as _},
    time::{SystemTime, UNIX_EPOCH},
};

use opentelemetry::trace::Status;
use opentelemetry_sdk::trace::SpanData;
use serde_json::{Map, Value, json};

use crate::exporting::{Export, Exporting, Refusal};

/// Writes spans to stderr.
pub(crate) struct OnTerminal;

impl Exporting for OnTerminal {
    fn export(&self, spans: Vec<SpanData>) -> Export<'_> {
        let lines: String = spans
            .iter()
            .map(|span| format!("{}\n", line(span)))
            .collect();
        let written = io::stderr().lock().write_all(lines.as_bytes());
        // Where nobody reads stderr, later spans are not read either.
        let written = written.map_err(|error| Refusal::Final(error.to_string()));
        Box::pin(std::future::ready(written))
    }
}

/// A span as JSON, in which whatever acts on a terminal is an escape.
fn line(span: &SpanData) -> Value {
    let micros = |time: SystemTime| {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    };
    let attributes = span.attributes.iter().map(|attribute| {
        let value = attribute.value.as_str().into_owned();
        (attribute.key.to_string(), Value::String(escaped(&value)))
    });
    let (begun, ended) = (micros(span.start_time), micros(span.end_time));
    let mut told = json!({
        "trace": span.span_context.trace_id().to_string(),
        "span": span.span_context.span_id().to_string(),
        "parent": span.parent_span_id.to_string(),
        "name": escaped(&span.name),
        "start_us": begun,
        "duration_us": ended.saturating_sub(begun),
        "attributes": attributes.collect::<Map<_, _>>(),
    });
    if let Status::Error { description } = &span.status {
        told["error"] = escaped(description).into();
    }
    told
}

/// A text without characters that act. JSON escapes only those below a space.
fn escaped(text: &str) -> String {
    let acts =
        |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars()
        .flat_map(|c| match acts(c) {
            true => c.escape_unicode().collect::<Vec<_>>(),
            false => vec![c],
        })
        .collect()
}
