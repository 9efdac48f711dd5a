//! The report of an evaluation: rates with their intervals, comparisons, and whether its gate passes.

mod gate;
mod html;
mod judges;
mod judging;
mod junit;
mod pairwise;
mod text;

use std::collections::BTreeMap;

use ghostlight_actors::vocabulary::Spent;
use serde::Serialize;

pub use self::{
    gate::GateReport,
    judges::{JudgeModelReport, JudgeReport, PeopleReport},
    pairwise::{PairwiseReport, PositionReport, RankReport, WinReport},
};
use crate::{
    cell::{Cell, CellResult},
    evaluation::Evaluation,
    judged::Judged,
    statistics::{
        Clustered, Comparison, Interval, Mean, Pair, Verdict, holm, pass_at_k, pass_hat_k,
    },
    suite::LossGate,
};

/// The result of an evaluation.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The evaluation.
    pub evaluation: String,
    /// The digests of the suite's scorers, by their names: of their settings, and of the rubrics of judges.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub scorers: BTreeMap<String, String>,
    /// The variants, in their order.
    pub variants: Vec<VariantReport>,
    /// The comparisons of the other variants with the first one, or with that of the gate.
    pub comparisons: Vec<ComparisonReport>,
    /// The same comparisons by reward, where the suite has one. Their numbers are in its unit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rewards: Vec<ComparisonReport>,
    /// How far judges can be trusted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub judges: Vec<JudgeReport>,
    /// The verdicts of judges of pairs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pairwise: Vec<PairwiseReport>,
    /// The verdict of the gate; `None` without a gate.
    pub gate: Option<GateReport>,
    /// The cells, in the order of variants, samples and repeats.
    pub cells: Vec<Cell>,
}

/// The figures of one variant.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct VariantReport {
    /// The variant.
    pub variant: String,
    /// How many cells ended how.
    pub counts: Counts,
    /// The share of the cells that passed all scorers, of those that say something about the agent.
    pub success: Option<Mean>,
    /// The bounds of that share over all cells: as if each cell without a verdict had failed, and as if it had passed.
    pub success_bounds: Option<Interval>,
    /// The mean of each scorer.
    pub scorers: BTreeMap<String, Option<Mean>>,
    /// The mean reward, where the suite has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reward: Option<Mean>,
    /// The rates over the repeats of a sample, where there are several.
    pub repeats: Option<Repeats>,
    /// The usage of all cells.
    pub cost_micros: u64,
    /// The tokens of all cells.
    pub tokens: u64,
    /// The model calls of all cells.
    pub model_calls: u64,
    /// The usage of the judges of these cells, beside that.
    pub judged: Spent,
    /// The median time of a cell, in milliseconds.
    pub median_latency_ms: u64,
}

/// How many cells ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// Cells with scores.
    pub scored: usize,
    /// Cells in which the agent gave no answer.
    pub agent_failed: usize,
    /// Cells whose verdict could not be read.
    pub unreadable: usize,
    /// Cells in which a server, a network or the store failed.
    pub infrastructure: usize,
    /// Cells that were not tried.
    pub not_run: usize,
}

impl Counts {
    /// All cells.
    pub fn all(&self) -> usize {
        self.scored + self.agent_failed + self.unreadable + self.infrastructure + self.not_run
    }
}

/// Rates over the repeats of a sample, as means over the samples whose repeats all have a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Repeats {
    /// The number of repeats.
    pub k: u32,
    /// The probability that one of them succeeds.
    pub pass_at_k: f64,
    /// The probability that all of them succeed.
    pub pass_hat_k: f64,
    /// The samples that were left out, because a repeat has no verdict.
    pub left_out: usize,
}

/// A variant compared with another one, by success or by reward.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ComparisonReport {
    /// The variant that is compared with.
    pub base: String,
    /// The other variant.
    pub other: String,
    /// The comparison; `None` where no sample has a verdict in both.
    pub comparison: Option<Comparison>,
    /// Its p-value, adjusted for the number of variants and measures (Holm).
    pub adjusted_p: Option<f64>,
    /// The verdict, with the loss that the gate allows.
    pub verdict: Verdict,
}

impl Report {
    /// The report of these cells, with what judges say of them alone.
    pub fn new(evaluation: &Evaluation, cells: Vec<Cell>) -> Self {
        Self::with_judged(evaluation, cells, &Judged::default())
    }

