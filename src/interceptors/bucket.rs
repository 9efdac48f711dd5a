//! A token bucket by the System's clock.

use std::time::Duration;

use ghostlight_actors::vocabulary::Timestamp;

/// A bucket that refills at a constant rate up to its capacity. A caller may take more than the
/// bucket holds, and then waits until that much would have been there.
///
/// Unlike well-known rate limiters it takes back unused reservations, and has no clock of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    capacity: f64,
    per_second: f64,
    level: f64,
    at: Option<Timestamp>,
}

impl Bucket {
    /// A full bucket.
    pub(super) fn new(capacity: f64, per: Duration) -> Self {
        let per_second = capacity / per.as_secs_f64().max(0.001);
        let (level, at) = (capacity, None);
        Self {
            capacity,
            per_second,
            level,
            at,
        }
    }

    /// How long a caller has to wait for this many tokens; more than the capacity counts as the
    /// capacity. A bucket without capacity never fills.
    pub(super) fn wait_for(&mut self, much: f64, now: Timestamp) -> Duration {
        if self.capacity <= 0.0 {
            return Duration::MAX;
        }
        self.fill(now);
        let missing = much.min(self.capacity) - self.level;
        if missing <= 0.0 {
            return Duration::ZERO;
        }
        Duration::try_from_secs_f64(missing / self.per_second).unwrap_or(Duration::MAX)
    }

    /// Takes this many tokens, even if they are not there yet.
    pub(super) fn take(&mut self, much: f64) {
        self.level -= much.min(self.capacity);
    }

    /// Returns the tokens that were taken and not used, or takes those that were used in addition.
    pub(super) fn settle(&mut self, taken: f64, used: f64) {
        self.level = (self.level + taken.min(self.capacity) - used).min(self.capacity);
    }

    fn fill(&mut self, now: Timestamp) {
        if let Some(at) = self.at {
            let came = now.since(at).as_secs_f64() * self.per_second;
            self.level = (self.level + came).min(self.capacity);
        }
        self.at = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_comes_back_with_time() {
        let second = Duration::from_secs(1);
        let start = Timestamp::default();
        let mut bucket = Bucket::new(60.0, second * 60);
        for _ in 0..60 {
            assert_eq!(bucket.wait_for(1.0, start), Duration::ZERO);
            bucket.take(1.0);
        }
        assert_eq!(bucket.wait_for(1.0, start), second);
        assert_eq!(bucket.wait_for(5.0, start.after(second)), second * 4);
        bucket.settle(60.0, 50.0);
        assert_eq!(bucket.wait_for(11.0, start.after(second)), Duration::ZERO);
        assert_eq!(
            bucket.wait_for(1000.0, start.after(second * 1000)),
            Duration::ZERO
        );
        assert_eq!(
            Bucket::new(0.0, second).wait_for(1.0, start),
            Duration::MAX,
            "nothing of nothing"
        );
    }
}
