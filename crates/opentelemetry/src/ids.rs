//! The ids of traces and spans, computed from what they are of.

use ghostlight_actors::vocabulary::{Digest, OperationId, RunId};
use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};

/// The trace of a tree of runs: the UUID of its root.
pub(crate) fn trace_of(root: RunId) -> TraceId {
    TraceId::from_bytes(bits(root).to_be_bytes())
}

/// The id by which a sampler decides about a tree. The bits of a UUID that are the same in all of them stand where
/// samplers look for chance, so it is a digest of the root.
pub(crate) fn sampled_by(root: RunId) -> TraceId {
    let mut bytes = [0; 16];
    let digest = Digest::of_parts(&[b"sampled", &bits(root).to_be_bytes()]);
    bytes.copy_from_slice(&digest.0[..16]);
    TraceId::from_bytes(bytes)
}

/// The span of a run.
pub(crate) fn span_of_run(run: RunId) -> SpanId {
    span(&[b"run", &bits(run).to_be_bytes()])
}

/// The span of an operation of a run.
pub(crate) fn span_of_operation(run: RunId, operation: OperationId) -> SpanId {
    let number = operation.to_string();
    span(&[b"operation", &bits(run).to_be_bytes(), number.as_bytes()])
}

pub(crate) fn context(trace: TraceId, span: SpanId) -> SpanContext {
    let state = TraceState::default();
    SpanContext::new(trace, span, TraceFlags::SAMPLED, false, state)
}

fn bits(run: RunId) -> u128 {
    let digits = run.to_string().replace('-', "");
    u128::from_str_radix(&digits, 16).unwrap_or_default()
}

fn span(parts: &[&[u8]]) -> SpanId {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&Digest::of_parts(parts).0[..8]);
    // Zero would mean that there is no span.
    SpanId::from_bytes(u64::from_be_bytes(bytes).max(1).to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_same_whenever_they_are_computed_and_differ_for_what_differs() {
        let run = RunId::from_random(7);
        let number = |number| OperationId {
            number,
            ..OperationId::default()
        };
        assert_eq!(trace_of(run).to_string(), run.to_string().replace('-', ""));
        assert_eq!(
            span_of_operation(run, number(1)),
            span_of_operation(run, number(1))
        );
        assert_ne!(
            span_of_operation(run, number(1)),
            span_of_operation(run, number(2))
        );
        assert_ne!(span_of_run(run), span_of_operation(run, number(0)));
        assert_ne!(span_of_run(run), span_of_run(RunId::from_random(8)));
    }
}
