//! The tool by which a model makes agents.

use futures_util::future::{FutureExt, Shared, WeakShared};

use super::{
    Assignee, Delegated,
    approval::fits,
    toolset::{Answered, CallEnd, ready, told},
};
use crate::{
    contract::BoxFuture,
    definition::CREATE_AGENT,
    run::{Leg, RunContext, Task},
    vocabulary::{AgentError, AnsweredBy, ToolCall, ToolResult, ToolStatus},
};

type Work = BoxFuture<'static, Result<Delegated, AgentError>>;

/// An agent that was made, at work. Whoever asks for the same meanwhile waits for it too.
pub(crate) struct MadeAgent(WeakShared<Work>);

impl RunContext {
    /// Makes the agent that the model wants, and gives it its task. Calls that want the same at
    /// the same time are one.
    pub(super) fn create_call(&self, call: ToolCall) -> CallEnd {
        let refused = |text: String| ready(ToolResult::new(&call, ToolStatus::Error, text));
        let (agent, task) = match wanted(self.leg(), &call) {
            Some(Ok(wanted)) => wanted,
            Some(Err(fault)) => return refused(fault),
            None => return refused("No agent can be made here.".to_owned()),
        };
        let made = AnsweredBy::Agent(agent.name().to_owned());
        let by = |result| Answered::by(made, result);
        let arguments = call.arguments.value();
        let key = arguments.map_or_else(|_| String::new(), ToString::to_string);
        if let Some(work) = self.at_work(&key) {
            return Box::pin(async move { told(&call, work.await).map(by) });
        }
        let bound = self.spec().create_agent.as_ref().map_or(0, |c| c.agents);
        if self.used_before(CREATE_AGENT) >= bound {
            return refused(format!(
                "Not made: this run may make {bound} agents, and has. Go on with what there is."
            ));
        }
        let work: Work = Box::pin(self.delegate(agent, task));
        let work = work.shared();
        if let Some(work) = work.downgrade() {
            let mut books = self.leg().books.lock();
            books.made.insert(key, MadeAgent(work));
        }
        Box::pin(async move { told(&call, work.await).map(by) })
    }

    /// What was made for this and has not come to its end.
    fn at_work(&self, key: &str) -> Option<Shared<Work>> {
        let books = self.leg().books.lock();
        let work = books.made.get(key)?.0.upgrade()?;
        work.peek().is_none().then_some(work)
    }
}

/// The agent that a call wants to be made, and its task; `None` where the call wants none, and an
/// error in words where it cannot be made.
pub(super) fn wanted(leg: &Leg, call: &ToolCall) -> Option<Result<(Assignee, Task), String>> {
    let create = leg.agent.spec.create_agent.as_ref()?;
    let definition = leg.agent.offered.get(&call.name)?;
    if call.name != CREATE_AGENT {
        return None;
    }
    let make = || {
        fits(definition, &call.arguments)?;
        let arguments = call.arguments.value().map_err(|fault| fault.to_string())?;
        let creation = create.make(&leg.agent, arguments)?;
        let name = &creation.agent.name;
        if leg.pinned.team.find(name).is_some() {
            return Err(format!("Not made: there is an agent {name:?} already."));
        }
        let task = Task::from(creation.task).budget(creation.budget);
        Ok((Assignee::MadeByModel(Box::new(creation.agent)), task))
    };
    Some(make())
}
