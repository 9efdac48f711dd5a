//! The books of one run's budget: its bounds, its consumption, and the amounts set aside for child
//! runs.
//!
//! The books are folded from the journal's entries, in their order, so a recovered run has the same
//! books as before.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::vocabulary::{Amounts, Budget, OperationId, Resource, RunStart, Spent, Timestamp};

/// The budget of the run, its consumption, and the time at which it must end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Allowance {
    /// The bounds.
    pub budget: Budget,
    /// The consumption, children that have ended included.
    pub spent: Spent,
    /// The share that is reserved for children that have not ended.
    #[serde(default)]
    pub reserved: Amounts,
    /// When the run must have ended.
    pub deadline: Option<Timestamp>,
}

impl Allowance {
    /// How much of a resource is neither consumed nor set aside. `None` for a resource without a
    /// bound, and for wall time, which is a deadline.
    pub fn left(&self, resource: Resource) -> Option<u64> {
        if !Resource::COUNTED.contains(&resource) {
            return None;
        }
        let taken = self.spent.used(resource);
        let taken = taken.saturating_add(self.reserved.of(resource));
        Some(self.budget.bound(resource)?.saturating_sub(taken))
    }
}

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
    /// One of this many equal parts of what is left, rounded up.
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

    /// Whether there is a bound of which children get a part.
    pub(crate) fn is_bounded(&self) -> bool {
        let mut counted = Resource::COUNTED.iter();
        counted.any(|resource| self.left(*resource).is_some())
    }

    /// The budget of a child that begins beside this many calls of each kind: its part of the remaining budget, and no
    /// more than requested.
    pub(crate) fn grant(
        &self,
        wanted: &Budget,
        part: Part,
        under_way: impl Fn(Resource) -> u64,
    ) -> Budget {
        Budget::from_bounds(|resource| {
            let granted = self.left(resource).map(|left| {
                let left = left.saturating_sub(under_way(resource));
                match part {
                    Part::Equal(parts) => left.div_ceil(parts.max(1)),
                    Part::Percent(percent) => {
                        let bound = self.bounds.bound(resource).unwrap_or(0);
                        let share = u128::from(bound) * u128::from(percent) / 100;
                        left.min(u64::try_from(share).unwrap_or(u64::MAX))
                    }
                }
            });
            wanted.bound(resource).into_iter().chain(granted).min()
        })
    }

    /// The first bound that forbids one more call of this kind, while this many are under way.
    pub(crate) fn exhausted(
        &self,
        next: Resource,
        under_way: impl FnOnce() -> u64,
    ) -> Option<Resource> {
        let calls = self.left(next).is_some_and(|left| left <= under_way());
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

    /// The shares of a bound, out of these in percent, at which a warning is due. Each is given once.
    pub(crate) fn warnings(
        &mut self,
        resource: Resource,
        used: u64,
        bound: u64,
        at: &[u8],
    ) -> Vec<u8> {
        let reached = |percent: &u8| bound > 0 && used >= share_of(bound, *percent);
        let mut due: Vec<u8> = at.iter().copied().filter(reached).collect();
        due.retain(|percent| self.warned.insert((resource, *percent)));
        due
    }

    /// The time at which the next warning about wall time is due, out of these shares in percent.
    pub(crate) fn wall_time_warning(&self, at: &[u8], begun: Timestamp) -> Option<Timestamp> {
        let bound = self.bounds.bound(Resource::WallTime);
        let bound = bound.filter(|bound| *bound > 0)?;
        let given = |percent: &&u8| self.warned.contains(&(Resource::WallTime, **percent));
        let open = at.iter().filter(|percent| !given(percent));
        let next_ms = open.map(|percent| share_of(bound, *percent)).min()?;
        Some(begun.after(Duration::from_millis(next_ms)))
    }
}

fn share_of(bound: u64, percent: u8) -> u64 {
    let share = (u128::from(bound) * u128::from(percent)).div_ceil(100);
    u64::try_from(share).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
