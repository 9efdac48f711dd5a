//! A member of a workflow, and the task that it is given.

use std::{pin::pin, time::Duration};

pub(super) use crate::behaviors::{exhausted, task};
use futures_util::{
    future::{BoxFuture, FutureExt},
    stream::{self, StreamExt},
};
use ghostlight_actors::{
    definition::AgentSpec,
    run::{RunContext, Task},
    vocabulary::{
        AgentError, Answer, ErrorKind, OperationError, Outcome, StopReason, ToolResult, ToolStatus,
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Utterance, conversation::transcript};

/// What a workflow does when a member fails, or stops before its task is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnFailure {
    /// The workflow ends as the member did: failed, or stopped for the same reason.
    #[default]
    Stop,
    /// The workflow continues, and the following members are told that this one failed.
    GoOn,
}

/// The end of a member's task.
#[derive(Clone, Debug)]
pub(super) enum MemberEnd {
    /// It answered.
    Answered(String),
    /// It stopped before its end, with what it had made so far.
    Stopped(StopReason, String),
    /// It failed.
    Failed(OperationError),
}

impl MemberEnd {
    /// Its answer, or a text that says why there is none.
    pub(super) fn told(&self) -> String {
        match self {
            Self::Answered(text) => text.clone(),
            Self::Stopped(reason, text) if text.is_empty() => format!("[stopped: {reason}]"),
            Self::Stopped(reason, text) => format!("{text}\n[stopped: {reason}]"),
            Self::Failed(error) => format!("[failed: {error}]"),
        }
    }

    pub(super) fn is_answer(&self) -> bool {
        matches!(self, Self::Answered(_))
    }

    /// The workflow's end, if it ends as this member did; the text is what each of several members
    /// has made, under its name.
    pub(super) fn into_outcome_among<'a>(
        self,
        ends: impl IntoIterator<Item = (String, &'a MemberEnd)>,
    ) -> Result<Outcome, AgentError> {
        let said = ends.into_iter();
        let said = said.filter_map(|(by, end)| Some(Utterance::new(by, end.made()?)));
        let said: Vec<Utterance> = said.collect();
        match self {
            Self::Stopped(reason, own) => {
                let alone = said.len() == 1 && !own.is_empty();
                let text = if alone { own } else { transcript(&said) };
                Self::Stopped(reason, text).into_outcome("")
            }
            end => end.into_outcome(""),
        }
    }

    /// Whether it ends the workflow, whatever the settings say.
    pub(super) fn leaves(&self) -> bool {
        let reason = match self {
            Self::Stopped(reason, _) => reason,
            _ => return false,
        };
        matches!(reason, StopReason::Escalated(_) | StopReason::LoopExited)
    }

    /// Whether the task may be tried again. Not if its effect may have happened already, if
    /// somebody refused or cancelled it, or if no budget is left.
    pub(super) fn may_be_tried_again(&self) -> bool {
        match self {
            Self::Answered(_) | Self::Stopped(StopReason::BudgetExhausted(_), _) => false,
            Self::Stopped(..) => true,
            Self::Failed(error) => may_be_repeated(error),
        }
    }

