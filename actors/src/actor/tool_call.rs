//! One tool call: checked arguments, a bound on time, a contained panic, cut output.

use std::{
    borrow::Cow,
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

use futures_util::FutureExt;

use super::previewer::Previewer;
use crate::{
    contract::{
        BoxFuture, Change, Credential, Entropy, InterceptorHandle, NextTool, Reconciled, Telling,
        ToolContext, ToolError, ToolErrorKind, ToolHandle, ToolOutput,
    },
    run::{Called, ToolCode, ToolEnd, ToolInvocation, Tries, operations::fits},
    vocabulary::{
        Arguments, Effect, Preview, ToolCall, ToolDefinition, ToolResult, ToolStatus, key_of_engine,
    },
};

/// Calls tools.
pub(crate) struct ToolCaller {
    timeout: Duration,
    entropy: Arc<dyn Entropy>,
    previews: Previewer,
}

impl ToolCaller {
    pub(crate) fn new(timeout: Duration, entropy: Arc<dyn Entropy>, previews: Previewer) -> Self {
        Self {
            timeout,
            entropy,
            previews,
        }
    }

    /// Makes a call.
    pub(crate) async fn call(&self, invocation: &ToolInvocation) -> Called<ToolEnd> {
        let call = &invocation.call;
        let ToolCode { tool, chain, .. } = match &invocation.code {
            Ok(code) => code,
            Err(reason) => {
                let result = ToolResult::new(call, ToolStatus::Error, reason.clone());
                return ToolEnd::Result(result).into();
            }
        };
        let arguments = match arguments_of(&invocation.definition, &call.arguments) {
            Ok(arguments) => arguments,
            Err(fault) => {
                return ToolEnd::Result(ToolResult::new(call, ToolStatus::Error, fault)).into();
            }
        };
        let operation = invocation.operation;
        self.previews
            .preview(invocation.run, || Preview::ToolStarted {
                operation,
                call: ToolCall::clone(call),
            });
        let cx = self.context(invocation);
        let telling = Telling::default();
        let began = self.previews.clock.monotonic();
        let (output, attempts) = if chain.is_empty() {
            (self.attempt(invocation, tool, arguments, cx).await, 1)
        } else {
            let (around, made) = ((&**chain, &telling), AtomicU32::new(0));
            let calling = (tool, arguments);
            let output = self.intercepted(invocation, calling, around, &made, cx);
            // Few tools have interceptors, and the calls of the others keep no room for them.
            let output = Box::pin(output).await;
            (output, made.into_inner())
        };
        let took = self.previews.clock.monotonic().since(began).as_millis();
        let end = finish(invocation, tool, output);
        let told = telling.into_emissions();
        let took_ms = u64::try_from(took).unwrap_or(u64::MAX);
        let tries = Tries { attempts, took_ms };
        Called { end, told, tries }
    }

    /// One try, through the interceptors. A `once` tool is attempted at most once, and a call that
    /// the attempt left in doubt stays in doubt.
    async fn intercepted(
        &self,
        invocation: &ToolInvocation,
        (tool, fitting): (&ToolHandle, Arguments),
        (chain, telling): (&[InterceptorHandle], &Telling),
        made: &AtomicU32,
        cx: ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let definition = &invocation.definition;
        let once = definition.effect == Effect::Once;
        // Whether the attempt that began last has come to no known end.
        let under_way = AtomicBool::new(false);
        let given = fitting.text();
        let real = |mut arguments: Arguments, cx| -> BoxFuture<'_, _> {
            let under_way = &under_way;
            Box::pin(async move {
                // Arguments that an interceptor changed must fit as well.
                if arguments.text() != given {
                    let fitting = arguments_of(definition, &arguments);
                    arguments = fitting.map_err(ToolError::new)?;
                }
                if once && made.load(Ordering::Relaxed) > 0 {
                    let name = &definition.name;
                    return Err(ToolError::in_doubt(format!(
                        "an interceptor asked for a second call of {name}, which must not be \
                         repeated"
                    )));
                }
                under_way.store(true, Ordering::Relaxed);
                made.fetch_add(1, Ordering::Relaxed);
                let output = self.attempt(invocation, tool, arguments, cx).await;
                let in_doubt = |error: &ToolError| error.kind == ToolErrorKind::InDoubt;
                if !output.as_ref().is_err_and(in_doubt) {
                    under_way.store(false, Ordering::Relaxed);
                }
                output
            })
        };
        let clock = &self.previews.clock;
        let what = (definition, &tool.callee());
        let next = NextTool::new(chain, &real, what, clock, &self.entropy).telling(telling);
        let output = AssertUnwindSafe(next.call(fitting.clone(), cx))
            .catch_unwind()
            .await;
        match output {
            Ok(Err(error)) if error.kind == ToolErrorKind::InDoubt => Err(error),
            _ if once && under_way.load(Ordering::Relaxed) => {
                let reason = "an interceptor let go of it before its end was known";
                Err(ToolError::in_doubt(reason))
            }
            Ok(output) => output,
            Err(_) if made.load(Ordering::Relaxed) == 0 => {
                Err(ToolError::new("an interceptor panicked before the call"))
            }
            Err(_) => Err(ToolError::in_doubt("an interceptor panicked")),
        }
    }

    /// One real attempt: bounded in time, a panic contained.
    async fn attempt(
        &self,
        invocation: &ToolInvocation,
        tool: &ToolHandle,
        arguments: Arguments,
        cx: ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let bound = self.bound(invocation);
        let output = match self.within(bound, tool.call(arguments, cx)).await {
            Some(Ok(output)) => output,
            Some(Err(_)) => Err(ToolError::in_doubt("the tool panicked")),
            None => Err(ToolError::in_doubt(format!("no end within {bound:?}"))),
        };
        // The tool's output must not pass on what a person gave for this call alone, nor what the tool sends.
        let secrets = tool.secrets();
        let clean = |text: String| {
            let text = match &invocation.credential {
                Some(credential) => credential.taken_out_of(text),
                None => text,
            };
            ghostlight_safety::without_secrets(text, secrets.iter().map(Credential::reveal))
        };
        match output {
            Ok(mut output) => {
                output.text = clean(output.text);
                Ok(output)
            }
            Err(mut error) => {
                error.message = clean(error.message);
                Err(error)
            }
        }
    }

    /// Asks the tool whether a call whose end is unknown happened.
    pub(crate) async fn reconcile(&self, invocation: &ToolInvocation) -> ToolEnd {
        let tool = match &invocation.code {
            Ok(code) => &code.tool,
            Err(reason) => return ToolEnd::InDoubt(reason.clone()),
        };
        let bound = self.bound(invocation);
        let answer = tool.reconcile(&invocation.call, self.context(invocation));
        let answer = self.within(bound, answer).await.and_then(Result::ok);
        match answer.unwrap_or(Reconciled::Unknown) {
            Reconciled::Happened(output) => finish(invocation, tool, Ok(output)),
            Reconciled::DidNotHappen => ToolEnd::DidNotHappen,
            Reconciled::Unknown => ToolEnd::unknown(),
        }
    }

    /// The end of a tool's code, or its panic; `None` if it does not end within this time.
    async fn within<T>(
        &self,
        bound: Duration,
        code: impl Future<Output = T>,
    ) -> Option<thread::Result<T>> {
        let mut code = pin!(AssertUnwindSafe(code).catch_unwind());
        // Most calls end at once, and need no timer.
        if let Some(end) = code.as_mut().now_or_never() {
            return Some(end);
        }
        tokio::select! {
            biased;
            end = code => Some(end),
            () = self.previews.clock.sleep(bound) => None,
        }
    }

    fn bound(&self, invocation: &ToolInvocation) -> Duration {
        let own = invocation.definition.timeout_ms.map(Duration::from_millis);
        let left = invocation
            .deadline
            .map(|deadline| deadline.since(self.previews.clock.now()));
        let own = own.unwrap_or(self.timeout);
        left.map_or(own, |left| own.min(left))
    }

    fn context(&self, invocation: &ToolInvocation) -> ToolContext {
        let (run, operation) = (invocation.run, invocation.operation);
        let (agent, cancelled) = (invocation.agent.clone(), invocation.cancelled.clone());
        ToolContext::new(run, operation, agent, cancelled)
            .with_deadline(invocation.deadline)
            .with_credential(invocation.credential.clone())
            .with_continued(invocation.continued.clone())
            .with_state(invocation.kept.clone())
            .with_origin(invocation.origin.clone())
            .previews(invocation.previews.clone())
    }
}

