//! What happens to a session's turns that come at the same time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::vocabulary::RunStart;

/// What becomes of a turn that comes while another of its session is under way. Where that one
/// waits for a person's answer, [`WhileAsking`](super::WhileAsking) decides first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WhileBusy {
    /// It waits until those before it have ended, up to a bound.
    #[default]
    Queue,
    /// It is refused.
    Refuse,
    /// It is delivered to the run that is under way, as by `Run::steer`, and its sender gets that
    /// run. If the run ends without reading it, it becomes a turn of its own. The run has to be of
    /// the same owner; a turn of anybody else waits, and so does one that needs a run of its own: a
    /// dry run, or one with tools, a budget or a deadline.
    Steer,
}

impl WhileBusy {
    /// Whether turns are delivered to a run with this start, whose definition has this setting. A dry run gets none, since
    /// it would call no tool for them.
    pub(crate) fn delivers_to(self, start: &RunStart) -> bool {
        self == Self::Steer && !start.dry_run
    }
}
