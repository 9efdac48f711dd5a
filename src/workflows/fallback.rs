//! Agents that are tried one after the other until one succeeds.

use ghostlight_actors::{
    definition::AgentSpec,
    run::{Behavior, RunContext},
    vocabulary::{AgentError, ErrorKind, OperationError, Outcome, StopReason},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Utterance,
    conversation::{transcript, with_transcript},
    member::{MemberEnd, ask, check_members, limit, members, out_of_budget, stopped, task},
};

/// Asks the members one after the other until one answers; that is the workflow's answer. After a
/// member that fails, escalates or stops early, the next one is asked, and told how the earlier
/// ones ended; only a member that exits the loop ends the workflow. If none answers, the workflow
/// escalates if a member did, stops if a budget stopped one, and fails otherwise.
///
/// ```yaml
/// behavior: { name: fallback, member_timeout_ms: 30_000 }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Fallback {
    /// The members; all agents below when left out.
    pub members: Vec<String>,
    /// The longest that one member may take, in milliseconds.
    pub member_timeout_ms: Option<u64>,
}

impl Behavior for Fallback {
    async fn run(&self, cx: RunContext) -> Result<Outcome, AgentError> {
        let task = task(&cx);
        let mut said: Vec<Utterance> = Vec::new();
        let (mut escalated, mut exhausted) = (None, None);
        let mut made: Vec<Utterance> = Vec::new();
        for member in members(cx.spec(), &self.members, &[]) {
            let asked = with_transcript(&task, &said);
            let end = ask(&cx, member, asked, limit(self.member_timeout_ms)).await?;
            match &end {
                MemberEnd::Answered(_) | MemberEnd::Stopped(StopReason::LoopExited, _) => {
                    return end.into_outcome("");
                }
                MemberEnd::Stopped(StopReason::Escalated(_), _) => escalated = Some(end.clone()),
                _ => {}
            }
            exhausted = exhausted.or_else(|| out_of_budget([&end]));
            made.extend(end.made().map(|text| Utterance::new(member, text)));
            said.push(Utterance::new(member, end.told()));
        }
        if let Some(escalated) = escalated {
            return escalated.into_end_of_all(transcript(&made));
        }
        if let Some(reason) = exhausted {
            return Ok(stopped(reason, transcript(&made)));
        }
        let reasons: Vec<String> = said
            .iter()
            .map(|said| format!("{}: {}", said.by, said.text))
            .collect();
        let message = format!(
            "none of {} members answered: {}",
            said.len(),
            reasons.join("; ")
        );
        Err(OperationError::new(ErrorKind::Delegation, message).into())
    }

    fn check(&self, agent: &AgentSpec) -> Result<(), String> {
        check_members(agent, &self.members, &[], 1)
    }
}
