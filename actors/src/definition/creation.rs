//! Agents that a model makes for a task.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    AGENT_RESULT, AgentSpec, BehaviorSpec, CREATE_AGENT, CreateAgentSpec, PinnedAgent, Reach,
};
use crate::vocabulary::{Arguments, Budget, Effect, ToolDefinition};

/// The pattern of names that a model gives. It leaves room for the numbers that name the agents of steps.
const NAME_PATTERN: &str = "^[A-Za-z0-9_-]{1,48}$";
/// The most steps of an agent that a model makes.
const MAX_STEPS_MADE: usize = 16;

const MADE: &str = "You were made for one task. Do it, and answer with its result alone. Where \
                    you cannot do a part of it, say which and why.";

/// An agent that a model made, and its task.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Creation {
    pub(crate) agent: AgentSpec,
    pub(crate) task: String,
    pub(crate) budget: Budget,
    /// Whether the model that made it goes on at once.
    pub(crate) background: bool,
}

#[derive(Deserialize)]
struct Wanted {
    name: String,
    goal: String,
    #[serde(default)]
    context: String,
    #[serde(default)]
    tools: Vec<String>,
    #[serde(default)]
    steps: Vec<WantedStep>,
    #[serde(default)]
    flow: Flow,
    max_steps: Option<u32>,
    max_model_calls: Option<u64>,
    timeout_seconds: Option<u64>,
    #[serde(default)]
    background: bool,
}

#[derive(Deserialize)]
struct WantedStep {
    goal: String,
    tools: Option<Vec<String>>,
}

/// The order of the steps of an agent that a model makes.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Flow {
    #[default]
    Sequence,
    Parallel,
    Fallback,
}

impl Flow {
    /// The registered name of the behavior.
    fn behavior(self) -> &'static str {
        match self {
            Self::Sequence => "sequential",
            Self::Parallel => "parallel",
            Self::Fallback => "fallback",
        }
    }
}

impl CreateAgentSpec {
    /// The tools that made agents may have.
    pub(crate) fn allowed<'a>(&'a self, creator: &'a AgentSpec) -> &'a [String] {
        self.tools.as_deref().unwrap_or(&creator.tools)
    }

