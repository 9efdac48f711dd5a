//! The queues of a topic, which its runs share.

use std::collections::{BTreeMap, VecDeque};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::vocabulary::RunId;

/// A run that waits for an answer, and the channel of its mailbox.
pub(super) type Reply = (RunId, String);

/// What a full queue does with an event that comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Overflow {
    /// Its publisher waits until there is room in every queue that blocks.
    #[default]
    Block,
    /// The event that has waited longest goes.
    DropOldest,
    /// The event that comes goes.
    DropNewest,
    /// Of all of them, the one that comes included, that of the lowest priority goes; of several,
    /// the newest.
    DropLowestPriority,
}

/// How a topic's events are received.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Subscription {
    /// The queue's name on its topic.
    pub name: String,
    /// How many events wait in it at most; at least 1.
    pub capacity: u32,
    /// What it does when it is full.
    pub overflow: Overflow,
}

impl Subscription {
    /// A queue of 64 events whose publishers wait when it is full.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            capacity: 64,
            overflow: Overflow::Block,
        }
    }

    /// Sets how many events wait at most; at least 1.
    #[must_use]
    pub fn capacity(mut self, events: u32) -> Self {
        self.capacity = events.max(1);
        self
    }

    /// Sets what happens when it is full.
    #[must_use]
    pub fn overflow(mut self, overflow: Overflow) -> Self {
        self.overflow = overflow;
        self
    }
}

/// The counts of a topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicCounts {
    /// How many events were published.
    pub published: u64,
    /// Its queues, by name.
    pub queues: BTreeMap<String, QueueCounts>,
    /// How many publishers wait for room.
    pub blocked: u64,
}

