//! The tool calls of one step, made side by side under the agent's policies.

use std::{
    collections::VecDeque,
    ops::ControlFlow::{Break, Continue},
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_util::FutureExt;
use serde_json::Value;

use super::{
    answered::Answered,
    approval::{AllowedCall, ApprovalProgress},
    call_path::CallPath,
};
use crate::{
    run::{
        Composed, HookContext, LoopContext, RunContext,
        future_set::FutureSet,
        loop_context::Answering,
        policy::{Asking, Decided},
    },
    vocabulary::{
        AgentError, AnsweredBy, Approved, Arguments, CallReport, ToolCall, ToolResult, ToolStatus,
    },
};

impl RunContext {
    /// Runs the calls of one step side by side, up to the agent's cap, and returns the results in
    /// the order of the calls. Every call gets exactly one result: an unknown tool, bad arguments,
    /// a denial, a failure and a panic are results that the model reads.
    ///
    /// The agent's policies decide about all calls, in their order, before the first call runs.
    /// They give the results of calls that they hold back or answer.
    ///
    /// A call that needs approval asks first, while the others go on: a person, or the tool that
    /// the agent's [`ApprovalRule`](crate::definition::ApprovalRule) names, which is called with
    /// `question`, `tool`, `arguments` (as [`Question::call`](crate::vocabulary::Question::call)
    /// shows them), `digest` (of the exact call), `agent` and `call`, and answers with a
    /// JSON object whose `approved` is true; whatever else it does is a refusal. A call that
    /// reaches another agent delegates; one that transfers only says so ([`transfer_of`]).
    ///
    /// # Errors
    /// A failure for which the run must stop: a used-up budget, a divergence, or a call in doubt
    /// whose tool says that the run fails. [`AgentError::Early`] if a policy wants the function to
    /// stop.
    ///
    /// [`transfer_of`]: LoopContext::transfer_of
    pub fn tools(&self, calls: impl IntoIterator<Item = ToolCall>) -> Composed<Vec<ToolResult>> {
        let calls: Vec<ToolCall> = calls.into_iter().collect();
        let cx = self.handle();
        if self.watch().is_some() {
            return Composed(Box::pin(async move {
                cx.go_on()?;
                let seen = cx.seen();
                cx.loop_context()
                    .tools_at(seen.moment(), &calls, &mut &seen)
                    .await
            }));
        }
        // No policy decides first, so the calls get their ids here.
        let paths = calls.iter().map(|call| self.answer_call(call.clone()));
        let paths: Vec<CallPath> = paths.collect();
        Composed(Box::pin(async move {
            let mut own = ();
            let mut batch = Batch::new(&cx, &calls, &mut own);
            let paths = paths.into_iter().enumerate();
            paths.for_each(|(place, path)| batch.begin(place, path));
            batch.run(None).await?;
            Ok(batch.complete())
        }))
    }

    /// Runs one call like [`tools`](Self::tools), with the agent's policies and approvals, and returns its result.
    ///
    /// # Errors
    /// The errors of [`tools`](Self::tools).
    pub fn tool(&self, call: ToolCall) -> Composed<ToolResult> {
        let not_run = ToolResult::new(&call, ToolStatus::Interrupted, "Not run.");
        let results = self.tools([call]);
        let result = results.map(|results| Ok(results?.pop().unwrap_or(not_run)));
        Composed(Box::pin(result))
    }
}

impl LoopContext<'_> {
    /// Runs the calls of one step like [`tools`](RunContext::tools), for a loop that is at this point of
    /// its conversation and answers some calls itself. The calls get their ids when the policies
    /// have decided.
    ///
    /// # Errors
    /// The errors of [`tools`](RunContext::tools) that the loop does not turn into results, and errors of
    /// hooks. A policy's wish to stop is no error here, so that the results are kept: see
    /// [`stopping`](Self::stopping).
    pub async fn tools_at(
        self,
        moment: HookContext<'_>,
        calls: &[ToolCall],
        own: &mut impl Answering,
    ) -> Result<Vec<ToolResult>, AgentError> {
        let mut batch = Batch::new(&self, calls, own);
        for (place, call) in calls.iter().enumerate() {
            if let Some(refused) = batch.own.refuse(call) {
                batch.answered(place, call, refused, (AnsweredBy::Function, None));
                continue;
            }
            let decided = match self.watch() {
                Some(watch) => watch.policies.before_tool(moment, call.clone()).await?,
                None => Decided::Run(call.clone()),
            };
            batch.follow(place, decided);
        }
        batch.run(Some(moment)).await?;
        let mut results = batch.complete();
        let Some(watch) = self.watch() else {
            return Ok(results);
        };
        let policies = &watch.policies;
        for (call, result) in calls.iter().zip(&mut results) {
            if let Some(mut other) = policies.after_tool(moment, call, result).await? {
                other.call_id.clone_from(&call.id);
                *result = other;
            }
        }
        policies.after_tools(moment, calls, &results).await?;
        Ok(results)
    }
}

