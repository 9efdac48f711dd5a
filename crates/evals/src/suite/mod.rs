//! Suites: what is evaluated, on which samples, and how it is scored.

mod data;
mod forms;
mod runs;
mod sample;
mod variant;

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::{
    data::{DataFault, DataSpec, Samples, Wanted, load, load_wanted},
    runs::{RunsSpec, of_run, of_runs},
    sample::{OfferedTool, Sample, Split},
    variant::{VariantFault, VariantSpec, team_of},
};
pub(crate) use self::{runs::begins, variant::variant_in};
use crate::{judges::PairwiseSpec, scorers::ScorerSpec};
pub use crate::{
    optimising::{Method, OptimiseSpec, SplitSpec, TextName},
    reward::{RewardSpec, RewardTerm},
};

/// An evaluation as plain data: what a suite's file holds.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SuiteSpec {
    /// The name of the evaluation. It is a part of the ids of its turns.
    pub evaluation: String,
    /// The team: a team file, or the team itself.
    pub team: TeamSource,
    /// The samples.
    pub data: Vec<DataSpec>,
    /// The variants that are compared, by name: changes of the team. The team alone, as `base`, where it is left out.
    #[serde(default)]
    pub variants: BTreeMap<String, VariantSpec>,
    /// How often each sample is tried in each variant.
    #[serde(default = "one")]
    pub repeat: u32,
    /// How many cells are under way at once.
    #[serde(default = "four")]
    pub concurrency: u32,
    /// How each cell is scored. A cell succeeds when it passes all of them, but for those in `watch`.
    pub scorers: Vec<ScorerSpec>,
    /// The names of scorers that are shown and do not count for the success of a cell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watch: Vec<String>,
    /// One number for each cell, of its scores and of what it consumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reward: Option<RewardSpec>,
    /// Judges that say which of two variants' answers is better.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairwise: Vec<PairwiseSpec>,
    /// The treatment of a cell whose agents ask a person.
    #[serde(default)]
    pub questions: WhenAsked,
    /// The conditions for the evaluation to pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<GateSpec>,
    /// How better texts for the team are looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optimise: Option<OptimiseSpec>,
    /// The budget of all cells together. No cell starts once a bound is reached.
    #[serde(default)]
    pub budget: SuiteBudget,
}

/// The team of a suite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected the path of a team file, or a team")]
#[non_exhaustive]
pub enum TeamSource {
    /// A team file; a relative path starts from the suite's folder.
    File(PathBuf),
    /// The team itself, with the keys of a team file.
    Here(Map<String, Value>),
}

const fn one() -> u32 {
    1
}

const fn four() -> u32 {
    4
}

/// The treatment of a cell whose agents ask a person.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WhenAsked {
    /// The run is cancelled, and the cell counts as one in which the agent failed.
    #[default]
    Fail,
    /// Approvals are given. Any other question fails the cell.
    Approve,
    /// Approvals are refused. Any other question fails the cell.
    Deny,
}

/// The conditions for the evaluation to pass.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct GateSpec {
    /// The variant that the others are compared with.
    pub against: Option<String>,
    /// The success that each other variant must show.
    pub success: Option<LossGate>,
    /// The reward that each other variant must show; the allowed loss is in the unit of the reward.
    pub reward: Option<LossGate>,
    /// How often judges of pairs must prefer each other variant: in half of all pairs, less the allowed loss. A judge that
    /// goes by the place of an answer lets none pass.
    pub pairwise: Option<LossGate>,
    /// By tag: of the samples with this tag, which must succeed.
    pub tags: BTreeMap<String, TagGate>,
}

/// How much worse a variant may be than the one that it is compared with.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct LossGate {
    /// The loss that is allowed: at least 0, and below 1 for shares. The gate passes only where the whole interval of the
    /// difference lies above this loss.
    pub not_worse_by: f64,
}

/// Which samples with a tag must succeed.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TagGate {
    /// All of them, in every repeat of every variant.
    All,
}

/// The budget of all cells together; a bound that is left out does not bind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SuiteBudget {
    /// Money, in millionths of the currency of the models' prices.
    pub cost_micros: Option<u64>,
    /// Tokens of requests and answers together.
    pub tokens: Option<u64>,
    /// Model calls.
    pub model_calls: Option<u64>,
}

