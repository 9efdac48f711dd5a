//! Agents that work at the same time.

use ghostlight_actors::{
    definition::AgentSpec,
    run::{Behavior, RunContext},
    vocabulary::{AgentError, ErrorKind, OperationError, Outcome},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    Utterance,
    conversation::with_transcript,
    member::{
        MemberEnd, Part, ask, ask_all, at_least_one, check_members, limit, members, out_of_budget,
        stopped, task,
    },
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
    /// What happens when a member fails.
    pub on_failure: ParallelFailure,
    /// The longest that one member may take, in milliseconds.
    pub member_timeout_ms: Option<u64>,
}

/// What [`Parallel`] does when a member fails, or stops before its task is done.
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
            .map(|member| Part::new(*member, task.as_str()))
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
        let wait = limit(self.member_timeout_ms);
        let ends = ask_all(&cx, &parts, self.max_at_once, wait, enough).await?;
        let fails = |end: &MemberEnd| {
            end.leaves() || self.on_failure == ParallelFailure::FailFast && !end.is_answer()
        };
        if let Some(end) = ends.iter().flatten().find(|end| fails(end)) {
            let ended = members.iter().zip(&ends);
            let ended =
                ended.filter_map(|(member, end)| Some(((*member).to_owned(), end.as_ref()?)));
            return end.clone().into_outcome_among(ended);
        }
        let said = match self.results(&members, &ends) {
            Ok(said) => said,
            Err(error) => {
                let reason = out_of_budget(ends.iter().flatten()).ok_or(error)?;
                return Ok(stopped(reason, made(&members, &ends)));
            }
        };
        match aggregator {
            Some(aggregator) => {
                let asked = with_transcript(&task, &said);
                let end = ask(&cx, aggregator, asked, wait).await?;
                let own = end.made().map(|text| Utterance::new(aggregator, text));
                end.into_end_of_all(by_name(said.into_iter().chain(own).collect()))
            }
            None => Ok(Outcome::answer(by_name(said))),
        }
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

impl Parallel {
    /// The answers of all members that ended, if enough of them answered.
    fn results(
        &self,
        members: &[&str],
        ends: &[Option<MemberEnd>],
    ) -> Result<Vec<Utterance>, AgentError> {
        let answered = ends.iter().flatten().filter(|end| end.is_answer()).count();
        let needed = match self.on_failure {
            ParallelFailure::Quorum(quorum) => quorum as usize,
            _ => 1,
        };
        let ended = members.iter().zip(ends);
        let ended = ended.filter_map(|(member, end)| Some((member, end.as_ref()?)));
        if answered < needed {
            let reasons = ended.filter(|(_, end)| !end.is_answer());
            let reasons: Vec<String> = reasons
                .map(|(member, end)| format!("{member}: {}", end.told()))
                .collect();
            let message = format!(
                "{answered} of {} members answered, and {needed} are needed: {}",
                members.len(),
                reasons.join("; ")
            );
            return Err(OperationError::new(ErrorKind::Delegation, message).into());
        }
        Ok(ended
            .map(|(member, end)| Utterance::new(*member, end.told()))
            .collect())
    }
}

/// What the members made before the work ended, each under its name; empty if none made anything.
fn made(members: &[&str], ends: &[Option<MemberEnd>]) -> String {
    let ended = members.iter().zip(ends);
    let made =
        ended.filter_map(|(member, end)| Some(Utterance::new(*member, end.as_ref()?.made()?)));
    match made.collect::<Vec<_>>() {
        made if made.is_empty() => String::new(),
        made => by_name(made),
    }
}

/// Each answer under its member's name.
fn by_name(said: Vec<Utterance>) -> String {
    let named = said.into_iter().map(|said| (said.by, said.text.into()));
    Value::Object(named.collect::<Map<_, _>>()).to_string()
}
