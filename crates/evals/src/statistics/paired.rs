//! Comparisons of two variants over the same samples.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use statrs::distribution::{
    Binomial, ContinuousCDF as _, Discrete as _, DiscreteCDF as _, Normal, StudentsT,
};

use super::{
    bootstrap::Bootstrap,
    mean::{Clustered, Interval, is_nothing, seldom, t_quantile},
    preferences::sign_test,
};

/// The scores of one sample in two variants, one for each repeat.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The cluster that the sample belongs to.
    pub cluster: String,
    /// The scores of the variant that is compared with.
    pub base: Vec<f64>,
    /// The scores of the other variant.
    pub other: Vec<f64>,
}

/// Whether a variant is better than another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verdict {
    /// The whole interval of the difference is above zero.
    Better,
    /// The whole interval is above the allowed loss.
    NotWorse,
    /// The whole interval is below zero.
    Worse,
    /// The interval allows for both: more samples or repeats would tell.
    Undecided,
}

impl Verdict {
    /// The verdict for a difference within this interval, where a loss of `margin` is allowed.
    pub fn of(interval: Option<Interval>, margin: f64) -> Self {
        match interval {
            None => Self::Undecided,
            Some(interval) if interval.upper < 0.0 => Self::Worse,
            Some(interval) if interval.lower > 0.0 => Self::Better,
            Some(interval) if interval.lower > -margin => Self::NotWorse,
            Some(_) => Self::Undecided,
        }
    }

    /// The verdict in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::NotWorse => "not worse",
            Self::Worse => "worse",
            Self::Undecided => "undecided",
        }
    }
}

/// McNemar's test of two variants whose samples were tried once each.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct McNemar {
    /// The samples in which the base alone succeeded.
    pub base_only: u64,
    /// The samples in which the other variant alone succeeded.
    pub other_only: u64,
    /// The two-sided p-value of the exact test, which rejects too seldom.
    pub exact: f64,
    /// The two-sided mid-p-value, which keeps its level better (Fagerland, Lydersen, Laake 2013).
    pub mid: f64,
}

/// McNemar's test for these numbers of discordant samples.
pub fn mcnemar(base_only: u64, other_only: u64) -> McNemar {
    let (discordant, least) = (base_only + other_only, base_only.min(other_only));
    let (exact, mid) = match Binomial::new(0.5, discordant) {
        Ok(binomial) if discordant > 0 => {
            let exact = (2.0 * binomial.cdf(least)).min(1.0);
            (
                exact,
                (2.0 * binomial.cdf(least) - binomial.pmf(least)).min(1.0),
            )
        }
        _ => (1.0, 1.0),
    };
    McNemar {
        base_only,
        other_only,
        exact,
        mid,
    }
}

/// The difference between two variants, sample by sample.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Comparison {
    /// The mean over the samples of the other variant's mean score minus the base's.
    pub difference: f64,
    /// Its 95 % interval, by clusters; `None` for fewer than two clusters. Where all differ by the same, a share of others
    /// that is too rare to be seen is allowed for.
    pub interval: Option<Interval>,
    /// The two-sided p-value of no difference; McNemar's mid-p where each sample was tried once, is a plain success or
    /// failure, and is a cluster of its own.
    pub p: Option<f64>,
    /// The samples that both variants have scores of.
    pub samples: usize,
    /// McNemar's test, where it applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcnemar: Option<McNemar>,
    /// The smallest true difference that a comparison of this size finds in four of five trials: (z.975 + z.8) times the
    /// standard error of the difference, in which the noise of the repeats and the likeness of clusters are contained.
    /// `None` for fewer than two clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detectable: Option<f64>,
}

impl Comparison {
    /// The comparison of these pairs; samples that one of the variants has no score of are left out. `None` where none
    /// is left.
    pub fn of(pairs: &[Pair]) -> Option<Self> {
        let both = |pair: &&Pair| !pair.base.is_empty() && !pair.other.is_empty();
        let pairs: Vec<&Pair> = pairs.iter().filter(both).collect();
        let mut clusters = BTreeMap::<&str, Vec<f64>>::new();
        for pair in &pairs {
            let difference = mean(&pair.other) - mean(&pair.base);
            clusters.entry(&pair.cluster).or_default().push(difference);
        }
        if pairs.is_empty() {
            return None;
        }
        let clustered = Clustered::new(clusters.into_values());
        Some(Self::finish(&pairs, &clustered))
    }

