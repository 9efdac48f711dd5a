//! Bounds on what a cell may consume.

use std::time::Duration;

use ghostlight_actors::vocabulary::seconds;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Score, Scorer, ScorerFault};
use crate::{recording::Recording, suite::Sample};

/// Bounds on what a cell may consume. A cell that keeps all of them scores 1; one that exceeds them scores the share that
/// the bound is of what was consumed, for the bound that is exceeded most.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ConsumedSpec {
    /// Its name; `consumed` where it is left out.
    pub name: Option<String>,
    /// The most steps of all agents.
    pub steps: Option<u64>,
    /// The most model calls.
    pub model_calls: Option<u64>,
    /// The most tool calls.
    pub tool_calls: Option<u64>,
    /// The most tokens of requests and answers together.
    pub tokens: Option<u64>,
    /// The most money, in millionths of the currency of the models' prices.
    pub cost_micros: Option<u64>,
    /// The most time.
    #[serde(rename = "latency_s", with = "seconds")]
    #[schemars(with = "Option<f64>")]
    pub latency: Option<Duration>,
}

pub(super) struct ConsumedScorer {
    name: String,
    spec: ConsumedSpec,
}

impl ConsumedScorer {
    pub(super) fn new(spec: &ConsumedSpec) -> Result<Self, ScorerFault> {
        let name = spec.name.clone();
        let name = name.unwrap_or_else(|| String::from("consumed"));
        let bounds = [spec.steps, spec.model_calls, spec.tool_calls, spec.tokens];
        let bounds = bounds.into_iter().chain([spec.cost_micros]).flatten();
        if bounds.count() == 0 && spec.latency.is_none() {
            return Err(ScorerFault {
                scorer: name,
                reason: String::from("demands nothing: give a bound, such as `steps`"),
            });
        }
        Ok(Self {
            name,
            spec: spec.clone(),
        })
    }
}

impl Scorer for ConsumedScorer {
    fn name(&self) -> &str {
        &self.name
    }

    fn score(&self, recording: &Recording, _: &Sample) -> Score {
        let (spec, spent) = (&self.spec, &recording.spent);
        let latency = spec
            .latency
            .map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        let bounds = [
            ("steps", spec.steps, recording.steps),
            ("model calls", spec.model_calls, spent.model_calls),
            ("tool calls", spec.tool_calls, spent.tool_calls),
            ("tokens", spec.tokens, spent.usage.total_tokens()),
            ("cost_micros", spec.cost_micros, spent.usage.cost_micros),
            ("milliseconds", latency, recording.latency_ms),
        ];
        let exceeded = bounds.into_iter().filter_map(|(what, bound, used)| {
            let bound = bound.filter(|bound| used > *bound)?;
            Some((
                bound as f64 / used as f64,
                format!("{used} {what}, of at most {bound}"),
            ))
        });
        match exceeded.min_by(|a, b| a.0.total_cmp(&b.0)) {
            Some((share, why)) => Score::of(share, why),
            None => Score::pass("within the bounds"),
        }
    }
}
