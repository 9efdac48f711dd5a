//! What of a journal the engine wrote when the run was cancelled from above.

use crate::{
    run::task::close::UNDO_LEG,
    vocabulary::{Entry, RunEnd, StopReason},
};

/// How many of the entries at the front rest on what the function did. A run that is cancelled from above says
/// so with its end alone: what stands before that, back to the last thing that only the function can have
/// asked for, is how the engine closed what was under way.
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
            // Of what the engine undoes.
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
