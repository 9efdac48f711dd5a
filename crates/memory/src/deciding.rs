//! The worth of an item, and the likeness of two: the two decisions that a program may replace.

use serde::{Deserialize, Serialize};

use crate::{MemoryItem, SAME, SAME_COSINE, TaskRecord};

/// Decides which finished tasks are kept. The one that counts when none is given is [`Threshold`].
///
/// It may be asked several times about one task, when others write at the same time, so it has no effects.
///
/// ```
/// use ghostlight_memory::{Memory, TaskRecord, WriteDecision, WritePolicy};
///
/// /// Keeps only what somebody has checked.
/// struct Checked;
///
/// impl WritePolicy for Checked {
///     fn decide(&self, _: &str, record: &TaskRecord) -> WriteDecision {
///         match record.is_checked {
///             true => WriteDecision::store(1.0, "somebody has checked it"),
///             false => WriteDecision::leave(0.0, "nobody has checked it"),
///         }
///     }
/// }
///
/// let memory = Memory::new("memory").write_policy(Checked);
/// # let _ = memory;
/// ```
pub trait WritePolicy: Send + Sync + 'static {
    /// The decision about a task with this summary.
    fn decide(&self, summary: &str, record: &TaskRecord) -> WriteDecision;
}

/// Whether a finished task is kept, and why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WriteDecision {
    /// Whether it is kept.
    pub store: bool,
    /// Its worth, 0 to 1: the importance of its item.
    pub score: f64,
    /// The reason, for people.
    pub reason: String,
}

impl WriteDecision {
    /// It is kept, with this worth from 0 to 1.
    pub fn store(score: f64, reason: impl Into<String>) -> Self {
        Self {
            store: true,
            ..Self::leave(score, reason)
        }
    }

    /// It is not kept.
    pub fn leave(score: f64, reason: impl Into<String>) -> Self {
        Self {
            store: false,
            score,
            reason: reason.into(),
        }
    }
}

/// Keeps the tasks whose [worth](TaskRecord::worth) is at least this, 0 to 1; 0.5 is usual.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold(pub f64);

impl Default for Threshold {
    fn default() -> Self {
        Self(0.5)
    }
}

impl WritePolicy for Threshold {
    fn decide(&self, summary: &str, record: &TaskRecord) -> WriteDecision {
        let (worth, Self(least)) = (record.worth(summary), self);
        match worth >= *least {
            true => WriteDecision::store(
                worth,
                format!("it is worth {worth:.1}, and {least} is enough"),
            ),
            false => WriteDecision::leave(
                worth,
                format!("it is worth {worth:.1}, and at least {least} is kept"),
            ),
        }
    }
}

/// Decides whether a new item says the same as one that is there, so that they become one. Without one, items are the
/// same whose words are alike to [`SAME`], or whose vectors are alike to [`SAME_COSINE`].
///
/// It is asked about the [three](NEAREST) items of its kind that are most alike, and has no effects.
pub trait DuplicateCheck: Send + Sync + 'static {
    /// Whether these two say the same.
    fn is_same(&self, pair: &Alike<'_>) -> bool;
}

/// How many of the items that are there a [`DuplicateCheck`] is asked about.
pub const NEAREST: usize = 3;

/// A new item, one that is there, and how alike they are.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Alike<'i> {
    /// The new item, which has no id of its own yet that would be stored.
    pub new: &'i MemoryItem,
    /// The item that is there.
    pub before: &'i MemoryItem,
    /// How alike their words are, 0 to 1.
    pub words: f64,
    /// How alike their vectors are, 0 to 1, where both have one.
    pub meaning: Option<f64>,
}

impl Alike<'_> {
    /// How alike they are: the better of the two.
    pub(crate) fn likeness(&self) -> f64 {
        self.meaning.unwrap_or(0.0).max(self.words)
    }

    /// Whether they count as the same where no [`DuplicateCheck`] says otherwise.
    pub(crate) fn is_usually_same(&self) -> bool {
        self.words >= SAME
            || self.meaning.is_some_and(|cosine| cosine >= SAME_COSINE)
            || self.new.detail.is_none() && self.new.content == self.before.content
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_says_why_it_keeps_and_why_it_leaves() {
        let long = "twenty characters and more";
        let record = TaskRecord::new(long, long, true);
        let kept = Threshold::default().decide(long, &record);
        assert_eq!((kept.store, kept.score), (true, 0.9));
        assert!(kept.reason.contains("0.9"), "{}", kept.reason);
        let left = Threshold(0.95).decide(long, &record);
        assert_eq!((left.store, left.score), (false, 0.9));
        assert!(left.reason.contains("0.95"), "{}", left.reason);
    }
}
