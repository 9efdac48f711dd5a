//! Cells: one sample in one variant, tried once.

use std::collections::BTreeMap;

use ghostlight_actors::vocabulary::{Digest, RunId, Spent};
use serde::{Deserialize, Serialize};

use crate::{scorers::Score, suite::Sample};

/// A cell of an evaluation: one sample, tried once in one variant.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Cell {
    /// The variant.
    pub variant: String,
    /// The sample's id.
    pub sample: String,
    /// The sample's cluster.
    #[serde(default)]
    pub cluster: String,
    /// The sample's tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The number of the repeat, from 1.
    pub repeat: u32,
    /// How it ended.
    #[serde(flatten)]
    pub result: CellResult,
    /// Its reward, where the suite has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reward: Option<f64>,
    /// The lowest reward that it may have, where a verdict cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lowest_reward: Option<f64>,
    /// The runs of its turns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<RunId>,
    /// The usage of its agents.
    pub spent: Spent,
    /// The usage of its judges.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub judged: Spent,
    /// The time from the start of each turn to its end, in milliseconds.
    pub latency_ms: u64,
}

fn is_nothing(spent: &Spent) -> bool {
    *spent == Spent::default()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// How a cell ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
#[non_exhaustive]
pub enum CellResult {
    /// It has an end, and scores by the names of their scorers.
    Scored {
        /// The scores.
        scores: BTreeMap<String, Score>,
    },
    /// The agent gave no answer: it stopped, failed, or asked a person. It counts as no success.
    AgentFailed {
        /// The reason.
        why: String,
    },
    /// It has an end, and what a judge or a command said of it cannot be read. It is not a success where another scorer
    /// failed it, and else left out of all rates.
    Unreadable {
        /// The other scores.
        scores: BTreeMap<String, Score>,
        /// The reason.
        why: String,
        /// Whether only scorers that do not count lack a verdict, so that its success is known.
        #[serde(default, skip_serializing_if = "is_false")]
        decided: bool,
    },
    /// A server, a network or the store failed, of the agent or of a judge. It says nothing about the agent, and is left out of all rates.
    Infrastructure {
        /// The reason.
        why: String,
    },
    /// It was not tried.
    NotRun {
        /// The reason.
        why: String,
    },
}

impl CellResult {
    /// The result; the reason of one that was not tried is that the budget is used up, where it is.
    pub(crate) fn or_exhausted(self, exhausted: Option<String>) -> Self {
        match (self, exhausted) {
            (Self::NotRun { .. }, Some(why)) => Self::NotRun { why },
            (result, _) => result,
        }
    }
}

impl Cell {
    /// Whether it passed all scorers that count; `None` where the cell says nothing about the agent.
    pub fn success(&self) -> Option<bool> {
        self.success_by(Score::passes)
    }

    /// The same for one that must not gain by what is missing: each verdict that cannot be read is the lowest one, and a
    /// cell whose server failed is no success.
    pub(crate) fn lowest_success(&self) -> Option<bool> {
        match self.result {
            CellResult::Unreadable { decided: false, .. } | CellResult::Infrastructure { .. } => {
                Some(false)
            }
            _ => self.success_by(|score| score.lowest().passes),
        }
    }

    fn success_by(&self, passes: impl Fn(&Score) -> bool) -> Option<bool> {
        let mut counted = self.scores().filter(|(_, score)| score.counts);
        match &self.result {
            CellResult::Scored { .. } | CellResult::Unreadable { decided: true, .. } => {
                let first = counted.next()?;
                Some(passes(first.1) && counted.all(|(_, score)| passes(score)))
            }
            CellResult::Unreadable { .. } => {
                counted.any(|(_, score)| !passes(score)).then_some(false)
            }
            CellResult::AgentFailed { .. } => Some(false),
            CellResult::Infrastructure { .. } | CellResult::NotRun { .. } => None,
        }
    }

    /// Its scores, by the names of their scorers.
    pub fn scores(&self) -> impl Iterator<Item = (&String, &Score)> {
        let scores = match &self.result {
            CellResult::Scored { scores } | CellResult::Unreadable { scores, .. } => Some(scores),
            _ => None,
        };
        scores.into_iter().flatten()
    }

    /// Takes these scorers out of its success. The other scorers decide then.
    pub(crate) fn discount(&mut self, is_out: impl Fn(&str) -> bool, scorers: &[String]) {
        let (CellResult::Scored { scores } | CellResult::Unreadable { scores, .. }) =
            &mut self.result
        else {
            return;
        };
        for (name, score) in scores.iter_mut() {
            score.counts &= !is_out(name);
        }
        let mut missing = scorers.iter().filter(|name| !scores.contains_key(*name));
        let all_out = missing.all(|name| is_out(name));
        if let CellResult::Unreadable { decided, .. } = &mut self.result {
            *decided |= all_out;
        }
    }

    /// The value of one scorer: 0 where the agent failed, `None` where the cell says nothing about the agent.
    pub fn value(&self, scorer: &str) -> Option<f64> {
        match &self.result {
            CellResult::Scored { scores } | CellResult::Unreadable { scores, .. } => {
                scores.get(scorer).map(|score| score.value)
            }
            CellResult::AgentFailed { .. } => Some(0.0),
            CellResult::Infrastructure { .. } | CellResult::NotRun { .. } => None,
        }
    }

    /// The reason that a person reads first.
    pub fn why(&self) -> String {
        match &self.result {
            CellResult::Scored { .. } if self.success().is_none() => {
                String::from("no score counts for its success")
            }
            CellResult::Scored { .. } => self.reasons().join("; "),
            CellResult::Unreadable { why, .. } => {
                let mut reasons = self.reasons();
                reasons.push(why.clone());
                reasons.join("; ")
            }
            CellResult::AgentFailed { why }
            | CellResult::Infrastructure { why }
            | CellResult::NotRun { why } => why.clone(),
        }
    }

    /// The reasons of the scores that do not pass.
    fn reasons(&self) -> Vec<String> {
        let failed = self.scores().filter(|(_, score)| !score.passes());
        failed
            .map(|(name, score)| format!("{name}: {}", score.why))
            .collect()
    }
}

/// The key of a cell's session, and of its turns: it covers all that the turns depend on, and no scorer. So a cell is
/// tried again after a change of its team's definition or its texts, and only then.
pub(crate) fn key(evaluation: &str, definition: &Digest, sample: &Sample, repeat: u32) -> String {
    let definition = definition.to_string();
    let texts = serde_json::to_vec(&sample.texts()).unwrap_or_default();
    let mut parts: Vec<&[u8]> = vec![definition.as_bytes(), &texts];
    let tools = serde_json::to_vec(&sample.tools).unwrap_or_default();
    if !sample.tools.is_empty() {
        parts.push(&tools);
    }
    let digest = Digest::of_parts(&parts);
    format!(
        "{evaluation}/{}/{repeat}/{:016x}",
        sample.id,
        digest.short()
    )
}
