//! Time as the engine sees it.

use std::{
    fmt,
    time::{SystemTime, UNIX_EPOCH},
};

use tokio::time::Instant;

use super::BoxFuture;
use crate::vocabulary::Timestamp;

/// Tells the time and waits for it. Nothing else in the engine does either.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// What time it is.
    fn now(&self) -> Timestamp;

    /// Waits until it is that time; a time that has passed is now.
    fn sleep_until(&self, time: Timestamp) -> BoxFuture<'static, ()>;
}

/// The machine's clock, read once and then carried on by tokio's, so that it never goes back
/// and stands still when a test pauses tokio's time.
#[derive(Clone, Debug)]
pub struct SystemClock {
    started: Instant,
    started_at: Timestamp,
}

impl SystemClock {
    /// A clock that starts at the machine's time. It must be made inside a tokio runtime.
    pub fn new() -> Self {
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self::starting_at(Timestamp::default().after(since_epoch))
    }

    /// A clock that starts at this time, for simulations.
    pub fn starting_at(started_at: Timestamp) -> Self {
        Self {
            started: Instant::now(),
            started_at,
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        self.started_at.after(self.started.elapsed())
    }

    fn sleep_until(&self, time: Timestamp) -> BoxFuture<'static, ()> {
        let pause = time.since(self.now());
        Box::pin(tokio::time::sleep(pause))
    }
}
