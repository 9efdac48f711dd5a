//! Agents one after the other.

use std::time::Duration;

use ghostlight_actors::{
    definition::AgentSpec,
    run::{Behavior, RunContext},
    vocabulary::{AgentError, Outcome, seconds},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    OnFailure, Utterance,
    conversation::{transcript, with_transcript},
    ends::Ends,
    member::{ask, check_members, check_name, members, task},
};
use crate::behaviors::Prompt;

/// Asks the members one after the other; each sees the task and all answers before it. The last
/// answer is the workflow's.
///
/// ```yaml
/// behavior: { name: sequential, on_failure: go_on }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Sequential {
    /// The members; all agents below when left out.
    pub members: Vec<String>,
    /// The reaction to a member that fails.
    pub on_failure: OnFailure,
    /// The longest that one member may take.
    #[serde(rename = "member_timeout_s", with = "seconds")]
    #[schemars(with = "Option<f64>")]
    pub member_timeout: Option<Duration>,
}

impl Behavior for Sequential {
    async fn run(&self, cx: RunContext) -> Result<Outcome, AgentError> {
        let task = task(&cx);
        let mut said: Vec<Utterance> = Vec::new();
        let mut ends = Ends::default();
        for member in members(cx.spec(), &self.members, &[]) {
            let asked = with_transcript(&task, &said);
            let end = ask(&cx, member, asked, self.member_timeout).await?;
            if self.on_failure.ends_by(&end) {
                return ends.ended_by(member, end);
            }
            said.push(Utterance::new(member, end.told()));
            ends.push(member, end);
        }
        ends.into_end()
    }

    fn check(&self, agent: &AgentSpec) -> Result<(), String> {
        check_members(agent, &self.members, &[], 1)
    }
}

/// Stages one after the other; each gets the answer of the one before it, in its own prompt. The
/// last answer is the workflow's.
///
/// ```yaml
/// behavior:
///   name: pipeline
///   stages:
///     - outline
///     - { agent: writer, prompt: "Write about {task} by this outline:\n{previous}" }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Pipeline {
    /// The stages; all agents below when left out.
    pub stages: Vec<Stage>,
    /// The reaction to a stage that fails. If the workflow continues, the next stage gets the last
    /// answer there is.
    pub on_failure: OnFailure,
    /// The longest that one stage may take.
    #[serde(rename = "stage_timeout_s", with = "seconds")]
    #[schemars(with = "Option<f64>")]
    pub stage_timeout: Option<Duration>,
}

/// A stage of a [`Pipeline`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "NameOrStage", into = "NameOrStage")]
#[schemars(with = "NameOrStage")]
#[non_exhaustive]
pub struct Stage {
    /// The agent.
    pub agent: String,
    /// The question to it: `{previous}` (the answer before it, or the task), `{task}`, `{said}`
    /// (all answers so far), and each earlier agent's name for its answer.
    pub prompt: Option<Prompt>,
}

impl Stage {
    /// A stage that gets the answer before it unchanged.
    pub fn new(agent: impl Into<String>) -> Self {
        Self {
            agent: agent.into(),
            prompt: None,
        }
    }

    /// Sets what it is asked.
    #[must_use]
    pub fn prompt(mut self, prompt: impl Into<String>) -> Self {
        self.prompt = Some(Prompt::new(prompt));
        self
    }

    fn asked(&self, task: &str, said: &[Utterance]) -> String {
        let previous = match said.last() {
            Some(said) => said.text.as_str(),
            None => task,
        };
        let Some(prompt) = &self.prompt else {
            return previous.to_owned();
        };
        prompt.fill_by(&|name| match name {
            "previous" => Some(previous.into()),
            "task" => Some(task.into()),
            "said" => Some(transcript(said).into()),
            agent => {
                // The later of two answers of one agent counts.
                let answer = said.iter().rfind(|said| said.by == agent)?;
                Some(answer.text.as_str().into())
            }
        })
    }
}

/// In a file: an agent's name, or the agent with a prompt.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected an agent's name, or a mapping with `agent` and `prompt`"
)]
enum NameOrStage {
    /// Only the name.
    Name(String),
    /// With a prompt.
    Stage {
        /// The agent.
        agent: String,
        /// The question to it.
        prompt: Prompt,
    },
}

impl From<NameOrStage> for Stage {
    fn from(stage: NameOrStage) -> Self {
        match stage {
            NameOrStage::Name(agent) => Self {
                agent,
                prompt: None,
            },
            NameOrStage::Stage { agent, prompt } => Self {
                agent,
                prompt: Some(prompt),
            },
        }
    }
}

impl From<Stage> for NameOrStage {
    fn from(stage: Stage) -> Self {
        let Stage { agent, prompt } = stage;
        match prompt {
            None => Self::Name(agent),
            Some(prompt) => Self::Stage { agent, prompt },
        }
    }
}

impl Pipeline {
    fn stages(&self, agent: &AgentSpec) -> Vec<Stage> {
        if !self.stages.is_empty() {
            return self.stages.clone();
        }
        let below = agent.agents.iter();
        below.map(|agent| Stage::new(agent.name.as_str())).collect()
    }
}

impl Behavior for Pipeline {
    async fn run(&self, cx: RunContext) -> Result<Outcome, AgentError> {
        let task = task(&cx);
        let mut said: Vec<Utterance> = Vec::new();
        let mut ends = Ends::default();
        for stage in self.stages(cx.spec()) {
            let asked = stage.asked(&task, &said);
            let end = ask(&cx, &stage.agent, asked, self.stage_timeout).await?;
            if self.on_failure.ends_by(&end) {
                return ends.ended_by(&stage.agent, end);
            }
            if end.is_answer() {
                said.push(Utterance::new(stage.agent.as_str(), end.told()));
            }
            ends.push(stage.agent, end);
        }
        ends.into_end()
    }

    fn check(&self, agent: &AgentSpec) -> Result<(), String> {
        for (place, stage) in self.stages.iter().enumerate() {
            check_name(agent, &format!("stages[{place}]"), &stage.agent)?;
        }
        if self.stages(agent).is_empty() {
            return Err(format!("it has no stages: put agents below {}", agent.name));
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_stage_is_a_name_or_an_agent_with_a_prompt() {
        let given = json!({"stages": ["a", {"agent": "b", "prompt": "{a} {task} {previous} {x}"}]});
        let pipeline: Pipeline = serde_json::from_value(given.clone()).unwrap();
        let said = [Utterance::new("a", "old"), Utterance::new("a", "new")];
        assert_eq!(pipeline.stages[0].asked("task", &[]), "task");
        assert_eq!(pipeline.stages[0].asked("task", &said), "new");
        assert_eq!(pipeline.stages[1].asked("task", &said), "new task new {x}");
        assert_eq!(
            serde_json::to_value(&pipeline).unwrap()["stages"],
            given["stages"]
        );
    }
}
