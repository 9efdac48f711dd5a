//! Agents that repeat their work until a condition holds.

use std::time::Duration;

use ghostlight_actors::{
    definition::AgentSpec,
    run::{Behavior, RunContext},
    vocabulary::{AgentError, ErrorKind, OperationError, Outcome, Resource, StopReason, seconds},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    OnFailure, Termination,
    member::{check_members, members, task},
    turns::Turns,
};

/// Asks the members one after the other, and again from the first, until a condition holds, a
/// condition to go on no longer holds, a member exits the loop, or a bound is reached. Each member
/// sees the task and the answers of the last rounds. The last answer is the workflow's.
///
/// ```yaml
/// behavior: { name: loop, until: { text: APPROVED }, max_rounds: 5 }
/// ```
/// ```yaml
/// behavior: { name: loop, while: { text: "TODO" }, max_rounds: 20 }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Loop {
    /// The members; all agents below when left out.
    pub members: Vec<String>,
    /// The condition that ends it, checked after each answer.
    pub until: Option<Termination>,
    /// The condition to go on, checked before each round on the last answer alone, and before the
    /// first round on the task; if it does not hold for the task, the task is the answer.
    #[serde(rename = "while")]
    pub as_long_as: Option<Termination>,
    /// The most rounds. If a condition is set and has not ended the loop by then, the workflow
    /// stops with the last answer as a partial one; without a condition, that many rounds are the
    /// work. With 0 there is no bound but the budget of the run, which must have one.
    pub max_rounds: u32,
    /// How many of the last rounds a member sees.
    pub rounds_seen: u32,
    /// The reaction to a member that fails.
    pub on_failure: OnFailure,
    /// The longest that one member may take.
    #[serde(rename = "member_timeout_s", with = "seconds")]
    #[schemars(with = "Option<f64>")]
    pub member_timeout: Option<Duration>,
}

impl Default for Loop {
    fn default() -> Self {
        Self {
            members: Vec::new(),
            until: None,
            as_long_as: None,
            max_rounds: 10,
            rounds_seen: 1,
            on_failure: OnFailure::Stop,
            member_timeout: None,
        }
    }
}

impl Behavior for Loop {
    async fn run(&self, cx: RunContext) -> Result<Outcome, AgentError> {
        let members = members(cx.spec(), &self.members, &[]);
        if self.max_rounds == 0 {
            check_bounded(&cx).await?;
        }
        let in_rounds = |rounds: u32| members.len() * rounds as usize;
        let turns = Turns {
            until: self.until.as_ref(),
            as_long_as: self.as_long_as.as_ref(),
            most: match self.max_rounds {
                0 => usize::MAX,
                rounds => in_rounds(rounds),
            },
            seen: in_rounds(self.rounds_seen),
            on_failure: self.on_failure,
            limit: self.member_timeout,
            members,
        };
        let used_up = StopReason::MaxSteps(self.max_rounds);
        turns.run(&cx, &task(&cx), used_up).await
    }

    fn check(&self, agent: &AgentSpec) -> Result<(), String> {
        check_members(agent, &self.members, &[], 1)
    }
}

/// Refuses a loop without an end: some bound of the run's budget must stop it.
async fn check_bounded(cx: &RunContext) -> Result<(), AgentError> {
    let allowance = cx.budget().await?;
    let mut counted = Resource::COUNTED.into_iter();
    let is_bounded = allowance.deadline.is_some()
        || counted.any(|resource| allowance.budget.bound(resource).is_some());
    match is_bounded {
        true => Ok(()),
        false => Err(AgentError::Operation(OperationError::new(
            ErrorKind::InvalidInput,
            "a loop with `max_rounds: 0` would never end: give the team, the turn or the agent a `budget`, or set \
             `max_rounds`",
        ))),
    }
}
