//! The faults of a simulation and their frequency.

use super::chance::Chance;

/// The faults of a simulated world and their frequency. Shares are from 0 to 1.
///
/// These are upper bounds: each seed draws its own mix below them, in which some kinds of fault are missing
/// altogether, because faults that are everywhere hide each other.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Faults {
    /// How many processes die before the last one, which meets no faults.
    pub crashes: u32,
    /// The share of crashes in which the process first stands still and goes on after its runs were taken over, and
    /// only then dies.
    pub frozen: f64,
    /// The share of the store's calls that fail: a full disk for a while, a failed read, or a
    /// failed write after which the store refuses everything until the process is restarted.
    pub store: f64,
    /// The share of a model's attempts that fail: slow down, server error, timeout, an answer cut
    /// off in the middle, an answer that cannot be read.
    pub models: f64,
    /// The share of tool calls that panic, hang, fail, or lose their answer.
    pub tools: f64,
    /// The share of turns, messages and answers that are sent twice, and of answers that do not
    /// fit.
    pub messages: f64,
    /// The share of turns that are cancelled at some moment.
    pub cancels: f64,
    /// The share of seconds in which the clock jumps, forward or back, and of the pauses between two
    /// processes in which it is set back.
    pub clock: f64,
}

impl Faults {
    /// No faults: the seed decides only the interleaving.
    pub fn none() -> Self {
        Self {
            crashes: 0,
            frozen: 0.0,
            store: 0.0,
            models: 0.0,
            tools: 0.0,
            messages: 0.0,
            cancels: 0.0,
            clock: 0.0,
        }
    }

    /// Every kind of fault, often.
    pub fn all() -> Self {
        Self {
            crashes: 3,
            frozen: 0.3,
            store: 0.04,
            models: 0.4,
            tools: 0.3,
            messages: 0.4,
            cancels: 0.5,
            clock: 0.2,
        }
    }

    /// The mix of one seed.
    pub(super) fn draw(&self, chance: &Chance) -> Self {
        let share = |most: f64| {
            let missing = chance.happens(0.4);
            let share = most * chance.fraction();
            if missing { 0.0 } else { share }
        };
        Self {
            crashes: match u64::from(self.crashes) {
                0 => 0,
                most => u32::try_from(1 + chance.below(most)).unwrap_or(1),
            },
            frozen: share(self.frozen),
            store: share(self.store),
            models: share(self.models),
            tools: share(self.tools),
            messages: share(self.messages),
            cancels: share(self.cancels),
            clock: share(self.clock),
        }
    }
}

impl Default for Faults {
    /// [`all`](Self::all) of them.
    fn default() -> Self {
        Self::all()
    }
}
