//! The forms of a judge's verdict.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The form of a judge's verdicts. It is a part of the judge's definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "form")]
pub(crate) enum Form {
    /// A score from 1 to `scale`.
    Score { scale: u32 },
    /// The better one of two answers.
    Preference,
}

/// The form of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Given {
    Score(f64),
    Prefers(Preference),
}

/// The better one of two answers, in the order in which they were shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Preference {
    /// The one that was shown first, `A`.
    First,
    /// The one that was shown second, `B`.
    Second,
    /// Neither is better.
    Tie,
}

impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Score(score) => write!(f, "{score}"),
            Self::Prefers(Preference::First) => f.write_str("A"),
            Self::Prefers(Preference::Second) => f.write_str("B"),
            Self::Prefers(Preference::Tie) => f.write_str("tie"),
        }
    }
}

impl Form {
    /// The keys under which a verdict's JSON may have its value.
    pub(super) fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Score { .. } => &["score", "rating", "grade"],
            Self::Preference => &["winner", "better", "preferred", "preference", "verdict"],
        }
    }

    /// How a judge is told to answer.
    pub(super) fn told(self) -> String {
        match self {
            Self::Score { scale } => format!(
                "Answer with one JSON object alone: `reason` holds one or two sentences, and then `score` the whole \
                 number from 1 (worst) to {scale} (best)."
            ),
            Self::Preference => String::from(
                "Answer with one JSON object alone: `reason` holds one or two sentences, and then `winner` is \"A\", \
                 \"B\" or \"tie\".",
            ),
        }
    }

    /// The schema of a verdict. The reason comes first, so that it is made before the value.
    pub(super) fn schema(self) -> Value {
        let (name, value) = match self {
            Self::Score { scale } => (
                "score",
                json!({ "type": "integer", "minimum": 1, "maximum": scale }),
            ),
            Self::Preference => (
                "winner",
                json!({ "type": "string", "enum": ["A", "B", "tie"] }),
            ),
        };
        json!({
            "type": "object",
            "properties": { "reason": { "type": "string" }, name: value },
            "required": ["reason", name],
            "additionalProperties": false,
        })
    }
}
