//! Where steps begin and end, derived from events: a step is a model call with the tool calls that it
//! asks for.

use crate::vocabulary::{Event, Family, OperationId, ToolCall};

/// The steps of one run that have begun and not ended.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// How many have begun.
    begun: u32,
    open: Vec<OpenStep>,
}

#[derive(Debug)]
struct OpenStep {
    step: u32,
    operation: OperationId,
    calls: u32,
    answered: u32,
    /// The ids of the calls that have no result yet.
    unanswered: Vec<String>,
}

impl OpenStep {
    fn is_beside(&self, operation: OperationId) -> bool {
        (self.operation.leg, self.operation.branch) == (operation.leg, operation.branch)
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
    /// This event of the run, with the beginnings and ends of steps before and behind it.
    pub(super) fn around(&mut self, event: Event) -> Vec<Event> {
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
            Event::ToolCalled {
                operation, result, ..
            } => {
                let answered = self.answer(*operation, &result.call_id);
                behind.extend(answered.map(OpenStep::end));
            }
            Event::LegStarted { .. } | Event::RunEnded { .. } => before = self.end_where(|_| true),
            _ => {}
        }
        before.push(event);
        before.append(&mut behind);
        before
    }

    /// Begins a step, which ends the one before it in its branch.
    fn begin(&mut self, operation: OperationId, asked: &[ToolCall]) -> Vec<Event> {
        let mut events = self.end_where(|step| step.is_beside(operation));
        self.begun = self.begun.saturating_add(1);
        let step = self.begun;
        events.push(Event::StepStarted { step, operation });
        let unanswered: Vec<String> = asked.iter().map(|call| call.id.clone()).collect();
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

    /// Records the result of a call, and returns its step when that was the last result that it waits for.
    /// `None` for a call that no model asked for.
    fn answer(&mut self, operation: OperationId, call: &str) -> Option<OpenStep> {
        let waiting = |step: &OpenStep| step.unanswered.iter().any(|id| id == call);
        // Models in different branches may use the same call ids, so a step in the branch of the call comes first. A
        // call in a branch of its own (one that needed an approval) is looked for in all steps.
        let beside = |step: &OpenStep| step.is_beside(operation) && waiting(step);
        let place = self.open.iter().rposition(beside);
        let place = place.or_else(|| self.open.iter().rposition(waiting))?;
        let step = &mut self.open[place];
        let at = step.unanswered.iter().position(|id| id == call)?;
        step.unanswered.swap_remove(at);
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
        // The model of a branch beside it is asked while the call has no result.
        let beside = steps.begin(operation("0.1.0"), &[]);
        assert!(
            matches!(beside[..], [Event::StepStarted { step: 2, .. }]),
            "{beside:?}"
        );
        // The next one of the first branch ends the step that waits for its call.
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
