//! Pinned definitions: a run keeps its own from its start to its end.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::{AgentSpec, ApprovalRule, TeamSpec, team::transfers};
use crate::vocabulary::{
    Approval, Digest, Effect, ModelSettings, OutputSchema, ToolDefinition, ToolSet, canonical,
};

/// An agent's name, and the agent that got the delegated task, if the agent works in one.
type AgentIn = (String, Option<String>);

/// A team and the definitions of its tools, stored once by content hash when a run starts.
/// Replay uses it, so a changed team file applies from the next run.
#[derive(Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Pinned {
    /// The team.
    pub team: TeamSpec,
    /// Its tools, by name.
    pub tools: BTreeMap<String, Arc<ToolDefinition>>,
    /// The tools of single agents whose definitions differ from the tools of the same names above.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub own_tools: BTreeMap<String, BTreeMap<String, Arc<ToolDefinition>>>,
    /// For an agent that is in no team: the agent that made it for a task. It is alone in its team.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_by: Option<String>,
    /// The agents from the root's to the agent of the team that made this one, directly or through other made agents.
    /// All of theirs belongs to this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<String>,
    /// For an agent that is in no team: the agents that made it, each by the one before it, from the agent of the team
    /// on. What a rule says of one of them by its name it says of this agent too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub makers: Vec<String>,
    /// The agents, shared by their runs. Each is built when it is first needed.
    #[serde(skip)]
    agents: Mutex<BTreeMap<AgentIn, Arc<PinnedAgent>>>,
}

impl PartialEq for Pinned {
    fn eq(&self, other: &Self) -> bool {
        (&self.team, &self.tools, &self.own_tools) == (&other.team, &other.tools, &other.own_tools)
            && (&self.made_by, &self.places, &self.makers)
                == (&other.made_by, &other.places, &other.makers)
    }
}

impl Pinned {
    /// A team with the definitions of its tools.
    pub fn new(team: TeamSpec, tools: BTreeMap<String, Arc<ToolDefinition>>) -> Self {
        Self {
            team,
            tools,
            own_tools: BTreeMap::new(),
            made_by: None,
            places: Vec::new(),
            makers: Vec::new(),
            agents: Mutex::default(),
        }
    }

    /// The display name of an agent, where it has one.
    pub(crate) fn display_name_of(&self, agent: &str) -> Option<String> {
        self.team.find(agent)?.display_name.clone()
    }

    /// The definition of the tool that an agent calls by this name.
    pub fn tool(&self, agent: &str, name: &str) -> Option<&Arc<ToolDefinition>> {
        let own = self.own_tools.get(agent).and_then(|own| own.get(name));
        own.or_else(|| self.tools.get(name))
    }

    /// Stores the definition of an agent's tool.
    pub(crate) fn keep_tool(&mut self, agent: &str, tool: &Arc<ToolDefinition>) {
        let shared = self.tools.entry(tool.name.clone());
        if shared.or_insert_with(|| tool.clone()) != tool {
            let own = self.own_tools.entry(agent.to_owned()).or_default();
            own.insert(tool.name.clone(), tool.clone());
        }
    }

    /// The bytes that are stored, and their hash.
    pub fn encode(&self) -> (Digest, Arc<[u8]>) {
        let bytes = canonical::to_vec(self);
        (Digest::of(&bytes), bytes.into())
    }

