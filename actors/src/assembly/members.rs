//! The tools that the agents of a team have from toolsets, by their names.

use std::collections::{BTreeMap, BTreeSet};

use crate::contract::ToolsetHandle;

/// The toolset from which an agent first had a tool, by agent and tool.
pub(crate) type ToolSources = BTreeMap<String, BTreeMap<String, String>>;

pub(super) fn owners_in(sources: ToolSources) -> impl Iterator<Item = ((String, String), String)> {
    sources.into_iter().flat_map(|(agent, tools)| {
        let of_tool = move |(tool, toolset)| ((agent.clone(), tool), toolset);
        tools.into_iter().map(of_tool)
    })
}

pub(super) fn sources_of(owners: BTreeMap<(String, String), String>) -> ToolSources {
    let mut sources = ToolSources::new();
    for ((agent, tool), toolset) in owners {
        sources.entry(agent).or_default().insert(tool, toolset);
    }
    sources
}

/// The tools that agents have from toolsets.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    /// By agent and toolset, in the toolset's order.
    pub(super) of: BTreeMap<(String, String), Vec<String>>,
    /// The toolset from which an agent first had a tool of a name, by agent and tool. The name stays its own: what
    /// another server offers later under that name never takes the place of what was approved and trusted.
    pub(super) owners: BTreeMap<(String, String), String>,
    /// Those of them that were known before the toolsets were asked.
    pub(super) known: BTreeMap<(String, String), String>,
    /// The toolsets with the revision at which they were asked.
    pub(super) asked: Vec<(ToolsetHandle, u64)>,
    /// The toolsets that had no tools when they were asked.
    pub(super) failed: BTreeSet<String>,
}

impl Members {
    /// The tools that an agent has under this name, if it is a toolset's.
    pub(super) fn named(&self, agent: &str, toolset: &str) -> Option<&[String]> {
        let key = (agent.to_owned(), toolset.to_owned());
        self.of.get(&key).map(Vec::as_slice)
    }

    /// The tools that an agent names by this: those of a toolset, or the tool itself.
    pub(super) fn all<'a>(&'a self, agent: &str, name: &'a String) -> &'a [String] {
        let members = self.named(agent, name);
        members.unwrap_or(std::slice::from_ref(name))
    }

    /// Whether another toolset was known to have this name before, at this agent.
    pub(super) fn is_known_of_another(&self, key: &(String, String), toolset: &str) -> bool {
        self.known.get(key).is_some_and(|owner| owner != toolset)
    }

    /// Whether a tool is a member of a toolset of this name, at any agent.
    pub(super) fn holds(&self, toolset: &str, tool: &str) -> bool {
        let mut of = self.of.iter().filter(|((_, name), _)| name == toolset);
        of.any(|(_, tools)| tools.iter().any(|name| name == tool))
    }

    /// Whether any toolset has this name.
    pub(super) fn has_toolset(&self, name: &str) -> bool {
        self.of.keys().any(|(_, toolset)| toolset == name)
    }
}
