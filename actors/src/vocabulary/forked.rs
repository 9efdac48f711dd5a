//! Where a forked run comes from.

use serde::{Deserialize, Serialize};

use super::RunId;

/// The origin of a forked run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Forked {
    /// The other run.
    pub run: RunId,
    /// How many entries of it count here too.
    pub at: u64,
    /// How many entries at the front of this journal are copies of them. Entries about takeovers, restarts and
    /// parking of the other run are not copied.
    pub copied: u64,
}

impl Forked {
    /// A fork of this run: how many of its entries count, and how many of them are copied.
    pub fn new(run: RunId, at: u64, copied: u64) -> Self {
        Self { run, at, copied }
    }
}