    /// The text that it made, complete or not: its answer, or what it had when it stopped.
    pub(super) fn made(&self) -> Option<&str> {
        match self {
            Self::Answered(text) | Self::Stopped(_, text) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// The workflow's end, if it ends as this member did; `made` is what all members have made,
    /// this one included, each under its name.
    pub(super) fn into_end_of_all(self, made: String) -> Result<Outcome, AgentError> {
        match self {
            Self::Stopped(reason, text) if made.is_empty() => Ok(stopped(reason, text)),
            Self::Stopped(reason, _) => Ok(stopped(reason, made)),
            other => other.into_outcome(""),
        }
    }

    /// The workflow's end, if it ends as this member did after the others made this. What the
    /// member has itself stands behind it, and does not take its place.
    pub(super) fn into_outcome_after(
        self,
        by: &str,
        before: &[Utterance],
    ) -> Result<Outcome, AgentError> {
        let Self::Stopped(reason, own) = self else {
            return self.into_outcome("");
        };
        let mut made = before.to_vec();
        made.push(Utterance::new(by, own));
        made.retain(|said| !said.text.is_empty());
        Ok(stopped(
            reason,
            match made.as_slice() {
                [alone] => alone.text.clone(),
                made => transcript(made),
            },
        ))
    }

    /// The workflow's end, if it ends as its member did; `partial` is the text to use if the member
    /// has none.
    pub(super) fn into_outcome(self, partial: &str) -> Result<Outcome, AgentError> {
        match self {
            Self::Answered(text) => Ok(Outcome::answer(text)),
            Self::Stopped(reason, text) => {
                let text = if text.is_empty() {
                    partial.to_owned()
                } else {
                    text
                };
                Ok(stopped(reason, text))
            }
            Self::Failed(error) => Err(error.into()),
        }
    }
}

/// How the members ended that worked so far.
#[derive(Default)]
pub(super) struct Ends(Vec<(String, MemberEnd)>);

impl Ends {
    pub(super) fn push(&mut self, by: impl Into<String>, end: MemberEnd) {
        self.0.push((by.into(), end));
    }

    /// The last answer; empty if nobody answered.
    pub(super) fn last_answer(&self) -> &str {
        let mut answers = self.0.iter().rev().filter(|(_, end)| end.is_answer());
        let last = answers.next().and_then(|(_, end)| end.made());
        last.unwrap_or_default()
    }

    /// The workflow's end, if it ends as this member did.
    pub(super) fn ended_by(&self, by: &str, end: MemberEnd) -> Result<Outcome, AgentError> {
        let mut ends = self.0.iter().rev();
        let answer = ends.clone().find(|(_, end)| end.is_answer());
        let last = answer.or_else(|| ends.find(|(_, end)| end.made().is_some()));
        let last = last.and_then(|(by, end)| Some(Utterance::new(by.as_str(), end.made()?)));
        end.into_outcome_after(by, last.as_slice())
    }

    /// The workflow's end where nobody answered: as the last of those that stopped, or else as the
    /// last one. `None` where somebody answered, or there was nothing to do.
    pub(super) fn without_answer(&self) -> Option<Result<Outcome, AgentError>> {
        if self.0.iter().any(|(_, end)| end.is_answer()) {
            return None;
        }
        let mut ends = self.0.iter().rev();
        let stopped = ends.find(|(_, end)| matches!(end, MemberEnd::Stopped(..)));
        let (_, end) = stopped.or(self.0.last())?;
        let ends = self.0.iter().map(|(by, end)| (by.clone(), end));
        Some(end.clone().into_outcome_among(ends))
    }

    /// The workflow's end when all have had their turn: with the last answer.
    pub(super) fn into_end(self) -> Result<Outcome, AgentError> {
        let end = self.without_answer();
        end.unwrap_or_else(|| Ok(Outcome::answer(self.last_answer())))
    }
}

/// A stop with this text as its partial answer, if it is not empty.
pub(super) fn stopped(reason: StopReason, text: String) -> Outcome {
    let partial = (!text.is_empty()).then(|| Answer::text(text));
    Outcome::Stopped { reason, partial }
}

/// The budget that stopped one of these members.
pub(super) fn out_of_budget<'a>(
    ends: impl IntoIterator<Item = &'a MemberEnd>,
) -> Option<StopReason> {
    let reason = |end: &MemberEnd| match end {
        MemberEnd::Stopped(reason @ StopReason::BudgetExhausted(_), _) => Some(reason.clone()),
        _ => None,
    };
    ends.into_iter().find_map(reason)
}

/// Whether a task that failed so can be repeated. The failure of a delegated task is judged by its
/// cause, too.
fn may_be_repeated(error: &OperationError) -> bool {
    let repeats = !matches!(
        error.kind,
        ErrorKind::InDoubt
            | ErrorKind::StillRunning
            | ErrorKind::Cancelled
            | ErrorKind::Denied
            | ErrorKind::Expired
            | ErrorKind::Store
            | ErrorKind::Budget(_)
    );
    let cause = match error.cause.as_deref() {
        Some(AgentError::Operation(cause)) => may_be_repeated(cause),
        _ => true,
    };
    repeats && cause
}

/// Gives a member a task and waits for its end, at most for `limit`.
///
/// # Errors
/// When the run has diverged, ended or moved, which no workflow can handle.
pub(super) async fn ask(
    cx: &RunContext,
    member: &str,
    task: impl Into<Task>,
    limit: Option<Duration>,
) -> Result<MemberEnd, AgentError> {
    let delegated = cx.delegate(member, task);
    let ended = match limit {
        None => delegated.await,
        Some(limit) => match cx.timeout(limit, delegated).await {
            Ok(ended) => ended,
            Err(elapsed) => {
                let mut error = OperationError::new(ErrorKind::Timeout, elapsed.to_string());
                error.path = vec![member.to_owned()];
                return Ok(MemberEnd::Failed(error));
            }
        },
    };
    match ended {
        Ok(delegated) => Ok(match delegated.outcome {
            Outcome::Stopped { reason, .. } => MemberEnd::Stopped(reason, delegated.text),
            _ => MemberEnd::Answered(delegated.text),
        }),
        Err(AgentError::Operation(error)) => Ok(match error.kind {
            ErrorKind::Budget(resource) => {
                MemberEnd::Stopped(StopReason::BudgetExhausted(resource), String::new())
            }
            _ => MemberEnd::Failed(error),
        }),
        Err(error) => Err(error),
    }
}

/// The end of a tool's call, as the end of a task: only a failure that the tool itself reports is
/// [`ErrorKind::Tool`].
///
/// # Errors
/// When the run must stop: for a call in doubt whose tool says so, a store that fails, or a run
/// that has diverged or ended.
pub(super) fn called(ended: Result<Vec<ToolResult>, AgentError>) -> Result<MemberEnd, AgentError> {
    let results = match ended {
        Ok(results) => results,
        Err(error) => return Ok(MemberEnd::Stopped(exhausted(error)?, String::new())),
    };
    let Some(result) = results.into_iter().next() else {
        return Err(AgentError::failed("a call of a tool came to no result"));
    };
    let kind = match result.status {
        ToolStatus::Success => return Ok(MemberEnd::Answered(result.text)),
        ToolStatus::Error => ErrorKind::Tool,
        ToolStatus::Denied | ToolStatus::Blocked => ErrorKind::Denied,
        ToolStatus::Interrupted => ErrorKind::Cancelled,
        _ => ErrorKind::InDoubt,
    };
    Ok(MemberEnd::Failed(OperationError::new(kind, result.text)))
}

/// A part of a task, and the member that does it.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) member: String,
    pub(super) task: String,
}

