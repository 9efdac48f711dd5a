//! How agents take over conversations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How an agent takes over a conversation that another one hands to it.
///
/// ```yaml
/// on_handoff: { sees: { last: 6 }, returns: true }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct OnHandoff {
    /// How much it sees of what was said before.
    pub sees: Sees,
    /// Whether the conversation goes back to the agent that handed it over, once this one has
    /// answered or hands the problem back. Otherwise its answer is the turn's, and it has the next
    /// turns too.
    pub returns: bool,
}

/// How much an agent sees of what was said before a conversation was handed to it. The conversation
/// itself stays whole, for its session and for the agents that have it later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Sees {
    /// All of it.
    #[default]
    All,
    /// What people and agents said, without calls of tools and their results.
    Spoken,
    /// This many of the last messages of people and agents.
    Last(u32),
    /// Only its request.
    Request,
}

impl OnHandoff {
    /// The default: the agent sees the whole conversation and keeps it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how much it sees of the earlier conversation.
    #[must_use]
    pub fn sees(mut self, sees: Sees) -> Self {
        self.sees = sees;
        self
    }

    /// Gives the conversation back to the agent that handed it over, once this one is done.
    #[must_use]
    pub fn returning(mut self) -> Self {
        self.returns = true;
        self
    }
}
