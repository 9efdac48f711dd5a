//! The pauses between looks at what another process may change.

use std::time::Duration;

use crate::contract::{BoxFuture, Clock};

/// The pause after the first look, and the longest one, where nothing else is said.
const FIRST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(1);

/// The pause where the store tells when to look. A notice may be lost, and programs of before this version give none:
/// then this is all that they cost. A sooner look would find nothing that is not told.
pub(crate) const SELDOM: Duration = Duration::from_secs(1);

/// The shortest pause between two looks that notices ask for. One look finds all that was told during it.
pub(crate) const NEXT_NOTICE: Duration = Duration::from_millis(5);

/// The pause before a store that failed is asked again.
pub(crate) const AGAIN: Duration = Duration::from_secs(1);

/// Pauses that grow. Most stores do not tell what other processes write to them, so a caller that waits
/// for them looks again and again: soon at first, and seldom if nothing happens for long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollInterval {
    first: Duration,
    next: Duration,
    longest: Duration,
}

impl PollInterval {
    /// Pauses of 20 ms up to a second.
    pub(crate) fn new() -> Self {
        Self::between(FIRST, LONGEST)
    }

    /// Pauses between these two.
    pub(crate) fn between(first: Duration, longest: Duration) -> Self {
        let next = first;
        Self {
            first,
            next,
            longest,
        }
    }

    /// The pause before the next look; the one after it is twice as long.
    pub(crate) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        pause
    }

    /// Waits until the next look: for a notice, asked for before the last look, or for the next pause where none is told.
    pub(crate) async fn next(&mut self, clock: &dyn Clock, told: Option<BoxFuture<'static, ()>>) {
        let Some(told) = told else {
            return clock.sleep(self.pause()).await;
        };
        let told = async {
            clock.sleep(NEXT_NOTICE).await;
            told.await;
        };
        tokio::select! {
            biased;
            () = told => {}
            () = clock.sleep(SELDOM) => {}
        }
    }

    /// Begins again with the shortest pause, because something happened.
    pub(crate) fn restart(&mut self) {
        self.next = self.first;
    }
}
