use std::sync::Arc;

use futures_util::FutureExt;
use serde_json::Value;

use super::{
    asking,
    changes::{Changing, TeamToolState, unsaved},
};
use crate::{
    contract::{Origin, StoreError},
    run::{
        Act, Arrival, Attempt, Begin, Gate, InputDigest, Kept, Operation, OperationContext,
        OperationInput, Performing, Ports, RunContext, ToolEnd, ToolInvocation, ToolSlot, Wait,
        WaitFor, Write, journal::Durable, leg::Leg,
    },
    vocabulary::{
        AnsweredBy, Approved, Arguments, Begun, CallReport, Cause, Continued, Data, Digest, Effect,
        ErrorKind, InDoubt, OperationError, OperationId, Question, QuestionKind, Resource, Spent,
        ToolCall, ToolDefinition, ToolResult, ToolStatus,
    },
};

/// A tool call for which nobody is asked first.
#[derive(Clone, Debug)]
pub struct CallTool {
    /// The call, which its operations share.
    pub call: Arc<ToolCall>,
    /// The pinned definition.
    pub definition: Arc<ToolDefinition>,
    /// The decision that approved it, if it needed approval.
    pub approval: Option<Approved>,
    /// Its recorded continuation, if the call goes on.
    pub continued: Option<Continued>,
    /// The question that asked a person for the credential of this call.
    pub(super) asked: Option<OperationId>,
}

/// The digest that identifies a call: of the tool and the arguments, not of the model's id for the
/// call.
pub(crate) fn tool_digest(name: &str, arguments: &str) -> Digest {
    Digest::of_parts(&[name.as_bytes(), arguments.as_bytes()])
}

impl Operation for CallTool {
    type Output = ToolResult;

    fn kind(&self) -> &'static str {
        "tool"
    }

    fn name(&self) -> &str {
        &self.call.name
    }

    fn digest(&self) -> Digest {
        tool_digest(&self.call.name, self.call.arguments.text())
    }

    fn input(&self) -> InputDigest {
        if self.call.name != self.definition.name {
            return self.digest().into();
        }
        let (definition, arguments) = (self.definition.clone(), self.call.arguments.clone());
        InputDigest::later(ToolInput(definition, arguments))
    }

    fn resource(&self) -> Option<Resource> {
        Some(Resource::ToolCalls)
    }

    fn cause(&self) -> Cause {
        self.call.cause()
    }

    fn spent(_result: &ToolResult) -> Spent {
        Spent {
            tool_calls: 1,
            ..Spent::default()
        }
    }

    fn kept(result: &ToolResult) -> Option<Kept> {
        let has_files = result.attachments.iter().any(Data::is_kept_apart);
        Some(Kept::of(result.clone(), has_files))
    }

    fn begin(self, cx: OperationContext) -> Begin<ToolResult> {
        let credential = self.asked.map(|asked| cx.ports.credential(cx.run, asked));
        // A call that an earlier incarnation began is not refused because its credential is lost.
        if credential.as_ref().is_some_and(Option::is_none) && cx.started.is_none() {
            let message = "the credential was lost with the process to which it was given";
            let error = OperationError::new(ErrorKind::Authentication, message);
            return Begin::Ready(Err(error.retryable()));
        }
        let Self {
            call,
            definition,
            approval,
            continued,
            ..
        } = self;
        let origin = match approval {
            None => cx.leg.origin.clone(),
            approval => Arc::new(Origin {
                approval,
                ..(*cx.leg.origin).clone()
            }),
        };
        let mut report = CallReport::new(call.arguments.clone(), AnsweredBy::Tool);
        report.approval.clone_from(&origin.approval);
        if cx.start().dry_run && definition.effect != Effect::Read {
            report.by = AnsweredBy::Engine;
            cx.leg.report(cx.id, report);
            return Begin::Ready(Ok(would_call(&call)));
        }
        match &cx.started {
            Some(Begun::Ticket) => {
                cx.leg.report(cx.id, report);
                return Begin::Wait(wait_for_ticket(call));
            }
            Some(Begun::Question(question)) => {
                report.by = AnsweredBy::Person(None);
                cx.leg.report(cx.id, report);
                return Begin::Wait(wait_for_person(call, (**question).clone()));
            }
            _ => {}
        }
        cx.leg.report(cx.id, report);
        let effect = definition.effect;
        let once = effect == Effect::Once;
        let in_doubt = once && cx.started.is_some();
        let invocation = ToolInvocation {
            run: cx.run,
            root: cx.start().root,
            operation: cx.id,
            agent: cx.leg.agent.name.clone(),
            origin,
            previews: cx.leg.previews(&*cx.ports),
            code: cx.leg.code.tool_of(&cx.leg.agent, &call.name),
            call,
            definition,
            deadline: cx.start().ends_by(),
            cancelled: cx.cancelled.clone(),
            credential: credential.flatten(),
            continued: continued.map(Arc::new),
            kept: TeamToolState::shared(&cx.leg, &cx.ports),
            slot: None,
        };
        let calling = Calling {
            changing: Changing::of(cx.id, &cx.leg, &cx.ports, effect),
            leg: cx.leg,
            ports: cx.ports,
            durable: cx.durable,
            invocation: Arc::new(invocation),
        };
        if !once || in_doubt {
            return Begin::Act(calling.act(once, in_doubt));
        }
        // A call that began and whose end is not known stays in doubt, so a start is recorded only
        // when the call has its slot.
        let mut slot = calling.ports.slot(&calling.invocation);
        match (&mut slot).now_or_never() {
            Some(slot) => Begin::Act(calling.with(slot).act(true, false)),
            None => Begin::act_then(Gate::Open, async move {
                Begin::Act(calling.with(slot.await).act(true, false))
            }),
        }
    }
}

