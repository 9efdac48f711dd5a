//! A clock that a test can move.

use std::time::Duration;

use crate::{
    contract::{BoxFuture, Clock, SystemClock},
    vocabulary::Timestamp,
};

/// A clock for tests. It follows tokio's time, which a test pauses, and its wall clock can be put forward and back at
/// once, as a machine's clock is when it wakes up or is corrected. A wait for a wall-clock time that was jumped over
/// ends; intervals are not affected. Cloning shares it.
///
/// ```
/// use std::time::Duration;
/// use ghostlight_actors::{contract::Clock, testing::SimulatedClock, vocabulary::Timestamp};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let clock = SimulatedClock::starting_at(Timestamp(1_000));
/// let in_a_week = clock.sleep_until(clock.now().after(Duration::from_secs(7 * 86_400)));
/// clock.advance(Duration::from_secs(8 * 86_400));
/// in_a_week.await;
/// assert_eq!(clock.now(), Timestamp(1_000).after(Duration::from_secs(8 * 86_400)));
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SimulatedClock(SystemClock);

impl SimulatedClock {
    /// A clock that stands at this time. It must be made inside a tokio runtime.
    pub fn starting_at(time: Timestamp) -> Self {
        Self(SystemClock::starting_at(time))
    }

    /// Puts the wall clock forward at once, and ends the waits for every time up to then.
    pub fn advance(&self, by: Duration) {
        self.0
            .jump(i64::try_from(by.as_millis()).unwrap_or(i64::MAX));
    }

    /// Puts the wall clock back at once.
    pub fn set_back(&self, by: Duration) {
        self.0
            .jump(i64::try_from(by.as_millis()).map_or(i64::MIN, |by| -by));
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn monotonic(&self) -> Timestamp {
        self.0.monotonic()
    }

    fn set_back_ms(&self) -> u64 {
        self.0.set_back_ms()
    }

    fn sleep(&self, pause: Duration) -> BoxFuture<'static, ()> {
        self.0.sleep(pause)
    }

    fn sleep_until(&self, time: Timestamp) -> BoxFuture<'static, ()> {
        self.0.sleep_until(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_jump_ends_the_waits_that_it_passes_and_no_other() {
        let clock = SimulatedClock::starting_at(Timestamp(5_000));
        let began = tokio::time::Instant::now();
        let hour = Duration::from_secs(3_600);
        let passed = tokio::spawn(clock.sleep_until(clock.now().after(hour)));
        let left = tokio::spawn(clock.sleep_until(clock.now().after(3 * hour)));
        let interval = tokio::spawn(clock.sleep(2 * hour));
        tokio::task::yield_now().await;
        clock.advance(2 * hour);
        assert!(passed.await.is_ok() && began.elapsed() < Duration::from_secs(1));
        assert!(!left.is_finished());
        assert!(left.await.is_ok());
        assert_eq!(began.elapsed(), hour, "what was left after the jump");
        clock.set_back(3 * hour);
        assert_eq!(clock.now(), Timestamp(5_000));
        assert!(interval.await.is_ok());
        assert_eq!(began.elapsed(), 2 * hour, "an interval knows of no jump");
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_for_the_wall_goes_on_when_that_is_set_back() {
        let clock = SimulatedClock::starting_at(Timestamp(50_000_000));
        let (hour, began) = (Duration::from_secs(3_600), tokio::time::Instant::now());
        let waits = tokio::spawn(clock.sleep_until(clock.now().after(hour)));
        tokio::task::yield_now().await;
        clock.set_back(2 * hour);
        assert!(waits.await.is_ok());
        assert_eq!(began.elapsed(), 3 * hour);
    }
}
