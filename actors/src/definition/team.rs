//! A team as plain data, and its checks.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ghostlight_supervisor::seconds;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    AgentSpec, CREATE_AGENT, ContextSpec, CreateAgentSpec, DefinitionError, InterceptorSpec,
    MemorySpec, PolicySpec, Reach, Schedule, WhileAsking, WhileBusy,
    form::{self, is_default, well_formed},
    schedule,
};
use crate::vocabulary::{Budget, CallSpec, ToolFilter};

/// A team: a tree of agents, the models that they name, and what holds for all of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TeamSpec {
    /// The name; the root agent's when left out.
    pub name: String,
    /// The version of the team's code. A process takes up a run only if it has this version of the code that last
    /// carried the run, or a later one: raise it with each change of code that older processes must not go on from.
    #[serde(skip_serializing_if = "is_default")]
    pub version: u32,
    /// What every agent is told before its own instructions.
    pub instructions: String,
    /// The models, by the names that agents use.
    pub models: BTreeMap<String, ModelSpec>,
    /// Tools that are made from settings, by the names that agents and models use.
    pub tools: BTreeMap<String, ToolSpec>,
    /// The agent that takes the first turn, with all below it.
    pub agent: AgentSpec,
    /// What watches over every agent, in order, before what watches over it alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<PolicySpec>,
    /// The bounds of one run of the team.
    pub budget: Budget,
    /// At which shares of a bound observers are warned, in percent from 1 to 100; once, at 80,
    /// when it is left out.
    pub budget_warnings: Option<Vec<u8>>,
    /// When a run's entries are durable.
    pub durability: Durability,
    /// The most transfers of one run.
    pub max_transfers: Option<u32>,
    /// Whether a model request that differs from the recorded one parks the run.
    pub park_on_drift: bool,
    /// The most bytes that one version of an artifact may have; 16 MiB when it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_artifact_bytes: Option<u64>,
    /// When the team is woken by itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub schedules: Vec<Schedule>,
    /// When the team is woken by other programs, over HTTP. A server reads it: `ghostlight::server::Webhook`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub webhooks: Vec<Value>,
    /// To whom a server posts what becomes of the team's runs: `ghostlight::server::Notification`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notifications: Vec<Value>,
    /// Where people talk to the team as they talk to each other. A server reads it: `ghostlight::server::Messenger`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messengers: Vec<Value>,
    /// What becomes of a session's next turn while a run of it waits for a person's answer.
    #[serde(skip_serializing_if = "is_default")]
    pub while_asking: WhileAsking,
    /// The time after which a question expires that sets no time of its own: one of a function, a model, a
    /// policy or an approval. Never, where it is left out. Then its default answer counts; without one it fails
    /// as expired, and a call that waits for approval is not made.
    #[serde(
        rename = "questions_expire_s",
        with = "seconds",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<f64>")]
    pub questions_expire: Option<Duration>,
    /// What becomes of a session's next turn while another is under way.
    #[serde(skip_serializing_if = "is_default")]
    pub while_busy: WhileBusy,
    /// What stands around the calls to its models and tools, from the outermost on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interceptors: Vec<InterceptorSpec>,
}

impl TeamSpec {
    /// A team of this agent and all below it.
    pub fn new(agent: AgentSpec) -> Self {
        Self {
            name: agent.name.clone(),
            agent,
            ..Self::default()
        }
    }

    /// At which shares of a bound observers are warned, in percent.
    pub fn budget_warnings(&self) -> &[u8] {
        self.budget_warnings.as_deref().unwrap_or(&[80])
    }

    /// The most bytes that one version of an artifact may have.
    pub fn max_artifact_bytes(&self) -> u64 {
        self.max_artifact_bytes.unwrap_or(16 << 20)
    }

    /// The agent of this name.
    pub fn find(&self, name: &str) -> Option<&AgentSpec> {
        self.agent.find(name)
    }

    /// The names from the root's to this agent's.
    pub fn path(&self, name: &str) -> Option<Vec<String>> {
        let lineage = self.agent.lineage(name)?;
        Some(
            lineage
                .into_iter()
                .map(|agent| agent.name.clone())
                .collect(),
        )
    }

