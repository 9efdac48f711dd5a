//! The code behind the names of a definition, as a run asks for it.

use std::{collections::BTreeSet, fmt, sync::Arc};

use super::calls::{ModelCode, ToolCode};
use crate::{
    contract::InterceptorHandle,
    definition::{AgentSpec, DefinitionError, Pinned, PinnedAgent, TeamSpec},
};

/// The code of calls and messages. A run asks for it by name, and knows no registry.
pub(crate) trait Code: fmt::Debug + Send + Sync {
    /// The model that an agent calls so; the error says which there are.
    fn model_of(&self, agent: &PinnedAgent, name: &str) -> Result<ModelCode, String>;

    /// The tool that an agent calls so; the error says which there are.
    fn tool_of(&self, agent: &PinnedAgent, name: &str) -> Result<ToolCode, String>;

    /// The interceptors around a tool's calls, from the outermost on.
    fn tool_chain(&self, name: &str) -> Arc<[InterceptorHandle]>;

    /// The names of the messages that a run of this agent receives, itself or after it has handed its conversation on.
    /// `None` where it may be any: the agent does not say, and its code may receive messages. The conversation of a child
    /// run stays in the agent's part of the tree.
    fn received_by(&self, team: &TeamSpec, agent: &str, is_child: bool)
    -> Option<BTreeSet<String>>;

    /// An agent that a run of a pinned team makes, with the rules of its maker, as a team of its own: what the team says
    /// for all, and the tools as they are pinned there. Its name and all that it names is checked.
    ///
    /// # Errors
    /// The first fault.
    fn pin_made(
        &self,
        agent: AgentSpec,
        maker: (&Pinned, &PinnedAgent),
    ) -> Result<Pinned, DefinitionError>;
}
