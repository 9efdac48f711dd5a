//! The verdict of a gate.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{ComparisonReport, Report, WinReport};
use crate::{
    cell::Cell,
    reward::RewardSpec,
    statistics::{Interval, Verdict},
    suite::{GateSpec, TagGate},
};

/// The verdict of a gate.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct GateReport {
    /// Whether everything holds.
    pub passes: bool,
    /// The conditions that do not hold, for people.
    pub faults: Vec<String>,
}

/// The material of a gate beside a report.
pub(super) struct Given {
    /// The comparisons in which no other variant gains by what has no verdict; `None` where the gate does not ask for them.
    pub(super) success: Option<Vec<ComparisonReport>>,
    /// The same by reward.
    pub(super) reward: Option<Vec<ComparisonReport>>,
    /// The scorers that count for nothing, each with the judge that it rests on.
    pub(super) distrusted: BTreeMap<String, String>,
}

pub(super) fn judge(
    gate: &GateSpec,
    reward: Option<&RewardSpec>,
    given: &Given,
    report: &Report,
) -> GateReport {
    let mut faults = Vec::new();
    let not_run: usize = report.variants.iter().map(|v| v.counts.not_run).sum();
    if not_run > 0 {
        faults.push(format!("cells that were not run: {not_run}"));
    }
    if let Some(strict) = &given.success {
        faults.extend(lost(&report.comparisons, strict, ""));
    }
    if let Some(strict) = &given.reward {
        let mut terms = reward.into_iter().flat_map(|reward| &reward.sum);
        match terms.find_map(|term| given.distrusted.get(&term.of)) {
            Some(judge) => faults.push(format!(
                "the reward rests on the judge {judge}, which counts for nothing"
            )),
            None => {
                faults.extend(lost(&report.rewards, strict, " by reward"));
                // Nothing bounds what their rewards would have been.
                faults.extend(
                    report
                        .rewards
                        .iter()
                        .filter_map(|found| unrewarded(report, &found.other)),
                );
            }
        }
    }
    if let Some(allowed) = gate.pairwise {
        faults.extend(preferred(report, allowed.not_worse_by));
    }
    faults.extend(
        gate.tags
            .iter()
            .flat_map(|(tag, TagGate::All)| untrue(tag, &report.cells)),
    );
    GateReport {
        passes: faults.is_empty(),
        faults,
    }
}

fn holds(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Better | Verdict::NotWorse)
}

/// The comparisons that do not hold.
fn lost(found: &[ComparisonReport], strict: &[ComparisonReport], by: &str) -> Vec<String> {
    let faults = found.iter().zip(strict).filter_map(|(found, strict)| {
        let (told, counted) = match (holds(found.verdict), holds(strict.verdict)) {
            (true, true) => return None,
            (true, false) => (strict, ", where what has no verdict counts as the lowest"),
            (false, _) => (found, ""),
        };
        let (other, verdict, base) = (&told.other, told.verdict.as_str(), &told.base);
        Some(format!("{other}: {verdict} against {base}{by}{counted}"))
    });
    faults.collect()
}

/// The cells of a variant that have no reward since a server failed.
fn unrewarded(report: &Report, variant: &str) -> Option<String> {
    let found = report
        .variants
        .iter()
        .find(|found| found.variant == variant)?;
    match found.counts.infrastructure {
        0 => None,
        left_out => Some(format!(
            "{variant}: cells without a reward, since a server failed: {left_out}; the same command tries them again"
        )),
    }
}

/// The objections of judges of pairs: a judge that goes by the place, and a win rate that may be lower than one half by
/// more than is allowed.
fn preferred(report: &Report, allowed: f64) -> Vec<String> {
    let mut faults = Vec::new();
    for judge in &report.pairwise {
        if judge.position.is_biased {
            let name = &judge.judge;
            faults.push(format!(
                "{name}: the place of an answer decides, so it is not to be trusted"
            ));
            continue;
        }
        for pair in &judge.pairs {
            let verdict = Verdict::of(pair.interval.map(|rate| above_half(rate, pair)), allowed);
            if !holds(verdict) {
                faults.push(rate(&judge.judge, pair, verdict));
            }
        }
    }
    if report.pairwise.is_empty() {
        faults.push(String::from("no judge of pairs was asked"));
    }
    faults
}

/// How far a rate lies above one half, where pairs without a verdict are lost.
fn above_half(rate: Interval, pair: &WinReport) -> Interval {
    let read = (pair.wins + pair.losses + pair.ties) as f64;
    let share = read / (read + (pair.unreadable + pair.not_asked) as f64);
    Interval {
        lower: rate.lower * share - 0.5,
        upper: rate.upper * share - 0.5,
    }
}

fn rate(judge: &str, pair: &WinReport, verdict: Verdict) -> String {
    let (other, base, verdict) = (&pair.other, &pair.base, verdict.as_str());
    let rate = pair.win_rate.map_or_else(
        || String::from("no verdict"),
        |rate| format!("wins {:.0} %", 100.0 * rate),
    );
    format!("{other}: {verdict} against {base} by {judge} ({rate})")
}

/// The cells of a tag that did not succeed.
fn untrue(tag: &str, cells: &[Cell]) -> Vec<String> {
    let tagged = || {
        cells
            .iter()
            .filter(|cell| cell.tags.iter().any(|known| known == tag))
    };
    if tagged().next().is_none() {
        return vec![format!("no sample has the tag {tag:?}")];
    }
    let failed = tagged().filter(|cell| cell.lowest_success() != Some(true));
    let told = failed.map(|cell| {
        let (sample, variant, repeat) = (&cell.sample, &cell.variant, cell.repeat);
        format!(
            "{tag}: {sample} in {variant}, repeat {repeat}: {}",
            cell.why()
        )
    });
    told.collect()
}