impl Part {
    pub(super) fn new(member: impl Into<String>, task: impl Into<String>) -> Self {
        Self {
            member: member.into(),
            task: task.into(),
        }
    }
}

/// Gives all parts to their members, at most `at_once` at a time, until all have ended, or until
/// `enough` says so after one of them; the others are then cancelled. The ends are in the order of
/// the parts.
///
/// # Errors
/// As [`ask`].
pub(super) async fn ask_all(
    cx: &RunContext,
    parts: &[Part],
    at_once: Option<u32>,
    limit: Option<Duration>,
    mut enough: impl FnMut(&MemberEnd) -> bool,
) -> Result<Vec<Option<MemberEnd>>, AgentError> {
    let mut ends: Vec<Option<MemberEnd>> = vec![None; parts.len()];
    let asked: Vec<BoxFuture<'_, _>> = parts
        .iter()
        .enumerate()
        .map(|(place, part)| {
            let end = ask(cx, &part.member, part.task.as_str(), limit);
            end.map(move |end| (place, end)).boxed()
        })
        .collect();
    let at_once = at_once.map_or(parts.len(), |bound| bound as usize).max(1);
    let mut working = pin!(stream::iter(asked).buffer_unordered(at_once));
    while let Some(ended) = working.next().await {
        let (place, end) = ended;
        let end = end?;
        let is_enough = enough(&end);
        ends[place] = Some(end);
        if is_enough {
            break;
        }
    }
    Ok(ends)
}

/// A limit in milliseconds, as a duration.
pub(super) fn limit(milliseconds: Option<u64>) -> Option<Duration> {
    milliseconds.map(Duration::from_millis)
}

/// The named members, or all agents below without another role in the workflow.
pub(super) fn members<'a>(
    agent: &'a AgentSpec,
    named: &'a [String],
    others: &[Option<&str>],
) -> Vec<&'a str> {
    if !named.is_empty() {
        return named.iter().map(String::as_str).collect();
    }
    let below = agent.agents.iter().map(|agent| agent.name.as_str());
    below.filter(|name| !others.contains(&Some(name))).collect()
}

/// Checks that a setting names an agent below.
///
/// # Errors
/// The wrong name, and the names of the agents below.
pub(super) fn check_name(agent: &AgentSpec, setting: &str, name: &str) -> Result<(), String> {
    if agent.agents.iter().any(|below| below.name == name) {
        return Ok(());
    }
    let names: Vec<&str> = agent
        .agents
        .iter()
        .map(|below| below.name.as_str())
        .collect();
    let below = match names.as_slice() {
        [] => "none".to_owned(),
        names => names.join(", "),
    };
    Err(format!(
        "{setting} names {name:?}, which is no agent below {}; there are: {below}",
        agent.name
    ))
}

/// Checks that every name belongs to an agent below, and that there are enough members.
///
/// # Errors
/// The missing name or member.
pub(super) fn check_members(
    agent: &AgentSpec,
    named: &[String],
    others: &[(&str, Option<&str>)],
    at_least: usize,
) -> Result<(), String> {
    for (place, name) in named.iter().enumerate() {
        check_name(agent, &format!("members[{place}]"), name)?;
    }
    for (setting, name) in others {
        if let Some(name) = name {
            check_name(agent, setting, name)?;
        }
    }
    let apart: Vec<Option<&str>> = others.iter().map(|(_, name)| *name).collect();
    let found = members(agent, named, &apart).len();
    if found < at_least {
        return Err(format!(
            "it needs at least {at_least} members and has {found}: put agents below {}, or name \
             them in `members`",
            agent.name
        ));
    }
    Ok(())
}

/// Checks that a bound is not zero.
///
/// # Errors
/// The name of the setting that is zero.
pub(super) fn at_least_one(setting: &str, value: Option<u32>) -> Result<(), String> {
    match value {
        Some(0) => Err(format!("{setting} must be at least 1")),
        _ => Ok(()),
    }
}
