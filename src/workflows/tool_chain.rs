//! A chain of tools, without a model.

use ghostlight_actors::{
    definition::{AgentSpec, DELEGATE_PREFIX, delegate_tool},
    run::{Behavior, RunContext},
    vocabulary::{AgentError, Outcome, ToolCall},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    OnFailure,
    ends::MemberEnd,
    member::{called, task},
};
use crate::behaviors::{Prompt, TextOf};

/// Calls the agent's tools one after the other, each with the result of the one before, without a
/// model. The last result is the answer.
///
/// ```yaml
/// tools: [search, summarise]
/// behavior:
///   name: tool_chain
///   steps:
///     - { tool: search, arguments: { query: "{task}" } }
///     - summarise
/// ```
///
/// For the agent above, such an agent is one tool, `delegate_to_NAME`, whose arguments are the
/// agent's `input`. A step may be the tool of an agent below, and so another chain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ToolChain {
    /// The steps; all tools of the agent in their order when left out.
    pub steps: Vec<ToolStep>,
    /// The reaction to a tool that fails: the run fails, or the next step gets the last result there
    /// is. A used-up budget ends the run with the last result as its partial answer.
    pub on_failure: OnFailure,
}

/// A step of a [`ToolChain`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "NameOrStep", into = "NameOrStep")]
#[schemars(with = "NameOrStep")]
#[non_exhaustive]
pub struct ToolStep {
    /// The tool: one of the agent's, or `delegate_to_NAME` of an agent below.
    pub tool: String,
    /// Its arguments. In their texts, `{previous}` stands for the result before (or the task),
    /// `{task}` for the task, and each earlier tool's name for its result. When left out, the
    /// result before is the arguments if it is a JSON object, and otherwise the value of the tool's
    /// first required argument.
    pub arguments: Option<Value>,
}

impl ToolStep {
    /// A step that passes the result before it on.
    pub fn new(tool: impl Into<String>) -> Self {
        Self {
            tool: tool.into(),
            arguments: None,
        }
    }

    /// Sets its arguments.
    #[must_use]
    pub fn arguments(mut self, arguments: Value) -> Self {
        self.arguments = Some(arguments);
        self
    }

    fn call(&self, cx: &RunContext, number: usize, task: &str, results: &[Done]) -> ToolCall {
        let previous = results.last().map_or(task, |done| done.text.as_str());
        let arguments = match &self.arguments {
            Some(template) => filled(template, &|name| match name {
                "previous" => Some(previous.into()),
                "task" => Some(task.into()),
                tool => {
                    let mut earlier = results.iter().rev();
                    let done = earlier.find(|done| done.tool == tool)?;
                    Some(done.text.as_str().into())
                }
            }),
            None => match serde_json::from_str(previous) {
                Ok(Value::Object(object)) => Value::Object(object),
                _ => json!({ first_argument(cx, &self.offered()): previous }),
            },
        };
        ToolCall::new(format!("step-{number}"), self.offered(), arguments)
    }

    /// The name under which the tool is offered: that of an agent may be too long for one.
    fn offered(&self) -> String {
        let agent = self.tool.strip_prefix(DELEGATE_PREFIX);
        agent.map_or_else(|| self.tool.clone(), delegate_tool)
    }
}

/// The template with its placeholders replaced.
pub(super) fn filled(template: &Value, text_of: TextOf<'_, '_>) -> Value {
    match template {
        Value::String(text) => Prompt::new(text.as_str()).fill_by(text_of).into(),
        Value::Array(items) => items.iter().map(|item| filled(item, text_of)).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), filled(value, text_of)))
            .collect(),
        other => other.clone(),
    }
}

/// The name of the argument that takes the result before.
pub(super) fn first_argument(cx: &RunContext, tool: &str) -> String {
    let offered = cx.tools_offered();
    let required = offered.get(tool).and_then(|tool| {
        let required = tool.parameters.get("required")?.as_array()?;
        required.first()?.as_str().map(str::to_owned)
    });
    required.unwrap_or_else(|| "input".to_owned())
}

