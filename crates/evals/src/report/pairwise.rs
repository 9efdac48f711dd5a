//! The verdicts of judges of pairs.

use std::collections::BTreeMap;

use ghostlight_actors::vocabulary::Digest;
use serde::Serialize;

use crate::{
    judged::Judged,
    judges::{PairOutcome, PairResult},
    statistics::{Clustered, Game, Interval, RESAMPLES, Strength, sign_test, strengths},
};

/// The verdicts of a judge of pairs.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PairwiseReport {
    /// The judge.
    pub judge: String,
    /// Each pair of variants.
    pub pairs: Vec<WinReport>,
    /// Whether the place of an answer decided.
    pub position: PositionReport,
    /// The variants from the strongest on, by Bradley and Terry's model; empty where the pairs do not tell, since some
    /// variants won or lost all.
    pub ranking: Vec<RankReport>,
    /// The usage of its questions, in model calls.
    pub model_calls: u64,
    /// And in money, in millionths of the currency of the models' prices.
    pub cost_micros: u64,
}

/// How often a variant's answer was preferred to that of another one.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct WinReport {
    /// The variant that is compared with.
    pub base: String,
    /// The other variant.
    pub other: String,
    /// How often the other one won: both orders say so.
    pub wins: u64,
    /// How often the base won.
    pub losses: u64,
    /// How often neither did, the inconsistent ones included.
    pub ties: u64,
    /// How often the two orders gave different verdicts.
    pub inconsistent: u64,
    /// How often a verdict could not be read; left out of the rate.
    pub unreadable: u64,
    /// How often the judge could not be asked; left out of the rate.
    pub not_asked: u64,
    /// (wins + ties/2)/(wins + losses + ties).
    pub win_rate: Option<f64>,
    /// Its 95 % interval, from resamples of clusters (BCa), or that of a mean where all clusters say the same; `None` for
    /// fewer than two clusters.
    pub interval: Option<Interval>,
    /// The two-sided p-value of as many clusters won as lost (sign test); repeats of a sample are not evidence of their own.
    pub p: f64,
}

/// Whether the place of an answer decided.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct PositionReport {
    /// The verdicts for the answer that was shown first.
    pub first: u64,
    /// The verdicts for the answer that was shown second.
    pub second: u64,
    /// (first - second)/(first + second): 1 where it always says "A". Both orders are shown equally often, so it is 0
    /// for a judge that reads.
    pub bias: f64,
    /// The two-sided p-value of no bias.
    pub p: f64,
    /// Whether the place decides so often that the judge is not to be trusted: the bias is above 0.2, and not by chance
    /// (p < 0.01).
    pub is_biased: bool,
}

/// The place of a variant in a ranking.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RankReport {
    /// The variant.
    pub variant: String,
    /// Its strength.
    #[serde(flatten)]
    pub strength: Strength,
    /// Its strength on the scale of chess, where the mean is 1,000.
    pub elo: f64,
}

/// The bias from which on a judge is not to be trusted.
const BIASED: f64 = 0.2;

pub(super) fn reports(
    evaluation: &str,
    variants: &[String],
    judged: &Judged,
) -> Vec<PairwiseReport> {
    let mut by_judge = BTreeMap::<&str, Vec<&PairResult>>::new();
    for result in &judged.pairs {
        by_judge.entry(&result.judge).or_default().push(result);
    }
    let seed = Digest::of(evaluation.as_bytes()).short();
    let reports = by_judge
        .into_iter()
        .map(|(judge, results)| report(judge, variants, &results, seed));
    reports.collect()
}