/// The end of a part of a batch.
enum Ended {
    Call(Result<Answered, AgentError>),
    Asked(ApprovalProgress),
    Question(Asking, Result<Value, AgentError>),
}

/// What is under way for the call in a place.
struct PartOfCall(usize, CallPath);

impl Future for PartOfCall {
    type Output = (usize, Ended);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self(place, under_way) = &mut *self;
        let ended = match under_way {
            CallPath::Open(end) => Ended::Call(ready!(end.poll_unpin(cx))),
            CallPath::Asks(end) => Ended::Asked(ready!(end.poll_unpin(cx))),
            CallPath::Question(end) => {
                let (asking, answer) = ready!(end.poll_unpin(cx));
                Ended::Question(asking, answer)
            }
        };
        Poll::Ready((*place, ended))
    }
}

/// A batch under way.
struct Batch<'a, A> {
    cx: &'a RunContext,
    calls: &'a [ToolCall],
    own: &'a mut A,
    results: Vec<Option<ToolResult>>,
    /// The arguments that policies gave to calls that may run, by the places of the calls.
    made: Vec<(usize, Arguments)>,
    /// How many calls are under way.
    running: usize,
    /// Calls that may run when others have ended, with their places. The ids of their operations are taken already.
    ready: VecDeque<(usize, CallPath)>,
    under_way: FutureSet<PartOfCall>,
}

impl<'a, A: Answering> Batch<'a, A> {
    fn new(cx: &'a RunContext, calls: &'a [ToolCall], own: &'a mut A) -> Self {
        Self {
            cx,
            calls,
            own,
            results: vec![None; calls.len()],
            made: Vec::new(),
            running: 0,
            ready: VecDeque::new(),
            under_way: FutureSet::default(),
        }
    }

    /// Keeps and records the result of a call that was answered without the operation of a tool.
    fn answered(
        &mut self,
        place: usize,
        call: &ToolCall,
        result: ToolResult,
        (by, approval): (AnsweredBy, Option<Approved>),
    ) {
        let mut report = CallReport::new(call.arguments.clone(), by);
        report.approval = approval;
        let cause = self.calls[place].cause;
        self.cx.leg().answered(cause, report, result.clone());
        self.results[place] = Some(result);
    }

    /// Follows a decision: the call gets its result, or is ready to run, or somebody is asked.
    fn follow(&mut self, place: usize, decided: Decided) {
        match decided {
            Decided::Run(mut call) => match self.own.answer(&call) {
                Some(result) => self.answered(place, &call, result, (AnsweredBy::Function, None)),
                None => {
                    if call.arguments != self.calls[place].arguments {
                        self.made.push((place, call.arguments.clone()));
                    }
                    // Its operations take their ids here.
                    call.cause = self.calls[place].cause;
                    self.begin(place, self.cx.answer_call(call));
                }
            },
            Decided::Answered {
                call,
                mut result,
                by,
            } => {
                result.call_id.clone_from(&self.calls[place].id);
                self.answered(place, &call, result, (by, None));
            }
            Decided::Ask(asking) => {
                let answer = self.cx.ask((*asking.question).clone());
                let end = answer.map(move |answer| (asking, answer)).boxed();
                let asked = PartOfCall(place, CallPath::Question(end));
                self.under_way.push(asked);
            }
        }
    }