    /// The definition of these bytes.
    ///
    /// # Errors
    /// The misfit.
    pub fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }

    /// An agent of the team with everything that its function needs in every step, in a run of the team, or in a task
    /// that was delegated to the agent `top`. All runs of this definition share it.
    pub fn agent(&self, name: &str, top: Option<&str>) -> Option<Arc<PinnedAgent>> {
        let key = (name.to_owned(), top.map(str::to_owned));
        let mut agents = self.agents.lock();
        if let Some(agent) = agents.get(&key) {
            return Some(agent.clone());
        }
        let agent = Arc::new(self.make_agent(name, top)?);
        agents.insert(key, agent.clone());
        Some(agent)
    }

    fn make_agent(&self, name: &str, top: Option<&str>) -> Option<PinnedAgent> {
        let lineage = self.team.agent.lineage(name)?;
        let mut spec = AgentSpec::clone(lineage.last()?);
        let own = std::mem::take(&mut spec.policies).into_iter();
        spec.policies = self.team.policies.iter().cloned().chain(own).collect();
        let spec = Arc::new(spec);
        let model = model_of(&lineage).into();
        let tools = spec
            .tools
            .iter()
            .filter_map(|tool| self.tool(name, tool).cloned());
        let tools: ToolSet = tools.collect();
        let (offered, shortened) = offered(&lineage, top, &tools);
        let output = spec.output.clone().map(|schema| {
            let name = shortened_name(format!("{}_answer", spec.name).replace('-', "_"));
            Arc::new(OutputSchema {
                name,
                schema,
                strict: true,
            })
        });
        let parts = [self.team.instructions.trim(), spec.instructions.trim()];
        let instructions: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let path: Vec<String> = lineage.iter().map(|agent| agent.name.clone()).collect();
        let places = match &self.made_by {
            None => path.clone(),
            Some(maker) if self.places.is_empty() => vec![maker.clone()],
            Some(_) => self.places.clone(),
        };
        let makers = self.makers_of(&path);
        Some(PinnedAgent {
            name: spec.name.as_str().into(),
            instructions: instructions.join("\n\n").into(),
            team_instructions: parts[0].into(),
            settings: Arc::new(spec.settings.clone()),
            output,
            offered,
            shortened,
            path,
            places,
            makers,
            spec,
            model,
            tools,
        })
    }

    /// The makers of the last agent of this path; nobody's for an agent of the team.
    fn makers_of(&self, path: &[String]) -> Vec<String> {
        let Some(maker) = &self.made_by else {
            return Vec::new();
        };
        // Definitions that were stored before there were makers name the first and the last one elsewhere.
        let mut makers = match self.makers.is_empty() {
            true => self
                .places
                .last()
                .into_iter()
                .chain([maker])
                .cloned()
                .collect(),
            false => self.makers.clone(),
        };
        let above = path.split_last().map_or(&[][..], |(_, above)| above);
        makers.extend_from_slice(above);
        makers.dedup();
        makers
    }
}

/// An agent of a pinned team.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PinnedAgent {
    /// Its name.
    pub name: Arc<str>,
    /// The names from the root's to this agent's.
    pub path: Vec<String>,
    /// The agents of the team from the root's on: the path of this agent, or of the agent that made it. Names of this
    /// agent are resolved at the last one.
    pub places: Vec<String>,
    /// The agents whose rules hold for it beside those of its own name, from the agent of the team on: those that made it,
    /// and those above it that were made with it. Empty for an agent of the team.
    pub makers: Vec<String>,
    /// The agent.
    pub spec: Arc<AgentSpec>,
    /// The registered name of its model.
    pub model: Arc<str>,
    /// Its own tools, without those that reach other agents.
    pub tools: ToolSet,
    /// Its own tools, and those that reach other agents.
    pub offered: ToolSet,
    /// The agents whose names are too long to stand whole in the names of the tools that reach them, by these tools.
    pub(crate) shortened: BTreeMap<String, String>,
    /// The team's instructions and its own.
    pub instructions: Arc<str>,
    /// The team's instructions alone.
    pub team_instructions: Arc<str>,
    /// Sampling and limits of its model calls.
    pub settings: Arc<ModelSettings>,
    /// The schema that its answer must fit.
    pub output: Option<Arc<OutputSchema>>,
}

impl PinnedAgent {
    /// The agent that a tool of this name hands the conversation to. Whether it is offered is not looked at.
    pub(crate) fn transfers_to<'a>(&'a self, tool: &'a str) -> Option<&'a str> {
        self.reached(TRANSFER_PREFIX, tool)
    }

    /// The agent that a tool of this name gives a task to. Whether it is offered is not looked at.
    pub(crate) fn delegates_to<'a>(&'a self, tool: &'a str) -> Option<&'a str> {
        self.reached(DELEGATE_PREFIX, tool)
    }

