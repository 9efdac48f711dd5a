//! How a tool call goes on that has not come to its end.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Question;

/// How a tool call goes on that has not come to its end: a person is asked first, or some time passes, and then
/// the tool is called again with what it said here.
///
/// It is recorded with the call, so a question may be answered, and a job elsewhere may end, days and restarts
/// It is recorded with the call, so a question may be answered, and a job elsewhere may end, days and restarts later. A
/// tool whose effect is `once` has its effect in the last part alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Continuation {
    /// What the tool needs to go on, in words of its own. The journal keeps it, so it is no place for secrets.
    pub state: String,
    /// The question to a person who is asked first, if one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<Box<Question>>,
    /// The pause before the next part, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_ms: Option<u64>,
    /// Whether the next part may be repeated although the tool's effect may not, because it only
    /// reads.
    #[serde(default)]
    pub repeatable: bool,
}

impl Continuation {
    /// The call goes on at once.
    pub fn of(state: impl Into<String>) -> Self {
        Self {
            state: state.into(),
            question: None,
            after_ms: None,
            repeatable: false,
        }
    }

    /// The call goes on when a person has answered this.
    pub fn asking(question: Question, state: impl Into<String>) -> Self {
        Self {
            question: Some(Box::new(question)),
            ..Self::of(state)
        }
    }

    /// Sets the pause before the next part.
    #[must_use]
    pub fn after(mut self, pause: Duration) -> Self {
        self.after_ms = Some(u64::try_from(pause.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// Says that the next part only reads, and may be repeated.
    #[must_use]
    pub fn repeatable(mut self) -> Self {
        self.repeatable = true;
        self
    }
}

/// What a call goes on with: what its tool said when it had not come to its end, and what was answered since.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Continued {
    /// What the tool said that it needs.
    pub state: String,
    /// What a person answered; `None` where nobody was asked, or nobody has answered in time.
    pub answer: Option<Value>,
}

impl Continued {
    /// A continuation with this state and answer.
    pub fn with(state: impl Into<String>, answer: Option<Value>) -> Self {
        Self {
            state: state.into(),
            answer,
        }
    }
}
