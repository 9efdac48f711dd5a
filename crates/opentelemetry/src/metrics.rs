//! The metrics of runs, model calls and tools.

use std::time::Duration;

use ghostlight_actors::actor::OpenRuns;
use opentelemetry::{
    KeyValue,
    metrics::{Counter, Gauge, Histogram, Meter, MeterProvider, noop::NoopMeterProvider},
};

use crate::{conventions as names, tree::Measure};

#[derive(Clone)]
pub(crate) struct Metrics {
    operations: Histogram<f64>,
    tokens: Histogram<u64>,
    tools: Histogram<f64>,
    agents: Histogram<f64>,
    workflows: Histogram<f64>,
    ended: Counter<u64>,
    open: Gauge<u64>,
    dropped: Counter<u64>,
}

impl Metrics {
    pub(crate) fn new(provider: &impl MeterProvider) -> Self {
        let meter = provider.meter_with_scope(crate::telemetry::scope());
        let durations = |name, description| durations(&meter, name, description);
        Self {
            operations: durations(names::OPERATION_DURATION, "How long model calls took."),
            tools: durations(names::TOOL_DURATION, "How long calls of tools took."),
            agents: durations(names::AGENT_DURATION, "How long runs of agents took."),
            workflows: durations(names::WORKFLOW_DURATION, "How long runs of workflows took."),
            tokens: meter
                .u64_histogram(names::TOKEN_USAGE)
                .with_unit("{token}")
                .with_description("The tokens of model calls.")
                .with_boundaries(names::TOKEN_BUCKETS.to_vec())
                .build(),
            ended: meter
                .u64_counter(names::RUNS_ENDED)
                .with_unit("{run}")
                .with_description("The runs that ended, by how they ended.")
                .build(),
            open: meter
                .u64_gauge(names::RUNS_OPEN)
                .with_unit("{run}")
                .with_description("The trees of runs that have not ended, by their status.")
                .build(),
            dropped: meter
                .u64_counter(names::SPANS_DROPPED)
                .with_unit("{span}")
                .with_description("The spans that the collector refused.")
                .build(),
        }
    }

    /// Metrics that nobody reads.
    pub(crate) fn none() -> Self {
        Self::new(&NoopMeterProvider::new())
    }

    pub(crate) fn count(&self, measure: Measure) {
        match measure {
            Measure::Chat {
                model,
                seconds,
                error,
                usage,
            } => {
                let mut of = vec![
                    KeyValue::new(names::OPERATION_NAME, names::CHAT),
                    KeyValue::new(names::PROVIDER_NAME, model.provider),
                    KeyValue::new(names::REQUEST_MODEL, model.model),
                ];
                for (kind, tokens) in usage.into_iter().flat_map(|usage| {
                    [
                        ("input", usage.input_tokens),
                        ("output", usage.output_tokens),
                    ]
                }) {
                    of.push(KeyValue::new(names::TOKEN_TYPE, kind));
                    self.tokens.record(tokens, &of);
                    of.pop();
                }
                of.extend(error.map(error_type));
                self.operations.record(seconds, &of);
            }
            Measure::Tool {
                name,
                seconds,
                error,
            } => {
                let mut of = vec![
                    KeyValue::new(names::OPERATION_NAME, names::EXECUTE_TOOL),
                    KeyValue::new(names::TOOL_NAME, name),
                ];
                of.extend(error.map(error_type));
                self.tools.record(seconds, &of);
            }
            Measure::Run {
                agent,
                team,
                is_workflow,
                seconds,
                end,
                error,
            } => {
                let team = KeyValue::new(names::TEAM, team);
                let ended = [
                    KeyValue::new(names::AGENT_NAME, agent.clone()),
                    team.clone(),
                    KeyValue::new(names::RUN_END, end),
                ];
                self.ended.add(1, &ended);
                let (histogram, operation, name) = match is_workflow {
                    true => (
                        &self.workflows,
                        names::INVOKE_WORKFLOW,
                        names::WORKFLOW_NAME,
                    ),
                    false => (&self.agents, names::INVOKE_AGENT, names::AGENT_NAME),
                };
                let mut of = vec![
                    KeyValue::new(names::OPERATION_NAME, operation),
                    KeyValue::new(name, agent),
                    team,
                ];
                of.extend(error.map(error_type));
                histogram.record(seconds, &of);
            }
        }
    }

    pub(crate) fn open(&self, open: &OpenRuns) {
        let counts = [
            ("running", open.running),
            ("waiting", open.waiting),
            ("parked", open.parked),
            ("cancelling", open.cancelling),
        ];
        for (status, count) in counts {
            let count = u64::try_from(count).unwrap_or(u64::MAX);
            self.open
                .record(count, &[KeyValue::new(names::RUN_STATUS, status)]);
        }
    }

    pub(crate) fn dropped(&self, spans: usize) {
        self.dropped
            .add(u64::try_from(spans).unwrap_or(u64::MAX), &[]);
    }
}

/// How often open runs are counted, which reads the rows of all of them.
pub(crate) const COUNTED: Duration = Duration::from_secs(30);

fn durations(meter: &Meter, name: &'static str, description: &'static str) -> Histogram<f64> {
    meter
        .f64_histogram(name)
        .with_unit("s")
        .with_description(description)
        .with_boundaries(names::DURATION_BUCKETS.to_vec())
        .build()
}

fn error_type(error: String) -> KeyValue {
    KeyValue::new(names::ERROR_TYPE, error)
}
