//! The report of a search.

use std::fmt::Write as _;

use serde::Serialize;

use super::{Method, Patch, search::Search};
use crate::{
    cell::{Cell, CellResult},
    comparing::{Compared, MeasureReport},
    statistics::{Interval, Verdict},
};

/// The result of a search for better texts.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Optimised {
    /// The evaluation.
    pub evaluation: String,
    /// The method.
    pub method: Method,
    /// The objective.
    pub by: String,
    /// How many samples were tried during the search.
    pub tries: usize,
    /// How many might be.
    pub most_tries: u32,
    /// How many proposals were asked for.
    pub proposals: u32,
    /// How many of them could not be read.
    pub unreadable: u32,
    /// The sets of texts that were tried with all samples for choosing, in their order; the team's own first.
    pub candidates: Vec<CandidateReport>,
    /// Why the search ended early, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// The gain, with samples that the search did not see. `None` where the team's own texts are the best.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gain: Option<GainReport>,
    /// The best texts. `None` where they are the team's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<Patch>,
}

/// A set of texts that was tried.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CandidateReport {
    /// Its name.
    pub name: String,
    /// Its mean over the samples for choosing; `None` where there is nothing to measure.
    pub mean: Option<f64>,
    /// How many of the verdicts could not be read. Each counts as the lowest one.
    pub unreadable: usize,
    /// The places of the sets that it was made of.
    pub parents: Vec<usize>,
}

/// A gain, measured with samples that the search did not see.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct GainReport {
    /// The verdict about what was made greater.
    pub verdict: Verdict,
    /// The objective.
    pub measure: MeasureReport,
    /// All measures, success and costs among them.
    pub compared: Compared,
    /// The cells that say nothing, since a server failed or the budget was used up.
    pub left_out: usize,
    /// The cells whose verdict could not be read. Each counts as the lowest one.
    pub unreadable: usize,
}

impl GainReport {
    /// The gain of the variant of this name over `base`; `None` where no sample has a result in both.
    pub(super) fn new(by: &str, best: &str, cells: &[Cell], unreadable: usize) -> Option<Self> {
        let of = |name: &str| -> Vec<&Cell> {
            cells.iter().filter(|cell| cell.variant == name).collect()
        };
        let compared = Compared::new(("base", &of("base")), ("optimised", &of(best)), 0.0);
        let mut measures = compared.measures.iter();
        let measure = measures.find(|found| found.measure == by)?.clone();
        let left_out = cells.iter().filter(|cell| {
            matches!(
                cell.result,
                CellResult::NotRun { .. } | CellResult::Infrastructure { .. }
            )
        });
        Some(Self {
            verdict: Verdict::of(measure.comparison.interval, 0.0),
            left_out: left_out.count(),
            unreadable,
            measure,
            compared,
        })
    }

    /// The gain in one line.
    pub fn text(&self) -> String {
        let (measure, comparison) = (&self.measure, &self.measure.comparison);
        let mut text = format!(
            "{} in {}: {:.3} to {:.3}, {:+.3}",
            self.verdict.as_str(),
            measure.measure,
            measure.base,
            measure.other,
            comparison.difference
        );
        if let Some(Interval { lower, upper }) = comparison.interval {
            let _ = write!(text, " [{lower:+.3}, {upper:+.3}]");
        }
        let _ = write!(
            text,
            " over {} samples that the search did not see",
            comparison.samples
        );
        if self.left_out > 0 {
            let _ = write!(text, "; {} cells say nothing", self.left_out);
        }
        if self.unreadable > 0 {
            let _ = write!(
                text,
                "; {} verdicts could not be read, and count as the lowest",
                self.unreadable
            );
        }
        text
    }
}

impl Optimised {
    pub(super) fn new<S>(search: &Search<'_, S>, stopped: Option<String>) -> Self {
        let optimiser = search.optimiser;
        let candidates = search.pool.iter().map(|member| CandidateReport {
            name: member.candidate.name(&optimiser.team),
            mean: Some(member.mean()).filter(|mean| mean.is_finite()),
            unreadable: search.unread(&member.candidate),
            parents: member.parents.clone(),
        });
        Self {
            evaluation: optimiser.suite.evaluation.clone(),
            method: optimiser.spec.method,
            by: optimiser.by.clone(),
            tries: search.used(),
            most_tries: optimiser.spec.tries,
            proposals: search.proposals,
            unreadable: search.unreadable,
            candidates: candidates.collect(),
            stopped,
            gain: None,
            patch: None,
        }
    }

    /// The result for a person.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{} by {}: {} of {} tries, {} proposals",
            self.evaluation,
            self.method.as_str(),
            self.tries,
            self.most_tries,
            self.proposals
        );
        if self.unreadable > 0 {
            let _ = write!(text, " ({} unreadable)", self.unreadable);
        }
        text.push('\n');
        let mean = |found: &CandidateReport| found.mean.unwrap_or(f64::NAN);
        if let Some(own) = self.candidates.first() {
            let best = self.candidates.iter().map(mean).fold(mean(own), f64::max);
            let _ = writeln!(
                text,
                "chosen among {} by {}: {:.3} with the team's own texts, {best:.3} with the best",
                self.candidates.len(),
                self.by,
                mean(own)
            );
        }
        if let Some(why) = &self.stopped {
            let _ = writeln!(text, "stopped: {why}");
        } else if let Some(gain) = &self.gain {
            let _ = writeln!(text, "gain: {}", gain.text());
        } else if self.patch.is_some() {
            text.push_str("gain: not measured, since no sample has a result with both\n");
        } else {
            text.push_str("gain: none: no texts are better than the team's own\n");
        }
        if let Some(patch) = &self.patch {
            text.push('\n');
            text.push_str(&patch.text());
        }
        text
    }
}
