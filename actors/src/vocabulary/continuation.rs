//! How an unfinished tool call continues.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Question;

/// How an unfinished tool call continues: a person or the agent's model is asked first, or some time passes, and then
/// the tool is called again with this.
///
/// It is recorded with the call, so an answer may come, or a job elsewhere may end, days and restarts later. A tool
/// whose effect is `once` must have its effect in the last part alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Continuation {
    /// The state with which the tool goes on, in a form of its own. The journal keeps it, so it must not hold secrets.
    pub state: String,
    /// The question that a person is asked first, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<Box<Question>>,
    /// The text that the agent's model is asked first, if there is one. The call of the model is an operation of the run:
    /// it is recorded, charged to the run's budgets, and passes the interceptors. It has no part in the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The pause before the next part, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_ms: Option<u64>,
    /// Whether the next part may be repeated because it only reads, although the tool's effect may not.
    #[serde(default)]
    pub repeatable: bool,
}

impl Continuation {
    /// The call goes on at once.
    pub fn of(state: impl Into<String>) -> Self {
        Self {
            state: state.into(),
            question: None,
            prompt: None,
            after_ms: None,
            repeatable: false,
        }
    }

    /// The call goes on when a person has answered this question.
    pub fn asking(question: Question, state: impl Into<String>) -> Self {
        Self {
            question: Some(Box::new(question)),
            ..Self::of(state)
        }
    }

    /// The call goes on when the agent's model has answered this text, or has failed to
    /// ([`Continued::failure`]).
    pub fn consulting(prompt: impl Into<String>, state: impl Into<String>) -> Self {
        Self {
            prompt: Some(prompt.into()),
            ..Self::of(state)
        }
    }

    /// Sets the pause before the next part.
    #[must_use]
    pub fn after(mut self, pause: Duration) -> Self {
        self.after_ms = Some(u64::try_from(pause.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// Marks the next part as one that only reads and may be repeated.
    #[must_use]
    pub fn repeatable(mut self) -> Self {
        self.repeatable = true;
        self
    }
}

/// The state with which an unfinished call goes on: that which its tool returned, and the answer since.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Continued {
    /// The state that the tool returned.
    pub state: String,
    /// The answer of a person, or the model's text; `None` where nobody was asked, or nobody answered in time.
    pub answer: Option<Value>,
    /// Why the model gave no answer, where it was asked and failed.
    pub failure: Option<String>,
}

impl Continued {
    /// A continuation with this state and answer.
    pub fn with(state: impl Into<String>, answer: Option<Value>) -> Self {
        Self {
            state: state.into(),
            answer,
            failure: None,
        }
    }

    /// Says why the model gave no answer.
    #[must_use]
    pub fn failed(mut self, why: impl Into<String>) -> Self {
        self.failure = Some(why.into());
        self
    }
}
