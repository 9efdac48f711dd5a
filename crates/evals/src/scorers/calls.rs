//! The comparison of tool calls with the expected ones.

use ghostlight_actors::vocabulary::{AnsweredBy, ToolStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Score, Scorer, ScorerFault, answer::equal, matching::assign};
use crate::{
    recording::{RecordedCall, Recording},
    suite::Sample,
};

/// The comparison of tool calls with the expected ones. The score is the F1 of the calls: the harmonic mean of the share
/// of the expected calls that were made and of the share of the made calls that were expected.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct CallsSpec {
    /// Its name; `calls` where it is left out.
    pub name: Option<String>,
    /// The order in which the calls are expected.
    pub order: CallOrder,
    /// The expected calls of samples that name none.
    pub expect: Option<Vec<ExpectedCall>>,
    /// Whether calls beside the expected ones are allowed.
    pub others: bool,
    /// Tools that must not be called. A call that was refused or held back counts, since the agent wanted it.
    pub never: Vec<String>,
}

/// The order in which calls are expected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallOrder {
    /// Any order.
    #[default]
    Any,
    /// The order of the list.
    Listed,
}

/// A call that is expected.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ExpectedCall {
    /// The tool.
    pub tool: String,
    /// Its arguments; any, where they are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Map<String, Value>>,
    /// How the arguments are compared.
    #[serde(rename = "match")]
    pub arguments_match: ArgumentMatch,
}

/// How arguments are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ArgumentMatch {
    /// They are the expected ones, and no others.
    #[default]
    Exact,
    /// The expected ones are among them.
    Subset,
    /// They have the names and the types of the expected ones.
    Types,
}

impl CallsSpec {
    /// The fault of one that demands nothing of any of these samples.
    pub(crate) fn fault(&self, samples: &[Sample]) -> Option<ScorerFault> {
        let demands = self.expect.is_some() || !self.never.is_empty();
        if demands || samples.iter().any(|sample| sample.calls.is_some()) {
            return None;
        }
        Some(ScorerFault {
            scorer: self.name.clone().unwrap_or_else(|| String::from("calls")),
            reason: String::from(
                "demands nothing: give `expect` or `never`, or `calls` in samples",
            ),
        })
    }
}

pub(super) struct CallsScorer {
    name: String,
    spec: CallsSpec,
}

impl CallsScorer {
    pub(super) fn new(spec: &CallsSpec) -> Self {
        Self {
            name: spec.name.clone().unwrap_or_else(|| String::from("calls")),
            spec: spec.clone(),
        }
    }
}

impl Scorer for CallsScorer {
    fn name(&self) -> &str {
        &self.name
    }

    fn score(&self, recording: &Recording, sample: &Sample) -> Score {
        let never = |call: &&RecordedCall| self.spec.never.contains(&call.tool);
        if let Some(call) = recording.calls.iter().find(never) {
            return Score::fail(format!("{} was called, which must never be", call.tool));
        }
        let Some(expected) = sample.calls.as_ref().or(self.spec.expect.as_ref()) else {
            return Score::pass("no call was made that must not be");
        };
        let made: Vec<&RecordedCall> = recording
            .calls
            .iter()
            .filter(|call| was_made(call))
            .collect();
        let found = match self.spec.order {
            CallOrder::Any => assign(expected.len(), made.len(), |e, f| {
                fits(&expected[e], made[f])
            }),
            CallOrder::Listed => in_order(expected, &made),
        };
        self.rate(expected, &made, &found)
    }
}

impl CallsScorer {
    fn rate(
        &self,
        expected: &[ExpectedCall],
        made: &[&RecordedCall],
        found: &[Option<usize>],
    ) -> Score {
        let hits = found.iter().flatten().count();
        let missing: Vec<&str> = (0..expected.len())
            .filter(|index| found[*index].is_none())
            .map(|index| expected[index].tool.as_str())
            .collect();
        let others: Vec<&str> = (0..made.len())
            .filter(|index| !found.contains(&Some(*index)))
            .map(|index| made[index].tool.as_str())
            .collect();
        let recall = share(hits, expected.len());
        let precision = if self.spec.others {
            1.0
        } else {
            share(hits, made.len())
        };
        let f1 = match recall + precision {
            0.0 => 0.0,
            sum => 2.0 * recall * precision / sum,
        };
        let mut why = Vec::new();
        if !missing.is_empty() {
            why.push(format!("missing: {}", missing.join(", ")));
        }
        if !others.is_empty() && !self.spec.others {
            why.push(format!("not expected: {}", others.join(", ")));
        }
        match why.is_empty() {
            true => Score::of(f1, "the calls are the expected ones"),
            false => Score::of(f1, why.join("; ")),
        }
    }
}

/// The share of a part; the whole of nothing is there.
fn share(part: usize, whole: usize) -> f64 {
    match whole {
        0 => 1.0,
        whole => part as f64 / whole as f64,
    }
}

/// Whether a call reached its tool: a call that nobody let pass, or that no tool could take, is none.
fn was_made(call: &RecordedCall) -> bool {
    let reached = matches!(
        call.by,
        AnsweredBy::Tool | AnsweredBy::Agent(_) | AnsweredBy::Function
    );
    reached && !matches!(call.status, ToolStatus::Denied | ToolStatus::Blocked)
}

/// The longest common subsequence of the expected and the made calls: the made call of each expected one.
fn in_order(expected: &[ExpectedCall], made: &[&RecordedCall]) -> Vec<Option<usize>> {
    let (rows, columns) = (expected.len(), made.len());
    let mut longest = vec![vec![0_usize; columns + 1]; rows + 1];
    for e in (0..rows).rev() {
        for f in (0..columns).rev() {
            longest[e][f] = match fits(&expected[e], made[f]) {
                true => longest[e + 1][f + 1] + 1,
                false => longest[e + 1][f].max(longest[e][f + 1]),
            };
        }
    }
    let (mut found, mut e, mut f) = (vec![None; rows], 0, 0);
    while e < rows && f < columns {
        if fits(&expected[e], made[f]) {
            found[e] = Some(f);
            (e, f) = (e + 1, f + 1);
        } else if longest[e + 1][f] >= longest[e][f + 1] {
            e += 1;
        } else {
            f += 1;
        }
    }
    found
}

fn fits(expected: &ExpectedCall, made: &RecordedCall) -> bool {
    if expected.tool != made.tool {
        return false;
    }
    let Some(wanted) = &expected.arguments else {
        return true;
    };
    let Ok(Value::Object(found)) = made.arguments.value() else {
        return false;
    };
    let has = |test: fn(&Value, &Value) -> bool| {
        wanted
            .iter()
            .all(|(name, value)| found.get(name).is_some_and(|found| test(found, value)))
    };
    match expected.arguments_match {
        ArgumentMatch::Exact => wanted.len() == found.len() && has(equal),
        ArgumentMatch::Subset => has(equal),
        ArgumentMatch::Types => wanted.len() == found.len() && has(same_type),
    }
}

fn same_type(a: &Value, b: &Value) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
}