impl CallTool {
    /// A call that nobody had to approve.
    pub fn new(call: impl Into<Arc<ToolCall>>, definition: Arc<ToolDefinition>) -> Self {
        Self {
            call: call.into(),
            definition,
            approval: None,
            continued: None,
            asked: None,
        }
    }
}

/// The tool of a call, and its arguments.
struct ToolInput(Arc<ToolDefinition>, Arguments);

impl OperationInput for ToolInput {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn digest(&self) -> Digest {
        tool_digest(&self.0.name, self.1.text())
    }
}

/// A call that is about to be made.
struct Calling {
    changing: Changing,
    leg: Arc<Leg>,
    ports: Arc<dyn Ports>,
    durable: Arc<Durable>,
    /// Shared with who makes the call, so that it is not copied on its way through futures.
    invocation: Arc<ToolInvocation>,
}

impl Calling {
    fn with(mut self, slot: ToolSlot) -> Self {
        Arc::make_mut(&mut self.invocation).slot = Some(slot);
        self
    }

    fn act(self, record_start: bool, in_doubt: bool) -> Act<ToolResult> {
        let gate = Gate::of(self.invocation.definition.effect);
        Act::new(gate, self.end(in_doubt)).recorded(record_start)
    }

    async fn end(self, in_doubt: bool) -> Begin<ToolResult> {
        let invocation = self.invocation;
        let slot = invocation.slot.clone();
        let books = (&*self.leg, &*self.durable);
        let called = call_or_reconcile(&*self.ports, books, &invocation, in_doubt).await;
        let Ok(called) = called else {
            // The driver hears of the failure by itself and ends everything.
            return std::future::pending().await;
        };
        let begin = match called {
            ToolEnd::Changing(result, changes) => {
                Begin::Write(self.changing.write(result, changes))
            }
            end => ended(&invocation.call, &invocation.definition, end),
        };
        match (begin, slot) {
            // The slot becomes free when the end is being recorded. If it were free earlier, more
            // calls than there are slots could be in doubt after a crash.
            (Begin::Ready(result), Some(slot)) => Begin::deferred(move || {
                drop(slot);
                result
            }),
            (Begin::Write(write), Some(slot)) => {
                let attempt = write.attempt;
                let attempt: Attempt<ToolResult> = Arc::new(move || {
                    let _held = &slot;
                    attempt()
                });
                Begin::Write(Write { attempt, ..write })
            }
            (begin, _) => begin,
        }
    }
}

/// Calls a tool. If an earlier incarnation began this call and did not learn its end, the tool is asked
/// about it, and called again only if it says that nothing happened.
///
/// # Errors
/// The run was lost to another process while the tool was asked.
pub(crate) async fn call_or_reconcile(
    ports: &dyn Ports,
    (leg, durable): (&Leg, &Durable),
    invocation: &Arc<ToolInvocation>,
    in_doubt: bool,
) -> Result<ToolEnd, StoreError> {
    let operation = invocation.operation;
    let asked = match in_doubt {
        true => {
            durable.settled().await;
            let asked = ports.reconcile(invocation.clone()).await;
            if asked.end == ToolEnd::DidNotHappen {
                // The tool was asked after the gate of this call.
                durable.confirm().await?;
            }
            Some(asked)
        }
        false => None,
    };
    let called = match asked.filter(|asked| asked.end != ToolEnd::DidNotHappen) {
        Some(asked) => asked,
        None => ports.tool(invocation.clone()).await,
    };
    leg.tell(operation, called.told);
    leg.tried(operation, called.tries, in_doubt);
    Ok(match called.end {
        // A dry run changes nothing, whatever the tool's definition says.
        ToolEnd::Changing(result, _) if leg.start.dry_run => ToolEnd::Result(result),
        end => end,
    })
}

