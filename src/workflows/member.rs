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
        AgentError, ErrorKind, OperationError, Outcome, StopReason, ToolResult, ToolStatus,
    },
};

use super::ends::{Ends, MemberEnd};

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
    let delegated = cx.delegate(member, task.into().hears_parent());
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
    /// The name of this work beside the other parts: the member's own, unless it has several.
    pub(super) name: String,
}

impl Part {
    pub(super) fn new(member: &str, task: impl Into<String>) -> Self {
        Self {
            member: member.to_owned(),
            task: task.into(),
            name: member.to_owned(),
        }
    }

    pub(super) fn named(mut self, name: String) -> Self {
        self.name = name;
        self
    }
}

/// Gives all parts to their members, at most `at_once` at a time, until all have ended, or until
/// `enough` says so after one of them; the others are then cancelled. The ends are in the order of
/// the parts, each under the name of its part.
///
/// # Errors
/// As [`ask`].
pub(super) async fn ask_all(
    cx: &RunContext,
    parts: Vec<Part>,
    at_once: Option<u32>,
    limit: Option<Duration>,
    mut enough: impl FnMut(&MemberEnd) -> bool,
) -> Result<Ends, AgentError> {
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
    {
        let mut working = pin!(stream::iter(asked).buffer_unordered(at_once));
        while let Some((place, end)) = working.next().await {
            let end = end?;
            let is_enough = enough(&end);
            ends[place] = Some(end);
            if is_enough {
                break;
            }
        }
    }
    let names = parts.into_iter().map(|part| part.name);
    Ok(names
        .zip(ends)
        .filter_map(|(name, end)| Some((name, end?)))
        .collect())
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
        "{setting} names {name:?}, which is not an agent below {}; there are: {below}",
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
