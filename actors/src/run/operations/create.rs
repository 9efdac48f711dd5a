//! The tools with which a model makes agents, and gets the results of agents in the background.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures_util::future::{FutureExt, Shared};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Assignee, Delegated,
    answered::{Answered, CallEnd, refused},
    call_path::told,
    fitting::fits,
};
use crate::{
    definition::CREATE_AGENT,
    run::{
        Leg, RunContext, Task,
        delegated::{InBackground, MadeAgent, Work},
        recorded_result::as_result,
    },
    vocabulary::{AgentError, AnsweredBy, Part, ToolCall, ToolResult, ToolStatus, listed},
};

/// How many characters of a result are kept.
const KEPT: usize = 16_000;
/// The note that the model reads with a result for which no tool was called.
const NO_TOOL_USED: &str = "[It called none of its tools.]";

/// The word to an agent that gets its task again.
const USE_TOOLS: &str = "[An earlier answer was given without any of your tools. Use them.]";

/// The end of an agent that a model made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MadeStatus {
    /// With an answer.
    Success,
    /// With an answer that rests on tools, after an earlier one that rested on none and was not taken.
    VerifiedCorrected,
    /// With an answer for which it called none of the tools that it was given.
    NoToolUsed,
    /// At a bound, with what it had by then.
    Partial,
    /// With an error.
    Failed,
}

/// The record of an agent that a model made. It stands in the working memory of the tree
/// ([`RunContext::memory`]) under `agent:NAME`, for all runs of the tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MadeResult {
    /// How it ended.
    pub status: MadeStatus,
    /// The result that its maker's model read, cut to 16,000 characters.
    pub result: String,
    /// Its answer as a value, where it is an object or a list in JSON and not cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
}

impl MadeStatus {
    fn of(end: &Result<Delegated, AgentError>, had_tools: bool) -> Self {
        match end {
            Err(_) => Self::Failed,
            Ok(done) if done.outcome.stop_reason().is_some() => Self::Partial,
            Ok(done) if had_tools && done.spent.tool_calls == 0 => Self::NoToolUsed,
            Ok(_) => Self::Success,
        }
    }
}

/// An agent that a call asks for.
pub(super) struct Wanted {
    pub(super) agent: Assignee,
    pub(super) task: Task,
    pub(super) background: bool,
}

impl RunContext {
    /// Makes the agent that the model asks for, and gives it its task. Equal calls at the same time
    /// share one agent.
    pub(super) fn create_call(&self, call: ToolCall) -> CallEnd {
        let refused = |text: String| refused(&call, text);
        let Wanted {
            agent,
            task,
            background,
        } = match wanted(self.leg(), &call) {
            Some(Ok(wanted)) => wanted,
            Some(Err(fault)) => return refused(fault),
            None => return refused("No agent can be made here.".to_owned()),
        };
        let by = AnsweredBy::Agent(agent.name().to_owned());
        let arguments = call.arguments.value();
        let key = arguments.map_or_else(|_| String::new(), ToString::to_string);
        if let Some(work) = self.at_work(&key) {
            let by = |result| Answered::by(by, result);
            return Box::pin(async move { told(&call, work.await).map(by) });
        }
        let name = agent.name();
        if background && self.leg().books.lock().in_background.contains_key(name) {
            let text =
                format!("Not made: the agent {name:?} is at work already; ask for its result.");
            return refused(text);
        }
        let bound = self.spec().create_agent.as_ref().map_or(0, |c| c.agents);
        if self.used_before(CREATE_AGENT) >= bound {
            return refused(format!(
                "Not made: this run may make {bound} agents, and has. Go on with what there is."
            ));
        }
        if background {
            return self.create_in_background(call, agent, task);
        }
        let keeper = self.keeper_of(name.to_owned(), has_tools(&agent));
        let work = self
            .work(agent, task, keeper.was_given_again.clone())
            .shared();
        if let Some(work) = work.downgrade() {
            let mut books = self.leg().books.lock();
            books.made.insert(key, MadeAgent(work));
        }
        Box::pin(async move {
            let result = keeper.keep(&call, work.await).await?;
            Ok(Answered::by(by, result))
        })
    }

    /// Has a made agent do its task, again where it used none of its tools and that is allowed.
    fn work(&self, agent: Assignee, task: Task, was_given_again: Arc<AtomicBool>) -> Work {
        let retries = self.spec().create_agent.as_ref().map_or(0, |c| c.retries);
        let first = self.delegate(agent.clone(), task.clone());
        if retries == 0 || !has_tools(&agent) {
            return Box::pin(first);
        }
        let cx = self.lane(format!("retries of {}", agent.name()));
        Box::pin(async move {
            let mut end = first.await;
            for _ in 0..retries {
                if MadeStatus::of(&end, true) != MadeStatus::NoToolUsed {
                    break;
                }
                was_given_again.store(true, Ordering::Relaxed);
                let mut again = task.clone();
                again.message.parts.push(Part::Text(USE_TOOLS.to_owned()));
                end = cx.delegate(agent.clone(), again).await;
            }
            end
        })
    }

