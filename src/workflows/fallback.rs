//! Agents that are tried one after the other until one succeeds.

use std::time::Duration;

use ghostlight_actors::{
    definition::AgentSpec,
    run::{Behavior, RunContext},
    vocabulary::{AgentError, ErrorKind, OperationError, Outcome, StopReason, seconds},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    conversation::with_transcript,
    ends::{Ends, MemberEnd},
    member::{ask, check_members, members, task},
};

/// Asks the members one after the other until one answers; that is the workflow's answer. After a
/// member that fails, escalates or stops early, the next one is asked, and told how the earlier
/// ones ended; only a member that exits the loop ends the workflow. If none answers, the workflow
/// escalates if a member did, stops if one stopped early, with what all of them made, and fails
/// otherwise.
///
/// ```yaml
/// behavior: { name: fallback, member_timeout_s: 30 }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Fallback {
    /// The members; all agents below when left out.
    pub members: Vec<String>,
    /// The longest that one member may take.
    #[serde(rename = "member_timeout_s", with = "seconds")]
    #[schemars(with = "Option<f64>")]
    pub member_timeout: Option<Duration>,
}

impl Behavior for Fallback {
    async fn run(&self, cx: RunContext) -> Result<Outcome, AgentError> {
        let task = task(&cx);
        let mut ends = Ends::default();
        for member in members(cx.spec(), &self.members, &[]) {
            let asked = with_transcript(&task, &ends.told());
            let end = ask(&cx, member, asked, self.member_timeout).await?;
            if end.is_answer() || matches!(end, MemberEnd::Stopped(StopReason::LoopExited, _)) {
                return end.into_outcome(String::new());
            }
            ends.push(member, end);
        }
        ends.stopped().ok_or_else(|| {
            let members = ends.iter().count();
            let reasons = ends.reasons();
            let message = format!("none of {members} members answered: {reasons}");
            OperationError::new(ErrorKind::Delegation, message).into()
        })
    }

    fn check(&self, agent: &AgentSpec) -> Result<(), String> {
        check_members(agent, &self.members, &[], 1)
    }
}