fn report(judge: &str, variants: &[String], results: &[&PairResult], seed: u64) -> PairwiseReport {
    let mut by_pair = BTreeMap::<(&str, &str), Vec<&PairResult>>::new();
    for result in results {
        let pair = (result.base.as_str(), result.other.as_str());
        by_pair.entry(pair).or_default().push(result);
    }
    let pairs = by_pair
        .into_iter()
        .map(|((base, other), results)| wins(base, other, &results, seed));
    let (first, second) = results.iter().fold((0, 0), |(first, second), result| {
        (
            first + u64::from(result.by_place.0),
            second + u64::from(result.by_place.1),
        )
    });
    let sum = |of: fn(&PairResult) -> u64| results.iter().map(|result| of(result)).sum();
    PairwiseReport {
        judge: judge.to_owned(),
        pairs: pairs.collect(),
        position: position(first, second),
        ranking: ranking(variants, results, seed),
        model_calls: sum(|result| result.spent.model_calls),
        cost_micros: sum(|result| result.spent.usage.cost_micros),
    }
}

fn position(first: u64, second: u64) -> PositionReport {
    let bias = match first + second {
        0 => 0.0,
        all => (first as f64 - second as f64) / all as f64,
    };
    let p = sign_test(first, second);
    PositionReport {
        first,
        second,
        bias,
        p,
        is_biased: bias.abs() > BIASED && p < 0.01,
    }
}

/// The result for the other variant: 1, 0, or ½ for a tie; `None` where there is no verdict.
fn won(outcome: &PairOutcome) -> Option<f64> {
    match outcome {
        PairOutcome::Other => Some(1.0),
        PairOutcome::Base => Some(0.0),
        PairOutcome::Tie | PairOutcome::Inconsistent => Some(0.5),
        PairOutcome::Unreadable(_) | PairOutcome::Left(_) => None,
    }
}

fn wins(base: &str, other: &str, results: &[&PairResult], seed: u64) -> WinReport {
    let count = |is: fn(&PairOutcome) -> bool| {
        results.iter().filter(|result| is(&result.outcome)).count() as u64
    };
    let (wins, losses) = (
        count(|outcome| *outcome == PairOutcome::Other),
        count(|outcome| *outcome == PairOutcome::Base),
    );
    let mut clusters = BTreeMap::<&str, Vec<f64>>::new();
    for result in results {
        if let Some(won) = won(&result.outcome) {
            clusters.entry(&result.cluster).or_default().push(won);
        }
    }
    let sides = |side: fn(f64) -> bool| {
        let sums = clusters.values();
        sums.filter(|won| side(won.iter().map(|won| won - 0.5).sum()))
            .count() as u64
    };
    let p = sign_test(sides(|sum| sum > 0.0), sides(|sum| sum < 0.0));
    let clustered = Clustered::new(clusters.into_values());
    let mean = clustered.mean();
    // Resamples of clusters that all say the same say nothing else.
    let resampled = clustered
        .bootstrap(seed, RESAMPLES)
        .map(|found| found.bca)
        .filter(|interval| interval.lower < interval.upper);
    WinReport {
        base: base.to_owned(),
        other: other.to_owned(),
        wins,
        losses,
        ties: count(|outcome| won(outcome) == Some(0.5)),
        inconsistent: count(|outcome| *outcome == PairOutcome::Inconsistent),
        unreadable: count(|outcome| matches!(outcome, PairOutcome::Unreadable(_))),
        not_asked: count(|outcome| matches!(outcome, PairOutcome::Left(_))),
        win_rate: mean.map(|mean| mean.estimate),
        interval: resampled.or_else(|| mean.filter(|mean| mean.clusters > 1)?.interval),
        p,
    }
}

fn ranking(variants: &[String], results: &[&PairResult], seed: u64) -> Vec<RankReport> {
    let place = |name: &str| variants.iter().position(|variant| variant == name);
    let games: Vec<(String, Game)> = results
        .iter()
        .filter_map(|result| {
            let game = Game {
                first: place(&result.other)?,
                second: place(&result.base)?,
                won: won(&result.outcome)?,
            };
            Some((result.cluster.clone(), game))
        })
        .collect();
    let found = strengths(variants.len(), &games, seed).unwrap_or_default();
    let mut ranking: Vec<RankReport> = variants
        .iter()
        .zip(found)
        .map(|(variant, strength)| RankReport {
            variant: variant.clone(),
            elo: strength.elo(),
            strength,
        })
        .collect();
    ranking.sort_by(|a, b| b.strength.log.total_cmp(&a.strength.log));
    ranking
}
