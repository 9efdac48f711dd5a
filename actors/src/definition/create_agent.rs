//! What a model that makes agents may make.

use std::time::Duration;

use ghostlight_supervisor::seconds;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::BehaviorSpec;
use crate::vocabulary::Budget;

/// The name of the tool by which a model makes an agent.
pub(crate) const CREATE_AGENT: &str = "create_agent";

/// The name of the tool by which a model waits for an agent that it made in the background.
pub(crate) const AGENT_RESULT: &str = "agent_result";

/// Allows an agent's model to make agents, with which tools and within which bounds. They ask the same model under the same
/// bound on requests, and the agent's policies watch over them.
///
/// ```yaml
/// create_agent: { tools: [calculator, docs], agents: 4, depth: 2 }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct CreateAgentSpec {
    /// The registered names of the tools that they may be given; its own when left out.
    pub tools: Option<Vec<String>>,
    /// How many it may make in one run.
    pub agents: u32,
    /// How many levels of agents may be made: at 1, an agent that was made makes none.
    pub depth: u32,
    /// How they work.
    pub behavior: BehaviorSpec,
    /// The most steps of each.
    pub max_steps: u32,
    /// The time that each may work, at least a second. Its words up to then are its partial result.
    #[serde(rename = "timeout_s", with = "seconds")]
    #[schemars(with = "f64")]
    pub timeout: Duration,
    /// The bounds of each, beyond these.
    pub budget: Budget,
    /// Whether it may make agents that work in the background: the model goes on at once, and waits for one with
    /// the tool `agent_result`. An agent that still works when the run ends is cancelled.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// How often an agent that answered without any of the tools that it was given gets its task again, with a
    /// word about that. An agent in the background gets it once.
    #[serde(skip_serializing_if = "super::form::is_default")]
    pub retries: u32,
}

impl Default for CreateAgentSpec {
    fn default() -> Self {
        Self {
            tools: None,
            agents: 3,
            depth: 1,
            behavior: BehaviorSpec::default(),
            max_steps: 30,
            timeout: Duration::from_secs(300),
            budget: Budget::default(),
            background: false,
            retries: 0,
        }
    }
}
