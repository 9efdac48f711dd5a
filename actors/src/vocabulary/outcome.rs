//! The outcomes of legs and runs.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{Message, Resource, typed_text};

/// The return of an agent's function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// The task is done.
    Answer(Answer),
    /// The run stops before its end, with what it has.
    Stopped {
        /// Why.
        reason: StopReason,
        /// The best answer so far.
        partial: Option<Answer>,
    },
    /// Another agent takes over, in the same run and with the conversation.
    Transfer(Transfer),
    /// The run goes on in a fresh journal with this input, as if it had just begun.
    ContinueAs(Box<Message>),
}

impl Outcome {
    /// An answer of one text.
    pub fn answer(text: impl Into<String>) -> Self {
        Self::Answer(Answer::text(text))
    }

    /// A stop without a partial answer, for this reason.
    pub fn stopped(reason: StopReason) -> Self {
        Self::Stopped {
            reason,
            partial: None,
        }
    }

    /// A stop by which an agent hands the problem to whoever gave it the task: a parent agent finds the reason in the
    /// delegation's outcome, a caller in the run's.
    pub fn escalated(reason: impl Into<String>) -> Self {
        Self::stopped(StopReason::Escalated(reason.into()))
    }

    /// The answer's text, the partial answer's, or nothing.
    pub fn text(&self) -> &str {
        self.as_answer().map_or("", |answer| &answer.text)
    }

    /// The answer, whole or partial.
    pub fn as_answer(&self) -> Option<&Answer> {
        match self {
            Self::Answer(answer) => Some(answer),
            Self::Stopped { partial, .. } => partial.as_ref(),
            Self::Transfer(_) | Self::ContinueAs(_) => None,
        }
    }

    /// Why the run stopped, when it stopped before its end.
    pub fn stop_reason(&self) -> Option<&StopReason> {
        match self {
            Self::Stopped { reason, .. } => Some(reason),
            _ => None,
        }
    }

    /// The answer, where the task was done.
    ///
    /// # Errors
    /// Why there is none: the run stopped before its end, perhaps with a partial answer, or goes on
    /// elsewhere.
    pub fn into_answer(self) -> Result<Answer, NoAnswer> {
        match self {
            Self::Answer(answer) => Ok(answer),
            Self::Stopped { reason, partial } => Err(NoAnswer::Stopped { reason, partial }),
            Self::Transfer(_) | Self::ContinueAs(_) => Err(NoAnswer::GoesOn),
        }
    }

    /// The answer as a value of this type, where the task was done and the answer is JSON that fits the type (see
    /// [`Agent::output`](crate::run::Agent::output)).
    ///
    /// # Errors
    /// Why there is no answer, or why the answer does not fit the type.
    pub fn into_value<T: DeserializeOwned>(self) -> Result<T, NoAnswer> {
        let answer = self.into_answer()?;
        typed_text(&answer.text).map_err(|error| NoAnswer::Unfit {
            wanted: std::any::type_name::<T>(),
            fault: error.to_string(),
            answer: Box::new(answer),
        })
    }

    /// The answer as a type, when it is JSON.
    ///
    /// # Errors
    /// The misfit, or that there is no answer.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        typed_text(self.text())
    }

    /// The conversation's new messages.
    pub fn messages(&self) -> &[Arc<Message>] {
        match self {
            Self::Answer(answer) => &answer.messages,
            Self::Stopped { partial, .. } => partial.as_ref().map_or(&[], |a| &a.messages),
            Self::Transfer(transfer) => &transfer.messages,
            Self::ContinueAs(_) => &[],
        }
    }
}

/// Why an outcome has no answer, or none of the wanted type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoAnswer {
    /// The run stopped before its task was done.
    #[error("the run stopped before its task was done: {reason}")]
    Stopped {
        /// Why.
        reason: StopReason,
        /// The best answer so far.
        partial: Option<Answer>,
    },
    /// The answer does not fit the wanted type.
    #[error(
        "the answer is no {wanted}: {fault}; give the agent this type by `Agent::output`, so that \
         its model is held to it"
    )]
    Unfit {
        /// The name of the type.
        wanted: &'static str,
        /// The misfit.
        fault: String,
        /// The answer.
        answer: Box<Answer>,
    },
    /// Another agent or another journal carries the task on, so there is no answer yet.
    #[error("the task goes on in another leg, so there is no answer yet")]
    GoesOn,
}

