//! Where steps begin and end, derived from events: a step is a model call with the tool calls that it
//! asks for.

use super::{
    operation_log::{OpenCall, OpenStep, OperationLog},
    recorded_note::ANSWERS,
    recorded_result::status_of,
};
use crate::vocabulary::{
    AgentError, AnsweredBy, AskedBy, CallReport, ErrorKind, Event, Family, OperationId, RunResult,
    ToolCall, ToolResult, ToolStatus,
};

/// The events of one run's steps.
#[derive(Debug, Default)]
pub(super) struct Steps {
    pub(super) log: OperationLog,
    /// The leg whose calls have places for their answers, and the first free place.
    free: (u32, u32),
}

impl OpenStep {
    fn is_beside(&self, operation: OperationId) -> bool {
        (self.model.leg, self.model.lane) == (operation.leg, operation.lane)
    }

    fn end(self) -> Event {
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let answered = self.calls.iter().filter(|call| call.is_answered);
        Event::StepEnded {
            step: self.number,
            operation: self.model,
            answered: count(answered.count()),
            calls: count(self.calls.len()),
        }
    }
}

impl Steps {
    /// This event of the run, with the beginnings and ends of steps before and behind it. It belongs to this call of a
    /// model.
    pub(super) fn around(&mut self, event: Event, asked_by: Option<AskedBy>) -> Vec<Event> {
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
                behind = self.end_where(|step| step.model == *operation);
            }
            Event::OperationFailed {
                kind,
                error: AgentError::Operation(error),
                ..
            } if Family::of(kind) == Family::Tool && error.kind != ErrorKind::Continues => {
                if let Some(open) = asked_by.and_then(|asked_by| self.log.call(asked_by)) {
                    open.error = Some(error.clone());
                }
            }
            Event::ToolCalled { operation, .. } => {
                if operation.lane == ANSWERS {
                    self.take_place(*operation);
                }
                behind = asked_by.map_or_else(Vec::new, |asked_by| self.answer(asked_by));
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
        let step = self.log.asked(operation, asked);
        events.push(Event::StepStarted { step, operation });
        events
    }

    fn end_where(&mut self, ends: impl Fn(&OpenStep) -> bool) -> Vec<Event> {
        let ended = self.log.steps.extract_if(.., |step| ends(step));
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
        let mut events = Vec::new();
        let (leg, mut number) = self.free;
        for step in &self.log.steps {
            if step.model.leg != leg {
                number = 0;
            }
            let open = step.calls.iter().filter(|open| !open.is_answered);
            for OpenCall { call, error, .. } in open {
                let result = match error {
                    Some(error) => ToolResult::new(call, status_of(&error.kind), error.to_string()),
                    None => {
                        let text = format!("interrupted: {reason}");
                        ToolResult::new(call, ToolStatus::Interrupted, text)
                    }
                };
                events.push(Event::ToolCalled {
                    operation: OperationId {
                        leg: step.model.leg,
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

    /// Records that a call has its result. Its step ends with the last of its results.
    fn answer(&mut self, asked_by: AskedBy) -> Vec<Event> {
        if let Some(open) = self.log.call(asked_by) {
            open.is_answered = true;
        }
        self.end_where(|step| {
            step.model == asked_by.model && step.calls.iter().all(|call| call.is_answered)
        })
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
