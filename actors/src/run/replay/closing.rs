//! The entries that the engine writes at the end of the journal of a cancelled run.

use crate::{
    run::task::close::UNDO_LEG,
    vocabulary::{Entry, RunEnd, StopReason},
};

/// The number of leading entries that replaying the function must reproduce.
///
/// Earlier versions recorded nothing but the end of a run that its parent cancelled. The entries before the end close
/// the operations that were under way, and only the engine writes those. They begin after the last entry that a
/// function can cause.
pub(super) fn of_function(entries: &[Entry]) -> usize {
    let Some((Entry::RunEnded(end), before)) = entries.split_last() else {
        return entries.len();
    };
    let reason = match &**end {
        RunEnd::Stopped { reason, .. } => reason,
        _ => return entries.len(),
    };
    if !matches!(reason, StopReason::Cancelled(_)) {
        return entries.len();
    }
    let closes = |entry: &Entry| {
        match entry {
            // The start of an undo step. All other operations are started by the function.
            Entry::Started { op, .. } => op.leg == UNDO_LEG,
            Entry::Completed { .. }
            | Entry::Dropped { .. }
            | Entry::Settled { .. }
            | Entry::Activated { .. } => true,
            _ => false,
        }
    };
    let last = before.iter().rposition(|entry| !closes(entry));
    last.map_or(0, |last| last + 1)
}
