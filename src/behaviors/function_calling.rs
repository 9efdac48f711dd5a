//! Native tool calling over several turns.

use ghostlight_actors::{
    run::{Behavior, RunContext},
    vocabulary::{AgentError, Outcome},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AgentLoop, Checked, FINISH_TOOL, FinishMode, LoopOptions, at_least_one};

/// Asks the model, runs the tools that it calls in parallel, returns their results to the model,
/// and repeats until it answers: an [`AgentLoop`] run to its end. It is the behavior of an agent
/// that names none.
///
/// - Every call gets exactly one result, whatever happens to it.
/// - A batch that transfers the conversation runs its other calls first. The first of several
///   transfers wins.
/// - An empty turn of the model is answered with a nudge, up to a limit.
/// - The answer of an agent with an output schema is parsed leniently, checked, and returned for
///   correction, up to a limit.
/// - Limits and budgets stop it with a reason and the last text as the partial answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct FunctionCalling {
    /// The most steps; by default the agent's own limit, or 40 if it has none.
    pub max_steps: Option<u32>,
    /// How the model signals that it is done.
    pub completion: FinishMode,
    /// The most turns in a row without progress.
    pub max_empty_turns: u32,
    /// How often an answer that does not fit its schema is returned for correction.
    pub max_repairs: u32,
}

impl Default for FunctionCalling {
    fn default() -> Self {
        let limits = LoopOptions::default();
        Self {
            max_steps: None,
            completion: FinishMode::Text,
            max_empty_turns: limits.max_empty_turns,
            max_repairs: limits.max_repairs,
        }
    }
}

impl Checked for FunctionCalling {
    fn check(&self) -> Result<(), String> {
        at_least_one("max_steps", self.max_steps)?;
        at_least_one("max_empty_turns", Some(self.max_empty_turns))
    }
}

impl FunctionCalling {
    pub(crate) fn limits(&self, cx: &RunContext) -> LoopOptions {
        LoopOptions {
            max_empty_turns: self.max_empty_turns,
            max_repairs: self.max_repairs,
            ..LoopOptions::of(cx, self.max_steps)
        }
    }
}

impl Behavior for FunctionCalling {
    fn asks_model(&self) -> bool {
        true
    }

    fn tools(&self) -> Vec<String> {
        let finishes = self.completion.offers_tool();
        finishes
            .then(|| FINISH_TOOL.to_owned())
            .into_iter()
            .collect()
    }

    async fn run(&self, cx: RunContext) -> Result<Outcome, AgentError> {
        let agent = AgentLoop::new(&cx)?.options(self.limits(&cx));
        agent.completion(self.completion).run().await
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::behaviors::settings;

    #[test]
    fn settings_are_read_strictly_and_checked() {
        let read = |value| settings::<FunctionCalling>(&value);
        assert_eq!(read(json!({})).unwrap(), FunctionCalling::default());
        let set =
            json!({"max_steps": 7, "completion": "either", "max_empty_turns": 1, "max_repairs": 0});
        let set = read(set).unwrap();
        assert_eq!(
            (set.max_steps, set.completion),
            (Some(7), FinishMode::Either)
        );
        for (wrong, reason) in [
            (
                json!({"max_stesp": 7}),
                "unknown field `max_stesp`, expected one of `max_steps`",
            ),
            (json!({"max_steps": 0}), "max_steps must be at least 1"),
            (json!({"completion": "tools"}), "unknown variant `tools`"),
            (json!({"max_repairs": -1}), "invalid value"),
        ] {
            let told = read(wrong).unwrap_err();
            assert!(told.contains(reason), "{told}");
        }
    }
}
