//! Scorers: functions of what was recorded, and of the sample. None but a judge calls a model.

mod answer;
mod calls;
mod combined;
mod command;
mod consumed;
mod documents;
mod effects;
mod matching;
mod score;
mod texts;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::{
    answer::{AnswerForm, AnswerSpec},
    calls::{ArgumentMatch, CallOrder, CallsSpec, ExpectedCall},
    combined::CompositeSpec,
    command::CommandSpec,
    consumed::ConsumedSpec,
    documents::{CitationsSpec, JsonSpec},
    effects::EffectsSpec,
    score::{JudgeVerdict, LowestScore, Score},
    texts::{
        ContainsSpec, FormatSpec, LatencySpec, LengthSpec, LengthUnit, PatternSpec, RefusalsSpec,
        TextForm,
    },
};
pub(crate) use self::{combined::Composite, command::CommandScorer};
pub use crate::checkers::bfcl::BfclSpec;
use crate::{checkers::bfcl, judges::JudgeSpec, recording::Recording, suite::Sample};

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
    /// Looks for texts that an answer must contain, or must not.
    Contains(ContainsSpec),
    /// Matches an answer with a regular expression.
    Pattern(PatternSpec),
    /// Looks at the JSON of an answer: its schema, and its fields.
    Json(JsonSpec),
    /// Looks at the form of an answer.
    Format(FormatSpec),
    /// Bounds the length of an answer.
    Length(LengthSpec),
    /// Rates the time that a cell took.
    Latency(LatencySpec),
    /// Checks that an answer cites what was found, and that it says so.
    Citations(CitationsSpec),
    /// Looks for refusals.
    Refusals(RefusalsSpec),
    /// Asks models for a score by a rubric.
    Judge(JudgeSpec),
    /// Asks a program for a score.
    Command(CommandSpec),
    /// Makes one score of others.
    Composite(CompositeSpec),
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

/// Settings of a scorer that make no sense.
#[derive(Debug, thiserror::Error)]
#[error("the scorer {scorer:?}: {reason}")]
#[non_exhaustive]
pub struct ScorerFault {
    /// The scorer.
    pub scorer: String,
    /// The fault, and what is possible.
    pub reason: String,
}

/// Makes a scorer of a suite that is a function of what was recorded.
///
/// # Errors
/// Settings that make no sense; and judges, commands and composites, which are not functions of a recording: an
/// [`Evaluation`](crate::Evaluation) makes them.
pub fn scorer_of(spec: &ScorerSpec) -> Result<Box<dyn Scorer>, ScorerFault> {
    let other = |name: &Option<String>, or: &str| {
        Err(ScorerFault {
            scorer: name.clone().unwrap_or_else(|| or.to_owned()),
            reason: String::from("it is not a function of what was recorded"),
        })
    };
    Ok(match spec {
        ScorerSpec::Answer(spec) => Box::new(answer::AnswerScorer::new(spec)?),
        ScorerSpec::Calls(spec) => Box::new(calls::CallsScorer::new(spec)),
        ScorerSpec::Effects(spec) => Box::new(effects::EffectsScorer::new(spec)),
        ScorerSpec::Consumed(spec) => Box::new(consumed::ConsumedScorer::new(spec)?),
        ScorerSpec::Bfcl(spec) => Box::new(bfcl::BfclScorer::new(spec)),
        ScorerSpec::Contains(spec) => texts::contains(spec)?,
        ScorerSpec::Pattern(spec) => texts::pattern(spec)?,
        ScorerSpec::Json(spec) => Box::new(documents::JsonScorer::new(spec)?),
        ScorerSpec::Format(spec) => texts::format(spec),
        ScorerSpec::Length(spec) => texts::length(spec)?,
        ScorerSpec::Latency(spec) => texts::latency(spec)?,
        ScorerSpec::Citations(spec) => Box::new(documents::CitationsScorer::new(spec)?),
        ScorerSpec::Refusals(spec) => texts::refusals(spec),
        ScorerSpec::Judge(spec) => return other(&spec.name, "judge"),
        ScorerSpec::Command(spec) => return other(&spec.name, "command"),
        ScorerSpec::Composite(spec) => return other(&spec.name, "composite"),
    })
}
