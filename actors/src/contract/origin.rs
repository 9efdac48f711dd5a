//! On whose behalf a call is made, and who approved it.

use serde::Serialize;

use crate::vocabulary::{Approved, RunId, SessionId};

/// On whose behalf a call is made, and who approved it: what an audit records beside the call itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Origin {
    /// The session of the run, where it has one.
    pub session: Option<SessionId>,
    /// The root of the tree of runs that the run belongs to. A delegated run has no session, and shares this with the run
    /// that delegated to it. An audit names the run itself.
    #[serde(skip)]
    pub root: Option<RunId>,
    /// The owner of the session, where it has one.
    pub user: Option<String>,
    /// The agent whose function makes the call.
    pub agent: String,
    /// The agents that made this agent, from the agent of the team on, and those above it that were made with it; nobody
    /// where the team has the agent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub makers: Vec<String>,
    /// The decision about a tool call that needed approval.
    pub approval: Option<Approved>,
}

impl Origin {
    /// The names by which rules hold for the call: the agent's own, and those of its makers. A model chooses the name of an
    /// agent that it makes, so whoever looks at the agent's own name alone is escaped by making one.
    pub fn agents(&self) -> impl Iterator<Item = &str> + Clone {
        std::iter::once(&self.agent)
            .chain(&self.makers)
            .map(String::as_str)
    }
}