/// The counts of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueCounts {
    /// How many events wait in it.
    pub waiting: u64,
    /// How many wait in it at most.
    pub capacity: u64,
    /// How many were received.
    pub received: u64,
    /// How many were dropped.
    pub dropped: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct TopicState {
    pub(super) published: u64,
    pub(super) queues: BTreeMap<String, Queue>,
    /// Publishers that wait for room.
    blocked: Vec<Reply>,
    /// The outcome of the last change, for the run that made it.
    #[serde(default)]
    pub(super) report: Report,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Queue {
    capacity: u32,
    overflow: Overflow,
    items: VecDeque<Item>,
    received: u64,
    dropped: u64,
    /// The runs that have subscribed.
    members: Vec<RunId>,
    /// The receivers that wait for an event.
    #[serde(default)]
    waiters: Vec<Reply>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Item {
    pub(super) sequence: u64,
    pub(super) from: String,
    pub(super) priority: i32,
    pub(super) reply: Option<Reply>,
    pub(super) event: Value,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) delivered: u32,
    pub(super) dropped: u32,
    /// The full queues for which the publisher has to wait.
    pub(super) full: Vec<String>,
    /// The runs that get a signal with the commit of the change, and their channels.
    pub(super) wake: Vec<Reply>,
    pub(super) taken: Option<Item>,
    /// The members of a queue that are to be checked for whether they have ended.
    #[serde(default)]
    pub(super) crowd: Vec<RunId>,
}

/// The number of members from which on a queue is searched for ended members, again at each
/// doubling.
const CROWD: usize = 8;

impl TopicState {
    /// Puts an event into every queue. If a full queue blocks, no queue takes the event, and the
    /// publisher gets a signal when there may be room.
    pub(super) fn offer(&mut self, item: &Item, publisher: Option<Reply>) {
        self.drop_deserted();
        let full = self.queues.iter().filter(|(_, queue)| queue.holds_up());
        self.report.full = full.map(|(name, _)| name.clone()).collect();
        if !self.report.full.is_empty() {
            let publisher = publisher.filter(|publisher| !self.blocked.contains(publisher));
            self.blocked.extend(publisher);
            return;
        }
        // A publisher that found room without a signal waits no more.
        self.blocked
            .retain(|blocked| Some(blocked) != publisher.as_ref());
        self.published += 1;
        for queue in self.queues.values_mut() {
            let (kept, dropped) = queue.offer(Item {
                sequence: self.published,
                ..item.clone()
            });
            self.report.delivered += u32::from(kept);
            self.report.dropped += u32::from(dropped);
            self.report.wake.append(&mut queue.waiters);
        }
    }

    /// Takes the next event out of a queue, or notes that this receiver waits for one.
    pub(super) fn take(&mut self, name: &str, receiver: &Reply) {
        let Some(queue) = self.queues.get_mut(name) else {
            return;
        };
        // A run that was forked from one that subscribed has not done so itself.
        queue.add(receiver.0);
        // An earlier wait that was dropped is over.
        queue.waiters.retain(|waiter| waiter != receiver);
        let Some(item) = queue.items.pop_front() else {
            queue.waiters.push(receiver.clone());
            return;
        };
        queue.received += 1;
        self.report.taken = Some(item);
        self.report.wake.append(&mut self.blocked);
        if !queue.items.is_empty() {
            self.report.wake.append(&mut queue.waiters);
        }
    }

    /// Adds a run to the members of a queue. The queue is made if it does not exist.
    pub(super) fn join(&mut self, subscription: &Subscription, run: RunId) {
        let queue = self.queues.entry(subscription.name.clone()).or_default();
        queue.capacity = subscription.capacity.max(1);
        queue.overflow = subscription.overflow;
        if queue.add(run) {
            let members = queue.members.len();
            if members >= CROWD && members.is_power_of_two() {
                self.report.crowd.clone_from(&queue.members);
            }
        }
    }

    /// Whether this receiver waits for the next event of a queue.
    pub(super) fn has_waiter(&self, name: &str, receiver: &Reply) -> bool {
        let queue = self.queues.get(name);
        queue.is_some_and(|queue| queue.waiters.contains(receiver))
    }

    /// Whether this publisher waits for room.
    pub(super) fn holds_up(&self, publisher: &Reply) -> bool {
        self.blocked.contains(publisher)
    }

    /// Removes a queue, and signals all runs that wait for it.
    pub(super) fn close(&mut self, name: &str) {
        if let Some(mut queue) = self.queues.remove(name) {
            self.report.wake.append(&mut queue.waiters);
            self.report.wake.append(&mut self.blocked);
        }
    }

    /// The runs that receive through the full queues.
    pub(super) fn members_of_full(&self) -> Vec<RunId> {
        let full = self.report.full.iter();
        let queues = full.filter_map(|name| self.queues.get(name));
        let mut members: Vec<RunId> = queues.flat_map(|queue| queue.members.clone()).collect();
        members.sort_unstable();
        members.dedup();
        members
    }

    /// Removes receivers that have ended, and full queues that have no receiver any more and for
    /// which publishers wait.
    pub(super) fn forget(&mut self, dead: &[RunId]) {
        self.blocked.retain(|(run, _)| !dead.contains(run));
        for queue in self.queues.values_mut() {
            queue.members.retain(|member| !dead.contains(member));
            queue.waiters.retain(|(run, _)| !dead.contains(run));
        }
        self.drop_deserted();
    }

    fn drop_deserted(&mut self) {
        self.queues
            .retain(|_, queue| !(queue.members.is_empty() && queue.holds_up()));
    }

    /// Forgets the waiting runs of the original tree, since their copies look for themselves. Only
    /// copies are kept among the runs that asked for an answer.
    pub(super) fn let_waiters_go(&mut self, is_copy: impl Fn(RunId) -> bool) {
        self.blocked.clear();
        let mut items: Vec<&mut Item> = self.report.taken.iter_mut().collect();
        for queue in self.queues.values_mut() {
            queue.waiters.clear();
            items.extend(&mut queue.items);
        }
        for item in items {
            item.reply = item.reply.take().filter(|(run, _)| is_copy(*run));
        }
    }

    /// Removes receivers that are not copies.
    pub(super) fn let_members_go(&mut self, is_copy: impl Fn(RunId) -> bool) {
        for queue in self.queues.values_mut() {
            queue.members.retain(|run| is_copy(*run));
        }
    }

    pub(super) fn counts(&self) -> TopicCounts {
        let count = |queue: &Queue| QueueCounts {
            waiting: queue.items.len() as u64,
            capacity: queue.capacity.into(),
            received: queue.received,
            dropped: queue.dropped,
        };
        let queues = self.queues.iter();
        TopicCounts {
            published: self.published,
            blocked: self.blocked.len() as u64,
            queues: queues
                .map(|(name, queue)| (name.clone(), count(queue)))
                .collect(),
        }
    }
}

impl Queue {
    /// Adds a member, instead of the run that it continues. `true` if the run was not a member
    /// before.
    fn add(&mut self, run: RunId) -> bool {
        let is_new = !self.members.contains(&run);
        if is_new {
            self.members.retain(|member| member.next() != run);
            self.members.push(run);
        }
        is_new
    }

    fn is_full(&self) -> bool {
        self.items.len() >= self.capacity as usize
    }

    /// Whether publishers wait for room in it.
    fn holds_up(&self) -> bool {
        self.overflow == Overflow::Block && self.is_full()
    }

    /// Whether the event was kept, and whether one was dropped for it.
    fn offer(&mut self, item: Item) -> (bool, bool) {
        if !self.is_full() {
            self.items.push_back(item);
            return (true, false);
        }
        self.dropped += 1;
        let goes = match self.overflow {
            // A publisher gets here only when there is room.
            Overflow::Block | Overflow::DropNewest => None,
            Overflow::DropOldest => Some(0),
            Overflow::DropLowestPriority => {
                let lowest = self.items.iter().map(|item| item.priority).min();
                let goes = |kept: &Item| Some(kept.priority) == lowest;
                let place = self.items.iter().rposition(goes);
                place.filter(|_| lowest.is_some_and(|lowest| lowest < item.priority))
            }
        };
        let Some(place) = goes else {
            return (false, true);
        };
        self.items.remove(place);
        self.items.push_back(item);
        (true, true)
    }
}
