//! For whom a call is made, and who said that it may be.

use serde::Serialize;

use crate::vocabulary::SessionId;

/// For whom a call is made, and who said that it may be: what an audit holds beside the call itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Origin {
    /// The session of the run, where it has one.
    pub session: Option<SessionId>,
    /// The owner of the session, where it has one.
    pub user: Option<String>,
    /// The agent whose function makes the call.
    pub agent: String,
    /// The decision by which a tool call is made that wanted approval.
    pub approval: Option<Approved>,
}

/// A decision that a call may be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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

/// What was decided of a call that is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ApprovalDecision {
    /// It may be made as it is.
    Approved,
    /// It may be made with the arguments that the person gave.
    Edited,
    /// An earlier decision of the session holds for it.
    Remembered,
}