    /// The fault of the settings; `None` if there is none.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let bounds = [
            (u64::from(self.agents), "`agents` must be at least 1"),
            (u64::from(self.depth), "`depth` must be at least 1"),
            (u64::from(self.max_steps), "`max_steps` must be at least 1"),
            (self.timeout.as_secs(), "`timeout_s` must be at least 1"),
        ];
        let wrong = bounds.into_iter().find(|(bound, _)| *bound == 0);
        wrong.map(|(_, fault)| fault)
    }

    /// The tool by which the model makes an agent.
    pub(crate) fn definition(&self, creator: &AgentSpec) -> ToolDefinition {
        let description = format!(
            "Makes an agent for one task, and returns its result. Make one where a part of your \
             work needs a context of its own, and several in one turn where parts can be done side \
             by side. At most {} in this run.",
            self.agents
        );
        let allowed = self.allowed(creator);
        let mut tools = json!({
            "type": "array",
            "items": { "type": "string" },
            "maxItems": allowed.len(),
            "uniqueItems": true,
        });
        // A list without choices is not a valid schema.
        if !allowed.is_empty() {
            tools["items"]["enum"] = json!(allowed);
        }
        let about = |mut schema: Value, text: &str| {
            schema["description"] = text.into();
            schema
        };
        let text = json!({ "type": "string", "minLength": 1 });
        let at_most = |most: u64| json!({ "type": "integer", "minimum": 1, "maximum": most });
        let parameters = json!({
            "type": "object",
            "properties": {
                "name": {
                    "type": "string",
                    "pattern": NAME_PATTERN,
                    "description": "What to call it: letters, digits, `_` and `-`.",
                },
                "goal": about(text.clone(), "What it is to do, complete: it sees nothing else."),
                "context": { "type": "string", "description": "What it has to know for that." },
                "tools": about(tools.clone(), "The tools that it may call."),
                "steps": {
                    "type": "array",
                    "maxItems": MAX_STEPS_MADE,
                    "description": "Parts of the goal, each done by an agent of its own; leave it \
                                    out where one agent is to do it all.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "goal": text,
                            "tools": about(tools, "Its tools, where they are others."),
                        },
                        "required": ["goal"],
                        "additionalProperties": false,
                    },
                },
                "flow": {
                    "type": "string",
                    "enum": ["sequence", "parallel", "fallback"],
                    "description": "How the steps follow: one after the other, side by side, or \
                                    one after the other until one succeeds.",
                },
                "max_steps": at_most(self.max_steps.into()),
                "max_model_calls": { "type": "integer", "minimum": 1 },
                "timeout_seconds": at_most(self.timeout.as_secs()),
            },
            "required": ["name", "goal", "tools"],
            "additionalProperties": false,
        });
        let mut parameters = parameters;
        if self.background {
            parameters["properties"]["background"] = json!({
                "type": "boolean",
                "description": "Go on at once. Ask for its result with agent_result before you \
                                answer: it is stopped when you do.",
            });
        }
        ToolDefinition::new(CREATE_AGENT, description)
            .parameters(parameters)
            .effect(Effect::Read)
    }

    /// The tool by which the model waits for an agent in the background; `None` where background agents are not
    /// allowed.
    pub(crate) fn result_definition(&self) -> Option<ToolDefinition> {
        let parameters = json!({
            "type": "object",
            "properties": { "name": { "type": "string", "description": "The agent's name." } },
            "required": ["name"],
            "additionalProperties": false,
        });
        let description = "Waits for an agent that you made in the background, and returns its \
                           result.";
        let tool = ToolDefinition::new(AGENT_RESULT, description).parameters(parameters);
        self.background.then(|| tool.effect(Effect::Read))
    }

    /// The agent that a model wants, from these arguments, which fit the tool's schema.
    ///
    /// # Errors
    /// The fault of the arguments.
    pub(crate) fn make(
        &self,
        creator: &PinnedAgent,
        arguments: &Arguments,
    ) -> Result<Creation, String> {
        let wanted: Wanted = arguments.parse().map_err(|fault| fault.to_string())?;
        let max_steps = wanted.max_steps.unwrap_or(self.max_steps);
        let plain = |name: String, tools: Vec<String>| AgentSpec {
            tools,
            // A made agent cannot get around the approval that a tool needs.
            approval: creator.spec.approval.clone(),
            model: Some(creator.model.to_string()),
            settings: creator.spec.settings.clone(),
            stream: creator.spec.stream,
            parallel_tools: creator.spec.parallel_tools,
            max_calls: creator.spec.max_calls,
            instructions: MADE.to_owned(),
            behavior: self.behavior.clone(),
            max_steps: Some(max_steps.min(self.max_steps)),
            create_agent: self.below(&creator.spec),
            ..AgentSpec::new(name)
        };
        let mut agent = plain(wanted.name, wanted.tools);
        agent.description.clone_from(&wanted.goal);
        let step = |(place, step): (usize, WantedStep)| {
            let name = format!("{}-{}", agent.name, place + 1);
            let tools = step.tools.unwrap_or_else(|| agent.tools.clone());
            AgentSpec {
                instructions: format!("{MADE}\n\nYour part of the task: {}", step.goal),
                description: step.goal,
                reach: Reach::Delegate,
                ..plain(name, tools)
            }
        };
        let steps: Vec<AgentSpec> = wanted.steps.into_iter().enumerate().map(step).collect();
        if !steps.is_empty() {
            agent.agents = steps;
            agent.behavior = BehaviorSpec::new(wanted.flow.behavior());
            (agent.tools, agent.create_agent) = (Vec::new(), None);
        }
        let time = wanted.timeout_seconds.map(Duration::from_secs);
        let budget = Budget {
            model_calls: wanted.max_model_calls,
            wall_time: Some(time.map_or(self.timeout, |time| time.min(self.timeout))),
            ..Budget::default()
        };
        let task = match wanted.context.trim() {
            "" => wanted.goal,
            context => format!("{}\n\n{context}", wanted.goal),
        };
        Ok(Creation {
            agent,
            task,
            budget: budget.narrowed(&self.budget),
            background: wanted.background && self.background,
        })
    }

    /// The settings for agents that the made agent makes itself.
    fn below(&self, creator: &AgentSpec) -> Option<Self> {
        let depth = self.depth.checked_sub(1).filter(|depth| *depth > 0)?;
        Some(Self {
            depth,
            tools: Some(self.allowed(creator).to_vec()),
            ..self.clone()
        })
    }
}
