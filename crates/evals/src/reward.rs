//! Rewards: one number for each cell, for trainers and optimisers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{recording::Recording, scorers::Score};

/// The reward of a cell: a sum of scores and of what was consumed, each with a weight. It may be negative.
///
/// The rewards of the field are terms of it: correctness is `{ of: answer }`; a penalty for length `{ of: length, above:
/// 2000, weight: -0.001 }`, the weight for each character above; a bonus for each step `{ of: steps, weight: 0.1 }`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RewardSpec {
    /// The terms.
    pub sum: Vec<RewardTerm>,
}

/// A term of a reward.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RewardTerm {
    /// A scorer by its name, or `steps`, `model_calls`, `tool_calls`, `tokens`, `cost_micros`, `latency_ms`, or `length`
    /// (the characters of the answer). A scorer goes before.
    pub of: String,
    /// Its factor; 1 where it is left out.
    #[serde(default = "one")]
    pub weight: f64,
    /// The amount that is taken off first, so that only the rest above it counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above: Option<f64>,
}

const fn one() -> f64 {
    1.0
}

/// The quantity of a reward, beside scorers.
const MEASURES: [&str; 7] = [
    "steps",
    "model_calls",
    "tool_calls",
    "tokens",
    "cost_micros",
    "latency_ms",
    "length",
];

impl RewardSpec {
    /// The fault in it, for a suite with these scorers.
    pub(crate) fn fault(&self, scorers: &[&str]) -> Option<String> {
        if self.sum.is_empty() {
            return Some(String::from("has no terms"));
        }
        for term in &self.sum {
            let of = term.of.as_str();
            if !scorers.contains(&of) && !MEASURES.contains(&of) {
                return Some(format!(
                    "names {of:?}, which is neither a scorer of the suite nor one of {}",
                    MEASURES.join(", ")
                ));
            }
            if !term.weight.is_finite() || term.above.is_some_and(|above| !above.is_finite()) {
                return Some(format!("has a term of {of:?} whose numbers are not finite"));
            }
        }
        None
    }

    /// The reward of a cell with these scores, which are none where it has no answer; `None` where a score is missing.
    pub(crate) fn of(
        &self,
        recording: &Recording,
        scorers: &[&str],
        scores: Option<&BTreeMap<String, Score>>,
    ) -> Option<f64> {
        self.total(recording, scorers, |term| match scores {
            Some(scores) => scores.get(&term.of).map(|score| score.value),
            None => Some(0.0),
        })
    }

    /// The lowest reward that a cell with these scores can have: where a verdict cannot be read, the score is what its weight
    /// likes least.
    pub(crate) fn lowest(
        &self,
        recording: &Recording,
        scorers: &[&str],
        scores: &BTreeMap<String, Score>,
    ) -> Option<f64> {
        self.total(recording, scorers, |term| {
            Some(match scores.get(&term.of) {
                Some(score) if score.lowest.is_none() || term.weight >= 0.0 => score.lowest().value,
                _ if term.weight < 0.0 => 1.0,
                _ => 0.0,
            })
        })
    }

    fn total(
        &self,
        recording: &Recording,
        scorers: &[&str],
        score: impl Fn(&RewardTerm) -> Option<f64>,
    ) -> Option<f64> {
        let mut sum = 0.0;
        for term in &self.sum {
            let value = match scorers.contains(&term.of.as_str()) {
                true => score(term)?,
                false => measure(&term.of, recording),
            };
            let value = match term.above {
                Some(above) => (value - above).max(0.0),
                None => value,
            };
            sum += term.weight * value;
        }
        Some(sum)
    }
}

fn measure(name: &str, recording: &Recording) -> f64 {
    let spent = &recording.spent;
    let value = match name {
        "steps" => recording.steps,
        "model_calls" => spent.model_calls,
        "tool_calls" => spent.tool_calls,
        "tokens" => spent.usage.total_tokens(),
        "cost_micros" => spent.usage.cost_micros,
        "latency_ms" => recording.latency_ms,
        _ => recording
            .answer()
            .map_or(0, |answer| answer.chars().count() as u64),
    };
    value as f64
}