/// The arguments as the tool gets them, if they fit its schema, or why not, in words for the model.
fn arguments_of(
    definition: &Arc<ToolDefinition>,
    arguments: &Arguments,
) -> Result<Arguments, String> {
    fits(definition, arguments).map_err(|fault| format!("{fault} Send the call again."))
}

/// A call whose end the tool did not report: in doubt when it must not be repeated.
fn lost(invocation: &ToolInvocation, reason: String) -> ToolEnd {
    if invocation.definition.effect == Effect::Once {
        return ToolEnd::InDoubt(reason);
    }
    let text = format!("The call failed: {reason}.");
    ToolEnd::Result(ToolResult::new(&invocation.call, ToolStatus::Error, text))
}

fn finish(
    invocation: &ToolInvocation,
    tool: &ToolHandle,
    output: Result<ToolOutput, ToolError>,
) -> ToolEnd {
    let call = &invocation.call;
    let output = match output {
        Ok(ToolOutput {
            continuation: Some(continuation),
            ..
        }) => return ToolEnd::Continues(continuation),
        Ok(output) if output.later => return ToolEnd::Later,
        Ok(output) => match output.changes.iter().find_map(Change::key_of_engine) {
            // A value that only the engine may write could, for one, approve calls.
            Some(key) => Err(ToolError::new(format!(
                "the call was made, and nothing that it wanted to keep was kept: {}",
                key_of_engine(key)
            ))),
            None => Ok(output),
        },
        failed => failed,
    };
    let (status, output) = match output {
        Ok(output) => (ToolStatus::Success, output),
        Err(error) if error.kind == ToolErrorKind::InDoubt => {
            return lost(invocation, error.message);
        }
        Err(error) => match error.kind {
            ToolErrorKind::Denied => (ToolStatus::Denied, ToolOutput::text(error.message)),
            _ => (ToolStatus::Error, ToolOutput::text(error.message)),
        },
    };
    let text = match ghostlight_safety::sanitize(&output.text) {
        Cow::Borrowed(_) => output.text,
        Cow::Owned(text) => text,
    };
    let limit = invocation.definition.output_limit as usize;
    let (text, truncated) = ghostlight_safety::cut_off(text, limit);
    let mut result = ToolResult::new(call, status, text);
    result.truncated = truncated;
    result.attachments = output.attachments;
    result.ends_step = status == ToolStatus::Success && tool.definition().ends_step;
    if output.changes.is_empty() {
        ToolEnd::Result(result)
    } else {
        ToolEnd::Changing(result, output.changes)
    }
}
