//! What becomes of a child run whose parent ends first.

use serde::{Deserialize, Serialize};

/// What happens to a child run when its parent ends, or is cancelled, first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ParentPolicy {
    /// It is cancelled, and the parent's end waits for it.
    #[default]
    Stop,
    /// It goes on when the parent ends, and is cancelled when the parent is cancelled. It keeps
    /// the parent's deadline.
    Continue,
    /// It goes on whatever becomes of the parent: a run of its own, without the parent's
    /// deadline, as if somebody else had begun it.
    Adopt,
}

impl ParentPolicy {
    /// Whether the child can outlive its parent. Such a child is the root of a tree of its own
    /// from its first entry on.
    pub fn outlives(self) -> bool {
        self != Self::Stop
    }

    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
