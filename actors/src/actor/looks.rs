//! The pauses between looks at what another process may change.

use std::time::Duration;

/// The pause after the first look, and the longest one, where nothing else is said.
const FIRST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(1);

/// Pauses that grow. A store does not tell what other processes write to it, so a caller that waits
/// for them looks again and again: soon at first, and seldom if nothing happens for long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looks {
    first: Duration,
    next: Duration,
    longest: Duration,
}

impl Looks {
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

    /// Begins again with the shortest pause, because something happened.
    pub(crate) fn restart(&mut self) {
        self.next = self.first;
    }
}
