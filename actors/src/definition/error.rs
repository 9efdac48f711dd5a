//! Faults of definitions.

use std::fmt;

use super::form::MAX_DEPTH;

/// A fault in a team's definition.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DefinitionError {
    /// A name is not well formed.
    #[error("{what} name {name:?}: use 1 to 64 letters, digits, `_` or `-`")]
    Name {
        /// The kind of thing that is named, such as `agent`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// An agent has a name that is reserved for people.
    #[error("an agent is called {name:?}: that name stands for the people who write; rename it")]
    Reserved {
        /// The name.
        name: String,
    },
    /// Two agents have one name.
    #[error("two agents are called {name:?}: names are unique over the whole team; rename one")]
    Twice {
        /// The name.
        name: String,
    },
    /// Two teams of one System have one name.
    #[error("two teams are called {name:?}: a session is found by its team's name; rename one")]
    TeamTwice {
        /// The name.
        name: String,
    },
    /// An agent names a tool twice.
    #[error("agent {agent:?} names the tool {tool:?} twice: remove one")]
    ToolTwice {
        /// The agent.
        agent: String,
        /// The tool.
        tool: String,
    },
    /// An agent has two different tools of one name, of which its model could reach one only.
    #[error(
        "agent {agent:?} has two tools called {tool:?}: one comes from {source_of_one}, and one from {source_of_other}: \
         rename its own, or take one of the two away"
    )]
    ToolCollision {
        /// The agent.
        agent: String,
        /// The name of both tools.
        tool: String,
        /// The source of one of them: the agent's own tools, the engine, its behavior, or a policy.
        source_of_one: String,
        /// The source that gives it the other.
        source_of_other: String,
    },
    /// The tree has too many levels.
    #[error(
        "agent {name:?} is below the deepest level that a team may have ({})",
        MAX_DEPTH
    )]
    TooDeep {
        /// The agent.
        name: String,
    },
    /// A topic would start runs for ever.
    #[error(
        "the topic {topic:?} starts an agent that publishes on it again, itself or through others: \
         take it out of a `publishes` or a `starts_on` on the way"
    )]
    TopicCycle {
        /// The topic.
        topic: String,
    },
    /// A schedule cannot be kept.
    #[error("the schedule {name:?} cannot be kept: {reason}")]
    Schedule {
        /// Its name.
        name: String,
        /// The fault.
        reason: String,
    },
    /// A budget in money stands over a model of which nobody knows what it costs.
    #[error(
        "agent {agent:?} has a budget in money (`cost_micros`), and nobody knows what its model {model:?} ({description}) costs, so that it \
         would never be used up: give the model `prices`, put the interceptor `prices` around it, or bound `tokens`"
    )]
    Unpriced {
        /// The agent.
        agent: String,
        /// The registered name of the model.
        model: String,
        /// The model, for people.
        description: String,
    },
    /// A share for a warning is not from 1 to 100 percent.
    #[error("`budget_warnings` holds {percent}: a share of a bound is 1 to 100 percent")]
    Percent {
        /// The number.
        percent: u8,
    },
    /// The root agent is hidden, so nobody could reach it.
    #[error("the root agent {name:?} is hidden: remove its `reach`")]
    HiddenRoot {
        /// The agent.
        name: String,
    },
    /// A name has no meaning.
    #[error("{wanted_by} names the {what} {name:?}, which does not exist; there are: {known}")]
    Unknown {
        /// The one that names it.
        wanted_by: String,
        /// The kind of thing that it should name.
        what: &'static str,
        /// The name.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// One place gives a name to two different things.
    #[error(
        "two different things of the kind {what:?} are called {name:?} in {place}: rename one, or \
         replace one by the other with `Registry::with`"
    )]
    Collision {
        /// The place.
        place: String,
        /// The kind of thing that it names.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A name has different meanings at other agents, and none nearer.
    #[error(
        "{wanted_by} names the {what} {name:?}, and the agents {agents} have different ones of \
         this name: give {wanted_by} its own, or register one for the whole team"
    )]
    Ambiguous {
        /// The one that names it.
        wanted_by: String,
        /// The kind of thing that it should name.
        what: &'static str,
        /// The name.
        name: String,
        /// The agents that have the name.
        agents: String,
    },
    /// A behavior, policy or model refused its settings.
    #[error("{wanted_by}: the {what} {name:?} refuses its settings: {reason}")]
    Settings {
        /// The part of the team that has the settings.
        wanted_by: String,
        /// Their purpose.
        what: &'static str,
        /// Its name.
        name: String,
        /// The fault.
        reason: String,
    },
}

/// The message: it is what a program prints whose `main` returns the error.
impl fmt::Debug for DefinitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl DefinitionError {
    /// The error of a part of the team whose settings are refused for a reason.
    pub(crate) fn refuses(
        wanted_by: String,
        what: &'static str,
        name: &str,
    ) -> impl FnOnce(String) -> Self {
        let name = name.to_owned();
        move |reason| Self::Settings {
            wanted_by,
            what,
            name,
            reason,
        }
    }
}
