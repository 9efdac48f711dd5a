//! One model call.

use ghostlight_actors::{
    run::{Behavior, RunContext},
    vocabulary::{AgentError, Outcome, ToolSet},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AgentLoop, Checked, LoopOptions};

/// The most calls beyond the first, for a model that asks for tools it was not offered, and for
/// messages that people send meanwhile.
const FURTHER_CALLS: u32 = 4;

/// Asks the model once, without tools, and answers with its text. It asks again only if the answer
/// does not fit the agent's output schema, the model asks for tools anyway, or a person sends a
/// message meanwhile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Simple {
    /// How often an answer that does not fit its schema is returned for correction.
    pub max_repairs: u32,
}

impl Default for Simple {
    fn default() -> Self {
        Self {
            max_repairs: LoopOptions::default().max_repairs,
        }
    }
}

impl Checked for Simple {}

impl Behavior for Simple {
    fn asks_model(&self) -> bool {
        true
    }

    async fn run(&self, cx: RunContext) -> Result<Outcome, AgentError> {
        let limits = LoopOptions {
            max_steps: (1 + FURTHER_CALLS).saturating_add(self.max_repairs),
            max_empty_turns: 1,
            max_repairs: self.max_repairs,
            ..LoopOptions::default()
        };
        let mut agent = AgentLoop::new(&cx)?
            .tools(ToolSet::default())
            .options(limits);
        agent.run().await
    }
}
