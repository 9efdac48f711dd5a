//! Children of a run, and the work that its function leaves behind.

use super::{Driver, FunctionWaker, LegEnd, WakeReason};
use crate::{
    contract::Append,
    run::{
        ChildReport, ChildResult, Command,
        leg::{CallIdentity, Leg},
        operation::Arrival,
    },
    vocabulary::{Entry, OperationError, OperationId, RunId, Spent},
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
            ChildReport::Idle { wake_at } => Some(wake_at),
            ChildReport::Busy => None,
            ChildReport::Ended { append, result } => {
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

    pub(super) fn child_ended(
        &mut self,
        leg: &Leg,
        run: RunId,
        append: Option<Box<Append>>,
        result: ChildResult,
    ) {
        let child = self.children.remove(&run);
        let op = child.as_ref().map(|child| child.op);
        let finish = child.and_then(|child| child.finish.map(|finish| (child.op, finish)));
        // An operation that was closed meanwhile has its result.
        let finish = finish.filter(|(op, _)| self.under.contains_key(op));
        // A child that an earlier incarnation settled is charged already.
        let settled = op.is_some_and(|op| self.ledger.settle(op));
        let spent = if settled {
            result.spent
        } else {
            Spent::default()
        };
        match finish {
            Some((op, finish)) => {
                let made = finish(run, Some(result));
                self.complete_with(leg, op, made, Some(spent));
            }
            None => {
                if let Some(op) = op {
                    self.joined_child_ended(leg, op, result);
                }
                if let Some(op) = op.filter(|_| settled) {
                    self.journal.append(Entry::Settled { op, spent });
                    self.charge(spent);
                }
            }
        }
        let Some(append) = append else { return };
        // The child's end, what it settles, and the parent's result are one commit, in this order:
        // events come in the order of entries, and the result rests on the end.
        let mut batch = self.journal.take().unwrap_or_default();
        batch.appends.insert(0, *append);
        self.journal.commit(batch);
    }

    /// Gives the child's end to the operations that wait for the child. An operation that waits
    /// later reads the end in the child's journal.
    fn joined_child_ended(&mut self, leg: &Leg, begun_by: OperationId, result: ChildResult) {
        for op in self.waits.joiners(begun_by) {
            self.arrive(leg, op, Arrival::Child(Box::new(result.clone())));
        }
    }

    /// Records the ends of operations that have only their change of shared state left to do. The
    /// change is not made, since the result is not wanted any more.
    pub(crate) fn end_unsaved(&mut self, leg: &Leg, reason: &OperationError) {
        let unsaved = self.under.iter().filter_map(|(op, under)| {
            let unsaved = under.unsaved.as_ref()?;
            Some((*op, unsaved(reason)))
        });
        let mut ends: Vec<_> = unsaved.collect();
        ends.sort_by_key(|(op, _)| *op);
        for (op, made) in ends {
            self.complete(leg, op, Ok(made));
        }
    }

    /// The operations that have begun and not ended, for the closing of a cancelled run.
    pub(crate) fn take_open(&mut self) -> Vec<(OperationId, CallIdentity, Spent)> {
        self.waits.clear();
        self.ready.clear();
        self.acts.clear();
        let mut open: Vec<_> = self
            .under
            .drain()
            .map(|(op, under)| {
                let spent = under.charge();
                (op, under.identity, spent)
            })
            .collect();
        open.sort_by_key(|(op, ..)| *op);
        open
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
        let waker = FunctionWaker::new(false);
        while self.has_background() {
            match self.next_turn(&waker, false).await {
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
