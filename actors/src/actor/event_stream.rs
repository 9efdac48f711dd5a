//! Events of a tree of runs, from any point on, recorded and live.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tokio::sync::broadcast::error::RecvError;

use super::observers::{Observers, Subscription};
use crate::{
    contract::{Clock, StoreError, StoreHandle},
    run::Observer,
    vocabulary::{Event, EventRecord, RunId, RunResult},
};

/// How many entries are read at once.
const PAGE: usize = 512;
/// How often a tree that another process carries is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// The events of a root run and all runs below it, in the order of their commits.
///
/// It reads the journal at its own pace, so any number of streams, however slow, never delay an
/// agent, and a stream that is read later is the same sequence but for the previews. It ends
/// after the root's last event.
pub struct EventStream {
    store: StoreHandle,
    clock: Arc<dyn Clock>,
    observers: Observers,
    subscription: Subscription,
    observer: Observer,
    root: RunId,
    after: u64,
    ready: VecDeque<EventRecord>,
    previews: bool,
    over: bool,
}

impl EventStream {
    pub(crate) fn new(
        root: RunId,
        store: StoreHandle,
        clock: Arc<dyn Clock>,
        observers: Observers,
    ) -> Self {
        Self {
            subscription: observers.subscribe(root),
            store,
            clock,
            observers,
            observer: Observer::new(),
            root,
            after: 0,
            ready: VecDeque::new(),
            previews: true,
            over: false,
        }
    }

    /// The same stream without previews: exactly what is recorded.
    #[must_use]
    pub fn recorded(mut self) -> Self {
        self.previews = false;
        self
    }

    /// The next event; `None` after the root's last one.
    ///
    /// It may be dropped while it waits (in `select!`) without losing an event.
    pub async fn next(&mut self) -> Option<Result<EventRecord, StoreError>> {
        loop {
            if let Some(record) = self.ready.pop_front() {
                self.ended(&record);
                return Some(Ok(record));
            }
            if self.over {
                return None;
            }
            match self.read().await {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => {
                    self.over = true;
                    return Some(Err(error));
                }
            }
            if let Some(preview) = self.wait().await {
                return Some(Ok(preview));
            }
        }
    }

    /// All events up to the root's last one, or up to now if it has not ended.
    ///
    /// # Errors
    /// What the store fails with.
    pub async fn so_far(mut self) -> Result<Vec<EventRecord>, StoreError> {
        let mut records = Vec::new();
        while self.read().await? {
            while let Some(record) = self.ready.pop_front() {
                self.ended(&record);
                records.push(record);
            }
        }
        Ok(records)
    }

    /// Follows a root that went on in another journal, and notices its end.
    fn ended(&mut self, record: &EventRecord) {
        if record.run != self.root {
            return;
        }
        if let Event::RunEnded { end, .. } = &record.event {
            match end {
                RunResult::Continued(next) => {
                    self.root = *next;
                    self.after = 0;
                    self.ready.clear();
                    self.subscription = self.observers.subscribe(*next);
                }
                _ => self.over = true,
            }
        }
    }

    /// Reads what there is. `false` when there is nothing more.
    async fn read(&mut self) -> Result<bool, StoreError> {
        let lines = self.store.read_tree(self.root, self.after, PAGE).await?;
        let any = !lines.is_empty();
        for line in lines {
            if !self.observer.knows(line.run)
                && let Some(row) = self.store.run(line.run).await?
            {
                self.observer.learn(&row);
            }
            self.after = line.stored.position;
            self.ready.extend(self.observer.observe(&line)?);
        }
        Ok(any)
    }

    /// Waits for more to read, or for a preview.
    async fn wait(&mut self) -> Option<EventRecord> {
        let look = self.clock.sleep_until(self.clock.now().after(LOOK));
        let Subscription {
            position, previews, ..
        } = &mut self.subscription;
        tokio::select! {
            biased;
            changed = position.changed() => {
                if changed.is_err() {
                    self.clock.sleep_until(self.clock.now().after(LOOK)).await;
                }
                None
            }
            preview = previews.recv(), if self.previews => match preview {
                Ok(preview) => Some(EventRecord::clone(&preview)),
                // Previews that a slow reader missed are gone; they were never more than hints.
                Err(RecvError::Lagged(_)) => None,
                Err(RecvError::Closed) => {
                    self.previews = false;
                    None
                }
            },
            () = look => None,
        }
    }
}

impl std::fmt::Debug for EventStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventStream")
            .field("root", &self.root)
            .field("after", &self.after)
            .finish_non_exhaustive()
    }
}
