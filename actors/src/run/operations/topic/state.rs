//! The queues of a topic, as its runs share them.

use std::collections::{BTreeMap, VecDeque};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::vocabulary::RunId;

/// Who waits for an answer, and on which channel of its inbox.
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

/// How a topic stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicCounts {
    /// How many events were published.
    pub published: u64,
    /// Its queues, by name.
    pub queues: BTreeMap<String, QueueCounts>,
}

/// How a queue stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueCounts {
    /// How many events wait in it.
    pub waiting: u64,
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
    /// What the last change came to, for whoever made it.
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
    /// Those of them that wait for an event.
    waiting: Vec<RunId>,
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
    /// Who is to be told to look, and on which channel.
    pub(super) wake: Vec<Reply>,
    pub(super) taken: Option<Item>,
}

/// Where the runs of a queue are told that there is an event.
pub(super) fn channel(topic: &str, queue: &str) -> String {
    format!("{topic}/{queue}")
}

impl TopicState {
    /// Puts an event into every queue, or, where one has no room and drops nothing, into none: the
    /// publisher is told when there may be room.
    pub(super) fn offer(&mut self, topic: &str, item: &Item, publisher: Option<Reply>) {
        let full = |queue: &Queue| queue.overflow == Overflow::Block && queue.is_full();
        let full = self.queues.iter().filter(|(_, queue)| full(queue));
        self.report.full = full.map(|(name, _)| name.clone()).collect();
        if !self.report.full.is_empty() {
            let publisher = publisher.filter(|publisher| !self.blocked.contains(publisher));
            self.blocked.extend(publisher);
            return;
        }
        self.published += 1;
        for (name, queue) in &mut self.queues {
            let (kept, dropped) = queue.offer(Item {
                sequence: self.published,
                ..item.clone()
            });
            self.report.delivered += u32::from(kept);
            self.report.dropped += u32::from(dropped);
            let waiting = std::mem::take(&mut queue.waiting).into_iter();
            let told = waiting.map(|run| (run, channel(topic, name)));
            self.report.wake.extend(told);
        }
    }

    /// Takes the next event out of a queue, or notes that this run waits for one.
    pub(super) fn take(&mut self, topic: &str, name: &str, run: RunId) {
        let Some(queue) = self.queues.get_mut(name) else {
            return;
        };
        let Some(item) = queue.items.pop_front() else {
            if !queue.waiting.contains(&run) {
                queue.waiting.push(run);
            }
            return;
        };
        queue.received += 1;
        self.report.taken = Some(item);
        self.report.wake.append(&mut self.blocked);
        if !queue.items.is_empty() {
            let waiting = std::mem::take(&mut queue.waiting).into_iter();
            let told = waiting.map(|run| (run, channel(topic, name)));
            self.report.wake.extend(told);
        }
    }

    /// A run receives through a queue, which is made where it is not there.
    pub(super) fn join(&mut self, subscription: &Subscription, run: RunId) {
        let queue = self.queues.entry(subscription.name.clone()).or_default();
        queue.capacity = subscription.capacity.max(1);
        queue.overflow = subscription.overflow;
        if !queue.members.contains(&run) {
            queue.members.push(run);
        }
    }

    /// Takes a queue away, and tells all that wait for it.
    pub(super) fn close(&mut self, topic: &str, name: &str) {
        if let Some(queue) = self.queues.remove(name) {
            let told = queue.waiting.into_iter();
            let told = told.map(|run| (run, channel(topic, name)));
            self.report.wake.extend(told);
            self.report.wake.append(&mut self.blocked);
        }
    }

    /// The runs that receive through the full queues.
    pub(super) fn members_of_full(&self) -> Vec<(String, RunId)> {
        let full = self.report.full.iter();
        let members = full.filter_map(|name| Some((name, &self.queues.get(name)?.members)));
        members
            .flat_map(|(name, members)| members.iter().map(|run| (name.clone(), *run)))
            .collect()
    }

    /// Takes away receivers that have ended, and queues that nobody receives through any more.
    pub(super) fn forget(&mut self, dead: &[(String, RunId)]) {
        for (name, run) in dead {
            let Some(queue) = self.queues.get_mut(name) else {
                continue;
            };
            queue.members.retain(|member| member != run);
            queue.waiting.retain(|member| member != run);
            if queue.members.is_empty() {
                self.queues.remove(name);
            }
        }
    }

    pub(super) fn counts(&self) -> TopicCounts {
        let count = |queue: &Queue| QueueCounts {
            waiting: queue.items.len() as u64,
            received: queue.received,
            dropped: queue.dropped,
        };
        let queues = self.queues.iter();
        TopicCounts {
            published: self.published,
            queues: queues
                .map(|(name, queue)| (name.clone(), count(queue)))
                .collect(),
        }
    }
}

impl Queue {
    fn is_full(&self) -> bool {
        self.items.len() >= self.capacity as usize
    }

    /// Whether the event was kept, and whether one was dropped for it.
    fn offer(&mut self, item: Item) -> (bool, bool) {
        if !self.is_full() {
            self.items.push_back(item);
            return (true, false);
        }
        self.dropped += 1;
        let goes = match self.overflow {
            // A publisher does not come here before there is room.
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