    fn finish(pairs: &[&Pair], clustered: &Clustered) -> Self {
        let (samples, clusters) = (pairs.len(), clustered.len());
        let differences = pairs
            .iter()
            .map(|pair| mean(&pair.other) - mean(&pair.base));
        let difference = differences.sum::<f64>() / samples as f64;
        let error = clustered.standard_error(difference, samples);
        // Shares differ by 1 at the most; costs have no bounds, and here differ by no more than any two of them.
        let scores = || {
            pairs
                .iter()
                .flat_map(|pair| pair.base.iter().chain(&pair.other))
        };
        let (most, farthest) = match scores().all(|score| (0.0..=1.0).contains(score)) {
            true => (1.0, 1.0),
            false => {
                let highest = scores().copied().fold(f64::NEG_INFINITY, f64::max);
                let lowest = scores().copied().fold(f64::INFINITY, f64::min);
                (f64::INFINITY, highest - lowest)
            }
        };
        let interval = error.and_then(|error| {
            if is_nothing(error, difference) {
                return seldom(difference, clusters, (-farthest, farthest));
            }
            let half = error * t_quantile(clusters - 1)?;
            Some(Interval {
                lower: (difference - half).max(-most),
                upper: (difference + half).min(most),
            })
        });
        // The test is one of samples that are independent of each other.
        let mcnemar = plain(pairs).filter(|_| clusters == samples);
        let p = match (mcnemar, error) {
            (Some(test), _) => Some(test.mid),
            (None, Some(error)) => p_of(difference, error, clusters - 1),
            (None, None) => None,
        };
        Self {
            difference,
            interval,
            p,
            samples,
            mcnemar,
            detectable: error.map(|error| power_z() * error),
        }
    }
}

/// The intervals of the mean difference of these pairs, by resampling whole clusters. `None` for fewer than two clusters.
pub fn resampled_difference(pairs: &[Pair], seed: u64, resamples: usize) -> Option<Bootstrap> {
    let mut clusters = BTreeMap::<&str, Vec<f64>>::new();
    for pair in pairs {
        if !pair.base.is_empty() && !pair.other.is_empty() {
            let difference = mean(&pair.other) - mean(&pair.base);
            clusters.entry(&pair.cluster).or_default().push(difference);
        }
    }
    Clustered::new(clusters.into_values()).bootstrap(seed, resamples)
}

/// McNemar's test of pairs in which every sample was tried once in both variants and scored 0 or 1.
fn plain(pairs: &[&Pair]) -> Option<McNemar> {
    let (mut base_only, mut other_only) = (0, 0);
    for pair in pairs {
        match (pair.base.as_slice(), pair.other.as_slice()) {
            ([1.0], [0.0]) => base_only += 1,
            ([0.0], [1.0]) => other_only += 1,
            ([0.0], [0.0]) | ([1.0], [1.0]) => {}
            _ => return None,
        }
    }
    Some(mcnemar(base_only, other_only))
}

/// The two-sided p-value of a difference with this standard error.
fn p_of(difference: f64, error: f64, degrees: usize) -> Option<f64> {
    if is_nothing(error, difference) {
        let all = if is_nothing(difference.abs(), 1.0) {
            0
        } else {
            degrees + 1
        };
        return Some(sign_test(all as u64, 0));
    }
    let t = StudentsT::new(0.0, 1.0, degrees as f64).ok()?;
    Some(2.0 * t.sf((difference / error).abs()))
}

/// The smallest true difference that a comparison of this many samples finds with a power of 80 % at a level of 5 %, before
/// anything is tried: (z.975 + z.8) · √((w² + (a² + b²)/k)/n). `between` is w², the variance of the true differences of
/// samples; `within` holds a² and b², the variances of one try of a sample in each of the variants, which for a success of
/// probability p are p(1 - p), and ¼ at the most. `None` for no samples or repeats.
pub fn detectable_before(
    samples: usize,
    repeats: u32,
    between: f64,
    within: (f64, f64),
) -> Option<f64> {
    if samples == 0 || repeats == 0 {
        return None;
    }
    let noise = (within.0 + within.1) / f64::from(repeats);
    Some(power_z() * ((between + noise) / samples as f64).sqrt())
}

/// z.975 + z.8.
fn power_z() -> f64 {
    let standard = Normal::standard();
    standard.inverse_cdf(0.975) + standard.inverse_cdf(0.8)
}

/// Holm's adjustment of p-values for testing several at once (Holm 1979), in the order of the input.
pub fn holm(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let (mut adjusted, mut highest) = (vec![0.0; values.len()], 0.0_f64);
    for (rank, index) in order.into_iter().enumerate() {
        highest = highest.max(values[index] * (values.len() - rank) as f64);
        adjusted[index] = highest.min(1.0);
    }
    adjusted
}

fn mean(scores: &[f64]) -> f64 {
    scores.iter().sum::<f64>() / scores.len() as f64
}
