//! How a tool call was answered.

use serde::{Deserialize, Serialize};

use super::Arguments;

/// How a call that a model asked for got its result. Each call has one report, whoever answered it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CallReport {
    /// The arguments in effect, after changes by policies and people. In an event secrets are
    /// redacted.
    pub arguments: Arguments,
    /// Who gave the result.
    pub by: AnsweredBy,
    /// The decision about the call, where it needed approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approved>,
    /// How often the tool was attempted.
    #[serde(default)]
    pub attempts: u32,
    /// How long it took from the first attempt on, with pauses and the wait for a slot, in
    /// milliseconds; 0 for a call that was not attempted.
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
}

/// Who gave the result of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AnsweredBy {
    /// The tool.
    Tool,
    /// Another agent, to which the call gave a task or the conversation.
    Agent(String),
    /// A policy of the agent, in the place of the tool.
    Policy(String),
    /// A person who refused the call or gave its result; by the name under which the answer was
    /// given, if it named one.
    Person(Option<String>),
    /// The tool that decides about approvals of this one.
    Approver(String),
    /// The agent's own function: a call by which it ends its work, or that it does not allow now.
    Function,
    /// The engine: there is no such tool, the arguments do not fit, the call came to no end.
    Engine,
}

/// A decision about a call that needed approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Approved {
    /// Who decided: a person by the name under which the answer was given, or the tool that the rule names;
    /// `None` where the answer named nobody.
    pub by: Option<String>,
    /// What was decided.
    pub decision: ApprovalDecision,
}

impl Approved {
    /// This one decided so.
    pub(crate) fn new(by: Option<String>, decision: ApprovalDecision) -> Self {
        Self { by, decision }
    }
}

/// What was decided of a call.
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