    fn reached<'a>(&'a self, prefix: &str, tool: &'a str) -> Option<&'a str> {
        let agent = tool.strip_prefix(prefix)?;
        Some(self.shortened.get(tool).map_or(agent, String::as_str))
    }

    /// The rule by which somebody is asked before this tool is called; `None` when nobody is.
    pub fn approval_of(&self, tool: &ToolDefinition) -> Option<ApprovalRule> {
        let own = match &tool.approval {
            Approval::NotNeeded => None,
            Approval::Required { prompt } => Some(prompt.clone()),
        };
        let rules = &self.spec.approval;
        let Some(rule) = rules.get(&tool.name).or_else(|| rules.get("*")) else {
            let mut rule = ApprovalRule::required();
            rule.prompt = own?;
            return Some(rule);
        };
        let mut rule = rule.clone();
        rule.prompt = rule.prompt.or(own.flatten());
        rule.required.then_some(rule)
    }
}

/// The name of the model of the last agent of a lineage: the nearest that is named on the way up, or `default`.
pub(crate) fn model_of<'a>(lineage: &[&'a AgentSpec]) -> &'a str {
    let mut named = lineage.iter().rev();
    let named = named.find_map(|agent| agent.model.as_deref());
    named.unwrap_or("default")
}

/// The name of the tool by which a model publishes events.
pub(crate) const PUBLISH: &str = "publish";
/// The name of the tool by which a model asks people.
pub(crate) const CLARIFY: &str = "clarify";
/// The prefix of tools that hand the conversation to an agent.
pub const TRANSFER_PREFIX: &str = "transfer_to_";
/// The prefix of tools that give a task to an agent.
pub const DELEGATE_PREFIX: &str = "delegate_to_";
/// The beginning of the engine's note to an agent that takes a conversation over. The request follows.
pub const TAKEN_OVER: &str = "[You have taken over this conversation.";
/// The beginning of the engine's note to an agent that gets a conversation back. The giver and the reason follow.
pub const GIVEN_BACK: &str = "[You have this conversation again.";

/// The most characters that providers take in the name of a tool, or of a schema.
const LONGEST_NAME: usize = 64;

/// The name of the tool that hands the conversation to this agent: the prefix [`TRANSFER_PREFIX`] and the agent's name. A
/// name that providers would refuse for its length is cut, and ends in a digest of the whole.
fn transfer_tool(agent: &str) -> String {
    shortened_name(format!("{TRANSFER_PREFIX}{agent}"))
}

/// The name of the tool that gives a task to this agent: the prefix [`DELEGATE_PREFIX`] and the agent's name, cut as
/// `transfer_tool` says.
pub fn delegate_tool(agent: &str) -> String {
    shortened_name(format!("{DELEGATE_PREFIX}{agent}"))
}

fn shortened_name(name: String) -> String {
    if name.chars().count() <= LONGEST_NAME {
        return name;
    }
    let digest = Digest::of(name.as_bytes()).to_string();
    let digest = digest.get(..8).unwrap_or_default();
    let kept: String = name.chars().take(LONGEST_NAME - 1 - digest.len()).collect();
    format!("{kept}_{digest}")
}

/// Whether the engine gives the last agent of a lineage a tool of this name. An agent may have thousands beside it, so
/// the tools themselves are not made.
pub(crate) fn is_engine_tool(lineage: &[&AgentSpec], name: &str) -> bool {
    let Some(agent) = lineage.last() else {
        return false;
    };
    if name.starts_with(TRANSFER_PREFIX) {
        let mut reached = transfers(lineage, None).into_iter();
        return reached.any(|agent| transfer_tool(&agent.name) == name);
    }
    if name.starts_with(DELEGATE_PREFIX) {
        let mut below = agent.agents.iter();
        return below.any(|child| child.reach.delegates() && delegate_tool(&child.name) == name);
    }
    given(agent).any(|tool| tool.name == name)
}

