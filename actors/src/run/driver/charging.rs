//! Charges to the run's budget, and warnings about its bounds.

use super::{Driver, LegEnd};
use crate::{
    run::leg::Leg,
    vocabulary::{Entry, Resource, Spent, StopReason, Timestamp},
};

impl Driver {
    /// Charges the consumption that was just written.
    pub(super) fn charge(&mut self, spent: Spent) {
        if spent == Spent::default() {
            return;
        }
        self.ledger.charge(spent);
        for resource in Resource::COUNTED {
            let (used, bound) = self.ledger.used(resource);
            self.warn(resource, used, bound);
        }
    }

    /// Warns of the shares of a bound that are used up by now.
    fn warn(&mut self, resource: Resource, used: u64, bound: Option<u64>) {
        let Some(bound) = bound else {
            return;
        };
        for percent in self.ledger.warnings(resource, used, bound, &self.warn_at) {
            self.journal.append(Entry::BudgetWarned {
                resource,
                percent,
                used,
                bound,
            });
        }
    }

    /// Warns that the journal comes near its bound, so that the run can go on in another one
    /// (`continue_as`) before operations fail.
    pub(super) fn warn_of_entries(&mut self) {
        let (entries, bound) = (self.journal.entries(), self.max_entries);
        self.warn(Resource::Entries, entries, Some(bound));
    }

    /// Warns that a share of the wall time is over, if it is.
    pub(super) fn warn_of_wall_time(&mut self, begun: Timestamp) {
        let used = self.journal.now().0.saturating_sub(begun.0);
        let (_, bound) = self.ledger.used(Resource::WallTime);
        self.warn(Resource::WallTime, used, bound);
        self.wall_time_warning = self.ledger.wall_time_warning(&self.warn_at, begun);
    }

    /// An error when the run's time is over, by the deadline that it was given or by its own bound
    /// on wall time.
    pub(super) fn overdue(&self, leg: &Leg) -> Result<(), LegEnd> {
        match self.deadline {
            Some(deadline) if deadline <= self.journal.now() => {
                Err(LegEnd::Cancel(match leg.start.deadline == self.deadline {
                    true => StopReason::Deadline,
                    false => StopReason::BudgetExhausted(Resource::WallTime),
                }))
            }
            _ => Ok(()),
        }
    }
}