/// In a file: a tool's name, or the tool with its arguments.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected a tool's name, or a mapping with `tool` and `arguments`"
)]
enum NameOrStep {
    /// Only the name.
    Name(String),
    /// With arguments.
    Step {
        /// The tool.
        tool: String,
        /// Its arguments.
        arguments: Value,
    },
}

impl From<NameOrStep> for ToolStep {
    fn from(step: NameOrStep) -> Self {
        let (tool, arguments) = match step {
            NameOrStep::Name(tool) => (tool, None),
            NameOrStep::Step { tool, arguments } => (tool, Some(arguments)),
        };
        Self { tool, arguments }
    }
}

impl From<ToolStep> for NameOrStep {
    fn from(step: ToolStep) -> Self {
        let ToolStep { tool, arguments } = step;
        match arguments {
            None => Self::Name(tool),
            Some(arguments) => Self::Step { tool, arguments },
        }
    }
}

/// The result of a step.
struct Done {
    tool: String,
    text: String,
}

/// The last result; empty if there is none.
fn last(mut results: Vec<Done>) -> String {
    results.pop().map(|done| done.text).unwrap_or_default()
}

impl ToolChain {
    fn steps(&self, agent: &AgentSpec) -> Vec<ToolStep> {
        if !self.steps.is_empty() {
            return self.steps.clone();
        }
        agent
            .tools
            .iter()
            .map(|tool| ToolStep::new(tool.as_str()))
            .collect()
    }
}

impl Behavior for ToolChain {
    async fn run(&self, cx: RunContext) -> Result<Outcome, AgentError> {
        let task = task(&cx);
        let mut results: Vec<Done> = Vec::new();
        for (place, step) in self.steps(cx.spec()).into_iter().enumerate() {
            let call = step.call(&cx, place + 1, &task, &results);
            match called(cx.tools([call]).await)? {
                MemberEnd::Answered(text) => results.push(Done {
                    tool: step.tool,
                    text,
                }),
                MemberEnd::Failed(_) if self.on_failure == OnFailure::GoOn => {}
                MemberEnd::Failed(mut error) => {
                    let (number, tool) = (place + 1, step.tool);
                    error.message = format!("step {number}, the tool {tool:?}: {}", error.message);
                    return Err(error.into());
                }
                stopped @ MemberEnd::Stopped(..) => return stopped.into_outcome(last(results)),
            }
        }
        Ok(Outcome::answer(last(results)))
    }

    fn check(&self, agent: &AgentSpec) -> Result<(), String> {
        let steps = self.steps(agent);
        if steps.is_empty() {
            return Err(format!(
                "it has no steps: give agent {:?} tools",
                agent.name
            ));
        }
        let has = |name: &String| {
            let below = name.strip_prefix(DELEGATE_PREFIX);
            let below = below.and_then(|name| agent.agents.iter().find(|below| below.name == name));
            agent.tools.contains(name) || below.is_some_and(|below| below.reach.delegates())
        };
        match steps.iter().find(|step| !has(&step.tool)) {
            Some(step) => Err(format!(
                "steps name the tool {:?}, which {} does not have; it has: {}",
                step.tool,
                agent.name,
                agent.tools.join(", ")
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    #[test]
    fn arguments_are_filled_in_every_text() {
        let template = json!({"q": "{task}: {look}", "n": 3, "all": ["{previous}", {"x": "{y}"}]});
        let texts = [("previous", "P"), ("task", "T"), ("look", "{task}")];
        let text_of = |name: &str| {
            let (_, text) = texts.iter().find(|(known, _)| *known == name)?;
            Some(Cow::Borrowed(*text))
        };
        let expected = json!({"q": "T: {task}", "n": 3, "all": ["P", {"x": "{y}"}]});
        assert_eq!(filled(&template, &text_of), expected);
    }
}
