//! A conversation in turns.

use std::time::Duration;

use ghostlight_actors::{
    definition::AgentSpec,
    run::{Behavior, RunContext},
    vocabulary::{AgentError, Outcome, StopReason, seconds},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    OnFailure, Termination,
    member::{at_least_one, check_members, members, task},
    turns::Turns,
};

/// A conversation in which the members take turns; each sees the task and everything said so far.
/// It ends when a condition holds, and the last utterance is the answer.
///
/// ```yaml
/// behavior: { name: round_robin, until: { text: agreed }, max_turns: 12 }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RoundRobin {
    /// The members in the order in which they speak; all agents below when left out.
    pub members: Vec<String>,
    /// The condition that ends it.
    pub until: Option<Termination>,
    /// The most turns. If a condition is set and does not hold by then, the workflow stops with the
    /// last utterance as a partial answer.
    pub max_turns: u32,
    /// The reaction to a member that fails.
    pub on_failure: OnFailure,
    /// The longest that one turn may take.
    #[serde(rename = "turn_timeout_s", with = "seconds")]
    #[schemars(with = "Option<f64>")]
    pub turn_timeout: Option<Duration>,
}

impl Default for RoundRobin {
    fn default() -> Self {
        Self {
            members: Vec::new(),
            until: None,
            max_turns: 20,
            on_failure: OnFailure::Stop,
            turn_timeout: None,
        }
    }
}

impl Behavior for RoundRobin {
    async fn run(&self, cx: RunContext) -> Result<Outcome, AgentError> {
        let most = self.max_turns as usize;
        let turns = Turns {
            members: members(cx.spec(), &self.members, &[]),
            until: self.until.as_ref(),
            as_long_as: None,
            most,
            seen: most,
            on_failure: self.on_failure,
            limit: self.turn_timeout,
        };
        let used_up = StopReason::MaxSteps(self.max_turns);
        turns.run(&cx, &task(&cx), used_up).await
    }

    fn check(&self, agent: &AgentSpec) -> Result<(), String> {
        at_least_one("max_turns", Some(self.max_turns))?;
        check_members(agent, &self.members, &[], 1)
    }
}
