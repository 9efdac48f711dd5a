//! Operations whose results are not wanted any more.

use super::Driver;
use crate::{
    run::{
        leg::{Leg, RecordedCall},
        load::RecordedChild,
    },
    vocabulary::{Begun, Entry, Family, OperationId, RunId},
};

impl Driver {
    /// Handles an operation that the function dropped.
    pub(super) fn drop_operation(&mut self, leg: &Leg, op: OperationId) {
        let recorded = {
            let mut books = leg.books.lock();
            books.to_begin.retain(|(id, ..)| *id != op);
            books.machine.call(op).cloned()
        };
        let Some(under) = self.take_under(op) else {
            // It was not begun in this incarnation. An earlier incarnation may have begun it without recording
            // that it was dropped.
            if let Some(call) = recorded.filter(|call| !call.completed && !call.dropped)
                && call.begun.is_some()
            {
                self.cancel_recorded_child(leg, op, &call, "no longer wanted");
                self.journal.asks_no_more(op);
                let spent = Family::of(&call.identity.kind).consumed();
                self.journal.append(Entry::Dropped { op, spent });
                self.charge(spent);
            }
            return;
        };
        under.cancelled.cancel();
        if let Some(call) = leg.books.lock().machine.call_mut(op) {
            call.dropped = true;
        }
        self.ready.retain(|(id, _)| *id != op);
        if Family::of(&under.identity.kind).is_aborted() {
            self.abort_in_background(leg.run, op);
        }
        self.let_child_go(op, "no longer wanted");
        let spent = under.charge();
        self.journal.append(Entry::Dropped { op, spent });
        self.charge(spent);
    }

    /// Cancels the child of this operation, for which nobody waits any more.
    pub(super) fn let_child_go(&mut self, op: OperationId, reason: &str) {
        let mut children = self.children.iter_mut();
        if let Some((run, child)) = children.find(|(_, child)| child.op == op) {
            child.finish = None;
            let run = *run;
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
        let agent = call.identity.name.clone();
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
