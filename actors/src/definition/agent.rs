//! One agent as plain data.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::{
    ApprovalRule, BehaviorSpec, ClarifySpec, ContextSpec, CreateAgentSpec, MemorySpec, OnHandoff,
    PolicySpec,
};
use crate::vocabulary::{Budget, ModelSettings};

/// The prefix of the name under which an agent's own code is registered as a behavior.
pub(crate) const OWN_BEHAVIOR: &str = "agent:";

/// An agent: who it is, what it may use, how it works, and who is below it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct AgentSpec {
    /// The name: letters, digits, `_` and `-`, unique in the team.
    pub name: String,
    /// The name that people are shown instead: one line of 1 to 80 characters. Models, files and code use the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// What it is good for, in words for other agents' models.
    pub description: String,
    /// What it is to do and how, in words for its own model.
    pub instructions: String,
    /// The registered name of its model; its parent's, or else `default`, when left out.
    pub model: Option<String>,
    /// Sampling and limits of its model calls.
    pub settings: ModelSettings,
    /// Whether its model calls stream.
    pub stream: bool,
    /// The registered names of its tools.
    pub tools: Vec<String>,
    /// The toolsets from which a run's agent has its tools, by tool. Only the team that a run is pinned to has them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(skip)]
    pub(crate) tool_sources: BTreeMap<String, String>,
    /// The tools before whose calls somebody is asked, by their names; `*` stands for all that are
    /// not named. For a tool that is not listed its own definition counts. The engine's own tools
    /// (`delegate_to_…`, `transfer_to_…`, `publish`, `create_agent`) cannot be listed, and an
    /// unknown name is refused.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub approval: BTreeMap<String, ApprovalRule>,
    /// Whether its model may ask people, with the tool `clarify`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clarify: Option<ClarifySpec>,
    /// Whether its model may make agents, with the tool `create_agent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create_agent: Option<CreateAgentSpec>,
    /// The topics on which its model may publish, with the tool `publish`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub publishes: Vec<String>,
    /// The topics whose events start it: each event is a task, done in a run that outlives its
    /// publisher's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub starts_on: Vec<String>,
    /// The stable names of the messages that its function receives
    /// ([`RunContext::receive`](crate::run::RunContext::receive)). Where there are any, whoever tells it a message of
    /// another name hears which it receives. Any name is taken when left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub receives: Vec<String>,
    /// How many tool calls of one step run at once.
    pub parallel_tools: Option<u32>,
    /// How many tool calls of one answer are run, at least 1; 1,000 when left out. The model is told that the
    /// others were not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_calls: Option<u32>,
    /// How it works.
    pub behavior: BehaviorSpec,
    /// What watches over it, in order.
    pub policies: Vec<PolicySpec>,
    /// How its requests are kept in bounds; not at all when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextSpec>,
    /// What it remembers from one run to the next; nothing when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemorySpec>,
    /// How many answers its policies may reject before the best one is given, flagged; 8 when
    /// left out.
    pub max_rejections: Option<u32>,
    /// The most steps (model calls with their tool calls) of a leg.
    pub max_steps: Option<u32>,
    /// JSON Schema, of an object, that each task must fit which is delegated to it. The model that
    /// delegates is shown the schema, and a task that does not fit is refused. Any text when left
    /// out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// JSON Schema that its answer must fit.
    pub output: Option<Value>,
    /// The bounds of its child runs, beyond those of the run that delegates.
    pub budget: Budget,
    /// How its parent reaches it.
    pub reach: Reach,
    /// Whether its answer to a task that a model delegated is the answer of that model's agent too,
    /// which then says nothing of its own.
    #[serde(skip_serializing_if = "super::form::is_default")]
    pub ends_step: bool,
    /// Where it may hand the conversation.
    pub transfers: TransferRules,
    /// How it takes over a conversation that is handed to it.
    #[serde(skip_serializing_if = "super::form::is_default")]
    pub on_handoff: OnHandoff,
    /// The agents below it.
    #[serde(deserialize_with = "below")]
    pub agents: Vec<AgentSpec>,
}

