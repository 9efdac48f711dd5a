//! Operations whose results are not wanted any more.

use std::sync::Arc;

use super::Driver;
use crate::{
    run::leg::Leg,
    vocabulary::{Begun, Entry, Family, OperationId, RunId},
};

impl Driver {
    /// Handles an operation that the function dropped.
    pub(super) fn drop_operation(&mut self, leg: &Arc<Leg>, op: OperationId) {
        let recorded = {
            let mut books = leg.books.lock();
            books.to_begin.retain(|(id, ..)| *id != op);
            books.recorded.get(&op).cloned()
        };
        let Some(under) = self.under.remove(&op) else {
            // It was not begun in this life. An earlier life may have begun it without recording
            // that it was dropped.
            if let Some(call) = recorded.filter(|call| !call.completed && !call.dropped)
                && let Some(begun) = call.begun
            {
                if let Begun::Child(run) = begun {
                    self.cancel_child(run, "no longer wanted");
                }
                let spent = Family::of(&call.identity.kind).consumed();
                self.journal.append(&Entry::Dropped { op, spent });
                self.charge(spent);
            }
            return;
        };
        under.cancelled.cancel();
        if let Some(call) = leg.books.lock().recorded.get_mut(&op) {
            call.dropped = true;
        }
        self.waits.remove(op);
        self.strike_items_for(op);
        self.ready.retain(|(id, _)| *id != op);
        if Family::of(&under.identity.kind).is_aborted() {
            self.abort_in_background(leg.run, op);
        }
        self.let_child_go(op, "no longer wanted");
        for item in under.items.iter().cloned() {
            self.journal.strike(item);
        }
        let spent = under.charge();
        self.journal.append(&Entry::Dropped { op, spent });
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

    /// Cancels a child, also one that has not started yet.
    pub(crate) fn cancel_child(&mut self, run: RunId, reason: &str) {
        if let Some(child) = self.children.get_mut(&run) {
            child.cancel.get_or_insert_with(|| reason.to_owned());
        }
        self.ports
            .cancel_child(self.journal.run, run, reason.to_owned());
    }

    pub(super) fn abort_in_background(&mut self, run: RunId, op: OperationId) {
        let abort = self.ports.abort_tool(run, op);
        self.aborts.push(Box::pin(async move {
            abort.await;
        }));
    }
}
