//! A definition as a run keeps it from its start to its end.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{AgentSpec, TeamSpec};
use crate::vocabulary::{Digest, ToolDefinition, ToolSet};

/// A team and the definitions of its tools, stored once by content hash when a run starts.
/// Replay uses it, so a changed team file applies from the next run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pinned {
    /// The team.
    pub team: TeamSpec,
    /// Its tools, by name.
    pub tools: BTreeMap<String, Arc<ToolDefinition>>,
}

impl Pinned {
    /// The bytes that are stored, and their hash.
    pub fn encode(&self) -> (Digest, Arc<[u8]>) {
        // Specs hold text keys and finite numbers only, so encoding cannot fail.
        let bytes = serde_json::to_vec(self).unwrap_or_default();
        (Digest::of(&bytes), bytes.into())
    }

    /// The definition of these bytes.
    ///
    /// # Errors
    /// What does not fit.
    pub fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }

    /// An agent of the team with all that its function asks for on every step.
    pub fn agent(self: &Arc<Self>, name: &str) -> Option<PinnedAgent> {
        let path = self.team.path(name)?;
        let spec = Arc::new(self.team.find(name)?.clone());
        // The nearest model named on the way up.
        let named = path
            .iter()
            .rev()
            .filter_map(|name| self.team.find(name)?.model.clone());
        let model = named
            .into_iter()
            .next()
            .unwrap_or_else(|| "default".to_owned());
        let tools = spec
            .tools
            .iter()
            .filter_map(|tool| self.tools.get(tool).cloned());
        let tools: ToolSet = tools.collect();
        let parts = [self.team.instructions.trim(), spec.instructions.trim()];
        let instructions: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        Some(PinnedAgent {
            instructions: instructions.join("\n\n").into(),
            team: self.clone(),
            path,
            spec,
            model,
            tools,
        })
    }
}

/// An agent of a pinned team.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PinnedAgent {
    /// The team.
    pub team: Arc<Pinned>,
    /// The names from the root's to this agent's.
    pub path: Vec<String>,
    /// The agent.
    pub spec: Arc<AgentSpec>,
    /// The registered name of its model.
    pub model: String,
    /// Its own tools, without those that reach other agents.
    pub tools: ToolSet,
    /// The team's instructions and its own.
    pub instructions: Arc<str>,
}
