//! Counts of recent failures.

use std::time::Duration;

use crate::vocabulary::Timestamp;

/// The times of the failures within a restart period.
#[derive(Default)]
pub(super) struct Failures(Vec<Timestamp>);

impl Failures {
    /// Counts a failure now, and returns the number of failures within the period.
    pub(super) fn count(&mut self, now: Timestamp, period: Duration) -> u32 {
        self.0.retain(|at| now.since(*at) <= period);
        self.0.push(now);
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }
}
