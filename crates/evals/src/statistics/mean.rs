//! Means with their intervals.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF as _, Normal, StudentsT};

/// The share of intervals that hold the true value.
const CONFIDENCE: f64 = 0.95;

/// An interval that holds the true value with a confidence of 95 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Its lower bound.
    pub lower: f64,
    /// Its upper bound.
    pub upper: f64,
}

/// A mean with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Mean {
    /// The mean.
    pub estimate: f64,
    /// Its 95 % interval; `None` where a single cluster tells nothing about the spread.
    pub interval: Option<Interval>,
    /// How many scores it is the mean of.
    pub scores: usize,
    /// How many clusters they come from.
    pub clusters: usize,
}

/// The quantile of the standard normal distribution that leaves half of `1 - CONFIDENCE` above it.
fn z() -> f64 {
    Normal::standard().inverse_cdf((1.0 + CONFIDENCE) / 2.0)
}

/// Wilson's score interval of a proportion: it keeps its confidence for few trials and for proportions near 0 and 1,
/// where the usual one does not (Wilson 1927). `None` for no trials.
pub fn wilson(successes: u64, trials: u64) -> Option<Interval> {
    if trials == 0 || successes > trials {
        return None;
    }
    let (n, z) = (trials as f64, z());
    let p = successes as f64 / n;
    let denominator = 1.0 + z * z / n;
    let center = (p + z * z / (2.0 * n)) / denominator;
    let half = z * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt() / denominator;
    Some(Interval {
        lower: (center - half).max(0.0),
        upper: (center + half).min(1.0),
    })
}

/// Whether a standard error is zero, but for the last bits of a sum.
pub(super) fn is_nothing(error: f64, estimate: f64) -> bool {
    error <= 1e-12 * estimate.abs().max(1.0)
}

/// The interval of a mean that is that of every cluster. It says how rare others are, and not that there are none: of the
/// clusters a share up to Wilson's bound may lie at the ends of the range.
pub(super) fn seldom(estimate: f64, clusters: usize, range: (f64, f64)) -> Option<Interval> {
    let share = wilson(0, clusters as u64)?.upper;
    let towards = |end: f64| estimate + share * (end - estimate);
    Some(Interval {
        lower: towards(range.0),
        upper: towards(range.1),
    })
}

/// Scores that come in clusters: the repeats of one sample, or samples about one thing. Scores of one cluster are
/// alike, so they count for less than as many scores of different ones.
#[derive(Clone, Debug, Default)]
pub struct Clustered {
    clusters: Vec<Vec<f64>>,
}

impl Clustered {
    /// The scores of each cluster; empty clusters are left out.
    pub fn new(clusters: impl IntoIterator<Item = Vec<f64>>) -> Self {
        let clusters = clusters.into_iter().filter(|scores| !scores.is_empty());
        Self {
            clusters: clusters.collect(),
        }
    }

    /// The mean over all scores, with the interval of a mean of clusters: SE = sqrt(G/(G-1) · Σ over clusters of (Σ of
    /// the deviations)²)/N, and Student's t at G-1 degrees of freedom (Miller 2024, "Adding Error Bars to Evals",
    /// section 2.2). Where every score is a plain success or failure and nothing was tried twice, it is Wilson's
    /// interval; also where all scores are equal shares, since a spread of zero would claim certainty. `None` without
    /// scores.
    pub fn mean(&self) -> Option<Mean> {
        let scores = self.clusters.iter().map(Vec::len).sum::<usize>();
        if scores == 0 {
            return None;
        }
        let estimate = self.clusters.iter().flatten().sum::<f64>() / scores as f64;
        Some(Mean {
            estimate,
            interval: self.interval(estimate, scores),
            scores,
            clusters: self.clusters.len(),
        })
    }

    fn interval(&self, estimate: f64, scores: usize) -> Option<Interval> {
        let is_binary = self
            .clusters
            .iter()
            .flatten()
            .all(|s| *s == 0.0 || *s == 1.0);
        let is_single = self.clusters.iter().all(|scores| scores.len() == 1);
        let is_constant = self.clusters.iter().flatten().all(|s| *s == estimate);
        if is_binary && (is_single || is_constant) {
            let successes = self
                .clusters
                .iter()
                .filter(|scores| scores[0] == 1.0)
                .count();
            return wilson(successes as u64, self.clusters.len() as u64);
        }
        let error = self.standard_error(estimate, scores)?;
        let half = error * t_quantile(self.clusters.len() - 1)?;
        // A share has bounds; a reward or a cost has none.
        let is_share = self
            .clusters
            .iter()
            .flatten()
            .all(|s| (0.0..=1.0).contains(s));
        if is_share && is_nothing(error, estimate) {
            return seldom(estimate, self.clusters.len(), (0.0, 1.0));
        }
        let (least, most) = match is_share {
            true => (0.0, 1.0),
            false => (f64::NEG_INFINITY, f64::INFINITY),
        };
        Some(Interval {
            lower: (estimate - half).max(least),
            upper: (estimate + half).min(most),
        })
    }

    /// The sum and the number of the scores of each cluster.
    pub(super) fn sums(&self) -> Vec<(f64, f64)> {
        let clusters = self.clusters.iter();
        clusters
            .map(|scores| (scores.iter().sum(), scores.len() as f64))
            .collect()
    }

    /// How many clusters there are.
    pub(super) fn len(&self) -> usize {
        self.clusters.len()
    }

    /// The standard error of the mean; `None` for fewer than two clusters.
    pub(super) fn standard_error(&self, estimate: f64, scores: usize) -> Option<f64> {
        let count = self.clusters.len();
        if count < 2 {
            return None;
        }
        let deviation = |scores: &Vec<f64>| scores.iter().map(|s| s - estimate).sum::<f64>();
        let squares: f64 = self.clusters.iter().map(|c| deviation(c).powi(2)).sum();
        let g = count as f64;
        Some((g / (g - 1.0) * squares).sqrt() / scores as f64)
    }
}

/// The quantile of Student's t with these degrees of freedom that belongs to the confidence.
pub(super) fn t_quantile(degrees: usize) -> Option<f64> {
    let t = StudentsT::new(0.0, 1.0, degrees as f64).ok()?;
    Some(t.inverse_cdf((1.0 + CONFIDENCE) / 2.0))
}
