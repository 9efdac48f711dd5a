use std::time::Duration;

use serde_json::Value;

use super::{
    PlainOperation,
    asking::{about, asking},
};
use crate::{
    run::{Arrival, Begin, Performing, RunContext, Wait, WaitFor},
    vocabulary::{Begun, Cause, Digest, Question, ToolCall},
};

/// A question to the world outside.
pub(super) struct Ask {
    question: Question,
    digest: Digest,
    expires_after: Option<Duration>,
    /// The call that it is about.
    cause: Cause,
}

impl Ask {
    pub(super) fn new(question: Question) -> Self {
        let call = question.call.as_ref();
        let arguments = call.map_or("", |call| call.arguments.text());
        let cause = call.map(ToolCall::cause).unwrap_or_default();
        let digest = Digest::of_parts(&[question.prompt.as_bytes(), arguments.as_bytes()]);
        let question = match question.call.clone() {
            Some(call) => about(question, &call, &[]),
            None => question,
        };
        Self {
            question,
            digest,
            expires_after: None,
            cause,
        }
    }

    /// A question about a call. The call itself identifies the question, not the shown text, so a
    /// recorded question still matches when a later version hides more secrets.
    pub(super) fn about(question: Question, call: &ToolCall, what: &str) -> Self {
        let parts = [what, &call.name, call.arguments.text()];
        Self {
            question,
            digest: Digest::of_parts(&parts.map(str::as_bytes)),
            expires_after: None,
            cause: call.cause(),
        }
    }

    /// Makes this the answer if nobody answers within the time.
    pub(super) fn expires_after(mut self, time: Duration, default: Value) -> Self {
        (self.expires_after, self.question.default) = (Some(time), Some(default));
        self
    }

    /// The operation that asks it, and ends with the answer.
    pub(super) fn operation(self) -> PlainOperation<Value> {
        let Self {
            question,
            digest,
            expires_after,
            cause,
        } = self;
        let name = question.call.as_ref().map(|call| call.name.clone());
        let operation = PlainOperation::new("ask", name.unwrap_or_default(), digest, move |cx| {
            // A recorded question stays as it is, with the time at which it expires.
            let question = match cx.started {
                Some(Begun::Question(question)) => question,
                _ => {
                    let mut question = Box::new(question);
                    question.path = asking(&cx);
                    let of_team = || cx.leg.pinned.team.questions_expire;
                    if question.expires.is_none()
                        && let Some(time) = expires_after.or_else(of_team)
                    {
                        question.expires = Some(cx.now().after(time));
                    }
                    question
                }
            };
            Begin::Wait(Wait::new(
                WaitFor::Answer(question),
                |arrival| match arrival {
                    Arrival::Answer(answer) => Ok(answer),
                    other => Err(other.unexpected()),
                },
            ))
        });
        operation.caused(cause)
    }
}

impl RunContext {
    /// Asks the world outside and waits for the answer, however long it takes. A run that waits for
    /// a person costs nothing but its rows.
    ///
    /// # Errors
    /// [`ErrorKind::Expired`](crate::vocabulary::ErrorKind::Expired) when the question expires
    /// without a default answer.
    pub fn ask(&self, question: impl Into<Question>) -> Performing<PlainOperation<Value>> {
        self.perform(Ask::new(question.into()).operation())
    }
}

impl<T: Into<String>> From<T> for Question {
    fn from(prompt: T) -> Self {
        Self::new(prompt)
    }
}
