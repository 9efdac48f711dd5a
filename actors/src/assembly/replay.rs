//! Replay of recorded runs with the code of a registry.

use std::sync::Arc;

use super::Registry;
use crate::{
    definition::TeamSpec,
    run::{Recording, RecordingError, Replay, rehearse},
};

/// Runs the functions of a recorded tree again with the code of this registry, and says where they
/// ask for something else than what is recorded. Nothing outside is touched: every operation gets
/// its recorded result, and one that has none is not begun. A run that has not ended is replayed
/// as far as it is recorded, and one that was cancelled up to there.
///
/// The definitions are those to which the runs were pinned or, with `team`, today's.
///
/// # Errors
/// When the recording does not read, or the registry lacks a behavior that it names.
pub fn replay(
    recording: &Recording,
    registry: &Registry,
    team: Option<&TeamSpec>,
) -> Result<Replay, RecordingError> {
    let today = team.map(|team| Arc::new(registry.pin(team)));
    rehearse(recording, Arc::new(registry.clone()), today)
}
