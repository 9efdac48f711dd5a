//! Agents that work at the same time.

use std::time::Duration;

use ghostlight_actors::{
    definition::AgentSpec,
    run::{Behavior, RunContext},
    vocabulary::{AgentError, ErrorKind, OperationError, Outcome, seconds},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    Utterance,
    conversation::with_transcript,
    ends::MemberEnd,
    member::{Part, ask, ask_all, at_least_one, check_members, members, task},
};

/// Gives all members the same task at once. No member sees the others' answers. The answer is that
/// of the aggregator or, without one, a JSON object with each answer under its member's name.
///
/// ```yaml
/// behavior: { name: parallel, aggregator: editor, max_at_once: 4, on_failure: { quorum: 2 } }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Parallel {
    /// The members; all agents below but the aggregator when left out.
    pub members: Vec<String>,
    /// The agent below that answers from the task and all answers.
    pub aggregator: Option<String>,
    /// How many members work at once; all when left out.
    pub max_at_once: Option<u32>,
    /// The reaction to a member that fails.
    pub on_failure: ParallelFailure,
    /// The longest that one member may take.
    #[serde(rename = "member_timeout_s", with = "seconds")]
    #[schemars(with = "Option<f64>")]
    pub member_timeout: Option<Duration>,
}

/// The reaction of [`Parallel`] to a member that fails, or stops before its task is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ParallelFailure {
    /// The work ends as the member did, and the others are cancelled.
    #[default]
    FailFast,
    /// All others end first; the answer reports the failure under the member's name.
    CollectAll,
    /// The work is done as soon as this many have answered, and the others are cancelled.
    Quorum(u32),
}

impl Behavior for Parallel {
    async fn run(&self, cx: RunContext) -> Result<Outcome, AgentError> {
        let task = task(&cx);
        let aggregator = self.aggregator.as_deref();
        let members = members(cx.spec(), &self.members, &[aggregator]);
        let parts: Vec<Part> = members
            .iter()
            .map(|member| Part::new(member, task.as_str()))
            .collect();
        let mut answered = 0;
        let enough = |end: &MemberEnd| {
            answered += u32::from(end.is_answer());
            end.leaves()
                || match self.on_failure {
                    ParallelFailure::FailFast => !end.is_answer(),
                    ParallelFailure::CollectAll => false,
                    ParallelFailure::Quorum(quorum) => answered >= quorum,
                }
        };
        let wait = self.member_timeout;
        let ends = ask_all(&cx, parts, self.max_at_once, wait, enough).await?;
        let fails = |end: &MemberEnd| {
            end.leaves() || self.on_failure == ParallelFailure::FailFast && !end.is_answer()
        };
        if let Some(end) = ends.ending(fails) {
            return end;
        }
        let needed = match self.on_failure {
            ParallelFailure::Quorum(quorum) => quorum as usize,
            _ => 1,
        };
        let answered = ends.iter().filter(|end| end.is_answer()).count();
        if answered < needed {
            return ends.stopped().ok_or_else(|| {
                let (members, reasons) = (members.len(), ends.reasons());
                let message = format!(
                    "{answered} of {members} members answered, and {needed} are needed: {reasons}"
                );
                OperationError::new(ErrorKind::Delegation, message).into()
            });
        }
        let Some(aggregator) = aggregator else {
            return Ok(Outcome::answer(by_name(ends.told())));
        };
        let asked = with_transcript(&task, &ends.told());
        let end = ask(&cx, aggregator, asked, wait).await?;
        end.into_outcome_after(aggregator, ends.made())
    }

    fn check(&self, agent: &AgentSpec) -> Result<(), String> {
        at_least_one("max_at_once", self.max_at_once)?;
        let aggregator = [("aggregator", self.aggregator.as_deref())];
        check_members(agent, &self.members, &aggregator, 1)?;
        let members = members(agent, &self.members, &[self.aggregator.as_deref()]).len();
        match self.on_failure {
            ParallelFailure::Quorum(quorum) if !(1..=members).contains(&(quorum as usize)) => Err(
                format!("on_failure: the quorum must be from 1 to the {members} members"),
            ),
            _ => Ok(()),
        }
    }
}

/// Each answer under its member's name.
fn by_name(said: Vec<Utterance>) -> String {
    let named = said.into_iter().map(|said| (said.by, said.text.into()));
    Value::Object(named.collect::<Map<_, _>>()).to_string()
}