/// Reads the agents below one. Each is kept behind a pointer until all are read, so that a level of a deep team
/// takes no more of a thread's stack than it must: an agent has a kilobyte, and code that is not optimised keeps many
/// copies of what it hands on.
fn below<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<AgentSpec>, D::Error> {
    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Below(Box<AgentSpec>);
    let read = Vec::<Below>::deserialize(deserializer)?;
    Ok(read.into_iter().map(|below| *below.0).collect())
}

impl AgentSpec {
    /// An agent with this name and nothing else.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// The name that people see: the display name, or else the name.
    pub fn display_name(&self) -> &str {
        self.display_name.as_deref().unwrap_or(&self.name)
    }

    /// The agent's type: the registered name of its behavior, such as `function_calling` or `parallel`; `custom`
    /// where the behavior is its own code.
    pub fn agent_type(&self) -> &str {
        match self.behavior.name.starts_with(OWN_BEHAVIOR) {
            true => "custom",
            false => &self.behavior.name,
        }
    }

    /// What is wrong with the display name; `None` for a good one.
    pub(super) fn display_name_fault(&self) -> Option<&'static str> {
        let name = self.display_name.as_deref()?;
        let is_shown = name.chars().all(|c| !c.is_control()) && !name.trim().is_empty();
        let fits = is_shown && name.chars().count() <= 80;
        (!fits).then_some("use one line of 1 to 80 characters")
    }

    /// How many tool calls of one step run at once: the setting, or else 8.
    pub fn tools_at_once(&self) -> usize {
        self.parallel_tools.unwrap_or(8).max(1) as usize
    }

    /// This agent and all below it, from the top, each with the names above it.
    pub fn walk(&self) -> Vec<(Vec<&str>, &AgentSpec)> {
        let lineages = self.lineages().into_iter();
        let walked = lineages.filter_map(|lineage| {
            let (agent, above) = lineage.split_last()?;
            Some((
                above.iter().map(|above| above.name.as_str()).collect(),
                *agent,
            ))
        });
        walked.collect()
    }

    /// The [lineages](Self::lineage) of this agent and all below it, from the top.
    pub(crate) fn lineages(&self) -> Vec<Vec<&AgentSpec>> {
        let mut found = Vec::new();
        let mut open = vec![vec![self]];
        while let Some(lineage) = open.pop() {
            let below = lineage.last().map_or(&[][..], |agent| &agent.agents);
            open.extend(below.iter().rev().map(|child| {
                let above = lineage.iter().copied();
                above.chain([child]).collect()
            }));
            found.push(lineage);
        }
        found
    }

    /// The agent of this name, in this agent's subtree.
    pub fn find(&self, name: &str) -> Option<&AgentSpec> {
        let (mut agent, mut open) = (self, Vec::new());
        while agent.name != name {
            open.push(agent.agents.iter());
            agent = loop {
                match open.last_mut()?.next() {
                    Some(next) => break next,
                    None => drop(open.pop()),
                }
            };
        }
        Some(agent)
    }

    /// The agents from this one down to the one of this name, both included.
    pub fn lineage(&self, name: &str) -> Option<Vec<&AgentSpec>> {
        let mut lineage = vec![self];
        let mut open = vec![self.agents.iter()];
        while lineage.last()?.name != name {
            // The next agent is below, beside, or beside an ancestor.
            let next = loop {
                match open.last_mut()?.next() {
                    Some(next) => break next,
                    None => {
                        open.pop();
                        lineage.pop();
                    }
                }
            };
            lineage.push(next);
            open.push(next.agents.iter());
        }
        Some(lineage)
    }
}

/// How a parent's model reaches an agent below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// By handing it the conversation.
    #[default]
    Transfer,
    /// By giving it a task and getting the result.
    Delegate,
    /// Either way.
    Both,
    /// Not at all: only code reaches it.
    Hidden,
}

impl Reach {
    /// Whether the parent may hand it the conversation.
    pub fn transfers(self) -> bool {
        matches!(self, Self::Transfer | Self::Both)
    }

    /// Whether the parent may give it a task.
    pub fn delegates(self) -> bool {
        matches!(self, Self::Delegate | Self::Both)
    }
}

/// Where an agent may hand the conversation, beside the agents below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TransferRules {
    /// To the agent above it.
    pub parent: bool,
    /// To the agents beside it.
    pub peers: bool,
}

impl Default for TransferRules {
    fn default() -> Self {
        Self {
            parent: true,
            peers: true,
        }
    }
}