    /// The report of these cells, and of what judges say beside ([`Evaluation::judge`]).
    pub fn with_judged(evaluation: &Evaluation, mut cells: Vec<Cell>, judged: &Judged) -> Self {
        let suite = evaluation.suite();
        let judges = judges::reports(evaluation, &cells, judged);
        let distrusted = judges::distrusted(evaluation, &judges);
        let scorers = evaluation.scorer_names();
        let is_out = |name: &str| {
            distrusted.contains_key(name) || suite.watch.iter().any(|watched| watched == name)
        };
        for cell in &mut cells {
            cell.discount(is_out, &scorers);
        }
        let names = suite.variant_names();
        let by_name = |name: &str| -> Vec<&Cell> {
            cells.iter().filter(|cell| cell.variant == name).collect()
        };
        let variants = names
            .iter()
            .map(|name| VariantReport::new(name, &by_name(name), evaluation));
        let variants = variants.collect();
        let base = evaluation.base();
        let gate = suite.gate.as_ref();
        let compared = |value: &dyn Fn(&Cell, bool) -> Option<f64>, allowed: Option<LossGate>| {
            let others = names.iter().filter(|name| **name != base);
            compare(
                &base,
                others.map(|name| (name.as_str(), by_name(name))),
                &by_name(&base),
                value,
                allowed.map_or(0.0, |allowed| allowed.not_worse_by),
            )
        };
        let (allowed, allowed_reward) = (
            gate.and_then(|gate| gate.success),
            gate.and_then(|gate| gate.reward),
        );
        let mut comparisons = compared(&|cell, _| value(cell), allowed);
        let mut rewards = match suite.reward {
            Some(_) => compared(&|cell, _| cell.reward, allowed_reward),
            None => Vec::new(),
        };
        let given = gate::Given {
            success: allowed.map(|_| compared(&strict_value, allowed)),
            reward: allowed_reward.map(|_| {
                let value = |cell: &Cell, is_base: bool| {
                    let lowest = cell.lowest_reward.filter(|_| !is_base);
                    lowest.or(cell.reward)
                };
                compared(&value, allowed_reward)
            }),
            distrusted,
        };
        let tests = comparisons.iter_mut().chain(&mut rewards);
        adjust(tests.map(|report| (report.comparison.as_ref(), &mut report.adjusted_p)));
        let mut report = Self {
            evaluation: suite.evaluation.clone(),
            scorers: evaluation.scorer_digests(),
            variants,
            comparisons,
            rewards,
            judges,
            pairwise: pairwise::reports(&suite.evaluation, &names, judged),
            gate: None,
            cells,
        };
        report.gate = gate.map(|gate| gate::judge(gate, suite.reward.as_ref(), &given, &report));
        report
    }

    /// Whether the gate lets the evaluation pass; true without a gate.
    pub fn passes(&self) -> bool {
        self.gate.as_ref().is_none_or(|gate| gate.passes)
    }

    /// The report for a person, as plain text of this many columns at most for reasons.
    pub fn text(&self) -> String {
        text::plain(self)
    }

    /// The report as Markdown, for a comment on a change.
    pub fn markdown(&self) -> String {
        text::markdown(self)
    }

    /// The report as one HTML file with plots and a list of cells, which fetches nothing and needs no server.
    pub fn html(&self) -> String {
        html::write(self)
    }

    /// The report in the form of JUnit, for a build server: a test case for each cell.
    ///
    /// # Errors
    /// The error of writing XML.
    pub fn junit(&self) -> Result<String, std::io::Error> {
        junit::write(self)
    }
}

impl VariantReport {
    fn new(name: &str, cells: &[&Cell], evaluation: &Evaluation) -> Self {
        let mut counts = Counts::default();
        for cell in cells {
            *match cell.result {
                CellResult::Scored { .. } => &mut counts.scored,
                CellResult::AgentFailed { .. } => &mut counts.agent_failed,
                CellResult::Unreadable { .. } => &mut counts.unreadable,
                CellResult::Infrastructure { .. } => &mut counts.infrastructure,
                CellResult::NotRun { .. } => &mut counts.not_run,
            } += 1;
        }
        let scorers = evaluation.scorer_names().into_iter().map(|scorer| {
            let mean = mean_of(cells, |cell| cell.value(&scorer));
            (scorer, mean)
        });
        let mut latencies: Vec<u64> = cells
            .iter()
            .filter(|cell| !cell.runs.is_empty())
            .map(|cell| cell.latency_ms)
            .collect();
        latencies.sort_unstable();
        let sum = |of: fn(&Cell) -> u64| {
            cells
                .iter()
                .map(|cell| of(cell))
                .fold(0, u64::saturating_add)
        };
        Self {
            variant: name.to_owned(),
            counts,
            success: mean_of(cells, value),
            success_bounds: bounds(cells),
            scorers: scorers.collect(),
            reward: mean_of(cells, |cell| cell.reward),
            repeats: repeats(cells, evaluation.suite().repeat),
            cost_micros: sum(|cell| cell.spent.usage.cost_micros),
            tokens: sum(|cell| cell.spent.usage.total_tokens()),
            model_calls: sum(|cell| cell.spent.model_calls),
            judged: cells.iter().fold(Spent::default(), |mut all, cell| {
                crate::purse::add(&mut all, &cell.judged);
                all
            }),
            median_latency_ms: latencies.get(latencies.len() / 2).copied().unwrap_or(0),
        }
    }
}

