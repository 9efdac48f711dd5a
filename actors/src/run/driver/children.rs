//! Children of a run, and the work that its function leaves behind.

use std::sync::Arc;

use super::{Driver, FunctionWaker, LegEnd, WakeReason};
use crate::{
    contract::{Append, ItemBody, MailboxItem},
    run::{ChildReport, ChildResult, Command, leg::Leg, operation::Arrival, run_machine::Call},
    vocabulary::{Entry, OperationError, OperationId, Outcome, RunId, Spent},
};

impl Driver {
    /// Handles a child's report. A report of its end is recorded.
    pub(crate) fn child_news(
        &mut self,
        leg: &Leg,
        run: RunId,
        report: ChildReport,
    ) -> Result<(), LegEnd> {
        let idle = match report {
            ChildReport::Idle(idleness) => Some(idleness),
            ChildReport::Busy => None,
            ChildReport::Ended {
                append,
                result,
                heard,
            } => {
                let is_answered = |outcome: &Outcome| outcome.as_answer().is_some();
                if result.outcome.as_ref().is_ok_and(is_answered) || self.cancelled.is_cancelled() {
                    self.heard_below(leg, run, &heard);
                }
                self.child_ended(leg, run, append, *result);
                return Ok(());
            }
            ChildReport::Failed(error) => return Err(LegEnd::Store(error)),
        };
        if let Some(child) = self.children.get_mut(&run) {
            child.idle = idle;
        }
        Ok(())
    }

    /// Takes note of what a child that has answered heard instead of the function. In the same commit the other
    /// children at work get copies: they are to hear it too, and know by the item what they have heard already. What only
    /// children without an answer heard goes on waiting.
    fn heard_below(&mut self, leg: &Leg, run: RunId, heard: &[String]) {
        let Some(op) = self.children.get(&run).map(|child| child.op) else {
            return;
        };
        for said in self.sender.words().take_items(heard) {
            let listening = self.children.iter().filter(|(_, child)| child.hears);
            for (other, _) in listening.filter(|(other, _)| **other != run) {
                let body = ItemBody::Steer(said.message.clone());
                let item = MailboxItem::new(said.item.clone(), said.at, body);
                self.journal.post(*other, item);
            }
            if !said.is_from_above {
                let message = Box::new(said.message.clone());
                let place = Entry::HEARD_BELOW;
                leg.books.lock().heard[1].push(Arc::from(message.clone()));
                self.journal.append(Entry::Heard { op, place, message });
            }
            self.acknowledge_said(op, said);
        }
    }

    pub(super) fn child_ended(
        &mut self,
        leg: &Leg,
        run: RunId,
        append: Option<Box<Append>>,
        result: ChildResult,
    ) {
        let op = self.children.remove(&run).map(|child| child.op);
        // A child that an earlier incarnation settled is charged already.
        let settled = op.is_some_and(|op| self.ledger.settle(op));
        let spent = match settled {
            true => result.spent,
            false => Spent::default(),
        };
        if let Some(op) = op {
            let arrival = || Arrival::Child(Box::new(result.clone()));
            // An operation that waits later reads the end in the child's journal.
            let own = leg.machine().child_ended(op, arrival);
            if let Some(make) = own {
                self.complete_with(leg, op, make(), Some(spent));
            } else if settled {
                self.journal.append(Entry::Settled { op, spent });
                self.charge(spent);
            }
        }
        let Some(append) = append else { return };
        // The child's end, what it settles, and the parent's result are one commit, in this order:
        // events come in the order of entries, and the result rests on the end.
        let mut batch = self.journal.take().unwrap_or_default();
        batch.appends.insert(0, *append);
        self.journal.commit(batch);
    }

    /// Records the ends of operations that have only their change of shared state left to do. The
    /// change is not made, since the result is not wanted any more.
    pub(crate) fn end_unsaved(&mut self, leg: &Leg, reason: &OperationError) {
        let unsaved = leg.machine().unsaved();
        for (op, unsaved) in unsaved {
            self.complete(leg, op, Ok(unsaved(reason)));
        }
    }

    /// The operations that have begun and not ended, for the closing of a cancelled run.
    pub(crate) fn take_open(&mut self, leg: &Leg) -> Vec<(OperationId, Call)> {
        self.acts.clear();
        leg.machine().take_open()
    }

    /// Whether any work that the finished function left behind is still under way.
    pub(crate) fn has_background(&self) -> bool {
        !self.acts.is_empty() || !self.background.is_empty() || !self.children.is_empty()
    }

    /// Lets dropped calls and cancelled children come to their ends.
    pub(crate) async fn settle_background(&mut self, leg: &Leg) -> Result<(), LegEnd> {
        let spawned: Vec<RunId> = self.children.keys().copied().collect();
        for run in spawned {
            self.cancel_child(run, "the run that began it has ended");
        }
        // The run is ending already, so its deadline does not matter any more.
        (self.deadline, self.wall_time_warning) = (None, None);
        if !self.has_background() {
            return Ok(());
        }
        let waker = FunctionWaker::new(false);
        while self.has_background() {
            match self.next_wake(leg, &waker, false).await {
                // A child that is recorded and did not begin yet still has to come to its end.
                WakeReason::Background(Some(start)) => self.start_child(*start),
                WakeReason::Command(Some(Command::Child { run, report })) => {
                    self.child_news(leg, run, report)?;
                }
                WakeReason::Command(None | Some(Command::LetGo)) => return Err(LegEnd::LetGo),
                WakeReason::Failed(error) => return Err(LegEnd::Store(error)),
                _ => {}
            }
        }
        Ok(())
    }
}
