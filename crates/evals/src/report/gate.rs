//! The verdict of a gate.

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

pub(super) fn judge(gate: &GateSpec, reward: Option<&RewardSpec>, report: &Report) -> GateReport {
    let mut faults = Vec::new();
    if gate.success.is_some() {
        faults.extend(
            report
                .comparisons
                .iter()
                .filter_map(|found| lost(found, "")),
        );
    }
    if gate.reward.is_some() {
        match reward.and_then(|reward| distrusted(reward, report)) {
            Some(judge) => faults.push(format!(
                "the reward rests on the judge {judge}, which counts for nothing"
            )),
            None => {
                let lost = report
                    .rewards
                    .iter()
                    .filter_map(|found| lost(found, " by reward"));
                faults.extend(lost);
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

/// The samples that a comparison lacks.
fn lost(found: &ComparisonReport, by: &str) -> Option<String> {
    let (other, verdict, base) = (&found.other, found.verdict.as_str(), &found.base);
    let fault = || format!("{other}: {verdict} against {base}{by}");
    (!holds(found.verdict)).then(fault)
}

/// The judge that is a term of the reward and has not shown the agreement that the suite asks for.
fn distrusted<'a>(reward: &RewardSpec, report: &'a Report) -> Option<&'a str> {
    let judges = report.judges.iter().filter(|judge| !judge.counts);
    let mut judges = judges.map(|judge| judge.judge.as_str());
    judges.find(|judge| reward.sum.iter().any(|term| term.of == *judge))
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
            let verdict = Verdict::of(pair.interval.map(above_half), allowed);
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

fn above_half(rate: Interval) -> Interval {
    Interval {
        lower: rate.lower - 0.5,
        upper: rate.upper - 0.5,
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
    let failed = tagged().filter(|cell| cell.success() != Some(true));
    let told = failed.map(|cell| {
        let (sample, variant, repeat) = (&cell.sample, &cell.variant, cell.repeat);
        format!(
            "{tag}: {sample} in {variant}, repeat {repeat}: {}",
            cell.why()
        )
    });
    told.collect()
}
