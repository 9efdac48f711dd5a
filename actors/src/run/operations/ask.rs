use serde_json::Value;

use crate::{
    run::{Arrival, Begin, Operation, OperationContext, Performing, RunContext, Wait, WaitFor},
    vocabulary::{Begun, Digest, Question, ToolCall, ToolResult, ToolStatus},
};

/// A question to the world outside.
#[derive(Debug)]
pub struct Ask {
    question: Question,
}

impl Ask {
    pub(crate) fn new(question: Question) -> Self {
        Self { question }
    }
}

impl Operation for Ask {
    type Output = Value;

    fn kind(&self) -> &'static str {
        "ask"
    }

    fn name(&self) -> &str {
        self.question.call.as_ref().map_or("", |call| &call.name)
    }

    fn digest(&self) -> Digest {
        let arguments = self
            .question
            .call
            .as_ref()
            .map_or("", |call| call.arguments.text());
        Digest::of_parts(&[self.question.prompt.as_bytes(), arguments.as_bytes()])
    }

    fn begin(self, cx: OperationContext) -> Begin<Value> {
        // What was asked stands, with the point in time at which it expires.
        let question = match cx.started {
            Some(Begun::Question(question)) => question,
            _ => Box::new(self.question),
        };
        Begin::Wait(Wait {
            wait_for: WaitFor::Answer(question),
            finish: Box::new(|arrival| match arrival {
                Arrival::Answer(answer) => Ok(answer),
                other => Err(super::tool::unexpected(&other)),
            }),
        })
    }
}

/// The answer to a question for approval.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Decision {
    /// Whether it may be done.
    pub approved: bool,
    /// Why not.
    pub reason: Option<String>,
    /// Other arguments than those that the model wrote.
    pub arguments: Option<Value>,
}

impl Decision {
    /// The result of a call that was refused, as the model reads it.
    pub fn refusal(&self, call: &ToolCall) -> ToolResult {
        let reason = self.reason.as_deref();
        let reason = reason
            .map(|reason| format!(": {reason}"))
            .unwrap_or_default();
        let text = format!("A person refused this call{reason}. Do not repeat it.");
        ToolResult::new(call, ToolStatus::Denied, text)
    }
}

impl From<Value> for Decision {
    /// Reads `true`, `false`, or an object with `approved`, `reason` and `arguments`. Anything
    /// else is a refusal.
    fn from(answer: Value) -> Self {
        let approved = answer
            .as_bool()
            .or_else(|| answer.get("approved")?.as_bool());
        let reason = answer
            .get("reason")
            .and_then(Value::as_str)
            .map(str::to_owned);
        let arguments = answer
            .get("arguments")
            .filter(|value| value.is_object())
            .cloned();
        Self {
            approved: approved.unwrap_or(false),
            reason,
            arguments,
        }
    }
}

impl RunContext {
    /// Asks the world outside and waits for the answer, however long it takes: a run that waits
    /// for a person costs nothing but its rows.
    ///
    /// # Errors
    /// [`ErrorKind::Expired`](crate::vocabulary::ErrorKind::Expired) when the question expires
    /// without a default answer.
    pub fn ask(&self, question: impl Into<Question>) -> Performing<Ask> {
        self.perform(Ask::new(question.into()))
    }
}

impl From<&str> for Question {
    fn from(prompt: &str) -> Self {
        Self::new(prompt)
    }
}

impl From<String> for Question {
    fn from(prompt: String) -> Self {
        Self::new(prompt)
    }
}
