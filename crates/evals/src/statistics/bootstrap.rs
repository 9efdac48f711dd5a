//! Intervals by resampling.

use statrs::distribution::{ContinuousCDF as _, Normal};

use super::mean::{Clustered, Interval};

/// How many resamples an interval is made of.
pub const RESAMPLES: usize = 10_000;

/// The intervals of a statistic, from resamples of its clusters.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Bootstrap {
    /// The 95 % interval between the quantiles of the resamples.
    pub percentile: Interval,
    /// The same interval, corrected for bias and skewness (BCa; Efron 1987). It is the percentile interval where the
    /// correction is not defined, such as for equal clusters.
    pub bca: Interval,
}

/// A source of random numbers that gives the same ones for the same seed (SplitMix64; Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
pub struct Draws(u64);

impl Draws {
    /// The numbers of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// An index below `bound`, which is at least 1. Its bias is below 1 in 2³² for each index.
    pub fn below(&mut self, bound: usize) -> usize {
        let wide = u128::from(self.next_u64()) * bound.max(1) as u128;
        (wide >> 64) as usize
    }
}

impl Clustered {
    /// The intervals of the mean of all scores, by resampling whole clusters `resamples` times. `None` for fewer than
    /// two clusters or resamples.
    pub fn bootstrap(&self, seed: u64, resamples: usize) -> Option<Bootstrap> {
        let sums = self.sums();
        let mean = |of: (f64, f64)| of.0 / of.1;
        let (clusters, mut draws) = (sums.len(), Draws::new(seed));
        if clusters < 2 || resamples < 2 {
            return None;
        }
        let mut means: Vec<f64> = (0..resamples)
            .map(|_| {
                let mut drawn = (0.0, 0.0);
                for _ in 0..clusters {
                    let (sum, count) = sums[draws.below(clusters)];
                    drawn = (drawn.0 + sum, drawn.1 + count);
                }
                mean(drawn)
            })
            .collect();
        means.sort_by(f64::total_cmp);
        let all = sums
            .iter()
            .fold((0.0, 0.0), |all, of| (all.0 + of.0, all.1 + of.1));
        let without = sums.iter().map(|of| mean((all.0 - of.0, all.1 - of.1)));
        let without: Vec<f64> = without.collect();
        Some(intervals(&means, mean(all), &without))
    }
}

/// The intervals of sorted resamples, of an estimate and its values without each cluster.
pub(super) fn intervals(sorted: &[f64], estimate: f64, without: &[f64]) -> Bootstrap {
    let standard = Normal::standard();
    let percentile = Interval {
        lower: quantile(sorted, 0.025),
        upper: quantile(sorted, 0.975),
    };
    let bca = corrections(sorted, estimate, without).and_then(|(bias, acceleration)| {
        let at = |share: f64| {
            let shifted = bias + standard.inverse_cdf(share);
            let point = bias + shifted / (1.0 - acceleration * shifted);
            let share = standard.cdf(point);
            share.is_finite().then(|| quantile(sorted, share))
        };
        Some(Interval {
            lower: at(0.025)?,
            upper: at(0.975)?,
        })
    });
    Bootstrap {
        percentile,
        bca: bca.unwrap_or(percentile),
    }
}

/// The correction of the bias and the acceleration.
fn corrections(sorted: &[f64], estimate: f64, without: &[f64]) -> Option<(f64, f64)> {
    // Resamples that equal the estimate, but for the last bits of a sum, count half: discrete scores do so all the time.
    let noise = 1e-12 * estimate.abs().max(1.0);
    let below = sorted.partition_point(|value| *value < estimate - noise);
    let up_to = sorted.partition_point(|value| *value <= estimate + noise);
    let share = (below + up_to) as f64 / (2 * sorted.len()) as f64;
    let bias = Normal::standard().inverse_cdf(share);
    let center = without.iter().sum::<f64>() / without.len() as f64;
    let power = |exponent: i32| {
        let deviations = without.iter().map(|value| (center - value).powi(exponent));
        deviations.sum::<f64>()
    };
    let acceleration = power(3) / (6.0 * power(2).powf(1.5));
    (bias.is_finite() && acceleration.is_finite()).then_some((bias, acceleration))
}

/// A quantile of sorted values, between which it is linear.
pub(super) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
    let (lower, upper) = (
        sorted[place.floor() as usize],
        sorted[place.ceil() as usize],
    );
    lower + (upper - lower) * (place - place.floor())
}
