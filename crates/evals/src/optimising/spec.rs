//! Optimisers as a suite's file describes them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::texts::TextName;

/// How better texts for a team are looked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct OptimiseSpec {
    /// The method.
    pub method: Method,
    /// The texts that may be changed, such as `desk.instructions` or `clerk.description`; the instructions of the root
    /// agent where there are none.
    #[schemars(with = "Vec<String>")]
    pub texts: Vec<TextName>,
    /// The model that proposes texts, by the team's name for it; the model of the root agent where it is left out.
    pub model: Option<String>,
    /// The objective: `success`, `reward` or the name of a scorer. Where it is left out: the reward, if the suite
    /// has one, and else success.
    pub by: Option<String>,
    /// How many samples may be tried during the search, from 1. One sample that is tried with one set of texts counts as
    /// one, also where it is recorded already. The test at the end comes on top: each of its samples once for each repeat,
    /// with the team's own texts and with the best ones.
    pub tries: u32,
    /// How many samples a proposal learns from and is first tried with, from 1.
    pub minibatch: u32,
    /// How many samples with good answers an agent's instructions may show, for the methods `bootstrap` and
    /// `instructions`; 0 for none.
    pub demonstrations: u32,
    /// The shares of the samples for each purpose.
    pub split: SplitSpec,
    /// A number that leads to other random choices.
    pub seed: u64,
}

impl Default for OptimiseSpec {
    fn default() -> Self {
        Self {
            method: Method::default(),
            texts: Vec::new(),
            model: None,
            by: None,
            tries: 200,
            minibatch: 3,
            demonstrations: 4,
            split: SplitSpec::default(),
            seed: 0,
        }
    }
}

/// How better texts are looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Method {
    /// Shows the root agent samples that it answered well, in several random sets, and keeps the best set (after
    /// `BootstrapFewShot` with random search).
    Bootstrap,
    /// Has several texts proposed for each name, and looks for the best combination of texts and demonstrations on
    /// minibatches (after MIPRO).
    Instructions,
    /// Has texts changed by what went wrong, keeps all that are best for some sample, and merges them (after GEPA).
    #[default]
    Gepa,
}

impl Method {
    /// Its name in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bootstrap => "bootstrap",
            Self::Instructions => "instructions",
            Self::Gepa => "gepa",
        }
    }
}

/// The shares of the samples for each purpose; only their relation counts. Whole clusters are dealt, in an order that
/// their names decide.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SplitSpec {
    /// For learning.
    pub train: f64,
    /// For choosing.
    pub validate: f64,
    /// For the gain at the end.
    pub test: f64,
}

impl Default for SplitSpec {
    fn default() -> Self {
        Self {
            train: 0.3,
            validate: 0.3,
            test: 0.4,
        }
    }
}
