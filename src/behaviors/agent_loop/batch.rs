//! The calls of one step.

use ghostlight_actors::{
    definition::TRANSFER_PREFIX,
    run::{RunContext, operations::Answering},
    vocabulary::{
        AgentError, ErrorKind, OperationError, StopReason, ToolCall, ToolResult, ToolSet,
        ToolStatus, Transfer,
    },
};

use super::answer::{self, AnswerSchema};

/// The results of the calls of a step.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BatchResult {
    /// One result for each call, in the order of the calls.
    pub results: Vec<ToolResult>,
    /// The requested transfer; the first one if there are several.
    pub transfer: Option<Transfer>,
    /// The answer, if the model called the finishing tool correctly.
    pub finished: Option<String>,
    /// Why a policy wants the loop to stop, if one does.
    pub stop: Option<StopReason>,
    /// Whether the model called the finishing tool and must correct the call.
    pub(super) rejected: bool,
    /// The budget that ran out before some of the calls were made.
    pub(crate) exhausted: Option<OperationError>,
}

impl BatchResult {
    /// The text of the results that end the step without another model call.
    pub fn ending_text(&self) -> Option<String> {
        let mut ending = self
            .results
            .iter()
            .filter(|result| result.ends_step)
            .peekable();
        ending.peek()?;
        let texts: Vec<&str> = ending.map(|result| result.text.as_str()).collect();
        Some(texts.join("\n"))
    }
}

/// The handling of calls that the loop answers itself.
pub(super) struct Own<'a> {
    pub(super) cx: &'a RunContext,
    /// The tools that the model was offered in this turn.
    pub(super) offered: &'a ToolSet,
    /// Whether it may call the finishing tool.
    pub(super) finishes: bool,
    pub(super) output: Option<&'a AnswerSchema>,
    /// Whether it is the only call.
    pub(super) alone: bool,
    pub(super) acted: BatchResult,
    /// The id of the call that was cut off.
    pub(super) cut: Option<&'a str>,
}

impl Answering for Own<'_> {
    fn refuse(&mut self, call: &ToolCall) -> Option<ToolResult> {
        if self.cut == Some(call.id.as_str()) {
            return Some(cut_off(call));
        }
        (!self.is_offered(call)).then(|| self.not_offered(call))
    }

    /// The result of a call that needs no operation.
    fn answer(&mut self, call: &ToolCall) -> Option<ToolResult> {
        if self.finishes && answer::is_finish(&call.name) {
            let (status, text) = match answer::finish_answer(call, self.alone, self.output) {
                Ok(answer) => {
                    self.acted.finished = Some(answer);
                    (ToolStatus::Success, "Finished.".to_owned())
                }
                Err(reason) => {
                    self.acted.rejected = true;
                    (ToolStatus::Error, reason)
                }
            };
            return Some(ToolResult::new(call, status, text));
        }
        let transfer = self.cx.loop_context().transfer_of(call)?;
        if let Some(first) = &self.acted.transfer {
            let text = format!(
                "Not done: the conversation was already handed to {} in this turn.",
                first.to
            );
            return Some(ToolResult::new(call, ToolStatus::Blocked, text));
        }
        self.acted.transfer = Some(transfer);
        None
    }

    /// A call that a budget refuses gets a result too, so that the others keep theirs.
    fn failed(&mut self, call: &ToolCall, error: AgentError) -> Result<ToolResult, AgentError> {
        match error {
            AgentError::Operation(error) if matches!(error.kind, ErrorKind::Budget(_)) => {
                let text = format!("Not run: {error}.");
                self.acted.exhausted.get_or_insert(error);
                Ok(ToolResult::new(call, ToolStatus::Interrupted, text))
            }
            error => Err(error),
        }
    }
}

impl Own<'_> {
    /// The outcome of the calls.
    pub(super) fn acted(self, results: Vec<ToolResult>) -> BatchResult {
        let mut acted = self.acted;
        let done = |of: &dyn Fn(&str) -> bool| {
            let mut results = results.iter();
            results.any(|result| of(&result.name) && result.status == ToolStatus::Success)
        };
        // A result that a policy replaced does not count.
        let (finished, transferred) = (
            done(&answer::is_finish),
            done(&|name| name.starts_with(TRANSFER_PREFIX)),
        );
        acted.finished.take_if(|_| !finished);
        acted.transfer.take_if(|_| !transferred);
        acted.stop = self.cx.loop_context().stopping();
        acted.results = results;
        acted
    }

    fn is_offered(&self, call: &ToolCall) -> bool {
        let finishes = self.finishes && answer::is_finish(&call.name);
        finishes || self.offered.get(&call.name).is_some()
    }

    fn not_offered(&self, call: &ToolCall) -> ToolResult {
        let mut known: Vec<&str> = self.offered.iter().map(|tool| tool.name.as_str()).collect();
        if self.finishes && self.offered.get(answer::FINISH_TOOL).is_none() {
            known.push(answer::FINISH_TOOL);
        }
        let known = if known.is_empty() {
            "none".to_owned()
        } else {
            known.join(", ")
        };
        let exists = self.cx.tools_offered().get(&call.name).is_some();
        let what = match exists {
            true => format!("The tool {:?} cannot be called now.", call.name),
            false => format!("There is no tool {:?}.", call.name),
        };
        ToolResult::new(
            call,
            ToolStatus::Error,
            format!("{what} There are: {known}."),
        )
    }
}

/// The result of a call at which the model's answer was cut off.
fn cut_off(call: &ToolCall) -> ToolResult {
    let text = "Not run: your answer reached its bound on tokens before this call was whole. Ask \
                again with less in one call.";
    ToolResult::new(call, ToolStatus::Interrupted, text)
}

/// The result of a call that was not run.
pub(super) fn not_run(call: &ToolCall) -> ToolResult {
    ToolResult::new(call, ToolStatus::Interrupted, "Not run.")
}
