//! For whom a call is made, and who said that it may be.

use serde::Serialize;

use crate::vocabulary::{Approved, SessionId};

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
    /// The decision about a tool call that needed approval.
    pub approval: Option<Approved>,
}