/// The tools that the last agent of a lineage is offered, and the agents whose names had to be cut, by their tools.
fn offered(
    lineage: &[&AgentSpec],
    top: Option<&str>,
    own: &ToolSet,
) -> (ToolSet, BTreeMap<String, String>) {
    let mut shortened = BTreeMap::new();
    let mut reach = |name: String, agent: &AgentSpec, what: &str, argument: &str, about: &str| {
        if !name.ends_with(&agent.name) {
            shortened.insert(name.clone(), agent.name.clone());
        }
        let description = format!("{what} {}: {}", agent.name, agent.description);
        let parameters = serde_json::json!({
            "type": "object",
            "properties": { argument: { "type": "string", "description": about } },
            "required": [argument],
            "additionalProperties": false,
        });
        let tool = ToolDefinition::new(name, description.trim_end());
        Arc::new(tool.parameters(parameters).effect(Effect::Read))
    };
    let mut reached: Vec<Arc<ToolDefinition>> = Vec::new();
    for agent in transfers(lineage, top) {
        let what = "Hands the whole conversation to the agent";
        let (name, about) = (transfer_tool(&agent.name), "What the agent is to do.");
        reached.push(reach(name, agent, what, "request", about));
    }
    let agent = lineage.last();
    let below = agent.map_or(&[][..], |agent| &agent.agents);
    for child in below.iter().filter(|child| child.reach.delegates()) {
        let what = "Gives a task to the agent and returns its answer. The agent";
        let about = "The task, complete: the agent sees nothing else.";
        let tool = reach(delegate_tool(&child.name), child, what, "task", about);
        reached.push(match &child.input {
            Some(schema) => {
                let tool = ToolDefinition::clone(&tool);
                Arc::new(tool.parameters(schema.clone()))
            }
            None => tool,
        });
    }
    let given = agent.into_iter().flat_map(|agent| given(agent));
    let offered = own.iter().cloned().chain(reached).chain(given).collect();
    (offered, shortened)
}

/// The tools that the engine gives an agent, but for those that reach other agents.
fn given(agent: &AgentSpec) -> impl Iterator<Item = Arc<ToolDefinition>> {
    let publish = (!agent.publishes.is_empty()).then(|| publishing(&agent.publishes));
    let create = agent.create_agent.as_ref();
    let create = create.map(|create| [Some(create.definition(agent)), create.result_definition()]);
    let clarify = agent.clarify.map(|clarify| {
        let questions = clarify.questions;
        let description = format!(
            "Asks a person and waits for the answer, at most {questions} times. Only for what \
             cannot be found out or decided otherwise."
        );
        let tool = ToolDefinition::new(CLARIFY, description).parameters(clarify_parameters());
        tool.effect(Effect::Read)
    });
    let create = create.into_iter().flatten().flatten();
    publish
        .into_iter()
        .chain(create)
        .chain(clarify)
        .map(Arc::new)
}

/// The tool by which a model publishes on these topics.
fn publishing(topics: &[String]) -> ToolDefinition {
    let parameters = serde_json::json!({
        "type": "object",
        "properties": {
            "topic": { "type": "string", "enum": topics },
            "event": {
                "type": "string",
                "minLength": 1,
                "description": "What happened, complete in itself.",
            },
            "priority": { "type": "integer", "description": "Higher is kept longer; 0 as a rule." },
        },
        "required": ["topic", "event"],
        "additionalProperties": false,
    });
    let description = "Publishes an event. Others work on it by themselves; nothing comes back.";
    ToolDefinition::new(PUBLISH, description)
        .parameters(parameters)
        .effect(Effect::Read)
}

/// The schema of the tool's arguments.
fn clarify_parameters() -> serde_json::Value {
    serde_json::json!({
        "type": "object",
        "properties": {
            "question": { "type": "string", "description": "The question, complete in itself." },
            "options": {
                "type": "array",
                "items": { "type": "string" },
                "description": "What the person chooses from; leave it out for a free answer.",
            },
        },
        "required": ["question"],
        "additionalProperties": false,
    })
}
