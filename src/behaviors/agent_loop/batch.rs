//! The calls of one step.

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use ghostlight_actors::{
    run::RunContext,
    vocabulary::{
        AgentError, ErrorKind, OperationError, ToolCall, ToolResult, ToolSet, ToolStatus, Transfer,
    },
};

use super::answer::{self, AnswerSchema};

/// How many calls of a step run at once where the agent sets no bound.
const DEFAULT_PARALLEL: u32 = 8;

/// What the calls of a step came to.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Acted {
    /// One result a call, in the order of the calls.
    pub results: Vec<ToolResult>,
    /// The transfer that was asked for: the first one, if there were several.
    pub transfer: Option<Transfer>,
    /// The answer, when the model called the finishing tool as it should.
    pub finished: Option<String>,
    /// Whether the model called the finishing tool and must mend the call.
    pub(super) rejected: bool,
    /// The budget that ran out before some of the calls.
    pub(super) exhausted: Option<OperationError>,
}

impl Acted {
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

/// How a batch is run.
pub(super) struct Batch<'a> {
    pub(super) cx: &'a RunContext,
    /// What the model may call.
    pub(super) tools: &'a ToolSet,
    /// Whether it may call the finishing tool.
    pub(super) finishes: bool,
    pub(super) output: Option<&'a Arc<AnswerSchema>>,
}

impl Batch<'_> {
    /// Runs the calls side by side and gives each its result. A call that is refused by a
    /// budget is answered too, so that the rest of the batch keeps its results.
    pub(super) async fn run(&self, calls: &[ToolCall]) -> Result<Acted, AgentError> {
        let mut acted = Acted::default();
        let mut results: Vec<Option<ToolResult>> = vec![None; calls.len()];
        let mut running = Vec::new();
        for (place, call) in calls.iter().enumerate() {
            match self.without_running(call, calls.len() == 1, &mut acted) {
                Some(result) => results[place] = Some(result),
                None => {
                    // Its operations take their ids here, in the order of the calls.
                    let end = self.cx.tools([call.clone()]);
                    running.push(async move { (place, end.await) });
                }
            }
        }
        let parallel = self
            .cx
            .spec()
            .parallel_tools
            .unwrap_or(DEFAULT_PARALLEL)
            .max(1);
        let mut ends = stream::iter(running).buffer_unordered(parallel as usize);
        while let Some((place, end)) = ends.next().await {
            results[place] = match end {
                Ok(results) => results.into_iter().next(),
                Err(error) => Some(refused(&calls[place], error, &mut acted)?),
            };
        }
        let complete = calls.iter().zip(results);
        acted.results = complete
            .map(|(call, result)| result.unwrap_or_else(|| not_run(call)))
            .collect();
        Ok(acted)
    }

    /// The result of a call that needs no operation.
    fn without_running(
        &self,
        call: &ToolCall,
        alone: bool,
        acted: &mut Acted,
    ) -> Option<ToolResult> {
        if self.finishes && answer::is_finish(&call.name) {
            let output = self.output.map(Arc::as_ref);
            let (status, text) = match answer::finish_answer(call, alone, output) {
                Ok(answer) => {
                    acted.finished = Some(answer);
                    (ToolStatus::Success, "Finished.".to_owned())
                }
                Err(reason) => {
                    acted.rejected = true;
                    (ToolStatus::Error, reason)
                }
            };
            return Some(ToolResult::new(call, status, text));
        }
        if self.tools.get(&call.name).is_none() {
            let mut known: Vec<&str> = self.tools.iter().map(|tool| tool.name.as_str()).collect();
            known.extend(self.finishes.then_some(answer::FINISH_TOOL));
            let known = if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            };
            let text = format!("There is no tool {:?}. There are: {known}.", call.name);
            return Some(ToolResult::new(call, ToolStatus::Error, text));
        }
        let transfer = self.cx.transfer_of(call)?;
        if let Some(first) = &acted.transfer {
            let text = format!(
                "Not done: the conversation was already handed to {} in this turn.",
                first.to
            );
            return Some(ToolResult::new(call, ToolStatus::Blocked, text));
        }
        acted.transfer = Some(transfer);
        None
    }
}

/// The result of a call that a budget refused.
fn refused(
    call: &ToolCall,
    error: AgentError,
    acted: &mut Acted,
) -> Result<ToolResult, AgentError> {
    match error {
        AgentError::Operation(error) if matches!(error.kind, ErrorKind::Budget(_)) => {
            let text = format!("Not run: {error}.");
            acted.exhausted.get_or_insert(error);
            Ok(ToolResult::new(call, ToolStatus::Interrupted, text))
        }
        error => Err(error),
    }
}

/// The result of a call that nobody ran.
pub(super) fn not_run(call: &ToolCall) -> ToolResult {
    ToolResult::new(call, ToolStatus::Interrupted, "Not run.")
}
