//! Scores.

use ghostlight_actors::vocabulary::RunId;
use serde::{Deserialize, Serialize};

/// A score.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Score {
    /// The value, from 0 to 1.
    pub value: f64,
    /// Whether it passes.
    pub passes: bool,
    /// The reason, for people.
    pub why: String,
    /// Whether it counts for the success of its cell. It does not where the suite only watches its scorer, and where a
    /// judge has not shown the agreement that the suite asks for.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub counts: bool,
    /// The verdicts of a judge's models.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verdicts: Vec<JudgeVerdict>,
    /// The score with each verdict that cannot be read as the lowest one; `None` where all can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lowest: Option<LowestScore>,
}

/// A score with each verdict that cannot be read as the lowest one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LowestScore {
    /// The value, from 0 to 1.
    pub value: f64,
    /// Whether it passes.
    pub passes: bool,
}

/// The verdict of one model of a judge on one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JudgeVerdict {
    /// The model, by the team's name for it.
    pub by: String,
    /// Its score, from 1 to the rubric's scale; `None` where its verdict could not be read.
    pub score: Option<f64>,
    /// Its reason, or why the verdict could not be read.
    pub why: String,
    /// The run in which it was asked.
    pub run: RunId,
}

const fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
const fn is_true(value: &bool) -> bool {
    *value
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

    /// A score of this value, which is brought into the range from 0 to 1; a value that is not a number is 0. It passes with
    /// 1 alone.
    pub fn of(value: f64, why: impl Into<String>) -> Self {
        let value = if value.is_nan() {
            0.0
        } else {
            value.clamp(0.0, 1.0)
        };
        Self {
            value,
            passes: value >= 1.0,
            why: why.into(),
            counts: true,
            verdicts: Vec::new(),
            lowest: None,
        }
    }

    /// The same score, which passes from this value on.
    #[must_use]
    pub fn passing_from(mut self, least: f64) -> Self {
        self.passes = self.value >= least;
        self
    }

    /// Whether it passes.
    pub fn passes(&self) -> bool {
        self.passes
    }

    /// The score with each verdict that cannot be read as the lowest one.
    pub(crate) fn lowest(&self) -> LowestScore {
        let (value, passes) = (self.value, self.passes);
        self.lowest.unwrap_or(LowestScore { value, passes })
    }

    /// The same score, which has this value where each verdict that cannot be read is the lowest one.
    pub(crate) fn at_lowest(mut self, value: f64, least: f64) -> Self {
        let passes = value >= least;
        self.lowest = Some(LowestScore { value, passes });
        self
    }
}
