use futures_util::{FutureExt, TryFutureExt};
use serde_json::Value;

use super::{
    CallTool, Delegated,
    answered::{Answered, CallEnd, refused},
    approval::ApprovalProgress,
    fitting::fits,
};
use crate::{
    contract::BoxFuture,
    definition::{AGENT_RESULT, CLARIFY, CREATE_AGENT, PUBLISH, TRANSFER_PREFIX},
    run::{Leg, LoopContext, RunContext, Task, policy::Asking, recorded_result::as_result},
    vocabulary::{
        AgentError, AnsweredBy, Arguments, Effect, ToolCall, ToolResult, ToolStatus, Transfer,
        as_text,
    },
};

/// The way to the result of a call that may run. Its operations have their ids.
pub(super) enum CallPath {
    /// Nobody is asked first.
    Open(CallEnd),
    /// Somebody is asked first, for an approval or a credential.
    Asks(BoxFuture<'static, ApprovalProgress>),
    /// Somebody is asked for a policy, which then decides about the call.
    Question(BoxFuture<'static, (Asking, Result<Value, AgentError>)>),
}

impl LoopContext<'_> {
    /// The transfer that this call asks for, if the agent may make it and the arguments fit the
    /// schema that its model was shown.
    pub fn transfer_of(self, call: &ToolCall) -> Option<Transfer> {
        let agent = self.agent().transfers_to(&call.name)?;
        self.fits_transfer(call)?.ok()?;
        let mut transfer = Transfer::to(agent);
        transfer.request = argument(call, "request");
        let to = self.leg().pinned.team.find(agent);
        transfer.returns = to.is_some_and(|to| to.on_handoff.returns);
        Some(transfer)
    }
}

impl RunContext {
    /// The arguments of a call as a tool gets them that is offered under this name, or why they do not fit it.
    pub(super) fn fits_offered(&self, call: &ToolCall) -> Result<Arguments, String> {
        match self.tools_offered().get(&call.name) {
            Some(tool) => fits(tool, &call.arguments),
            None => Ok(call.arguments.clone()),
        }
    }

    /// Whether a call fits the transfer tool. `None` for a call of another tool.
    fn fits_transfer(&self, call: &ToolCall) -> Option<Result<(), String>> {
        // A caller's tool is never a transfer tool, whatever its name is.
        let offered = self.agent().offered.get(&call.name)?;
        if !call.name.starts_with(TRANSFER_PREFIX) {
            return None;
        }
        Some(fits(offered, &call.arguments).map(drop))
    }

    /// The way to the result of one call that may run.
    pub(super) fn answer_call(&self, call: ToolCall) -> CallPath {
        if let Some(end) = self.answer_here(&call) {
            return CallPath::Open(end);
        }
        let Some(definition) = self.tool_definition(&call.name) else {
            let text = format!("The tool {:?} is not part of the pinned team.", call.name);
            return CallPath::Open(refused(&call, text));
        };
        let rule = self.agent().approval_of(&definition);
        let harmless = self.start().dry_run && definition.effect != Effect::Read;
        if harmless || (rule.is_none() && definition.authentication.is_none()) {
            return CallPath::Open(self.carried(CallTool::new(call, definition)));
        }
        let cx = self.lane(format!("approval of {}", call.name));
        CallPath::Asks(Box::pin(cx.ask_first(rule, call, definition)))
    }