    /// The agents to which this one may hand the conversation, in the order of the tree. In a task that was delegated
    /// to the agent `top`, the conversation stays in that agent's part of the tree, so that the answer comes from
    /// there.
    pub fn transfer_targets(&self, name: &str, top: Option<&str>) -> Vec<&AgentSpec> {
        let lineage = self.agent.lineage(name);
        lineage.map_or_else(Vec::new, |lineage| transfers(&lineage, top))
    }

    /// Checks the tree, in which every name must be well formed and unique.
    ///
    /// # Errors
    /// The first fault, with the agent and the remedy.
    pub fn check(&self) -> Result<(), DefinitionError> {
        if !well_formed(&self.name) {
            return Err(DefinitionError::Name {
                what: "team",
                name: self.name.clone(),
            });
        }
        let mut names = BTreeSet::new();
        for (above, agent) in self.agent.walk() {
            if !well_formed(&agent.name) {
                return Err(DefinitionError::Name {
                    what: "agent",
                    name: agent.name.clone(),
                });
            }
            if RESERVED.contains(&agent.name.as_str()) {
                return Err(DefinitionError::Reserved {
                    name: agent.name.clone(),
                });
            }
            if !names.insert(agent.name.as_str()) {
                return Err(DefinitionError::Twice {
                    name: agent.name.clone(),
                });
            }
            if let Some(fault) = agent.create_agent.as_ref().and_then(CreateAgentSpec::fault) {
                return Err(DefinitionError::Settings {
                    wanted_by: format!("agent {:?}", agent.name),
                    what: "setting",
                    name: CREATE_AGENT.to_owned(),
                    reason: fault.to_owned(),
                });
            }
            if let Some(fault) = agent.display_name_fault() {
                return Err(DefinitionError::Settings {
                    wanted_by: format!("agent {:?}", agent.name),
                    what: "setting",
                    name: "display_name".to_owned(),
                    reason: fault.to_owned(),
                });
            }
            if above.len() >= Self::MAX_DEPTH {
                return Err(DefinitionError::TooDeep {
                    name: agent.name.clone(),
                });
            }
            let mut tools = BTreeSet::new();
            for tool in &agent.tools {
                if !tools.insert(tool) {
                    let (agent, tool) = (agent.name.clone(), tool.clone());
                    return Err(DefinitionError::ToolTwice { agent, tool });
                }
            }
            if let Some(Err(reason)) = agent.context.as_ref().map(ContextSpec::check) {
                return Err(DefinitionError::Settings {
                    wanted_by: format!("agent {:?}", agent.name),
                    what: "context",
                    name: "context".to_owned(),
                    reason,
                });
            }
            if let Some(Err(reason)) = agent.memory.as_ref().map(MemorySpec::check) {
                return Err(DefinitionError::Settings {
                    wanted_by: format!("agent {:?}", agent.name),
                    what: "memory",
                    name: "memory".to_owned(),
                    reason,
                });
            }
        }
        if let Some(topic) = self.topic_that_feeds_itself() {
            let topic = topic.to_owned();
            return Err(DefinitionError::TopicCycle { topic });
        }
        schedule::check_all(&self.schedules)?;
        let shares = self.budget_warnings().iter().copied();
        if let Some(percent) = shares.into_iter().find(|p| !(1..=100).contains(p)) {
            return Err(DefinitionError::Percent { percent });
        }
        if self.agent.reach == Reach::Hidden {
            return Err(DefinitionError::HiddenRoot {
                name: self.agent.name.clone(),
            });
        }
        Ok(())
    }

    /// The names of the messages that a run of this agent receives, itself or after it has handed its conversation on;
    /// `None` where it does not say.
    pub(crate) fn received_by(&self, agent: &str) -> Option<BTreeSet<&str>> {
        let own = self.agent.find(agent)?;
        let all = self.agent.walk();
        let all = all.iter().flat_map(|(_, agent)| &agent.receives);
        (!own.receives.is_empty()).then(|| all.map(String::as_str).collect())
    }

