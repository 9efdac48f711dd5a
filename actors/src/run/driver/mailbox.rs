//! Mailbox items: messages, answers and results from outside.

use std::sync::Arc;

use futures_util::FutureExt;

use super::{ActEvent, Acting, Driver, LegEnd, Work};
use crate::{
    contract::ItemBody,
    run::{
        ToolEnd,
        completed::Made,
        leg::Leg,
        operations::{CallTool, cut_short, outlasts_journal},
        run_machine::Action,
        steering_inbox::Said,
    },
    vocabulary::{Entry, ErrorKind, Family, JournalId, OperationError, OperationId, StopReason},
};

impl Driver {
    /// Reads what is new in the mailbox. Each item is read once in an incarnation of the run.
    ///
    /// # Errors
    /// It holds the run's cancellation, or cannot be read.
    pub(crate) async fn read_mailbox(&mut self, leg: &Leg) -> Result<(), LegEnd> {
        let own = JournalId::Run(self.journal.run());
        let mut heard = Vec::new();
        for (mailbox, read) in &mut self.read {
            let items = self.ports.store().mailbox_after(mailbox.clone(), *read);
            for (mark, item) in items.await.map_err(LegEnd::Store)? {
                *read = mark.max(*read);
                if *mailbox != own && !outlasts_journal(&item.body) {
                    // It is for another journal of the run, or for the session's agent.
                    continue;
                }
                let (turn, message) = match item.body {
                    ItemBody::Cancel { reason, stop } => {
                        self.journal.acknowledge(item.id);
                        let stop = stop.unwrap_or(StopReason::Cancelled(reason));
                        return Err(LegEnd::Cancel(stop));
                    }
                    ItemBody::Steer(message) => (None, message),
                    // It becomes a run of its speaker's when this run is over.
                    ItemBody::SteeringTurn(turn) if !turn.is_for(&leg.start) => continue,
                    ItemBody::SteeringTurn(turn) => (turn.id, Arc::unwrap_or_clone(turn.message)),
                    body => {
                        leg.machine().arrived(item.id, body);
                        continue;
                    }
                };
                heard.push(Said {
                    item: item.id,
                    at: item.at,
                    turn,
                    message,
                    is_from_above: false,
                });
            }
        }
        heard.sort_by_key(|said| said.at);
        for item in self.sender.words().add(heard) {
            self.journal.acknowledge(item);
        }
        Ok(())
    }

    /// Ends the operation whose turn it is, if any.
    pub(super) fn end_next(&mut self, leg: &Leg) -> bool {
        loop {
            let action = leg.machine().next_action();
            let Some(action) = action else {
                return false;
            };
            if self.carry_out(leg, action) {
                return true;
            }
        }
    }

    /// `true` when an operation ended or went on.
    pub(super) fn carry_out(&mut self, leg: &Leg, action: Action) -> bool {
        match action {
            Action::Complete(op, item, make) => {
                item.into_iter()
                    .for_each(|item| self.journal.acknowledge(item));
                self.complete(leg, op, make());
                return true;
            }
            Action::GoOn(op, item, go_on) => {
                // Its end acknowledges the item. Until then another incarnation begins from it.
                if let Some(call) = leg.machine().call_mut(op) {
                    call.items.extend(item);
                }
                self.goes_on();
                self.go_on(leg, op, go_on(), leg.begun(op));
                return true;
            }
            Action::Acknowledge(item) => self.journal.acknowledge(item),
            Action::Quarantine(op, item, fault) => {
                self.journal.acknowledge(item);
                let reason = OperationError::new(ErrorKind::Malformed, fault).into();
                self.journal.append(Entry::Quarantined { op, reason });
            }
            Action::Cancel(op, item) => return self.cancel_call(leg, op, item),
        }
        false
    }

    /// Strikes off the messages that the function has just got, with this operation or before it. If
    /// that could not be recorded, the messages stay for the next time.
    pub(super) fn acknowledge_heard(&mut self, leg: &Leg, op: OperationId, recorded: bool) {
        let heard = std::mem::take(&mut leg.books.lock().words.taken);
        if !recorded {
            return self.sender.words().give_back(heard);
        }
        for said in heard {
            self.acknowledge_said(op, said);
        }
    }

    /// Records that this was heard, with this operation or before it. What was said to a run above stays in the mailbox
    /// there until this run has ended.
    pub(super) fn acknowledge_said(&mut self, op: OperationId, said: Said) {
        let turn = match said.is_from_above {
            true => Some(said.item),
            false => {
                self.journal.acknowledge(said.item);
                said.turn
            }
        };
        if let Some(turn) = turn {
            self.heard.push(turn.clone());
            self.journal.append(Entry::TurnHeard { op, turn });
        }
    }

    /// Cancels one call from outside. The function gets an error and goes on. If a `once` tool
    /// comes to a known end within its grace period, that end counts. An operation that is not
    /// under way cannot be cancelled. `true` when the call has ended.
    fn cancel_call(&mut self, leg: &Leg, op: OperationId, item: String) -> bool {
        let mut machine = leg.machine();
        let waits = machine.wait_of(op).is_some();
        let Some(call) = machine.call_mut(op) else {
            self.journal.acknowledge(item);
            return false;
        };
        call.items.push(item);
        if call.cancelled.is_cancelled() {
            // The call is being cancelled already.
            return false;
        }
        let (cancel, unsaved) = (call.cancelled.clone(), call.unsaved.clone());
        let is_aborted = Family::of(&call.identity.kind).is_aborted();
        let (once, is_in_doubt) = (call.once, call.is_in_doubt());
        drop(machine);
        cancel.cancel();
        if let Some(unsaved) = unsaved {
            // Everything but the change of state is done, so the end is known.
            self.complete(leg, op, Ok(unsaved(&cancelled())));
            return true;
        }
        if is_aborted && once && !waits {
            let abort = self.ports.abort_tool(leg.run, op);
            let aborted = abort.map(ActEvent::Aborted).boxed();
            self.acts.push(Acting(op, Work::Other(aborted)));
            return false;
        }
        if is_aborted {
            self.abort_in_background(leg.run, op);
        }
        self.let_child_go(op, "this call was cancelled");
        let end = is_in_doubt.then(ToolEnd::unknown);
        self.complete(
            leg,
            op,
            cut_short(end, cancelled()).map(Made::by::<CallTool>),
        );
        true
    }

    /// Records the end of a cancelled `once` call that can do nothing more.
    pub(super) fn aborted(&mut self, leg: &Leg, op: OperationId, end: Option<ToolEnd>) {
        let result = cut_short(end, cancelled());
        let made = result.map(Made::by::<CallTool>);
        self.complete_with(leg, op, made, None);
    }
}

fn cancelled() -> OperationError {
    OperationError::new(ErrorKind::Cancelled, "this call was cancelled")
}
