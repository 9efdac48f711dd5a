//! Scorers: functions of what was recorded, and of the sample. None of them calls a model.

mod answer;
mod calls;
mod consumed;
mod effects;
mod matching;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::{
    answer::{AnswerForm, AnswerSpec},
    calls::{ArgumentMatch, CallOrder, CallsSpec, ExpectedCall},
    consumed::ConsumedSpec,
    effects::EffectsSpec,
};
pub use crate::checkers::bfcl::BfclSpec;
use crate::{checkers::bfcl, recording::Recording, suite::Sample};

/// A scorer of a suite's file.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ScorerSpec {
    /// Compares the answer with the expected one.
    Answer(AnswerSpec),
    /// Compares the tool calls with the expected ones.
    Calls(CallsSpec),
    /// Looks for calls whose effect is in doubt.
    Effects(EffectsSpec),
    /// Bounds what a cell may consume.
    Consumed(ConsumedSpec),
    /// Checks the calls of a sample of BFCL's.
    Bfcl(BfclSpec),
}

/// A function that scores what was recorded.
pub trait Scorer: Send + Sync {
    /// Its name in reports, unique in the evaluation.
    fn name(&self) -> &str;

    /// The score of a cell that has a recording.
    fn score(&self, recording: &Recording, sample: &Sample) -> Score;
}

impl fmt::Debug for dyn Scorer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scorer")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

/// A score.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Score {
    /// The value, from 0 to 1; 1 passes.
    pub value: f64,
    /// The reason, for people.
    pub why: String,
}

impl Score {
    /// The score 1.
    pub fn pass(why: impl Into<String>) -> Self {
        Self::of(1.0, why)
    }

    /// The score 0.
    pub fn fail(why: impl Into<String>) -> Self {
        Self::of(0.0, why)
    }

    /// A score of this value, which is brought into the range from 0 to 1; a value that is no number is 0.
    pub fn of(value: f64, why: impl Into<String>) -> Self {
        let value = if value.is_nan() {
            0.0
        } else {
            value.clamp(0.0, 1.0)
        };
        Self {
            value,
            why: why.into(),
        }
    }

    /// Whether it passes.
    pub fn passes(&self) -> bool {
        self.value >= 1.0
    }
}

/// Settings of a scorer that make no sense.
#[derive(Debug, thiserror::Error)]
#[error("the scorer {scorer:?}: {reason}")]
#[non_exhaustive]
pub struct ScorerFault {
    /// The scorer.
    pub scorer: String,
    /// What is wrong, and what is possible.
    pub reason: String,
}

/// Makes the scorers of a suite.
///
/// # Errors
/// The first one whose settings make no sense, or whose name another one has.
pub fn scorers_of(specs: &[ScorerSpec]) -> Result<Vec<Box<dyn Scorer>>, ScorerFault> {
    let mut scorers: Vec<Box<dyn Scorer>> = Vec::new();
    for spec in specs {
        let scorer: Box<dyn Scorer> = match spec {
            ScorerSpec::Answer(spec) => Box::new(answer::AnswerScorer::new(spec)?),
            ScorerSpec::Calls(spec) => Box::new(calls::CallsScorer::new(spec)),
            ScorerSpec::Effects(spec) => Box::new(effects::EffectsScorer::new(spec)),
            ScorerSpec::Consumed(spec) => Box::new(consumed::ConsumedScorer::new(spec)),
            ScorerSpec::Bfcl(spec) => Box::new(bfcl::BfclScorer::new(spec)),
        };
        if scorers.iter().any(|known| known.name() == scorer.name()) {
            let (scorer, reason) = (
                scorer.name().to_owned(),
                "another scorer has this name: give it a `name`",
            );
            let reason = reason.to_owned();
            return Err(ScorerFault { scorer, reason });
        }
        scorers.push(scorer);
    }
    Ok(scorers)
}
