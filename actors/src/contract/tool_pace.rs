//! How quickly the code of tools gives its thread back.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

/// How quickly a tool's code has given its thread back so far.
#[derive(Debug, Default)]
pub(crate) struct ToolPace(AtomicU32);

impl ToolPace {
    /// A tool counts as quick after this many quick calls in a row.
    const TRIED: u32 = 8;
    /// The mark of a tool that once blocked its thread.
    const BLOCKS: u32 = u32::MAX;
    /// Code is quick if it keeps its thread no longer than this.
    const QUICK: Duration = Duration::from_millis(5);
    /// Code blocks its thread if it keeps it this long.
    pub(crate) const BLOCKING: Duration = Duration::from_millis(100);

    /// Whether the tool's calls need no task of their own: the last calls were all quick, and no call ever blocked
    /// its thread.
    pub(crate) fn is_quick(&self) -> bool {
        (Self::TRIED..Self::BLOCKS).contains(&self.0.load(Ordering::Relaxed))
    }

    /// Counts a call; `longest` is the longest time for which it kept its thread.
    pub(crate) fn kept(&self, longest: Duration) {
        let next = |quick: u32| match longest {
            _ if quick == Self::BLOCKS || longest >= Self::BLOCKING => Self::BLOCKS,
            _ if longest > Self::QUICK => 0,
            _ => (quick + 1).min(Self::TRIED),
        };
        // The closure always gives a value, so the update cannot fail.
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |quick| {
                Some(next(quick))
            });
    }
}