    /// Begins an agent that works beside the run.
    fn create_in_background(&self, call: ToolCall, agent: Assignee, task: Task) -> CallEnd {
        let (leg, name) = (self.leg().clone(), agent.name().to_owned());
        let has_tools = has_tools(&agent);
        let spawning = self.spawn(agent, task);
        Box::pin(async move {
            let by = AnsweredBy::Agent(name.clone());
            let child = match spawning.await {
                Ok(child) => child,
                Err(error) => {
                    return as_result(&call, Err(error)).map(|result| Answered::by(by, result));
                }
            };
            let made = InBackground { child, has_tools };
            let text = format!(
                "The agent {name:?} is at work. Ask for its result with agent_result before you answer."
            );
            leg.books.lock().in_background.insert(name, made);
            let result = ToolResult::new(&call, ToolStatus::Success, text);
            Ok(Answered::by(by, result))
        })
    }

    /// Waits for an agent that the model made in the background.
    pub(super) fn agent_result_call(&self, call: ToolCall) -> CallEnd {
        #[derive(Deserialize)]
        struct Named {
            name: String,
        }
        if let Err(fault) = self.fits_offered(&call) {
            return refused(&call, fault);
        }
        let Ok(Named { name }) = call.arguments.parse::<Named>() else {
            return refused(&call, "Name the agent.");
        };
        // The result is given once and stays in the conversation.
        let spawned = self.leg().books.lock().in_background.remove(&name);
        let Some(spawned) = spawned else {
            let books = self.leg().books.lock();
            let known = listed(books.in_background.keys());
            drop(books);
            let text = format!(
                "No agent {name:?} works in the background. At work, or not asked for: {known}."
            );
            return refused(&call, text);
        };
        let keeper = self.keeper_of(name.clone(), spawned.has_tools);
        let joining = self.join(&spawned.child);
        Box::pin(async move {
            let result = keeper.keep(&call, joining.await).await?;
            Ok(Answered::by(AnsweredBy::Agent(name), result))
        })
    }

    fn keeper_of(&self, name: String, had_tools: bool) -> Keeper {
        let cx = self.lane(format!("agent {name}"));
        Keeper {
            name,
            had_tools,
            was_given_again: Arc::default(),
            cx,
        }
    }

    /// The agent that was made for this request, if it is still at work.
    fn at_work(&self, key: &str) -> Option<Shared<Work>> {
        let books = self.leg().books.lock();
        let work = books.made.get(key)?.0.upgrade()?;
        work.peek().is_none().then_some(work)
    }
}

/// Whether a made agent, or one of the agents that do its steps, has tools.
fn has_tools(agent: &Assignee) -> bool {
    match agent {
        Assignee::Named(_) => false,
        Assignee::Made(agent) | Assignee::MadeByModel(agent) => {
            let mut agents = agent.walk().into_iter();
            agents.any(|(_, agent)| !agent.tools.is_empty())
        }
    }
}

/// Keeps an agent's result for all runs of the tree.
struct Keeper {
    name: String,
    had_tools: bool,
    /// Whether the task was given again, because no tool was used.
    was_given_again: Arc<AtomicBool>,
    cx: RunContext,
}

impl Keeper {
    /// The result as the model reads it.
    async fn keep(
        self,
        call: &ToolCall,
        end: Result<Delegated, AgentError>,
    ) -> Result<ToolResult, AgentError> {
        let mut status = MadeStatus::of(&end, self.had_tools);
        let answer = end.as_ref().ok().map(|done| done.outcome.text());
        let output = answer.filter(|text| text.len() <= KEPT).and_then(|text| {
            let value: Value = serde_json::from_str(text).ok()?;
            (value.is_object() || value.is_array()).then_some(value)
        });
        let mut result = told(call, end)?;
        let was_given_again = self.was_given_again.load(Ordering::Relaxed);
        if was_given_again && status == MadeStatus::Success {
            status = MadeStatus::VerifiedCorrected;
        }
        if status == MadeStatus::NoToolUsed {
            result.text = format!("{}\n\n{NO_TOOL_USED}", result.text);
        }
        let kept = MadeResult {
            status,
            result: result.text.chars().take(KEPT).collect(),
            output,
        };
        let key = format!("agent:{}", self.name);
        match self.cx.memory().set(key, &kept).await {
            // The model still gets a result that cannot be kept.
            Err(AgentError::Operation(error)) => {
                tracing::warn!(agent = self.name, %error, "what an agent came to was not kept");
            }
            end => drop(end?),
        }
        Ok(result)
    }
}

/// The agent that a call asks for. `None` if the call asks for none, and an error in words if the
/// agent cannot be made.
pub(super) fn wanted(leg: &Leg, call: &ToolCall) -> Option<Result<Wanted, String>> {
    let create = leg.agent.spec.create_agent.as_ref()?;
    let definition = leg.agent.offered.get(&call.name)?;
    if call.name != CREATE_AGENT {
        return None;
    }
    let make = || {
        let arguments = fits(definition, &call.arguments)?;
        let creation = create.make(&leg.agent, &arguments)?;
        let name = &creation.agent.name;
        if leg.pinned.team.find(name).is_some() {
            return Err(format!("Not made: there is an agent {name:?} already."));
        }
        Ok(Wanted {
            task: Task::from(creation.task)
                .budget(creation.budget)
                .asked_by(call),
            agent: Assignee::MadeByModel(Box::new(creation.agent)),
            background: creation.background,
        })
    };
    Some(make())
}
