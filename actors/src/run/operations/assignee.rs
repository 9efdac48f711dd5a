use std::sync::Arc;

use crate::{
    definition::{AgentSpec, ContextSpec, Pinned},
    run::OperationContext,
    vocabulary::{Begun, Digest, ErrorKind, OperationError, canonical},
};

/// A definition as it is stored, under its content hash.
type Stored = (Digest, Arc<[u8]>);

/// The agent that gets a task.
///
/// ```
/// use ghostlight_actors::{
///     definition::AgentSpec,
///     run::RunContext,
///     vocabulary::{AgentError, Outcome},
/// };
///
/// async fn ask_two(cx: RunContext) -> Result<Outcome, AgentError> {
///     let facts = cx.delegate("researcher", "When was Ulm founded?").await?;
///     let mut critic = AgentSpec::new("critic");
///     critic.instructions = "Find what is wrong with it.".to_owned();
///     let doubts = cx.delegate(critic, facts.text).await?;
///     Ok(Outcome::answer(doubts.text))
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Assignee {
    /// An agent of the team, by its name.
    Named(String),
    /// An agent that is made for this task. Its definition may name only registered things. The
    /// definition is stored when the agent's run begins, and that run is pinned to it. The agent
    /// has the team's instructions and, if it names no model, its maker's model. It is alone in its
    /// team: it hands the conversation only to agents of its own.
    ///
    /// It has the rules of its maker: the policies that are inherited, the approval of each tool for which it has no rule
    /// of its own, and what interceptors say of the maker by its name.
    Made(Box<AgentSpec>),
    /// An agent that a model makes for this task, with the tool `create_agent`. It has the rules of its maker, and the
    /// bound on its maker's requests.
    MadeByModel(Box<AgentSpec>),
}

impl Assignee {
    /// The agent's name.
    pub fn name(&self) -> &str {
        match self {
            Self::Named(name) => name,
            Self::Made(agent) | Self::MadeByModel(agent) => &agent.name,
        }
    }

    /// The bytes that identify it in an operation's digest.
    pub(super) fn identity(&self) -> Vec<u8> {
        match self {
            Self::Named(name) => name.as_bytes().to_vec(),
            Self::Made(agent) | Self::MadeByModel(agent) => canonical::to_vec(&**agent),
        }
    }

    /// The definition to which the agent's child run is pinned, and its stored form if it is not
    /// the parent's definition.
    pub(super) fn definition(
        &self,
        cx: &OperationContext,
    ) -> Result<(Arc<Pinned>, Option<Stored>), OperationError> {
        let leg = &cx.leg;
        let mut agent = match self {
            Self::Named(_) => return Ok((leg.pinned.clone(), None)),
            Self::Made(agent) | Self::MadeByModel(agent) => AgentSpec::clone(agent),
        };
        if matches!(self, Self::MadeByModel(_)) {
            bound_requests(&mut agent, leg.agent.spec.context.as_ref());
        }
        let name = agent.name.clone();
        let refused = |reason: String| {
            let message = format!("the agent {name:?} cannot be made: {reason}");
            OperationError::new(ErrorKind::Malformed, message)
        };
        let pinned = leg.code.pin_made(agent, (&leg.pinned, &leg.agent));
        let pinned = match pinned {
            Ok(pinned) => pinned,
            // The agent's run exists, and its journal names its definition.
            Err(_) if matches!(cx.started, Some(Begun::Child(_))) => {
                return Ok((leg.pinned.clone(), None));
            }
            Err(fault) => return Err(refused(fault.to_string())),
        };
        let stored = pinned.encode();
        Ok((Arc::new(pinned), Some(stored)))
    }
}

/// Holds the requests of a made agent, and of the agents below it, to the bound of its maker, whose model they ask.
fn bound_requests(agent: &mut AgentSpec, context: Option<&ContextSpec>) {
    agent.context = context.cloned();
    for below in &mut agent.agents {
        bound_requests(below, context);
    }
}

impl<T: Into<String>> From<T> for Assignee {
    fn from(name: T) -> Self {
        Self::Named(name.into())
    }
}

impl From<AgentSpec> for Assignee {
    fn from(agent: AgentSpec) -> Self {
        Self::Made(Box::new(agent))
    }
}