    /// A topic whose events start an agent that publishes on it again, directly or through others.
    fn topic_that_feeds_itself(&self) -> Option<&str> {
        let mut feeds: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (_, agent) in self.agent.walk() {
            for topic in &agent.starts_on {
                let below = agent.walk();
                let published = below.iter().flat_map(|(_, agent)| &agent.publishes);
                let fed = feeds.entry(topic).or_default();
                fed.extend(published.map(String::as_str));
            }
        }
        let fed_by = |topic: &str| feeds.get(topic).into_iter().flatten().copied();
        // One pass over all topics finds that none feeds itself, which is nearly always so.
        let mut fed: BTreeMap<&str, usize> = feeds.keys().map(|topic| (*topic, 0)).collect();
        for topic in feeds.values().flatten() {
            *fed.entry(topic).or_default() += 1;
        }
        let unfed = fed.iter().filter(|(_, times)| **times == 0);
        let mut open: Vec<&str> = unfed.map(|(topic, _)| *topic).collect();
        while let Some(topic) = open.pop() {
            fed.remove(topic);
            open.extend(fed_by(topic).filter(|next| {
                let times = fed.get_mut(next);
                times.is_some_and(|times| {
                    *times -= 1;
                    *times == 0
                })
            }));
        }
        fed.keys().copied().find(|topic| {
            let mut open: Vec<&str> = fed_by(topic).collect();
            let mut seen: BTreeSet<&str> = open.iter().copied().collect();
            while let Some(next) = open.pop() {
                open.extend(fed_by(next).filter(|topic| seen.insert(topic)));
            }
            seen.contains(topic)
        })
    }

    /// The most levels of agents in a team. Reading one level takes some 40 KB of a thread's stack in a build without
    /// optimisation, and threads have 2 MB.
    pub const MAX_DEPTH: usize = form::MAX_DEPTH;
}

/// The agents to which the last one of a lineage may hand the conversation; see
/// [`TeamSpec::transfer_targets`].
pub(super) fn transfers<'t>(lineage: &[&'t AgentSpec], top: Option<&str>) -> Vec<&'t AgentSpec> {
    let Some((agent, above)) = lineage.split_last() else {
        return Vec::new();
    };
    // Agents above and beside the one that got the task are out of its reach.
    let is_top = top == Some(agent.name.as_str());
    let parent = above.last().filter(|_| !is_top && agent.reach.transfers());
    let children = agent.agents.iter().filter(|child| child.reach.transfers());
    let up = parent.filter(|_| agent.transfers.parent).copied();
    let beside = parent.filter(|_| agent.transfers.peers);
    let beside = beside.map_or(&[][..], |parent| &parent.agents);
    let peers = beside
        .iter()
        .filter(|peer| peer.name != agent.name && peer.reach.transfers());
    children.chain(up).chain(peers).collect()
}

/// Names that no agent may have, because messages of people carry them.
const RESERVED: [&str; 1] = ["user"];

/// A model of a team: which provider serves it, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ModelSpec {
    /// The registered name of the provider, such as `openai` or `offline`.
    pub provider: String,
    /// Settings of its own, such as `model` and `base_url`.
    #[serde(flatten)]
    pub settings: serde_json::Map<String, Value>,
}

impl ModelSpec {
    /// A model of this provider without settings.
    pub fn new(provider: impl Into<String>) -> Self {
        Self {
            provider: provider.into(),
            settings: serde_json::Map::new(),
        }
    }

    /// Adds a setting.
    #[must_use]
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.settings.insert(name.into(), value.into());
        self
    }
}

/// A tool or toolset of a team that is made from settings: of which kind, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ToolSpec {
    /// The registered name of the kind, such as `document_search`.
    pub kind: String,
    /// Which tools are taken of a kind that makes several; all when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<ToolFilter>,
    /// What is put before the name of each tool of a kind that makes several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Limits instead of a tool's own, by its name or a pattern such as `*`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, CallSpec>,
    /// Settings of its own, such as `folder`.
    #[serde(flatten)]
    pub settings: serde_json::Map<String, Value>,
}

