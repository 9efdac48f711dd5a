//! Randomness as the engine sees it.

use std::fmt;

use parking_lot::Mutex;
use rand::{RngExt, SeedableRng, rngs::StdRng};

/// Random bits, for ids, jitter and `RunContext::random`.
pub trait Entropy: fmt::Debug + Send + Sync + 'static {
    /// The next 128 bits.
    fn bits(&self) -> u128;

    /// A number from 0 up to, but not including, 1.
    fn fraction(&self) -> f64 {
        // 53 bits fill the mantissa of a double.
        (self.bits() >> 75) as f64 / (1u64 << 53) as f64
    }
}

/// The thread's generator, seeded by the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn bits(&self) -> u128 {
        rand::rng().random()
    }
}

/// A generator that gives the same numbers for the same seed, for simulations.
#[derive(Debug)]
pub struct SeededEntropy(Mutex<StdRng>);

impl SeededEntropy {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(StdRng::seed_from_u64(seed)))
    }
}

impl Entropy for SeededEntropy {
    fn bits(&self) -> u128 {
        self.0.lock().random()
    }
}
