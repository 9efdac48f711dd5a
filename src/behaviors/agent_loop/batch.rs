//! The calls of one step.

use std::{collections::VecDeque, sync::Arc};

use futures_util::{StreamExt, future::Either, stream::FuturesUnordered};
use ghostlight_actors::{
    definition::TRANSFER_PREFIX,
    run::{Asking, Composed, Decided, Moment, RunContext},
    vocabulary::{
        AgentError, ErrorKind, OperationError, StopReason, ToolCall, ToolResult, ToolSet,
        ToolStatus, Transfer,
    },
};
use serde_json::Value;

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
    /// Why a policy wants the loop to stop, when one does.
    pub stop: Option<StopReason>,
    /// Whether the model called the finishing tool and must mend the call.
    pub(super) rejected: bool,
    /// The budget that ran out before some of the calls.
    pub(crate) exhausted: Option<OperationError>,
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
    pub(super) moment: Moment<'a>,
    /// What the model was offered in this turn.
    pub(super) offered: &'a ToolSet,
    /// Whether it may call the finishing tool.
    pub(super) finishes: bool,
    pub(super) output: Option<&'a Arc<AnswerSchema>>,
}

/// What a part of a batch came to.
enum Ended {
    Call(Result<Vec<ToolResult>, AgentError>),
    Question(Asking, Result<Value, AgentError>),
}

/// A batch under way.
struct Work<'c> {
    calls: &'c [ToolCall],
    acted: Acted,
    results: Vec<Option<ToolResult>>,
    /// Calls that may run, with their places. Their operations have their ids.
    ready: VecDeque<(usize, Composed<Vec<ToolResult>>)>,
}

impl Batch<'_> {
    /// Decides all calls in their order, runs them side by side, and gives each its result. A
    /// call that is refused by a budget is answered too, so that the rest of the batch keeps its
    /// results.
    pub(super) async fn run(&self, calls: &[ToolCall]) -> Result<Acted, AgentError> {
        let mut work = Work {
            calls,
            acted: Acted::default(),
            results: vec![None; calls.len()],
            ready: VecDeque::new(),
        };
        let mut under_way = FuturesUnordered::new();
        for (place, call) in calls.iter().enumerate() {
            if let Some(asking) = self.decide(&mut work, place, call).await? {
                under_way.push(Either::Right(self.ask(place, asking)));
            }
        }
        let parallel = self.cx.spec().parallel_tools.unwrap_or(DEFAULT_PARALLEL);
        let mut running = 0;
        loop {
            while running < parallel.max(1)
                && let Some((place, call)) = work.ready.pop_front()
            {
                under_way.push(Either::Left(run(place, call)));
                running += 1;
            }
            match under_way.next().await {
                None => break,
                Some((place, Ended::Call(end))) => {
                    running -= 1;
                    work.results[place] = match end {
                        Ok(results) => results.into_iter().next(),
                        Err(error) => Some(refused(&calls[place], error, &mut work.acted)?),
                    };
                }
                Some((place, Ended::Question(asking, answer))) => {
                    let Some(policies) = self.cx.policies() else {
                        continue;
                    };
                    let decided = policies.answered(self.moment, asking, answer).await?;
                    if let Some(asking) = self.follow(&mut work, place, decided) {
                        under_way.push(Either::Right(self.ask(place, asking)));
                    }
                }
            }
        }
        self.ended(work).await
    }

    /// What is to become of a call: it gets a result, or is ready to run, or somebody is asked.
    async fn decide(
        &self,
        work: &mut Work<'_>,
        place: usize,
        call: &ToolCall,
    ) -> Result<Option<Asking>, AgentError> {
        if !self.is_offered(call) {
            work.results[place] = Some(self.not_offered(call));
            return Ok(None);
        }
        let decided = match self.cx.policies() {
            Some(policies) => policies.before_tool(self.moment, call.clone()).await?,
            None => Decided::Run(call.clone()),
        };
        Ok(self.follow(work, place, decided))
    }

    fn follow(&self, work: &mut Work<'_>, place: usize, decided: Decided) -> Option<Asking> {
        match decided {
            Decided::Run(call) => {
                let alone = work.calls.len() == 1;
                match self.without_running(&call, alone, &mut work.acted) {
                    Some(result) => work.results[place] = Some(result),
                    // Its operations take their ids here.
                    None => work.ready.push_back((place, self.cx.tools([call]))),
                }
                None
            }
            Decided::Answered(mut result) => {
                result.call_id.clone_from(&work.calls[place].id);
                work.results[place] = Some(result);
                None
            }
            Decided::Ask(asking) => Some(asking),
            // There is no other yet.
            _ => None,
        }
    }

    fn ask(&self, place: usize, asking: Asking) -> impl Future<Output = (usize, Ended)> + use<> {
        let answer = self.cx.ask((*asking.question).clone());
        async move {
            let answer = answer.await;
            (place, Ended::Question(asking, answer))
        }
    }

    /// Every call has ended: policies may put other results in the place of theirs.
    async fn ended(&self, work: Work<'_>) -> Result<Acted, AgentError> {
        let Work {
            calls,
            mut acted,
            results,
            ..
        } = work;
        let complete = calls.iter().zip(results);
        acted.results = complete
            .map(|(call, result)| result.unwrap_or_else(|| not_run(call)))
            .collect();
        let Some(policies) = self.cx.policies() else {
            return Ok(acted);
        };
        for (call, result) in calls.iter().zip(&mut acted.results) {
            if let Some(mut other) = policies.after_tool(self.moment, call, result).await? {
                other.call_id.clone_from(&call.id);
                *result = other;
            }
        }
        policies
            .after_tools(self.moment, calls, &acted.results)
            .await?;
        let done = |of: &dyn Fn(&str) -> bool| {
            let mut results = acted.results.iter();
            results.any(|result| of(&result.name) && result.status == ToolStatus::Success)
        };
        // What a policy took back does not count.
        let (finished, transferred) = (
            done(&answer::is_finish),
            done(&|name| name.starts_with(TRANSFER_PREFIX)),
        );
        acted.finished.take_if(|_| !finished);
        acted.transfer.take_if(|_| !transferred);
        acted.stop = policies.take_stop();
        Ok(acted)
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

async fn run(place: usize, call: Composed<Vec<ToolResult>>) -> (usize, Ended) {
    (place, Ended::Call(call.await))
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
