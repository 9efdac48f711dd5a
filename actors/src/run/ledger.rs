//! The books of one run's budget: its bounds, its consumption, and the amounts set aside for child
//! runs.
//!
//! The books are folded from the journal's entries, in their order, so a recovered run has the same
//! books as before.

use std::collections::{BTreeMap, BTreeSet};

use super::operations::Allowance;
use crate::vocabulary::{Amounts, Budget, OperationId, Resource, RunStart, Spent, Timestamp};

/// The books of one run's budget.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    bounds: Budget,
    deadline: Option<Timestamp>,
    spent: Spent,
    /// The amounts set aside for the child run of each operation, until the child is settled.
    open: BTreeMap<OperationId, Budget>,
    /// The sum of the amounts in `open`.
    reserved: Amounts,
    warned: BTreeSet<(Resource, u8)>,
}

/// The part of the remaining budget that a child gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// One of so many equal parts of what is left, rounded up.
    Equal(u64),
    /// So many percent of the run's own bound, but no more than is left.
    Percent(u8),
}

impl Ledger {
    /// The books of a run that begins.
    pub(crate) fn of(start: &RunStart) -> Self {
        Self {
            bounds: start.budget,
            deadline: start.ends_by(),
            spent: start.spent,
            ..Self::default()
        }
    }

    /// The consumption of the run and its settled children.
    pub(crate) fn spent(&self) -> Spent {
        self.spent
    }

    /// Charges consumption.
    pub(crate) fn charge(&mut self, spent: Spent) {
        self.spent += spent;
    }

    /// Sets an amount aside for the child run that this operation begins.
    pub(crate) fn reserve(&mut self, child: OperationId, budget: Budget) {
        self.settle(child);
        self.reserved += Amounts::bounded(&budget);
        self.open.insert(child, budget);
    }

    /// Returns the amount that was set aside for a child. `false` if it was returned before: the
    /// child's consumption is charged already.
    pub(crate) fn settle(&mut self, child: OperationId) -> bool {
        let Some(budget) = self.open.remove(&child) else {
            return false;
        };
        self.reserved -= Amounts::bounded(&budget);
        true
    }

    /// Gives an amount away for good, to the child run that this operation begins.
    pub(crate) fn give(&mut self, child: OperationId, budget: &Budget) {
        self.settle(child);
        self.spent.given += Amounts::bounded(budget);
    }

    /// How much of a bounded resource is neither consumed nor set aside.
    fn left(&self, resource: Resource) -> Option<u64> {
        self.allowance().left(resource)
    }

    /// The budget of a child: its part of the remaining budget, and no more than requested.
    pub(crate) fn grant(&self, wanted: &Budget, part: Part) -> Budget {
        Budget::from_bounds(|resource| {
            let granted = self.left(resource).map(|left| match part {
                Part::Equal(parts) => left.div_ceil(parts.max(1)),
                Part::Percent(percent) => {
                    let bound = self.bounds.bound(resource).unwrap_or(0);
                    let share = u128::from(bound) * u128::from(percent) / 100;
                    left.min(u64::try_from(share).unwrap_or(u64::MAX))
                }
            });
            wanted.bound(resource).into_iter().chain(granted).min()
        })
    }

    /// The first bound that forbids one more call of this kind, while so many are under way.
    pub(crate) fn exhausted(&self, next: Resource, under_way: u64) -> Option<Resource> {
        let calls = self.left(next).is_some_and(|left| left <= under_way);
        if calls {
            return Some(next);
        }
        if next != Resource::ModelCalls {
            return None;
        }
        let consumed = &Resource::COUNTED[2..];
        let used_up = |resource: &Resource| self.left(*resource) == Some(0);
        consumed.iter().copied().find(used_up)
    }

    /// The books as a function sees them.
    pub(crate) fn allowance(&self) -> Allowance {
        Allowance {
            budget: self.bounds,
            spent: self.spent,
            reserved: self.reserved,
            deadline: self.deadline,
        }
    }

    /// Notes a recorded warning.
    pub(crate) fn warned(&mut self, resource: Resource, percent: u8) {
        self.warned.insert((resource, percent));
    }

    /// How much of a resource is used, and its bound.
    pub(crate) fn used(&self, resource: Resource) -> (u64, Option<u64>) {
        (self.spent.used(resource), self.bounds.bound(resource))
    }

    /// The warnings that are due at these shares, in percent, each given once.
    pub(crate) fn warnings(&mut self, at: &[u8]) -> Vec<(Resource, u8)> {
        let mut due = Vec::new();
        for resource in Resource::COUNTED {
            let Some(bound) = self.bounds.bound(resource).filter(|bound| *bound > 0) else {
                continue;
            };
            let used = u128::from(self.spent.used(resource)) * 100;
            let reached = |percent: &u8| used >= u128::from(bound) * u128::from(*percent);
            due.extend(at.iter().copied().filter(reached).map(|p| (resource, p)));
        }
        due.retain(|warning| self.warned.insert(*warning));
        due
    }

    /// The number of entries at which the next warning about the bound on a journal is due, and its
    /// share, out of these shares in percent.
    pub(crate) fn entries_warning(&self, at: &[u8], bound: u64) -> Option<(u64, u8)> {
        let due = |percent: u8| u128::from(bound) * u128::from(percent) / 100;
        let open = self.open_warnings(Resource::Entries, at);
        let next = open.map(|percent| (due(percent), percent)).min()?;
        Some((u64::try_from(next.0).unwrap_or(u64::MAX), next.1))
    }

    /// The time at which the next warning about wall time is due, and its share, out of these
    /// shares in percent.
    pub(crate) fn wall_time_warning(&self, at: &[u8], begun: Timestamp) -> Option<(Timestamp, u8)> {
        let bound = self.bounds.wall_time()?;
        let due = |percent: u8| begun.after(bound.mul_f64(f64::from(percent) / 100.0));
        let open = self.open_warnings(Resource::WallTime, at);
        open.map(|percent| (due(percent), percent)).min()
    }

    /// The shares of a resource's bound at which nobody was warned yet.
    fn open_warnings(&self, resource: Resource, at: &[u8]) -> impl Iterator<Item = u8> {
        let given = move |percent: &u8| self.warned.contains(&(resource, *percent));
        at.iter().copied().filter(move |percent| !given(percent))
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
