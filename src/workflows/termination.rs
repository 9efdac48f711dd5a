//! When a conversation or a loop is over.

use std::ops::{BitAnd, BitOr, Not};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Utterance;

/// A condition on the conversation that ends a workflow. Conditions are combined by `|`, `&` and
/// `!`, or in a file by `any`, `all` and `not`.
///
/// ```
/// use ghostlight::workflows::{Utterance, Termination};
///
/// let over = Termination::text("approved") & !Termination::text("not approved")
///     | Termination::max_turns(6);
/// assert!(!over.is_met(&[Utterance::new("critic", "Not approved yet.")]));
/// assert!(over.is_met(&[Utterance::new("critic", "APPROVED.")]));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Termination {
    /// There are this many utterances.
    MaxTurns(u32),
    /// One of them contains this text, whatever its letters' case.
    Text(String),
    /// This member has spoken.
    Speaker(String),
    /// All of these hold; none is true.
    All(Vec<Termination>),
    /// One of these holds; none is false.
    Any(Vec<Termination>),
    /// This does not hold.
    Not(Box<Termination>),
}

impl Termination {
    /// The condition that this many turns were taken.
    pub fn max_turns(turns: u32) -> Self {
        Self::MaxTurns(turns)
    }

    /// The condition that somebody has said this.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Whether it holds after all these utterances.
    pub fn is_met(&self, said: &[Utterance]) -> bool {
        let mut listening = Listening::new(self);
        said.iter().for_each(|said| listening.hear(said));
        listening.is_over()
    }

    /// Replaces what this utterance makes true for good.
    fn hear(&mut self, said: &Utterance) {
        let is_true = match self {
            Self::Text(text) => said.text.to_lowercase().contains(&text.to_lowercase()),
            Self::Speaker(name) => said.by == *name,
            Self::All(conditions) | Self::Any(conditions) => {
                conditions.iter_mut().for_each(|one| one.hear(said));
                false
            }
            Self::Not(condition) => {
                condition.hear(said);
                false
            }
            Self::MaxTurns(_) => false,
        };
        if is_true {
            *self = Self::All(Vec::new());
        }
    }

    fn holds_after(&self, turns: usize) -> bool {
        match self {
            Self::MaxTurns(most) => turns >= *most as usize,
            Self::Text(_) | Self::Speaker(_) => false,
            Self::All(conditions) => conditions.iter().all(|one| one.holds_after(turns)),
            Self::Any(conditions) => conditions.iter().any(|one| one.holds_after(turns)),
            Self::Not(condition) => !condition.holds_after(turns),
        }
    }
}

/// A condition in the middle of a conversation. Each utterance is looked at once, however long the conversation is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Listening {
    /// The condition, with what has become true replaced.
    open: Termination,
    turns: usize,
}

impl Listening {
    pub(super) fn new(until: &Termination) -> Self {
        let open = until.clone();
        Self { open, turns: 0 }
    }

    pub(super) fn hear(&mut self, said: &Utterance) {
        self.turns += 1;
        self.open.hear(said);
    }

    pub(super) fn is_over(&self) -> bool {
        self.open.holds_after(self.turns)
    }
}

impl BitAnd for Termination {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self::All(vec![self, other])
    }
}

impl BitOr for Termination {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self::Any(vec![self, other])
    }
}

impl Not for Termination {
    type Output = Self;

    fn not(self) -> Self {
        Self::Not(Box::new(self))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn said(texts: &[&str]) -> Vec<Utterance> {
        texts
            .iter()
            .map(|text| Utterance::new("a", *text))
            .collect()
    }

    #[test]
    fn a_condition_reads_as_it_is_written_in_a_file() {
        let read: Termination = serde_json::from_value(
            json!({"any": [{"all": [{"text": "Done"}, {"not": {"speaker": "b"}}]}, {"max_turns": 3}]}),
        )
        .unwrap();
        assert!(read.is_met(&said(&["well done"])));
        assert!(!read.is_met(&said(&["no", "no"])));
        assert!(read.is_met(&said(&["no", "no", "no"])));
        assert!(!read.is_met(&[Utterance::new("b", "done")]));
    }

    proptest! {
        #[test]
        fn the_operators_are_those_of_logic(
            turns in 0u32..5, texts in prop::collection::vec("[a-c]{1,2}", 0..5), word in "[a-c]",
        ) {
            let spoken: Vec<Utterance> = texts.iter().map(|text| Utterance::new("x", text.as_str())).collect();
            let (left, right) = (Termination::max_turns(turns), Termination::text(word));
            let (l, r) = (left.is_met(&spoken), right.is_met(&spoken));
            prop_assert_eq!((left.clone() & right.clone()).is_met(&spoken), l && r);
            prop_assert_eq!((left.clone() | right.clone()).is_met(&spoken), l || r);
            prop_assert_eq!((!left.clone()).is_met(&spoken), !l);
            // Without negation, a condition that holds stays true as more is said.
            if let Some((_, before)) = spoken.split_last() {
                prop_assert!(!(left.clone() | right.clone()).is_met(before) || (left | right).is_met(&spoken));
            }
        }
    }
}
