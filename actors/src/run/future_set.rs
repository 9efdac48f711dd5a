//! Futures that one task polls side by side.

use std::{
    future::{pending, poll_fn},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered, task::AtomicWaker};

use crate::contract::BoxFuture;

/// Futures that are polled side by side, and give their values in the order in which they are done.
///
/// Most sets hold one future at a time. It is polled as it is, whenever it was woken.
pub(super) struct FutureSet<T> {
    /// The only future.
    alone: Option<BoxFuture<'static, T>>,
    woken: Arc<Woken>,
    /// The futures, once there were several. `FuturesUnordered` wakes its own task whenever it has polled all that it
    /// holds and none was done (<https://github.com/rust-lang/futures-rs/pull/2333>). A run that begins to wait for its
    /// calls would be scheduled once more for nothing, and a runtime of several threads wakes another thread for that,
    /// which takes the run away from the thread that its answer comes to. So this set always holds one future more,
    /// which is never done.
    several: Option<FuturesUnordered<BoxFuture<'static, T>>>,
}

/// Whether the only future was woken since it was polled, and the task to wake.
#[derive(Default)]
struct Woken {
    woken: AtomicBool,
    task: AtomicWaker,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.task.wake();
    }
}

impl<T: 'static> FutureSet<T> {
    /// Adds a future. It is polled with the others from the next poll on.
    pub(super) fn push(&mut self, future: BoxFuture<'static, T>) {
        if self.is_empty() {
            self.alone = Some(future);
            self.woken.woken.store(true, Ordering::Release);
            return;
        }
        let set = self.several.get_or_insert_with(|| {
            let mut set = FuturesUnordered::from_iter([Box::pin(pending()) as BoxFuture<'_, T>]);
            // It is polled here, so that its one poll is not counted among those of the others.
            let _ = set.poll_next_unpin(&mut Context::from_waker(Waker::noop()));
            set
        });
        set.extend(self.alone.take().into_iter().chain([future]));
    }

    /// Drops all futures.
    pub(super) fn clear(&mut self) {
        (self.alone, self.several) = (None, None);
    }

    /// Whether no future is left.
    pub(super) fn is_empty(&self) -> bool {
        self.alone.is_none() && self.several.as_ref().is_none_or(|set| set.len() == 1)
    }

    /// The next value; pending for ever when the set is empty.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        if let Some(future) = &mut self.alone {
            self.woken.task.register(cx.waker());
            if !self.woken.woken.swap(false, Ordering::AcqRel) {
                return Poll::Pending;
            }
            let waker = Waker::from(self.woken.clone());
            let polled = future.poll_unpin(&mut Context::from_waker(&waker));
            if polled.is_ready() {
                self.alone = None;
            }
            return polled;
        }
        let Some(set) = self.several.as_mut().filter(|set| set.len() > 1) else {
            return Poll::Pending;
        };
        match set.poll_next_unpin(cx) {
            Poll::Ready(Some(value)) => Poll::Ready(value),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }

    /// Waits for the next value; `None` when the set is empty.
    pub(super) async fn next(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        Some(poll_fn(|cx| self.poll(cx)).await)
    }
}

impl<T> Default for FutureSet<T> {
    fn default() -> Self {
        Self {
            alone: None,
            woken: Arc::default(),
            several: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use futures_util::{FutureExt, task::ArcWake};
    use tokio::sync::oneshot;

    use super::*;

    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl ArcWake for Counter {
        fn wake_by_ref(counter: &Arc<Self>) {
            counter.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_task_is_woken_by_what_is_done_and_by_nothing_else() {
        let wakes = Arc::new(Counter::default());
        let waker = futures_util::task::waker(wakes.clone());
        let mut cx = Context::from_waker(&waker);
        let mut set = FutureSet::default();
        assert!(set.is_empty() && set.poll(&mut cx).is_pending());
        let mut senders = Vec::new();
        for _ in 0..3 {
            let (sender, receiver) = oneshot::channel::<usize>();
            senders.push(sender);
            set.push(receiver.map(Result::unwrap_or_default).boxed());
            assert!(set.poll(&mut cx).is_pending());
        }
        assert_eq!(wakes.0.load(Ordering::Relaxed), 0, "nothing is done");
        for (number, sender) in senders.into_iter().enumerate() {
            assert!(sender.send(number).is_ok() && !set.is_empty());
            assert_eq!(wakes.0.load(Ordering::Relaxed), number + 1);
            assert_eq!(set.poll(&mut cx), Poll::Ready(number));
            assert!(set.poll(&mut cx).is_pending());
        }
        assert!(set.is_empty() && set.next().now_or_never() == Some(None));
        assert_eq!(wakes.0.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn a_set_gives_each_value_in_the_order_in_which_they_are_done() {
        let mut set = FutureSet::default();
        for pauses in [3, 0, 2, 1] {
            set.push(Box::pin(async move {
                for _ in 0..pauses {
                    tokio::task::yield_now().await;
                }
                pauses
            }));
        }
        let mut seen = Vec::new();
        while let Some(value) = set.next().await {
            seen.push(value);
        }
        assert_eq!(seen, [0, 1, 2, 3]);
    }
}
