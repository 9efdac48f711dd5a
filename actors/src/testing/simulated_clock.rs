//! A clock that a test can put forward.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

use crate::{
    contract::{BoxFuture, Clock, SystemClock},
    vocabulary::Timestamp,
};

/// A clock for tests: it goes with tokio's time, which a test pauses, and can be put forward by
/// any time at once, as a machine's clock is when it wakes up or is corrected. Who waits for a
/// time that was jumped over stops waiting. Cloning shares it.
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
pub struct SimulatedClock {
    base: SystemClock,
    jumps: Arc<Jumps>,
}

/// A `watch` channel would wake those who wait in an order that tokio draws by itself.
#[derive(Debug, Default)]
struct Jumps {
    /// How far the clock was put forward, in milliseconds.
    ahead_ms: AtomicI64,
    jumped: Notify,
}

impl SimulatedClock {
    /// A clock that stands at this time. It must be made inside a tokio runtime.
    pub fn starting_at(time: Timestamp) -> Self {
        Self {
            base: SystemClock::starting_at(time),
            jumps: Arc::default(),
        }
    }

    /// Puts it forward at once, and ends the waits for every time up to then.
    pub fn advance(&self, by: Duration) {
        self.step(i64::try_from(by.as_millis()).unwrap_or(i64::MAX));
    }

    /// Puts it back, as a machine's clock may stand when a program is started again. While a
    /// System lives its clock never goes back, so this is for the time between two of them.
    pub fn set_back(&self, by: Duration) {
        self.step(i64::try_from(by.as_millis()).map_or(i64::MIN, |by| -by));
    }

    fn step(&self, by_ms: i64) {
        let ahead_ms = self.jumps.ahead_ms.load(Ordering::Acquire);
        let ahead_ms = ahead_ms.saturating_add(by_ms);
        self.jumps.ahead_ms.store(ahead_ms, Ordering::Release);
        self.jumps.jumped.notify_waiters();
    }
}

impl Jumps {
    fn now(&self, base: &SystemClock) -> Timestamp {
        let (now, ahead_ms) = (base.now(), self.ahead_ms.load(Ordering::Acquire));
        if ahead_ms < 0 {
            return Timestamp(now.0.saturating_sub(ahead_ms.unsigned_abs()));
        }
        now.after(Duration::from_millis(ahead_ms.unsigned_abs()))
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Timestamp {
        self.jumps.now(&self.base)
    }

    fn sleep_until(&self, time: Timestamp) -> BoxFuture<'static, ()> {
        let (base, jumps) = (self.base.clone(), self.jumps.clone());
        Box::pin(async move {
            loop {
                let mut jumped = pin!(jumps.jumped.notified());
                jumped.as_mut().enable();
                let left = time.since(jumps.now(&base));
                if left.is_zero() {
                    return;
                }
                tokio::select! {
                    biased;
                    () = tokio::time::sleep(left) => {}
                    () = jumped => {}
                }
            }
        })
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
        tokio::task::yield_now().await;
        clock.advance(2 * hour);
        assert!(passed.await.is_ok() && began.elapsed() < Duration::from_secs(1));
        assert!(!left.is_finished());
        assert!(left.await.is_ok());
        assert_eq!(began.elapsed(), hour, "what was left after the jump");
        clock.set_back(3 * hour);
        assert_eq!(clock.now(), Timestamp(5_000));
    }
}
