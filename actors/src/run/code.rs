//! The code behind the names of a definition, as a run asks for it.

use std::{collections::BTreeSet, fmt, sync::Arc};

use super::{BehaviorHandle, PolicyHandle};
use crate::{
    contract::{InterceptorHandle, ModelHandle, ToolHandle},
    definition::{AgentSpec, DefinitionError, Pinned, PinnedAgent, TeamSpec},
};

/// A model, and the interceptors around its calls.
#[derive(Clone, Debug)]
pub(crate) struct ModelCode {
    /// The model.
    pub(crate) model: ModelHandle,
    /// The interceptors around each attempt, from the outermost on.
    pub(crate) chain: Arc<[InterceptorHandle]>,
}

/// A tool, and the interceptors around its calls.
#[derive(Clone, Debug)]
pub(crate) struct ToolCode {
    /// The tool.
    pub(crate) tool: ToolHandle,
    /// The interceptors around each call, from the outermost on.
    pub(crate) chain: Arc<[InterceptorHandle]>,
}

/// The code behind the names of a definition. A run asks for it by name, and knows no registry.
pub(crate) trait Code: fmt::Debug + Send + Sync {
    /// The model that an agent calls so; the error says which there are.
    fn model_of(&self, agent: &PinnedAgent, name: &str) -> Result<ModelCode, String>;

    /// The tool that an agent calls so; the error says which there are.
    fn tool_of(&self, agent: &PinnedAgent, name: &str) -> Result<ToolCode, String>;

    /// The interceptors around a tool's calls, from the outermost on.
    fn tool_chain(&self, name: &str) -> Arc<[InterceptorHandle]>;

    /// An agent's behavior, made from its settings. The error says what is missing.
    fn behavior_of(&self, agent: &PinnedAgent) -> Result<BehaviorHandle, String>;

    /// An agent's policies by name, made from their settings. The error says what is missing.
    fn policies_of(&self, agent: &PinnedAgent) -> Result<Vec<(String, PolicyHandle)>, String>;

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
