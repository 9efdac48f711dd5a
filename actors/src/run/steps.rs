//! Where steps begin and end, derived from events: a step is a model call with the tool calls that it
//! asks for.

use std::sync::OnceLock;

use super::{
    notes::ANSWERS,
    operations::{status_of, tool_digest},
};
use crate::vocabulary::{
    AgentError, AnsweredBy, CallDigest, CallReport, ErrorKind, Event, Family, OperationError,
    OperationId, RunResult, ToolCall, ToolResult, ToolStatus,
};

/// The steps of one run that have begun and not ended.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// How many have begun.
    begun: u32,
    open: Vec<OpenStep>,
    /// The leg whose calls have places for their answers, and the first free place.
    free: (u32, u32),
    /// Whether the run's journal tells of each call how it was answered.
    pub(super) tells_of_calls: bool,
}

#[derive(Debug)]
struct OpenStep {
    step: u32,
    operation: OperationId,
    calls: u32,
    answered: u32,
    /// The calls that have no result yet.
    unanswered: Vec<OpenCall>,
}

/// A call without a result.
#[derive(Debug)]
struct OpenCall {
    call: ToolCall,
    /// The digest of the operation that runs it, made when it is first asked for.
    digest: OnceLock<CallDigest>,
    /// The error with which its tool ended, which the function may turn into a result.
    error: Option<OperationError>,
}

impl OpenCall {
    fn digest(&self) -> CallDigest {
        let made = || tool_digest(&self.call.name, self.call.arguments.text()).into();
        *self.digest.get_or_init(made)
    }
}

impl OpenStep {
    fn is_beside(&self, operation: OperationId) -> bool {
        (self.operation.leg, self.operation.lane) == (operation.leg, operation.lane)
    }

    fn end(self) -> Event {
        Event::StepEnded {
            step: self.step,
            operation: self.operation,
            calls: self.calls,
            answered: self.answered,
        }
    }
}

impl Steps {
    /// This event of the run, with the beginnings and ends of steps before and behind it. The digest is that of the
    /// operation that ended.
    pub(super) fn around(&mut self, event: Event, digest: Option<CallDigest>) -> Vec<Event> {
        let (mut before, mut behind) = (Vec::new(), Vec::new());
        match &event {
            Event::ModelCalled {
                operation,
                tool_calls,
                ..
            } => before = self.begin(*operation, tool_calls),
            Event::OperationFailed {
                operation, kind, ..
            } if Family::of(kind) == Family::Model => {
                before = self.begin(*operation, &[]);
                behind = self.end_where(|step| step.operation == *operation);
            }
            Event::OperationFailed {
                operation,
                kind,
                name,
                error: AgentError::Operation(error),
            } if Family::of(kind) == Family::Tool && error.kind != ErrorKind::Continues => {
                self.fail(*operation, (name, digest), error);
            }
            Event::ToolCalled {
                operation, result, ..
            } => {
                if operation.lane == ANSWERS {
                    self.take_place(*operation);
                }
                let answered = self.answer(*operation, &result.call_id);
                behind.extend(answered.map(OpenStep::end));
            }
            Event::LegStarted { .. } => before = self.end_where(|_| true),
            Event::RunEnded { end, .. } => {
                before = self.cut_off(end);
                before.append(&mut self.end_where(|_| true));
            }
            _ => {}
        }
        before.push(event);
        before.append(&mut behind);
        before
    }

    /// Begins a step, which ends the one before it in its lane.
    fn begin(&mut self, operation: OperationId, asked: &[ToolCall]) -> Vec<Event> {
        let mut events = self.end_where(|step| step.is_beside(operation));
        self.begun = self.begun.saturating_add(1);
        let step = self.begun;
        events.push(Event::StepStarted { step, operation });
        let open = |call: &ToolCall| OpenCall {
            call: call.clone(),
            digest: OnceLock::new(),
            error: None,
        };
        let unanswered: Vec<OpenCall> = asked.iter().map(open).collect();
        self.open.push(OpenStep {
            step,
            operation,
            calls: u32::try_from(unanswered.len()).unwrap_or(u32::MAX),
            answered: 0,
            unanswered,
        });
        events
    }

    fn end_where(&mut self, ends: impl Fn(&OpenStep) -> bool) -> Vec<Event> {
        let ended = self.open.extract_if(.., |step| ends(step));
        ended.map(OpenStep::end).collect()
    }