/// A run's answer. Printed, it is its text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Answer {
    /// The text for the caller.
    pub text: String,
    /// The words since the turn began, ending with the answer. An empty list stands for the answer alone. The
    /// session keeps these messages; the run's own journal does not repeat them.
    #[serde(skip)]
    pub messages: Vec<Arc<Message>>,
    /// The objection of a policy, where the answer is given in spite of that objection.
    pub flagged: Option<String>,
}

impl Answer {
    /// An answer of one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// Sets what was said since the turn began, the answer last.
    #[must_use]
    pub fn with_messages(mut self, messages: Vec<Arc<Message>>) -> Self {
        self.messages = messages;
        self
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The next leg of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Transfer {
    /// The agent that takes over.
    pub to: String,
    /// The request to the receiver, in the words of the agent that hands over.
    pub request: Option<String>,
    /// Whether the conversation comes back when the receiver, or an agent to which the receiver hands it on, is done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub returns: bool,
    /// The words since the leg began.
    #[serde(skip)]
    pub messages: Vec<Arc<Message>>,
    /// Whether this transfer gives the conversation back.
    #[serde(skip)]
    pub(crate) is_return: bool,
}

impl Transfer {
    /// A transfer to this agent.
    pub fn to(agent: impl Into<String>) -> Self {
        Self {
            to: agent.into(),
            request: None,
            returns: false,
            messages: Vec::new(),
            is_return: false,
        }
    }

    /// Asks for the conversation back, once the receiver has answered or handed the problem back. It comes back in a
    /// new leg, with everything that was said.
    #[must_use]
    pub fn returning(mut self) -> Self {
        self.returns = true;
        self
    }

    /// Sets the request to the receiver.
    #[must_use]
    pub fn request(mut self, request: impl Into<String>) -> Self {
        self.request = Some(request.into());
        self
    }

    /// Sets what was said since the leg began.
    #[must_use]
    pub fn with_messages(mut self, messages: Vec<Arc<Message>>) -> Self {
        self.messages = messages;
        self
    }
}

/// Why a run ended before its task was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// The agent's bound on steps.
    MaxSteps(u32),
    /// A budget was used up before the next act.
    BudgetExhausted(Resource),
    /// The task was done, but its last act went over a budget.
    FinishOverBudget(Resource),
    /// The model said nothing, several times in a row.
    EmptyTurns(u32),
    /// The model did not call the tool that ends the task.
    NoToolCalls,
    /// The deadline passed.
    Deadline,
    /// Somebody cancelled the run, for this reason.
    Cancelled(String),
    /// Nothing was recorded for this many seconds, and a run that is silent for so long is given up. The run ends as
    /// failed, with [`ErrorKind::Expired`](super::ErrorKind::Expired).
    Expired(u64),
    /// An agent handed the problem to its parent.
    Escalated(String),
    /// The conversation was transferred too often without an answer.
    TransferLimit(u32),
    /// A policy rejected the answer too often.
    GaveUp(String),
    /// A loop was told to end.
    LoopExited,
    /// The model's answer reached the bound on its tokens; the partial answer is the text before the cut.
    Truncated,
    /// The model's provider held the answer back, or a part of it.
    ContentFilter,
    /// A reason that a behavior defines.
    Other(String),
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MaxSteps(steps) => write!(f, "the bound of {steps} steps was reached"),
            Self::BudgetExhausted(what) => write!(f, "the budget of {what} is used up"),
            Self::FinishOverBudget(what) => write!(f, "finished over the budget of {what}"),
            Self::EmptyTurns(turns) => write!(f, "the model said nothing {turns} times in a row"),
            Self::NoToolCalls => f.write_str("the model did not call the finishing tool"),
            Self::Deadline => f.write_str("the deadline passed"),
            Self::Cancelled(reason) => write!(f, "cancelled: {reason}"),
            Self::Expired(silent) => write!(f, "expired: nothing was recorded for {silent} s"),
            Self::Escalated(reason) => write!(f, "escalated: {reason}"),
            Self::TransferLimit(bound) => write!(f, "more than {bound} transfers in one run"),
            Self::GaveUp(reason) => write!(f, "gave up: {reason}"),
            Self::LoopExited => f.write_str("the loop was told to end"),
            Self::Truncated => f.write_str(
                "the model's answer was cut off at its bound on tokens: raise max_tokens or ask for less",
            ),
            Self::ContentFilter => f.write_str("the model's provider held its answer back"),
            Self::Other(reason) => f.write_str(reason),
        }
    }
}
