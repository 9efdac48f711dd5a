//! The handover of a conversation from one agent to another.

use std::sync::Arc;

use super::{leg::Leg, leg_start::LegStart};
use crate::vocabulary::{Message, Outcome, StopReason, Transfer};

impl Leg {
    /// How the leg begins to which this one hands the conversation over.
    pub(crate) fn next(&self, transfer: Transfer) -> LegStart {
        let callers = self.callers_after(&transfer);
        let mut said = self.said();
        said.extend(transfer.messages);
        LegStart {
            number: self.number + 1,
            agent: transfer.to,
            request: transfer.request,
            heard: self.places_of_heard(&said),
            said,
            callers,
            returned_by: transfer.is_return.then(|| self.agent.name.to_string()),
        }
    }
    /// The meaning of a leg's outcome for its run. If another agent waits for this one to be done,
    /// the conversation goes back to that agent.
    pub(crate) fn onward(&self, outcome: Outcome) -> Outcome {
        let Some(caller) = self.callers.last() else {
            return outcome;
        };
        let name = &*self.agent.name;
        let why = match &outcome {
            Outcome::Answer(_) => format!("{name} is done."),
            Outcome::Stopped {
                reason: StopReason::Escalated(reason),
                ..
            } => format!("{name} hands the problem back: {reason}"),
            _ => return outcome,
        };
        let mut messages = outcome.messages().to_vec();
        if messages.is_empty() && !outcome.text().is_empty() {
            messages.push(Arc::new(Message::assistant(outcome.text()).by(name)));
        }
        let mut back = Transfer::to(caller).request(why).with_messages(messages);
        back.is_return = true;
        Outcome::Transfer(back)
    }

    /// The agents that wait for the conversation after this transfer, the next one last. If others
    /// wait for an agent, they wait for its successor instead.
    fn callers_after(&self, transfer: &Transfer) -> Vec<String> {
        let mut callers = self.callers.clone();
        if transfer.is_return {
            callers.pop();
        } else if transfer.returns {
            callers.push(self.agent.name.to_string());
        } else if let Some(place) = callers.iter().position(|caller| *caller == transfer.to) {
            // The target waits for the conversation itself, so it and the callers after it are
            // taken off the list.
            callers.truncate(place);
        }
        callers
    }
}