    /// The events of the calls that the end of their run cuts off. A function that answers has left its other calls
    /// aside by itself.
    fn cut_off(&mut self, end: &RunResult) -> Vec<Event> {
        let reason = match end {
            RunResult::Stopped(reason) => reason.to_string(),
            RunResult::Failed(error) => error.to_string(),
            RunResult::Answered(_) | RunResult::Continued(_) => return Vec::new(),
        };
        if !self.tells_of_calls {
            return Vec::new();
        }
        let mut events = Vec::new();
        let (leg, mut number) = self.free;
        for step in &self.open {
            if step.operation.leg != leg {
                number = 0;
            }
            for OpenCall { call, error, .. } in &step.unanswered {
                // The function gave such a call another id, so it may have a result.
                let is_named = !call.id.trim().is_empty();
                let of_id = |other: &&OpenCall| other.call.id == call.id;
                if !is_named || step.unanswered.iter().filter(of_id).count() > 1 {
                    continue;
                }
                let result = match error {
                    Some(error) => ToolResult::new(call, status_of(&error.kind), error.to_string()),
                    None => {
                        let text = format!("interrupted: {reason}");
                        ToolResult::new(call, ToolStatus::Interrupted, text)
                    }
                };
                events.push(Event::ToolCalled {
                    operation: OperationId {
                        leg: step.operation.leg,
                        lane: ANSWERS,
                        number,
                    },
                    result,
                    call: Some(CallReport::new(call.arguments.clone(), AnsweredBy::Engine).shown()),
                });
                number += 1;
            }
        }
        events
    }

    /// Takes note of the place of an answer.
    fn take_place(&mut self, operation: OperationId) {
        let next = operation.number.saturating_add(1);
        self.free = match self.free {
            (leg, free) if leg == operation.leg => (leg, free.max(next)),
            _ => (operation.leg, next),
        };
    }

    /// Records with which error the tool of a call ended: of the calls with these arguments, or else of this tool.
    fn fail(
        &mut self,
        operation: OperationId,
        (name, digest): (&str, Option<CallDigest>),
        error: &OperationError,
    ) {
        let is_of = |open: &OpenCall| open.error.is_none() && open.call.name == name;
        let is_it = |open: &OpenCall| is_of(open) && digest == Some(open.digest());
        let place = self.place(operation, is_it);
        if let Some((step, at)) = place.or_else(|| self.place(operation, is_of)) {
            self.open[step].unanswered[at].error = Some(error.clone());
        }
    }

    /// The place of the latest step with such a call, and of the call in it.
    fn place(
        &self,
        operation: OperationId,
        is_it: impl Fn(&OpenCall) -> bool,
    ) -> Option<(usize, usize)> {
        let waiting = |step: &OpenStep| step.unanswered.iter().any(&is_it);
        // Models in different lanes may use the same call ids, so a step in the lane of the call comes first. A
        // call in a lane of its own (one that needed an approval) is looked for in all steps.
        let beside = |step: &OpenStep| step.is_beside(operation) && waiting(step);
        let step = self.open.iter().rposition(beside);
        let step = step.or_else(|| self.open.iter().rposition(waiting))?;
        let at = self.open[step].unanswered.iter().position(&is_it)?;
        Some((step, at))
    }

    /// Records the result of a call, and returns its step when that was the last result that it waits for.
    /// `None` for a call that no model asked for.
    fn answer(&mut self, operation: OperationId, call: &str) -> Option<OpenStep> {
        let (place, at) = self.place(operation, |open| open.call.id == call)?;
        let step = &mut self.open[place];
        step.unanswered.remove(at);
        step.answered += 1;
        let is_complete = step.unanswered.is_empty();
        is_complete.then(|| self.open.remove(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_model_call_ends_the_step_of_its_own_branch_and_no_other() {
        let operation = |text: &str| -> OperationId { text.parse().unwrap() };
        let call = ToolCall::new("1", "look", "{}");
        let mut steps = Steps::default();
        let begun = steps.begin(operation("0.0.0"), std::slice::from_ref(&call));
        assert_eq!(begun.len(), 1);
        // The model of a lane beside it is asked while the call has no result.
        let beside = steps.begin(operation("0.1.0"), &[]);
        assert!(
            matches!(beside[..], [Event::StepStarted { step: 2, .. }]),
            "{beside:?}"
        );
        // The next one of the first lane ends the step that waits for its call.
        let next = steps.begin(operation("0.0.1"), &[]);
        assert!(
            matches!(
                next[..],
                [
                    Event::StepEnded { step: 1, .. },
                    Event::StepStarted { step: 3, .. }
                ]
            ),
            "{next:?}"
        );
    }
}