/// The result of a call that a dry run does not make.
pub(super) fn would_call(call: &ToolCall) -> ToolResult {
    let arguments = ghostlight_safety::redact_arguments(call.arguments.text());
    let text = format!(
        "Dry run: {} was not called. It would have been called with {arguments}. Go on as if it \
         had done what it does.",
        call.name
    );
    ToolResult::new(call, ToolStatus::Success, text)
}

fn ended(call: &Arc<ToolCall>, definition: &ToolDefinition, end: ToolEnd) -> Begin<ToolResult> {
    match end {
        ToolEnd::Result(result) | ToolEnd::Changing(result, _) => Begin::Ready(Ok(result)),
        ToolEnd::Later => Begin::Wait(wait_for_ticket(call.clone())),
        ToolEnd::Continues(continuation) => {
            let message = format!("{} goes on once it has what it needs", call.name);
            let mut error = OperationError::new(ErrorKind::Continues, message);
            error.continuation = Some(continuation);
            Begin::Ready(Err(error))
        }
        ToolEnd::InDoubt(reason) => match definition.in_doubt {
            InDoubt::TellModel => {
                let text = format!(
                    "The outcome of this call is unknown: {reason}. It may or may not have \
                     happened, and it was not repeated. Check before you call it again."
                );
                Begin::Ready(Ok(ToolResult::new(call, ToolStatus::Unknown, text)))
            }
            InDoubt::AskPerson => {
                let prompt = format!("Did the call of {} happen? ({reason})", call.name);
                let mut question = asking::about(Question::new(prompt), call, &[]);
                question.kind = QuestionKind::InDoubt;
                Begin::Wait(wait_for_person(call.clone(), question))
            }
            InDoubt::Fail => {
                let message = format!("the outcome of {} is unknown: {reason}", call.name);
                Begin::Ready(Err(OperationError::new(ErrorKind::InDoubt, message)))
            }
        },
        ToolEnd::StillRunning => Begin::Ready(Err(still_running(&call.name, "it was aborted"))),
        ToolEnd::DidNotHappen => {
            let text = "This call did not happen.";
            Begin::Ready(Ok(ToolResult::new(call, ToolStatus::Error, text)))
        }
    }
}

/// The result of a call that was not to go on, with the reason as its error where nothing is known.
/// The changes of such a call are not wanted.
pub(crate) fn cut_short(
    end: Option<ToolEnd>,
    why: OperationError,
) -> Result<ToolResult, OperationError> {
    match end {
        Some(ToolEnd::Result(result)) => Ok(result),
        Some(ToolEnd::Changing(result, _)) => Ok(unsaved(&result, true, &why)),
        Some(ToolEnd::InDoubt(reason)) => Err(OperationError::new(ErrorKind::InDoubt, reason)),
        _ => Err(why),
    }
}

/// The error of a call whose code blocks and still runs.
pub(crate) fn still_running(tool: &str, reason: &str) -> OperationError {
    let message = format!(
        "interrupted: {reason}; the code of {tool} blocks and could not be stopped, so it runs \
         until it returns"
    );
    OperationError::new(ErrorKind::StillRunning, message)
}

fn wait_for_ticket(call: Arc<ToolCall>) -> Wait<ToolResult> {
    Wait::new(WaitFor::Result, move |arrival| match arrival {
        Arrival::Result(Ok(text)) => Ok(ToolResult::new(&call, ToolStatus::Success, text)),
        Arrival::Result(Err(text)) => Ok(ToolResult::new(&call, ToolStatus::Error, text)),
        other => Err(other.unexpected()),
    })
}

fn wait_for_person(call: Arc<ToolCall>, question: Question) -> Wait<ToolResult> {
    let asked = WaitFor::Answer(Box::new(question));
    Wait::new(asked, move |arrival| {
        let (status, text) = match arrival {
            Arrival::Answer(Value::Bool(true)) => (
                ToolStatus::Success,
                "The call happened; its output was lost.",
            ),
            Arrival::Answer(_) => (ToolStatus::Error, "The call did not happen."),
            other => return Err(other.unexpected()),
        };
        Ok(ToolResult::new(&call, status, text))
    })
}

impl RunContext {
    /// Calls a tool of the agent without asking anybody: neither its policies nor a person, whatever its approval rules
    /// say. It is for code that decides itself and whose calls no model chooses; [`tool`](Self::tool) asks. A call that
    /// fails or is in doubt has a result too. Errors are only for failures for which the function must stop.
    ///
    /// A call that has not ended is [`ErrorKind::Continues`](crate::vocabulary::ErrorKind::Continues) here, while
    /// `tool` carries it on.
    pub fn tool_unasked(&self, call: ToolCall) -> Performing<CallTool> {
        let definition = self.tool_definition(&call.name).unwrap_or_else(|| {
            // The executor refuses the call and lists the tools that exist.
            Arc::new(ToolDefinition::new(call.name.clone(), "").effect(Effect::Read))
        });
        self.perform(CallTool::new(call, definition))
    }
}
