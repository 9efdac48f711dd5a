//! Slots that trees of runs take in turns.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::vocabulary::RunId;

/// A number of slots. When more calls want a slot than there are, the trees take turns, call by
/// call (round robin), so a tree with a thousand calls delays another by one call a slot and not by
/// a thousand. Within a tree the first to come is the first served.
///
/// The admission of runs and the batches of their agents bound the number of waiting calls.
#[derive(Clone)]
pub(super) struct FairSlots(Arc<Mutex<Queue>>);

/// The use of slots for calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlotCounts {
    /// How many calls run at once at most.
    pub slots: usize,
    /// How many run now.
    pub used: usize,
    /// How many wait for a slot.
    pub waiting: usize,
}

struct Queue {
    slots: usize,
    /// The free slots; no call waits while there is one.
    free: usize,
    /// The trees that wait, the next one at the front.
    turns: VecDeque<RunId>,
    waiting: HashMap<RunId, VecDeque<oneshot::Sender<Permit>>>,
}

/// A slot, free again when it is dropped.
pub(super) struct Permit(Option<FairSlots>);

impl FairSlots {
    /// Makes this many slots, at least one.
    pub(super) fn new(slots: usize) -> Self {
        let slots = slots.max(1);
        Self(Arc::new(Mutex::new(Queue {
            slots,
            free: slots,
            turns: VecDeque::new(),
            waiting: HashMap::new(),
        })))
    }

    pub(super) fn counts(&self) -> SlotCounts {
        let queue = self.0.lock();
        let waiting = queue.waiting.values().flatten();
        SlotCounts {
            slots: queue.slots,
            used: queue.slots - queue.free,
            waiting: waiting.filter(|waiter| !waiter.is_closed()).count(),
        }
    }

    /// Waits for a slot. A future that is dropped while it waits is passed over.
    pub(super) async fn acquire(&self, root: RunId) -> Permit {
        loop {
            let turn = {
                let mut queue = self.0.lock();
                if let Some(left) = queue.free.checked_sub(1) {
                    queue.free = left;
                    return Permit(Some(self.clone()));
                }
                let (sender, turn) = oneshot::channel();
                let of_tree = queue.waiting.entry(root).or_default();
                of_tree.push_back(sender);
                if of_tree.len() == 1 {
                    queue.turns.push_back(root);
                }
                turn
            };
            // A sender is dropped only with all of the slots.
            if let Ok(slot) = turn.await {
                return slot;
            }
        }
    }

    /// Gives a slot to the next call that waits.
    fn release(&self) {
        let mut queue = self.0.lock();
        let mut slot = Permit(Some(self.clone()));
        while let Some(waiter) = queue.next() {
            match waiter.send(slot) {
                Ok(()) => return,
                // The call does not wait any more.
                Err(unwanted) => slot = unwanted,
            }
        }
        slot.0 = None;
        queue.free += 1;
    }
}

impl Queue {
    fn next(&mut self) -> Option<oneshot::Sender<Permit>> {
        let root = self.turns.pop_front()?;
        let of_tree = self.waiting.get_mut(&root)?;
        let waiter = of_tree.pop_front();
        if of_tree.is_empty() {
            self.waiting.remove(&root);
        } else {
            self.turns.push_back(root);
        }
        waiter
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(slots) = self.0.take() {
            slots.release();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn tree(number: u128) -> RunId {
        RunId::from_random(number << 100)
    }

    #[tokio::test]
    async fn trees_take_turns_and_each_serves_its_own_in_order() {
        let slots = FairSlots::new(1);
        let held = slots.acquire(tree(1)).await;
        let served = Arc::new(Mutex::new(Vec::new()));
        let mut waiting: Vec<_> = [(1, 'a'), (1, 'b'), (1, 'c'), (2, 'd'), (2, 'e'), (3, 'f')]
            .into_iter()
            .map(|(number, name)| {
                let (slots, served) = (slots.clone(), served.clone());
                let call = async move {
                    let _slot = slots.acquire(tree(number)).await;
                    served.lock().push(name);
                };
                call.boxed()
            })
            .collect();
        for call in &mut waiting {
            assert!(call.now_or_never().is_none());
        }
        drop(held);
        // A call that has a slot gives it back when it is polled.
        for _ in 0..waiting.len() {
            waiting.retain_mut(|call| call.now_or_never().is_none());
        }
        assert_eq!(served.lock().iter().collect::<String>(), "adfbec");
        assert_eq!(slots.0.lock().free, 1);
    }

    #[tokio::test]
    async fn who_does_not_wait_any_more_is_passed_over_and_no_slot_is_lost() {
        let slots = FairSlots::new(2);
        let held = [slots.acquire(tree(1)).await, slots.acquire(tree(1)).await];
        let mut gone = slots.acquire(tree(1)).boxed();
        let mut given = slots.acquire(tree(2)).boxed();
        let mut stays = slots.acquire(tree(3)).boxed();
        for call in [&mut gone, &mut given, &mut stays] {
            assert!(call.now_or_never().is_none());
        }
        drop(gone);
        let [first, second] = held;
        drop(first);
        // The call was given a slot and goes away without having taken it.
        drop(given);
        let slot = stays.now_or_never().unwrap();
        drop((slot, second));
        let queue = slots.0.lock();
        assert_eq!(
            (queue.free, queue.turns.len(), queue.waiting.len()),
            (2, 0, 0)
        );
    }
}