    /// A call may run: at once, or when others have ended.
    fn begin(&mut self, place: usize, call: CallPath) {
        if self.running == self.cx.spec().tools_at_once() {
            self.ready.push_back((place, call));
            return;
        }
        self.running += 1;
        self.under_way.push(PartOfCall(place, call));
    }

    /// A call has ended, and the next one that is ready may run.
    fn goes_on(&mut self) {
        self.running -= 1;
        if let Some((place, call)) = self.ready.pop_front() {
            self.begin(place, call);
        }
    }

    /// Runs the calls side by side: those that may run, and those that may by an answer.
    async fn run(&mut self, moment: Option<HookContext<'_>>) -> Result<(), AgentError> {
        loop {
            match self.under_way.next().await {
                None => return Ok(()),
                Some((place, Ended::Call(end) | Ended::Asked(Break(end)))) => {
                    self.ended(place, end)?;
                    self.goes_on();
                }
                Some((place, Ended::Asked(Continue(allowed)))) => {
                    if !self.make(place, *allowed, moment).await? {
                        self.goes_on();
                    }
                }
                Some((place, Ended::Question(asking, answer))) => {
                    if let (Some(watch), Some(moment)) = (self.cx.watch(), moment) {
                        let decided = watch.policies.answered(moment, asking, answer).await?;
                        self.follow(place, decided);
                    }
                }
            }
        }
    }

    /// Keeps the result of a call that has ended.
    fn ended(&mut self, place: usize, end: Result<Answered, AgentError>) -> Result<(), AgentError> {
        let (result, by) = match end {
            Ok(Answered { result, by }) => (result, by),
            Err(error) => {
                let result = self.own.failed(&self.calls[place], error)?;
                (result, Some((AnsweredBy::Function, None)))
            }
        };
        match by {
            Some(by) => {
                let mut call = self.calls[place].clone();
                let mut made = self.made.iter().filter(|(of, _)| *of == place);
                if let Some((_, arguments)) = made.next() {
                    call.arguments = arguments.clone();
                }
                self.answered(place, &call, result, by);
            }
            None => self.results[place] = Some(result),
        }
        Ok(())
    }

    /// Makes a call that somebody outside has allowed, unless a policy holds it back now. Returns whether it is
    /// under way.
    async fn make(
        &mut self,
        place: usize,
        allowed: AllowedCall,
        moment: Option<HookContext<'_>>,
    ) -> Result<bool, AgentError> {
        if allowed.has_waited()
            && let (Some(watch), Some(moment)) = (self.cx.watch(), moment)
        {
            let again = watch.policies.asked_again(moment, allowed.call());
            if let Some((mut result, by)) = again.await? {
                result.call_id.clone_from(&self.calls[place].id);
                let decided = (by, allowed.approval().cloned());
                self.answered(place, allowed.call(), result, decided);
                return Ok(false);
            }
        }
        let made = CallPath::Asks(allowed.make().boxed());
        self.under_way.push(PartOfCall(place, made));
        Ok(true)
    }

    /// One result for each call.
    fn complete(mut self) -> Vec<ToolResult> {
        for (place, call) in self.calls.iter().enumerate() {
            if self.results[place].is_none() {
                let not_run = ToolResult::new(call, ToolStatus::Interrupted, "Not run.");
                self.answered(place, call, not_run, (AnsweredBy::Engine, None));
            }
        }
        // Each has its result by now, so the list stays where it is.
        self.results
            .into_iter()
            .map_while(|result| result)
            .collect()
    }
}
