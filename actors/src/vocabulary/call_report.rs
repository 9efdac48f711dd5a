//! How a tool call was answered.

use serde::{Deserialize, Serialize};

use super::Arguments;

/// How a call that a model asked for got its result. Each call has exactly one report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CallReport {
    /// The arguments in effect, after changes by policies and people. In an event secrets are
    /// redacted.
    pub arguments: Arguments,
    /// The source of the result.
    pub by: AnsweredBy,
    /// The decision about the call, where it needed approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approved>,
    /// How often the tool was attempted; 0 for a call that the end of its run cut off.
    #[serde(default)]
    pub attempts: u32,
    /// How long the call took from its first attempt on, in milliseconds, pauses and the wait for a slot included; 0
    /// for a call without an attempt.
    #[serde(default)]
    pub latency_ms: u64,
}

impl CallReport {
    pub(crate) fn new(arguments: Arguments, by: AnsweredBy) -> Self {
        Self {
            arguments,
            by,
            approval: None,
            attempts: 0,
            latency_ms: 0,
        }
    }

    /// The report without the secrets in its arguments, as events give it.
    pub(crate) fn shown(&self) -> Self {
        let arguments = ghostlight_safety::redact_arguments(self.arguments.text()).into();
        Self {
            arguments,
            ..self.clone()
        }
    }
}

/// The source of a call's result.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AnsweredBy {
    /// The tool.
    Tool,
    /// Another agent, to which the call gave a task or the conversation.
    Agent(String),
    /// A policy of the agent, instead of the tool.
    Policy(String),
    /// A person who refused the call or gave its result, with the name in the answer, if there is one.
    Person(Option<String>),
    /// The tool that decides about approvals of this tool.
    Approver(String),
    /// The agent's own function, for a call that ends its work or that it does not allow now.
    Function,
    /// The engine, for a call of an unknown tool, with unfit arguments, or without an end.
    Engine,
}

/// A decision about a call that needed approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Approved {
    /// The name of the person in the answer, or the tool that the rule names; `None` where the answer has no
    /// name.
    pub by: Option<String>,
    /// The decision.
    pub decision: ApprovalDecision,
}

impl Approved {
    /// A decision with the name of its author.
    pub(crate) fn new(by: Option<String>, decision: ApprovalDecision) -> Self {
        Self { by, decision }
    }
}

/// The decision about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ApprovalDecision {
    /// It may be made as it is.
    Approved,
    /// It may be made with the arguments that the person gave.
    Edited,
    /// An earlier decision of the session holds for it.
    Remembered,
    /// It may not be made.
    Denied,
    /// It is not made: the person gave its result.
    Supplied,
}
