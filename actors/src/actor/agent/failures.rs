//! How often something failed lately.

use std::time::Duration;

use crate::vocabulary::Timestamp;

/// When something failed, within a restart period.
#[derive(Default)]
pub(super) struct Failures(Vec<Timestamp>);

impl Failures {
    /// Counts a failure now, and gives how many there were within the period.
    pub(super) fn count(&mut self, now: Timestamp, period: Duration) -> u32 {
        self.0.retain(|at| now.since(*at) <= period);
        self.0.push(now);
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }
}
