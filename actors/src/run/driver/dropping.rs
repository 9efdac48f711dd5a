//! Operations whose results are not wanted any more.

use super::Driver;
use crate::{
    run::{leg::Leg, load::RecordedChild, recorded_call::RecordedCall, run_machine::Call},
    vocabulary::{Begun, Entry, Family, OperationId, RunId},
};

impl Driver {
    /// Breaks off an operation that the function dropped. Without a call it was not begun in this incarnation: an earlier
    /// one began it, and did not record that it was dropped.
    pub(super) fn drop_operation(&mut self, leg: &Leg, op: OperationId, call: Option<Call>) {
        let recorded = leg.machine().recorded(op).cloned();
        let spent = match (call, recorded) {
            (Some(mut call), _) => {
                self.acknowledge_items(op, &mut call);
                call.cancelled.cancel();
                if Family::of(&call.identity.kind).is_aborted() {
                    self.abort_in_background(leg.run, op);
                }
                self.let_child_go(op, "no longer wanted");
                call.charge()
            }
            (None, Some(call)) => {
                self.cancel_recorded_child(leg, op, &call, "no longer wanted");
                self.journal.asks_no_more(op);
                call.charge()
            }
            (None, None) => return,
        };
        self.journal.append(Entry::Dropped { op, spent });
        self.charge(spent);
    }

    /// Cancels the child of this operation, for which nobody waits any more.
    pub(super) fn let_child_go(&mut self, op: OperationId, reason: &str) {
        let mut children = self.children.iter();
        let child = children.find(|(_, child)| child.op == op);
        if let Some(run) = child.map(|(run, _)| *run) {
            self.cancel_child(run, reason);
        }
    }

    /// Cancels the child of an operation that an earlier incarnation began. If this incarnation has not begun the
    /// operation again, nobody carries the child, so it is recovered to come to its end.
    pub(crate) fn cancel_recorded_child(
        &mut self,
        leg: &Leg,
        op: OperationId,
        call: &RecordedCall,
        reason: &str,
    ) {
        let Some(Begun::Child(run)) = call.begun else {
            return;
        };
        let is_waited_for = Family::of(&call.identity.kind) == Family::Delegate;
        if !is_waited_for || self.children.contains_key(&run) {
            return self.cancel_child(run, reason);
        }
        let agent = call.identity.name().to_owned();
        let child = RecordedChild { op, run, agent };
        self.recover_child(leg, child, Some(reason.to_owned()), &leg.pinned);
    }

    /// Cancels a child, also one that has not started yet.
    pub(crate) fn cancel_child(&mut self, run: RunId, reason: &str) {
        if let Some(child) = self.children.get_mut(&run) {
            child.cancel.get_or_insert_with(|| reason.to_owned());
        }
        self.ports
            .cancel_child(self.journal.run(), run, reason.to_owned());
    }

    pub(super) fn abort_in_background(&mut self, run: RunId, op: OperationId) {
        let abort = self.ports.abort_tool(run, op);
        self.background.push(Box::pin(async move {
            abort.await;
            None
        }));
    }
}
