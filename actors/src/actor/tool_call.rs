//! One tool call: arguments that fit, a bound on time, a panic contained, output cut.

use std::{collections::HashMap, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use jsonschema::Validator;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::doors::Previewer;
use crate::{
    contract::{Clock, Reconciled, ToolContext, ToolError, ToolErrorKind, ToolHandle, ToolOutput},
    run::{Registry, ToolEnd, ToolInvocation},
    vocabulary::{Effect, Preview, ToolDefinition, ToolResult, ToolStatus},
};

/// How many faults of a call's arguments the model is told at once.
const TOLD_FAULTS: usize = 8;

/// A compiled schema, with the definition that it was made from.
type Compiled = (Arc<ToolDefinition>, Arc<Validator>);

/// Calls tools out of a registry.
pub(crate) struct ToolCaller {
    registry: Arc<Registry>,
    timeout: Duration,
    clock: Arc<dyn Clock>,
    previews: Previewer,
    /// Compiled schemas, by tool.
    validators: Mutex<HashMap<String, Compiled>>,
}

impl ToolCaller {
    pub(crate) fn new(
        registry: Arc<Registry>,
        timeout: Duration,
        clock: Arc<dyn Clock>,
        previews: Previewer,
    ) -> Self {
        Self {
            registry,
            timeout,
            clock,
            previews,
            validators: Mutex::default(),
        }
    }

    /// Makes a call.
    pub(crate) async fn call(
        &self,
        invocation: ToolInvocation,
        cancelled: CancellationToken,
    ) -> ToolEnd {
        let call = &invocation.call;
        let Some(tool) = self.registry.tool_named(&call.name) else {
            return self.unknown(&invocation);
        };
        if let Err(fault) = self.check_arguments(&invocation) {
            return ToolEnd::Result(ToolResult::new(call, ToolStatus::Error, fault));
        }
        let operation = invocation.operation;
        self.previews
            .preview(invocation.run, || Preview::ToolStarted {
                operation,
                call: call.clone(),
            });
        let bound = self.bound(&invocation);
        let output = tool.call(call.arguments.clone(), self.context(&invocation, cancelled));
        let output = AssertUnwindSafe(output).catch_unwind();
        let deadline = self.clock.sleep_until(self.clock.now().after(bound));
        let output = tokio::select! {
            biased;
            output = output => output,
            () = deadline => return lost(&invocation, format!("no end within {bound:?}")),
        };
        match output {
            Ok(output) => finish(&invocation, tool, output),
            Err(_) => lost(&invocation, "the tool panicked".to_owned()),
        }
    }

    /// Asks the tool whether a call whose end was never heard of happened.
    pub(crate) async fn reconcile(
        &self,
        invocation: ToolInvocation,
        cancelled: CancellationToken,
    ) -> ToolEnd {
        let Some(tool) = self.registry.tool_named(&invocation.call.name) else {
            return self.unknown(&invocation);
        };
        let bound = self.bound(&invocation);
        let answer = tool.reconcile(&invocation.call, self.context(&invocation, cancelled));
        let answer = AssertUnwindSafe(answer).catch_unwind();
        let deadline = self.clock.sleep_until(self.clock.now().after(bound));
        let answer = tokio::select! {
            biased;
            answer = answer => answer.unwrap_or(Reconciled::Unknown),
            () = deadline => Reconciled::Unknown,
        };
        match answer {
            Reconciled::Happened(output) => finish(&invocation, tool, Ok(output)),
            Reconciled::DidNotHappen => ToolEnd::DidNotHappen,
            Reconciled::Unknown => {
                ToolEnd::InDoubt("its start is recorded, its end was never heard of".to_owned())
            }
        }
    }

    fn bound(&self, invocation: &ToolInvocation) -> Duration {
        let own = invocation.definition.timeout_ms.map(Duration::from_millis);
        let left = invocation
            .deadline
            .map(|deadline| deadline.since(self.clock.now()));
        let own = own.unwrap_or(self.timeout);
        left.map_or(own, |left| own.min(left))
    }

    fn context(&self, invocation: &ToolInvocation, cancelled: CancellationToken) -> ToolContext {
        let ToolInvocation {
            run,
            operation,
            agent,
            deadline,
            ..
        } = invocation;
        ToolContext::new(*run, *operation, agent.clone(), cancelled)
            .with_deadline(*deadline)
            .previews(self.previews.sink(*run))
    }

    fn unknown(&self, invocation: &ToolInvocation) -> ToolEnd {
        let known: Vec<&str> = self.registry.tools().map(|(name, _)| name).collect();
        let name = &invocation.call.name;
        let text = format!(
            "There is no tool {name:?} in this program. There are: {}.",
            known.join(", ")
        );
        ToolEnd::Result(ToolResult::new(&invocation.call, ToolStatus::Error, text))
    }

    /// Checks the arguments against the schema, in words for the model.
    fn check_arguments(&self, invocation: &ToolInvocation) -> Result<(), String> {
        let arguments = &invocation.call.arguments;
        let value = arguments.value().map_err(|fault| {
            format!("The arguments are not valid JSON ({fault}). Send the call again.")
        })?;
        let validator = self.validator(&invocation.definition)?;
        let faults: Vec<String> = validator
            .iter_errors(value)
            .take(TOLD_FAULTS)
            .map(|fault| {
                let place = fault.instance_path().to_string();
                let place = if place.is_empty() {
                    "the arguments"
                } else {
                    &place
                };
                format!("{place}: {fault}")
            })
            .collect();
        if faults.is_empty() {
            return Ok(());
        }
        Err(format!(
            "The arguments do not fit the tool: {}. Send the call again.",
            faults.join("; ")
        ))
    }

    fn validator(&self, definition: &Arc<ToolDefinition>) -> Result<Arc<Validator>, String> {
        let mut validators = self.validators.lock();
        if let Some((of, validator)) = validators.get(&definition.name)
            && (Arc::ptr_eq(of, definition) || of == definition)
        {
            return Ok(validator.clone());
        }
        let validator = jsonschema::validator_for(&definition.parameters)
            .map_err(|error| format!("The schema of {} is wrong: {error}", definition.name))?;
        let compiled = Arc::new(validator);
        validators.insert(
            definition.name.clone(),
            (definition.clone(), compiled.clone()),
        );
        Ok(compiled)
    }
}

/// A call whose end the tool has not told: in doubt when it must not be repeated.
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
        Ok(output) if output.later => return ToolEnd::Later,
        Ok(output) => output,
        Err(error) if error.kind == ToolErrorKind::InDoubt => {
            return lost(invocation, error.message);
        }
        Err(error) => {
            let denied = error.kind == ToolErrorKind::Denied;
            let status = if denied {
                ToolStatus::Denied
            } else {
                ToolStatus::Error
            };
            let (text, truncated) = cut(error.message, invocation.definition.output_limit);
            let mut result = ToolResult::new(call, status, text);
            result.truncated = truncated;
            return ToolEnd::Result(result);
        }
    };
    let (text, truncated) = cut(output.text, invocation.definition.output_limit);
    let mut result = ToolResult::new(call, ToolStatus::Success, text);
    result.truncated = truncated;
    result.attachments = output.attachments;
    result.ends_step = tool.definition().ends_step;
    ToolEnd::Result(result)
}

/// Cuts a text to so many characters, never inside one, and tells how many were cut off.
fn cut(mut text: String, limit: u32) -> (String, u64) {
    let Some((end, _)) = text.char_indices().nth(limit as usize) else {
        return (text, 0);
    };
    let truncated = text[end..].chars().count() as u64;
    text.truncate(end);
    text.push_str(&format!("\n[{truncated} more characters were cut off]"));
    (text, truncated)
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn output_is_cut_between_characters_and_says_how_much() {
        assert_eq!(cut("héllo".into(), 5), ("héllo".into(), 0));
        let (text, truncated) = cut("世界世界".into(), 3);
        assert!(text.starts_with("世界世\n"), "{text}");
        assert_eq!(truncated, 1);
    }
}
