//! The choices that a seed decides.

use std::time::Duration;

use crate::contract::{Entropy, SeededEntropy};

/// The decisions of a seed.
pub(super) struct Chance(SeededEntropy);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(SeededEntropy::new(seed))
    }

    /// A number below this bound, which is not 0.
    pub(super) fn below(&self, bound: u64) -> u64 {
        // The remainder favours small numbers by less than one in 2⁶⁴.
        u64::try_from(self.0.bits() % u128::from(bound.max(1))).unwrap_or(0)
    }

    pub(super) fn fraction(&self) -> f64 {
        self.0.fraction()
    }

    pub(super) fn happens(&self, share: f64) -> bool {
        self.fraction() < share
    }

    /// A time of up to this many milliseconds.
    pub(super) fn millis(&self, most: u64) -> Duration {
        Duration::from_millis(self.below(most + 1))
    }
}