/// A fault in a suite.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SuiteFault {
    /// A setting has a value that makes no sense.
    #[error("the evaluation's `{setting}` {reason}")]
    Setting {
        /// The setting.
        setting: String,
        /// The fault, and what is possible.
        reason: String,
    },
}

impl SuiteSpec {
    /// The most repeats of a sample.
    pub const MAX_REPEAT: u32 = 1_000;

    /// The JSON Schema of a suite's file, for editors.
    pub fn schema() -> Value {
        let mut schema = schemars::schema_for!(Self).to_value();
        if let Some(object) = schema.as_object_mut() {
            object.insert(String::from("title"), "A Ghostlight evaluation".into());
        }
        schema
    }

    /// Checks the settings that their types leave open.
    ///
    /// # Errors
    /// The first setting that makes no sense.
    pub fn check(&self) -> Result<(), SuiteFault> {
        let fault = |setting: &str, reason: String| {
            let setting = setting.to_owned();
            Err(SuiteFault::Setting { setting, reason })
        };
        if self.evaluation.trim().is_empty() {
            return fault("evaluation", String::from("is empty: give it a name"));
        }
        if !(1..=Self::MAX_REPEAT).contains(&self.repeat) {
            let most = Self::MAX_REPEAT;
            return fault(
                "repeat",
                format!("is {}; it must be 1 to {most}", self.repeat),
            );
        }
        if self.concurrency == 0 {
            return fault(
                "concurrency",
                String::from("is 0, so no cell would ever start"),
            );
        }
        if self.scorers.is_empty() {
            return fault("scorers", String::from("is empty: name at least one"));
        }
        if !self.pairwise.is_empty() && self.variants.len() < 2 {
            return fault(
                "pairwise",
                String::from("compares two variants, and there is one: name another in `variants`"),
            );
        }
        let Some(gate) = &self.gate else {
            return Ok(());
        };
        if let Some(name) = &gate.against
            && !self.variant_names().contains(name)
        {
            let known = self.variant_names().join(", ");
            return fault(
                "gate.against",
                format!("names the variant {name:?}; there are: {known}"),
            );
        }
        let losses = [
            ("success", gate.success, 1.0, None),
            (
                "reward",
                gate.reward,
                f64::INFINITY,
                Some(self.reward.is_some()),
            ),
            (
                "pairwise",
                gate.pairwise,
                0.5,
                Some(!self.pairwise.is_empty()),
            ),
        ];
        for (name, loss, bound, is_measured) in losses {
            let Some(LossGate { not_worse_by }) = loss else {
                continue;
            };
            let setting = format!("gate.{name}");
            if gate.against.is_none() {
                let reason = "compares with no variant: name one in `gate.against`";
                return fault(&setting, String::from(reason));
            }
            if self.variant_names().len() < 2 {
                let reason = "compares two variants, and there is one: name another in `variants`";
                return fault(&setting, String::from(reason));
            }
            if is_measured == Some(false) {
                return fault(&setting, format!("needs the suite's `{name}`"));
            }
            if !(0.0..bound).contains(&not_worse_by) {
                let reason = match bound.is_finite() {
                    true => format!("is {not_worse_by}; it must be at least 0 and below {bound}"),
                    false => format!("is {not_worse_by}; it must be at least 0"),
                };
                return fault(&format!("{setting}.not_worse_by"), reason);
            }
        }
        Ok(())
    }

    /// Whether something of it depends on what models cost: its budget, a scorer or its reward.
    pub fn counts_money(&self) -> bool {
        let is_bound = |scorer: &ScorerSpec| match scorer {
            ScorerSpec::Consumed(spec) => spec.cost_micros.is_some(),
            _ => false,
        };
        let mut terms = self.reward.iter().flat_map(|reward| &reward.sum);
        self.budget.cost_micros.is_some()
            || self.scorers.iter().any(is_bound)
            || terms.any(|term| term.of == "cost_micros")
    }

    /// The names of the variants, in their order.
    pub fn variant_names(&self) -> Vec<String> {
        match self.variants.is_empty() {
            true => vec![String::from("base")],
            false => self.variants.keys().cloned().collect(),
        }
    }

    /// The change that a variant makes.
    pub fn variant(&self, name: &str) -> VariantSpec {
        self.variants.get(name).cloned().unwrap_or_default()
    }
}
