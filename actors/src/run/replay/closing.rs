//! The entries that the engine writes at the end of the journal of a cancelled run.

use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::{
    run::task::close::UNDO_LEG,
    vocabulary::{Entry, ErrorKind, OperationError, RunEnd, StopReason},
};

/// The number of leading entries that replaying the function must reproduce.
///
/// A run whose parent cancels it has no entry for the cancellation but its end. The entries before the end close the
/// operations that were under way, and only the engine writes those. They begin after the last entry that a function
/// can cause.
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

/// The place of the first call that the engine closed because the run's parent cancelled it. The function was never
/// told of what was closed.
pub(in crate::run) fn first_closed<'a>(entries: impl Iterator<Item = &'a Entry>) -> Option<usize> {
    let entries: Vec<Entry> = entries.cloned().collect();
    let function = of_function(&entries);
    let is_closed = |entry: &Entry| match entry {
        Entry::Completed { result, .. } => is_cancelled(result),
        _ => false,
    };
    let first = entries[function..].iter().position(is_closed)?;
    Some(function + first)
}

fn is_cancelled(result: &RawValue) -> bool {
    let result = serde_json::from_str::<Result<IgnoredAny, OperationError>>(result.get());
    matches!(result, Ok(Err(error)) if error.kind == ErrorKind::Cancelled)
}