impl ToolSpec {
    /// A tool of this kind without settings.
    pub fn new(kind: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            only: None,
            prefix: None,
            limits: BTreeMap::new(),
            settings: serde_json::Map::new(),
        }
    }

    /// Adds a setting.
    #[must_use]
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.settings.insert(name.into(), value.into());
        self
    }
}

/// When a run's entries are durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Durability {
    /// Nothing outside happens on the strength of an entry that is not durable.
    #[default]
    Sync,
    /// Entries become durable in the background. What happens outside may run ahead of what is
    /// durable by up to [`WINDOW`](Self::WINDOW) entries of its run, which a crash loses and
    /// which are then done again. The start of a `once` call is waited for with all before it.
    Async,
    /// Nothing is durable: the sessions, runs and state of the team are in memory and end with
    /// the process. It costs some hundred bytes of memory an entry, also of runs that have ended.
    Memory,
}

impl Durability {
    /// How many of a run's last entries a crash may lose under [`Async`](Self::Async), although
    /// something outside has happened on the strength of them.
    pub const WINDOW: u64 = 64;

    /// How many of a run's entries may be without durability when something outside begins.
    pub(crate) fn window(self) -> u64 {
        match self {
            Self::Async => Self::WINDOW,
            // In memory a commit is done at once.
            Self::Sync | Self::Memory => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A tree of this many agents, each below an earlier one.
    fn trees() -> impl Strategy<Value = AgentSpec> {
        prop::collection::vec(any::<prop::sample::Index>(), 0..24).prop_map(|above| {
            let mut open: Vec<AgentSpec> = (0..=above.len())
                .map(|number| AgentSpec::new(format!("a{number}")))
                .collect();
            for (number, above) in above.iter().enumerate().rev() {
                let agent = open.remove(number + 1);
                open[above.index(number + 1)].agents.push(agent);
            }
            open.remove(0)
        })
    }

    #[test]
    fn no_agent_is_called_as_people_are() {
        let mut desk = AgentSpec::new("desk");
        desk.agents.push(AgentSpec::new("user"));
        let refused = TeamSpec::new(desk.clone()).check();
        assert!(matches!(refused, Err(DefinitionError::Reserved { name }) if name == "user"));
        desk.agents[0].name = "users".into();
        assert_eq!(TeamSpec::new(desk).check(), Ok(()));
    }

    #[test]
    fn an_agent_is_shown_by_its_display_name_and_has_a_type() {
        let mut desk = AgentSpec::new("desk");
        assert_eq!(
            (desk.display_name(), desk.agent_type()),
            ("desk", "function_calling")
        );
        desk.display_name = Some("Customer “desk”".into());
        desk.behavior = super::super::BehaviorSpec::new("parallel");
        assert_eq!(
            (desk.display_name(), desk.agent_type()),
            ("Customer “desk”", "parallel")
        );
        let team = TeamSpec::new(desk.clone());
        assert_eq!(team.check(), Ok(()));
        assert!(
            team.mermaid()
                .contains("agent_desk[\"Customer “desk”<br/><i>parallel</i>\"]")
        );
        for wrong in ["", " ", "two\nlines", "\u{1b}[31m", &"x".repeat(81)] {
            desk.display_name = Some(wrong.to_owned());
            let refused = TeamSpec::new(desk.clone()).check().unwrap_err().to_string();
            assert!(refused.contains("display_name"), "{refused}");
        }
    }

    proptest! {
        #[test]
        fn an_agent_is_found_where_a_walk_over_the_tree_finds_it(root in trees()) {
            let team = TeamSpec::new(root.clone());
            for (above, agent) in root.walk() {
                let path: Vec<&str> = above.into_iter().chain([agent.name.as_str()]).collect();
                let lineage = root.lineage(&agent.name).unwrap_or_default();
                let names: Vec<&str> = lineage.iter().map(|agent| agent.name.as_str()).collect();
                prop_assert_eq!(&names, &path);
                prop_assert_eq!(team.find(&agent.name), Some(agent));
                let found = team.path(&agent.name).unwrap_or_default();
                prop_assert_eq!(found, path);
            }
            prop_assert!(root.lineage("nobody").is_none());
            prop_assert!(team.find("nobody").is_none());
        }
    }
}
