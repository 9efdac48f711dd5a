//! The fate of a child run whose parent ends first.

use serde::{Deserialize, Serialize};

/// The fate of a child run when its parent ends, or is cancelled, first.
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
    /// It goes on whatever happens to the parent, as if it had been begun as a run of its own. The parent's deadline
    /// does not hold for it.
    Adopt,
}

impl ParentPolicy {
    /// Whether the child can outlive its parent. From its first entry on, such a child is the root of a tree of its
    /// own.
    pub fn outlives(self) -> bool {
        self != Self::Stop
    }

    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
