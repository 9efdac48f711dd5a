//! The waits of a run's operations, and their times.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{
    run::{
        WaitFor,
        operation::{Made, Wait},
    },
    vocabulary::{OperationId, OperationMap, Timestamp},
};

/// Operations that wait for something from outside. An index finds the operations for an arrival,
/// so the arrival is not compared with all of them.
#[derive(Default)]
pub(super) struct Waits {
    by_operation: OperationMap<(Wait<Made>, Option<Timestamp>)>,
    /// Waits that end at a time of the wall clock.
    timers: BTreeSet<(Timestamp, OperationId)>,
    /// Waits that end when some time has passed: see
    /// [`Clock::forward`](crate::contract::Clock::forward).
    pauses: BTreeSet<(Timestamp, OperationId)>,
    /// Operations that wait for a message, by its name.
    receivers: BTreeMap<String, BTreeSet<OperationId>>,
    /// Operations that wait for a child, by the operation that began it.
    joiners: BTreeMap<OperationId, BTreeSet<OperationId>>,
}

impl Waits {
    /// Adds an operation that waits, until this time if one is set.
    pub(super) fn insert(&mut self, op: OperationId, wait: Wait<Made>, until: Option<Timestamp>) {
        match &wait.wait_for {
            WaitFor::Message(name) => {
                let receivers = self.receivers.entry(name.clone().into_owned());
                receivers.or_default().insert(op);
            }
            WaitFor::Child { begun_by, .. } => {
                self.joiners.entry(*begun_by).or_default().insert(op);
            }
            _ => {}
        }
        let timers = match &wait.wait_for {
            WaitFor::Timer(_) => &mut self.pauses,
            _ => &mut self.timers,
        };
        timers.extend(until.map(|at| (at, op)));
        self.by_operation.insert(op, (wait, until));
    }

    /// Removes an operation that waits no longer.
    pub(super) fn remove(&mut self, op: OperationId) -> Option<Wait<Made>> {
        let (wait, until) = self.by_operation.remove(&op)?;
        if let Some(at) = until {
            self.timers.remove(&(at, op));
            self.pauses.remove(&(at, op));
        }
        match &wait.wait_for {
            WaitFor::Message(name) => remove(&mut self.receivers, &**name, op),
            WaitFor::Child { begun_by, .. } => remove(&mut self.joiners, begun_by, op),
            _ => {}
        }
        Some(wait)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_operation.is_empty()
    }

    /// What an operation waits for.
    pub(super) fn of(&self, op: OperationId) -> Option<&WaitFor> {
        self.by_operation.get(&op).map(|(wait, _)| &wait.wait_for)
    }

    /// Why a message does not have the form for which this operation waits; `None` where it has.
    pub(super) fn misread(&self, op: OperationId, message: &Value) -> Option<String> {
        let (wait, _) = self.by_operation.get(&op)?;
        (wait.reads?)(message).err()
    }

    /// The first operation that waits for a message of this name.
    pub(super) fn receiver(&self, name: &str) -> Option<OperationId> {
        self.receivers.get(name)?.first().copied()
    }

    /// The operations that wait for the child that this one began, in their order.
    pub(super) fn joiners(&self, begun_by: OperationId) -> Vec<OperationId> {
        let joiners = self.joiners.get(&begun_by);
        joiners.into_iter().flatten().copied().collect()
    }

    /// The first time at which a wait for a time of the wall clock ends.
    pub(super) fn first_timer(&self) -> Option<Timestamp> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// The first time at which a pause ends, by the clock that is never set back.
    pub(super) fn first_pause(&self) -> Option<Timestamp> {
        self.pauses.first().map(|(at, _)| *at)
    }

    /// An operation whose wait is over at these times of the wall clock and of the clock that is
    /// never set back.
    pub(super) fn due(&self, now: Timestamp, forward: Timestamp) -> Option<OperationId> {
        let timer = self.timers.first().filter(|(at, _)| *at <= now);
        let pause = || self.pauses.first().filter(|(at, _)| *at <= forward);
        timer.or_else(pause).map(|(_, op)| *op)
    }
}

/// Takes an operation out of an index, and its key too when no operation is left under it.
fn remove<K: Ord + std::borrow::Borrow<Q>, Q: Ord + ?Sized>(
    index: &mut BTreeMap<K, BTreeSet<OperationId>>,
    key: &Q,
    op: OperationId,
) {
    let Some(places) = index.get_mut(key) else {
        return;
    };
    places.remove(&op);
    if places.is_empty() {
        index.remove(key);
    }
}
