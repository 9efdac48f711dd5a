//! Futures that one task polls side by side.

use std::{
    future::poll_fn,
    task::{Context, Poll, Waker},
};

use futures_util::{
    FutureExt, StreamExt,
    future::{Either, Pending, pending},
    stream::FuturesUnordered,
};

/// Futures that are polled side by side, and give their values in the order in which they are done.
///
/// Most sets hold one future at a time, which is polled as it is.
pub(super) struct FutureSet<F: Future> {
    /// The only future.
    alone: Option<F>,
    /// The futures, once there were several. `FuturesUnordered` wakes its own task whenever it has polled all that it
    /// holds and none was done (<https://github.com/rust-lang/futures-rs/pull/2333>). A run that begins to wait for its
    /// calls would be scheduled once more for nothing, and a runtime of several threads wakes another thread for that,
    /// which takes the run away from the thread that its answer comes to. So this set always holds one future more,
    /// which is never done.
    several: Option<FuturesUnordered<OrNever<F>>>,
}

type OrNever<F> = Either<F, Pending<<F as Future>::Output>>;

impl<F: Future + Unpin> FutureSet<F> {
    /// Adds a future. It is polled with the others from the next poll on.
    pub(super) fn push(&mut self, future: F) {
        if self.is_empty() {
            self.alone = Some(future);
            return;
        }
        let set = self.several.get_or_insert_with(|| {
            let mut set = FuturesUnordered::from_iter([Either::Right(pending())]);
            // It is polled here, so that its one poll is not counted among those of the others.
            let _ = set.poll_next_unpin(&mut Context::from_waker(Waker::noop()));
            set
        });
        let all = self.alone.take().into_iter().chain([future]);
        set.extend(all.map(Either::Left));
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
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<F::Output> {
        if let Some(future) = &mut self.alone {
            let polled = future.poll_unpin(cx);
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
    pub(super) async fn next(&mut self) -> Option<F::Output> {
        if self.is_empty() {
            return None;
        }
        Some(poll_fn(|cx| self.poll(cx)).await)
    }
}

impl<F: Future> Default for FutureSet<F> {
    fn default() -> Self {
        Self {
            alone: None,
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
