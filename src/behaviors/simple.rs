//! One model call.

use ghostlight_actors::{
    run::{Behavior, RunContext},
    vocabulary::{AgentError, Outcome, ToolSet},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AgentLoop, Checked, LoopLimits};

/// What a model that was offered no tools may still ask for them before it is stopped, and what
/// people may say meanwhile, in calls beyond the first.
const FURTHER_CALLS: u32 = 4;

/// Asks the model once, without tools, and answers with what it says. It asks again only when
/// the answer does not fit the agent's output schema, or a person spoke meanwhile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Simple {
    /// How often an answer that does not fit its schema is given back.
    pub max_repairs: u32,
}

impl Default for Simple {
    fn default() -> Self {
        Self {
            max_repairs: LoopLimits::default().repairs,
        }
    }
}

impl Checked for Simple {}

impl Behavior for Simple {
    async fn run(&self, cx: RunContext) -> Result<Outcome, AgentError> {
        let limits = LoopLimits {
            steps: (1 + FURTHER_CALLS).saturating_add(self.max_repairs),
            empty_turns: 1,
            repairs: self.max_repairs,
            ..LoopLimits::default()
        };
        let mut agent = AgentLoop::new(&cx)?
            .tools(ToolSet::default())
            .limits(limits);
        agent.run().await
    }
}
