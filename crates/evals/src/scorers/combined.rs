//! Scores that are made of other scores.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Score, ScorerFault};

/// A score that is the weighted mean of the scores before it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct CompositeSpec {
    /// Its name; `composite` where it is left out.
    #[serde(default)]
    pub name: Option<String>,
    /// The weights of scorers that stand before it, by their names; each above 0.
    pub of: BTreeMap<String, f64>,
    /// The value from which on it passes, above 0 and at most 1; 1 where it is left out. To have it count instead of its
    /// parts, name them in the suite's `watch`.
    #[serde(default)]
    pub pass: Option<f64>,
}

#[derive(Debug)]
pub(crate) struct Composite {
    pub(crate) name: String,
    of: BTreeMap<String, f64>,
    pass: f64,
}

impl Composite {
    /// A composite after the scorers of these names.
    pub(crate) fn new(spec: &CompositeSpec, before: &[&str]) -> Result<Self, ScorerFault> {
        let name = spec.name.clone();
        let name = name.unwrap_or_else(|| String::from("composite"));
        let fault = |reason: String| {
            let scorer = name.clone();
            Err(ScorerFault { scorer, reason })
        };
        if spec.of.is_empty() {
            return fault(String::from("`of` names no scorer"));
        }
        let mut names = spec.of.keys();
        if let Some(unknown) = names.find(|name| !before.contains(&name.as_str())) {
            return fault(format!(
                "`of` names {unknown:?}, which does not stand before it"
            ));
        }
        let mut weights = spec.of.iter();
        if let Some((of, weight)) =
            weights.find(|(_, weight)| !(**weight > 0.0 && weight.is_finite()))
        {
            return fault(format!(
                "the weight of {of:?} is {weight}; it must be above 0"
            ));
        }
        let pass = spec.pass.unwrap_or(1.0);
        if !(pass > 0.0 && pass <= 1.0) {
            return fault(format!(
                "`pass` is {pass}; it must be above 0 and at most 1"
            ));
        }
        Ok(Self {
            name,
            of: spec.of.clone(),
            pass,
        })
    }

    /// The mean of these scores, or the name of one that is missing.
    pub(crate) fn score(&self, scores: &BTreeMap<String, Score>) -> Result<Score, String> {
        let (mut sum, mut lowest, mut weights) = (0.0, 0.0, 0.0);
        let (mut low, mut is_read) = (Vec::new(), true);
        for (name, weight) in &self.of {
            let Some(score) = scores.get(name) else {
                return Err(format!("{} lacks the score of {name}", self.name));
            };
            sum += weight * score.value;
            lowest += weight * score.lowest().value;
            weights += weight;
            is_read &= score.lowest.is_none();
            if !score.passes() {
                low.push(format!("{name} is {:.2}", score.value));
            }
        }
        let least = self.pass - 1e-9;
        let score = Score::of(sum / weights, low.join(", ")).passing_from(least);
        Ok(match is_read {
            true => score,
            false => score.at_lowest(lowest / weights, least),
        })
    }

    /// The scorers that it is the mean of.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &String> {
        self.of.keys()
    }
}