    /// The result of a call that reaches no tool: another agent, the caller, or nobody.
    fn answer_here(&self, call: &ToolCall) -> Option<CallEnd> {
        let offered = self.tools_offered();
        if offered.get(&call.name).is_none() {
            let known: Vec<&str> = offered.iter().map(|tool| tool.name.as_str()).collect();
            let text = format!(
                "There is no tool {:?}. There are: {}.",
                call.name,
                known.join(", ")
            );
            return Some(refused(call, text));
        }
        if let Some(tool) = self.callers_tool(&call.name) {
            let tool = tool.clone();
            return Some(self.ask_caller(call.clone(), &tool));
        }
        if let Some(Err(fault)) = self.fits_transfer(call) {
            return Some(refused(call, fault));
        }
        if let Some(transfer) = self.loop_context().transfer_of(call) {
            let text = format!("The conversation was handed to {}.", transfer.to);
            let mut result = ToolResult::new(call, ToolStatus::Success, text);
            result.ends_step = true;
            let answered = Answered::by(AnsweredBy::Agent(transfer.to), result);
            return Some(Box::pin(async move { Ok(answered) }));
        }
        if call.name == CLARIFY && self.spec().clarify.is_some() {
            let by = |result| Answered::by(AnsweredBy::Person(None), result);
            return Some(self.clarify_call(call.clone()).map_ok(by).boxed());
        }
        if let Some(agent) = self.agent().delegates_to(&call.name) {
            return Some(self.delegate_call(agent.to_owned(), call.clone()));
        }
        if call.name == PUBLISH && !self.spec().publishes.is_empty() {
            let by = |result| Answered::by(AnsweredBy::Engine, result);
            let publishing = self.lane(PUBLISH).publish_call(call.clone());
            return Some(publishing.map_ok(by).boxed());
        }
        let create = self.spec().create_agent.as_ref()?;
        match call.name.as_str() {
            CREATE_AGENT => Some(self.create_call(call.clone())),
            AGENT_RESULT if create.background => Some(self.agent_result_call(call.clone())),
            _ => None,
        }
    }

    fn delegate_call(&self, agent: String, call: ToolCall) -> CallEnd {
        let spec = self.leg().pinned.team.find(&agent);
        // The delegation itself checks a task for an agent that has an input type.
        let is_typed = spec.is_some_and(|spec| spec.input.is_some());
        if !is_typed && let Err(fault) = self.fits_offered(&call) {
            // The call keeps its place, so that a recovered run finds the same order.
            let _ = self.allocate();
            return refused(&call, fault);
        }
        let task = task_of(self.leg(), &agent, &call);
        let ends_step = spec.is_some_and(|spec| spec.ends_step);
        let by = AnsweredBy::Agent(agent.clone());
        let delegation = self.delegate(agent, task);
        Box::pin(async move {
            let mut result = told(&call, delegation.await)?;
            result.ends_step = ends_step && result.status == ToolStatus::Success;
            Ok(Answered::by(by, result))
        })
    }
}

/// The result of a delegation, as the model that requested it reads it.
pub(super) fn told(
    call: &ToolCall,
    end: Result<Delegated, AgentError>,
) -> Result<ToolResult, AgentError> {
    let done = match end {
        Ok(done) => done,
        Err(error) => return as_result(call, Err(error)),
    };
    Ok(match done.outcome.stop_reason() {
        None => ToolResult::new(call, ToolStatus::Success, done.text),
        Some(reason) => {
            let text = match done.text.as_str() {
                "" => format!("Stopped before the end: {reason}."),
                partial => format!("Stopped before the end: {reason}. So far: {partial}"),
            };
            ToolResult::new(call, ToolStatus::Error, text)
        }
    })
}

/// The task that a model gives to another agent by this call.
pub(super) fn task_of(leg: &Leg, agent: &str, call: &ToolCall) -> Task {
    let whole = || match call.arguments.value() {
        Ok(value) => value.to_string(),
        Err(_) => call.arguments.text().to_owned(),
    };
    let is_typed = leg
        .pinned
        .team
        .find(agent)
        .is_some_and(|agent| agent.input.is_some());
    let task: Task = match argument(call, "task").filter(|_| !is_typed) {
        Some(task) => task.into(),
        None if is_typed => whole().into(),
        None => call.arguments.text().into(),
    };
    task.asked_by(call)
}

fn argument(call: &ToolCall, name: &str) -> Option<String> {
    call.arguments.value().ok()?.get(name).map(as_text)
}