/// The success of a cell as a number.
fn value(cell: &Cell) -> Option<f64> {
    cell.success()
        .map(|success| if success { 1.0 } else { 0.0 })
}

/// The success of a cell as a number, where no other variant than the base gains by what has no verdict.
pub(crate) fn strict_value(cell: &Cell, is_base: bool) -> Option<f64> {
    let success = match is_base {
        true => cell.success(),
        false => cell.lowest_success(),
    };
    success.map(|success| if success { 1.0 } else { 0.0 })
}

/// The mean over the cells that have this value, by clusters.
fn mean_of(cells: &[&Cell], value: impl Fn(&Cell) -> Option<f64>) -> Option<Mean> {
    let mut clusters = BTreeMap::<&str, Vec<f64>>::new();
    for cell in cells {
        if let Some(value) = value(cell) {
            clusters.entry(&cell.cluster).or_default().push(value);
        }
    }
    Clustered::new(clusters.into_values()).mean()
}

/// The share of successes, if every cell without a verdict had failed, and if it had passed.
fn bounds(cells: &[&Cell]) -> Option<Interval> {
    if cells.is_empty() {
        return None;
    }
    let passed = cells
        .iter()
        .filter(|cell| cell.success() == Some(true))
        .count() as f64;
    let unknown = cells.iter().filter(|cell| cell.success().is_none()).count() as f64;
    let all = cells.len() as f64;
    Some(Interval {
        lower: passed / all,
        upper: (passed + unknown) / all,
    })
}

fn repeats(cells: &[&Cell], k: u32) -> Option<Repeats> {
    if k < 2 {
        return None;
    }
    let mut samples = BTreeMap::<&str, (u64, u64)>::new();
    for cell in cells {
        let (tried, passed) = samples.entry(&cell.sample).or_default();
        if let Some(success) = cell.success() {
            *tried += 1;
            *passed += u64::from(success);
        }
    }
    let rates: Vec<(f64, f64)> = samples
        .values()
        .filter_map(|(tried, passed)| {
            let k = u64::from(k);
            Some((
                pass_at_k(*tried, *passed, k)?,
                pass_hat_k(*tried, *passed, k)?,
            ))
        })
        .collect();
    if rates.is_empty() {
        return None;
    }
    let mean =
        |rate: fn(&(f64, f64)) -> f64| rates.iter().map(rate).sum::<f64>() / rates.len() as f64;
    Some(Repeats {
        k,
        pass_at_k: mean(|rate| rate.0),
        pass_hat_k: mean(|rate| rate.1),
        left_out: samples.len() - rates.len(),
    })
}

fn compare<'a>(
    base: &str,
    others: impl Iterator<Item = (&'a str, Vec<&'a Cell>)>,
    cells: &[&Cell],
    value: &dyn Fn(&Cell, bool) -> Option<f64>,
    margin: f64,
) -> Vec<ComparisonReport> {
    let comparisons = others.map(|(other, of_other)| {
        let comparison = Comparison::of(&pairs(cells, &of_other, value));
        let interval = comparison
            .as_ref()
            .and_then(|comparison| comparison.interval);
        ComparisonReport {
            base: base.to_owned(),
            other: other.to_owned(),
            verdict: Verdict::of(interval, margin),
            comparison,
            adjusted_p: None,
        }
    });
    comparisons.collect()
}

/// Adjusts the p-values of what a reader decides by, for their number (Holm): success and reward, of each variant that is
/// shown. What else is measured explains a difference, so it is shown with its interval and no p-value.
pub(crate) fn adjust<'a>(
    tests: impl Iterator<Item = (Option<&'a Comparison>, &'a mut Option<f64>)>,
) {
    let p = tests.filter_map(|(comparison, adjusted)| Some((comparison?.p?, adjusted)));
    let (p, adjusted): (Vec<f64>, Vec<&mut Option<f64>>) = p.unzip();
    for (adjusted, p) in adjusted.into_iter().zip(holm(&p)) {
        *adjusted = Some(p);
    }
}

/// The scores of each sample in two sides; `value` is told whether a cell is one of the base.
pub(crate) fn pairs(
    base: &[&Cell],
    other: &[&Cell],
    value: &dyn Fn(&Cell, bool) -> Option<f64>,
) -> Vec<Pair> {
    let mut pairs = BTreeMap::<&str, Pair>::new();
    for (cells, is_base) in [(base, true), (other, false)] {
        for cell in cells {
            let pair = pairs.entry(&cell.sample).or_insert_with(|| Pair {
                cluster: cell.cluster.clone(),
                base: Vec::new(),
                other: Vec::new(),
            });
            let scores = if is_base {
                &mut pair.base
            } else {
                &mut pair.other
            };
            scores.extend(value(cell, is_base));
        }
    }
    pairs.into_values().collect()
}
