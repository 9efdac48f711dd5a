//! Notices that processes give each other over their store.

use std::{collections::HashMap, fmt, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::BoxFuture;
use crate::vocabulary::RunId;

/// The notices of a store to its processes, where it gives any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Notice {
    /// Another process posted an item to a mailbox.
    Posted,
    /// Another process closed the store, and what it owned is free.
    Left,
    /// This run ended, was parked or began to wait, in this process or in another.
    Rested(RunId),
}

/// The waiters of a store that tells, each woken by its own notice alone. Clones share them.
#[derive(Clone, Default)]
pub struct News(Arc<Mutex<HashMap<Notice, watch::Sender<()>>>>);

impl News {
    /// Wakes all who wait for this notice.
    pub fn tell(&self, notice: Notice) {
        if let Some(told) = self.0.lock().get(&notice) {
            told.send_replace(());
        }
    }

    /// Wakes all waiters, since notices may have been lost.
    pub fn tell_all(&self) {
        for told in self.0.lock().values() {
            told.send_replace(());
        }
    }

    /// Waits for the next notice of this kind, from this call on: see [`Mailboxes::news`](super::Mailboxes::news).
    pub fn next(&self, notice: Notice) -> BoxFuture<'static, ()> {
        let told = self.0.lock().entry(notice).or_default().subscribe();
        let mut waiter = Waiter {
            notice,
            told: Some(told),
            news: self.clone(),
        };
        Box::pin(async move {
            if let Some(told) = &mut waiter.told {
                // The sender stays as long as a waiter exists.
                let _ = told.changed().await;
            }
        })
    }
}

impl fmt::Debug for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.lock().keys()).finish()
    }
}

struct Waiter {
    notice: Notice,
    told: Option<watch::Receiver<()>>,
    news: News,
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut waiting = self.news.0.lock();
        // Under the lock: of two waiters that go at once, the second finds that it is the last.
        self.told = None;
        let is_last = |told: &watch::Sender<()>| told.receiver_count() == 0;
        if waiting.get(&self.notice).is_some_and(is_last) {
            waiting.remove(&self.notice);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn rested(number: u128) -> Notice {
        Notice::Rested(RunId::from_random(number << 64))
    }

    #[test]
    fn a_notice_wakes_those_who_wait_for_it_and_nobody_else() {
        let news = News::default();
        news.tell(rested(1));
        let (one, same, other) = (
            news.next(rested(1)),
            news.next(rested(1)),
            news.next(rested(2)),
        );
        let mut left = news.next(Notice::Left);
        // Before any of them was polled.
        news.tell(rested(1));
        assert_eq!(one.now_or_never(), Some(()));
        assert_eq!(same.now_or_never(), Some(()));
        assert_eq!((&mut left).now_or_never(), None);
        assert_eq!(other.now_or_never(), None);
        let again = news.next(rested(1));
        assert_eq!(again.now_or_never(), None, "it was told before");
        news.tell_all();
        assert_eq!(left.now_or_never(), Some(()));
    }

    #[test]
    fn those_who_wait_no_longer_are_forgotten() {
        let news = News::default();
        let stays = news.next(rested(0));
        for number in 1..1_000 {
            let both = (news.next(rested(number)), news.next(rested(number)));
            news.tell(rested(number));
            assert_eq!(both.0.now_or_never(), Some(()));
        }
        assert_eq!(news.0.lock().len(), 1);
        news.tell(rested(0));
        assert_eq!(stays.now_or_never(), Some(()));
        assert_eq!(news.0.lock().len(), 0);
    }
}
