//! Samples: one task each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::scorers::ExpectedCall;

/// One task of an evaluation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Sample {
    /// Its id, unique in the evaluation; where it is left out, the file's name and the line.
    pub id: String,
    /// The question to the team.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// The questions to the team turn by turn, instead of `input`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<String>,
    /// The answer that is expected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<Value>,
    /// The tool calls that are expected, instead of those of the scorer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<Vec<ExpectedCall>>,
    /// Tools that the team is offered for this sample alone. A call of one is recorded and has no effect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<OfferedTool>,
    /// The cluster: samples about one thing are alike, and count for less than as many different ones. The sample's id
    /// where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The part of an optimiser's samples that it belongs to. Where it is left out, the sample is dealt with its cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// Tags, by which gates name samples.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Anything else, which nothing reads.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// The parts of an optimiser's samples.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Split {
    /// The samples to learn from: their answers and scores go into its proposals.
    Train,
    /// The samples to choose by.
    Validate,
    /// The samples that it does not see before its choice is made; its gain is measured by them.
    Test,
}

/// A tool that a sample offers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct OfferedTool {
    /// Its name.
    pub name: String,
    /// Its purpose, in words for the model.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub parameters: Value,
}

impl Sample {
    /// A sample with this id and input.
    pub fn new(id: impl Into<String>, input: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            input: Some(input.into()),
            ..Self::default()
        }
    }

    /// Sets the expected answer.
    #[must_use]
    pub fn expected(mut self, expected: impl Into<Value>) -> Self {
        self.expected = Some(expected.into());
        self
    }

    /// The questions to the team, turn by turn.
    pub fn texts(&self) -> Vec<&str> {
        let input = self.input.as_deref().into_iter();
        input.chain(self.turns.iter().map(String::as_str)).collect()
    }

    /// The cluster that it belongs to.
    pub fn cluster(&self) -> &str {
        self.cluster.as_deref().unwrap_or(&self.id)
    }

    /// The fault in it, if it cannot be tried.
    pub(super) fn fault(&self) -> Option<&'static str> {
        match (&self.input, self.turns.is_empty()) {
            (None, true) => Some("has neither `input` nor `turns`"),
            (Some(_), false) => Some("has both `input` and `turns`: give all texts in `turns`"),
            _ if self.texts().iter().any(|text| text.trim().is_empty()) => {
                Some("asks nothing: a text is empty")
            }
            _ => None,
        }
    }
}
