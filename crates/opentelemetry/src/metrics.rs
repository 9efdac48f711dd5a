//! The metrics of runs, model calls and tools.

use std::time::Duration;

use ghostlight_actors::actor::OpenRuns;
use opentelemetry::{
    KeyValue,
    metrics::{Counter, Gauge, Histogram, Meter, MeterProvider, noop::NoopMeterProvider},
};

use crate::{
    conventions as names,
    tree::{Answered, Measure},
};

#[derive(Clone)]
pub(crate) struct Metrics {
    operations: Histogram<f64>,
    tokens: Histogram<u64>,
    tools: Histogram<f64>,
    agents: Histogram<f64>,
    workflows: Histogram<f64>,
    work: Histogram<f64>,
    attempts: Counter<u64>,
    cost: Counter<u64>,
    ended: Counter<u64>,
    parked: Counter<u64>,
    restarted: Counter<u64>,
    open: Gauge<u64>,
    dropped: Counter<u64>,
}

impl Metrics {
    pub(crate) fn new(provider: &impl MeterProvider) -> Self {
        let meter = provider.meter_with_scope(crate::telemetry::scope());
        let durations = |name, description| durations(&meter, name, description);
        let counter = |name, unit, description| {
            let counter = meter.u64_counter(name).with_unit(unit);
            counter.with_description(description).build()
        };
        Self {
            operations: durations(names::OPERATION_DURATION, "How long model calls took."),
            tools: durations(names::TOOL_DURATION, "How long calls of tools took."),
            agents: durations(names::AGENT_DURATION, "How long runs of agents took."),
            workflows: durations(names::WORKFLOW_DURATION, "How long runs of workflows took."),
            work: durations(
                names::WORK_DURATION,
                "How long operations of memories, retrieval and steps took.",
            ),
            tokens: meter
                .u64_histogram(names::TOKEN_USAGE)
                .with_unit("{token}")
                .with_description("The tokens of model calls.")
                .with_boundaries(names::TOKEN_BUCKETS.to_vec())
                .build(),
            attempts: counter(
                names::MODEL_ATTEMPTS,
                "{attempt}",
                "The attempts of the model calls that were answered.",
            ),
            cost: counter(
                names::COST,
                "{micro}",
                "The cost of model calls, in millionths of the currency of the prices.",
            ),
            ended: counter(
                names::RUNS_ENDED,
                "{run}",
                "The runs that ended, by how they ended.",
            ),
            parked: counter(
                names::RUNS_PARKED,
                "{run}",
                "How often runs were parked, by the error.",
            ),
            restarted: counter(
                names::RUNS_RESTARTED,
                "{restart}",
                "How often an agent failed and was started again with its run.",
            ),
            open: meter
                .u64_gauge(names::RUNS_OPEN)
                .with_unit("{run}")
                .with_description("The trees of runs that have not ended, by their status.")
                .build(),
            dropped: counter(
                names::SPANS_DROPPED,
                "{span}",
                "The spans that the collector refused.",
            ),
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
                answered,
            } => {
                let mut of = vec![
                    KeyValue::new(names::OPERATION_NAME, names::CHAT),
                    KeyValue::new(names::PROVIDER_NAME, model.provider),
                    KeyValue::new(names::REQUEST_MODEL, model.model),
                ];
                if let Some(Answered { usage, attempts }) = answered {
                    for (kind, tokens) in [
                        ("input", usage.input_tokens),
                        ("output", usage.output_tokens),
                    ] {
                        of.push(KeyValue::new(names::TOKEN_TYPE, kind));
                        self.tokens.record(tokens, &of);
                        of.pop();
                    }
                    self.attempts.add(u64::from(attempts), &of);
                    if usage.cost_micros > 0 {
                        self.cost.add(usage.cost_micros, &of);
                    }
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
            Measure::Work {
                work,
                seconds,
                error,
            } => {
                let mut of = vec![KeyValue::new(names::OPERATION_NAME, work.as_str())];
                of.extend(error.map(error_type));
                self.work.record(seconds, &of);
            }
            Measure::Parked { agent, team, error } => {
                let [agent, team] = carried(agent, team);
                self.parked.add(1, &[agent, team, error_type(error)]);
            }
            Measure::Restarted { agent, team } => self.restarted.add(1, &carried(agent, team)),
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

/// The agent that carried a run, and its team.
fn carried(agent: String, team: String) -> [KeyValue; 2] {
    [
        KeyValue::new(names::AGENT_NAME, agent),
        KeyValue::new(names::TEAM, team),
    ]
}

fn error_type(error: String) -> KeyValue {
    KeyValue::new(names::ERROR_TYPE, error)
}
