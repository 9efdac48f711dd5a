//! Killing the task that carries a run, in the middle of its work.

use crate::{actor::System, vocabulary::RunId};

/// Kills the task that carries this run in this process, in the middle of whatever it does, as a panic of the run's code
/// would. The run goes on from its record after a pause, and the crash counts as one of its own
/// ([`run_restarts`](crate::actor::SystemOptions::run_restarts)). `false` where it is not live in this process.
pub fn kill_run(system: &System, run: RunId) -> bool {
    system.kill_run(run)
}
