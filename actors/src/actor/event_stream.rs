//! Events of a tree of runs, from any point on, recorded and live.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use futures_util::stream::{Stream, unfold};

use super::{
    observers::{Shown, Subscription},
    poll_interval::PollInterval,
};
use crate::{
    contract::{BoxFuture, Clock, RunStatus, StoreError, StoreHandle, TreeLine},
    run::Observer,
    vocabulary::{Event, EventRecord, OperationId, RunId, RunResult},
};

/// The least and the most entries that are read at once.
const PAGE: (usize, usize) = (16, 512);
/// About how many bytes of entries are read at once, where that is within these bounds.
const PAGE_BYTES: usize = 256 << 10;
/// How many operations that ended last are known to a stream.
const ENDED: usize = 64;
/// The shortest and the longest pause between two looks at a tree, which another process may carry. Events of this process
/// come without a look, so a quiet tree is looked at seldom.
const LOOK: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// The events of a root run and all runs below it, in the order of their commits.
///
/// The stream reads the journal at its own pace, so any number of streams, however slow, never
/// delay an agent. For a reader that does not read it holds at most 16 entries, or more of them that come to about
/// 256 KiB, and the newest 1,024 previews. A stream that is read later gives the same sequence, except for the previews. It
/// ends after the root's last event. A reader who prefers the newest events to all events takes it
/// [bounded](Self::bounded).
pub struct EventStream {
    store: StoreHandle,
    clock: Arc<dyn Clock>,
    subscription: Subscription,
    observer: Observer,
    root: RunId,
    after: u64,
    /// How many entries are read next.
    page: usize,
    interval: PollInterval,
    /// The event at which an earlier reader stopped, by its position and part.
    stopped_at: Option<(u64, u32)>,
    /// Whether the observer knows what was recorded before the point at which this stream begins.
    is_primed: bool,
    ready: VecDeque<Ready>,
    /// How many entries of each run the reader has passed.
    passed: HashMap<RunId, u64>,
    /// The calls that ended last. Their previews, which may come to hand later, are not given.
    called: VecDeque<(RunId, OperationId)>,
    /// A preview that is held until the entries before it are read.
    shown: Option<Shown>,
    previews: bool,
    /// The check that comes first: whether the reader may see anything.
    gate: Option<BoxFuture<'static, bool>>,
    /// How many recorded events may wait for the reader.
    most: Option<usize>,
    missed: Missed,
    /// Whether it is still unknown that the root had not ended before the point at which the stream
    /// begins.
    is_partial: bool,
    /// Whether the stream began later than its tree.
    begun_later: bool,
    over: bool,
}

/// An entry that was read and not passed yet, with its event, if it has one. An entry with several
/// events is one of these for each.
struct Ready {
    run: RunId,
    sequence: u64,
    position: u64,
    record: Option<EventRecord>,
    /// Whether this is the entry's last event, with which the entry is passed.
    is_last: bool,
}

/// Counts of the events and previews that a reader missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Missed {
    /// Recorded events that a [bounded](EventStream::bounded) stream left out. They are in the journal.
    pub events: u64,
    /// Previews that a slow reader did not get.
    pub previews: u64,
}

impl EventStream {
    pub(crate) fn new(
        root: RunId,
        store: StoreHandle,
        clock: Arc<dyn Clock>,
        subscription: Subscription,
    ) -> Self {
        Self {
            subscription,
            store,
            clock,
            observer: Observer::new(),
            root,
            after: 0,
            page: PAGE.0,
            interval: PollInterval::between(LOOK.0, LOOK.1),
            stopped_at: None,
            is_primed: true,
            ready: VecDeque::new(),
            passed: HashMap::new(),
            called: VecDeque::new(),
            shown: None,
            previews: true,
            gate: None,
            most: None,
            missed: Missed::default(),
            is_partial: false,
            begun_later: false,
            over: false,
        }
    }

    /// The same stream behind a check: it is empty unless the check gives `true`.
    pub(super) fn behind(mut self, gate: BoxFuture<'static, bool>) -> Self {
        self.gate = Some(gate);
        self
    }

    /// The same stream with a bound on the recorded events that wait for the reader, at least 1. Past it the oldest are
    /// left out and [counted](Self::missed). Without a bound the stream waits for its reader and leaves out nothing.
    #[must_use]
    pub fn bounded(mut self, most: usize) -> Self {
        self.most = Some(most.max(1));
        self
    }

    /// Counts of the events and previews that the reader missed so far.
    pub fn missed(&self) -> Missed {
        self.missed
    }

    /// The same stream, beginning after this position ([`EventRecord::position`]). A reader goes on
    /// with it where an earlier reader stopped, also after a restart. The events of one entry share
    /// its position; for a reader that may have stopped between them there is
    /// [`after_event`](Self::after_event).
    ///
    /// The entries before that position are read, but their events are not given: they tell which
    /// steps are under way.
    #[must_use]
    pub fn after(mut self, position: u64) -> Self {
        self.after = position;
        (self.is_partial, self.begun_later) = (position > 0, position > 0);
        (self.is_primed, self.stopped_at) = (position == 0, None);
        self
    }

    /// The same stream, beginning after the event with this position and part
    /// ([`EventRecord::part`]).
    #[must_use]
    pub fn after_event(self, position: u64, part: u32) -> Self {
        let mut stream = self.after(position.saturating_sub(1));
        stream.stopped_at = Some((position, part));
        stream
    }

    /// The same stream without previews: exactly what is recorded.
    #[must_use]
    pub fn recorded(mut self) -> Self {
        self.previews = false;
        self
    }

    /// The same as a [`Stream`], for the adapters of `futures` and `tokio-stream`.
    pub fn into_stream(self) -> impl Stream<Item = Result<EventRecord, StoreError>> + Send {
        unfold(self, |mut events| async move {
            Some((events.next().await?, events))
        })
    }

    /// The next event; `None` after the root's last one.
    ///
    /// It may be dropped while it waits (in `select!`) without losing an event.
    pub async fn next(&mut self) -> Option<Result<EventRecord, StoreError>> {
        self.pass_gate().await;
        loop {
            if self.most.is_some() && !self.over {
                // A reader sees the store as it is now, and not as it was at the last read.
                while let Ok(true) = self.read().await {}
            }
            self.look_for_preview();
            if let Some(preview) = self.due_preview() {
                return Some(Ok(preview));
            }
            if let Some(ready) = self.ready.pop_front() {
                let Some(record) = self.pass(ready) else {
                    continue;
                };
                return Some(Ok(record));
            }
            if self.over {
                self.leave_previews();
                return None;
            }
            let read = match self.read().await {
                Ok(false) if self.is_partial => self.look_for_end().await,
                read => read,
            };
            match read {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => {
                    self.over = true;
                    return Some(Err(error));
                }
            }
            // All that was recorded before the preview is read, unless entries that it rests on are
            // on their way.
            if self.is_ripe()
                && let Some(shown) = self.shown.take()
            {
                if self.is_late(&shown) {
                    continue;
                }
                return Some(Ok(EventRecord::clone(&shown.record)));
            }
            self.wait().await;
        }
    }

    /// Ends the stream if the reader may see nothing of it.
    async fn pass_gate(&mut self) {
        if let Some(gate) = &mut self.gate {
            if !gate.await {
                (self.over, self.previews) = (true, false);
            }
            self.gate = None;
        }
    }

    fn look_for_preview(&mut self) {
        if self.previews && self.shown.is_none() {
            let (shown, missed) = self.subscription.previews.take();
            // Previews that a slow reader missed are gone; they were never more than hints.
            (self.shown, self.missed.previews) = (shown, self.missed.previews + missed);
        }
    }

    /// The preview at hand, if the next entry was recorded after it.
    fn due_preview(&mut self) -> Option<EventRecord> {
        let before = self.shown.as_ref()?.before;
        let next = self.ready.front()?.position;
        // Positions begin at 1. If nothing was published since this tree is watched, the preview is
        // only known to belong after the entries that can be read now.
        if before == 0 || next < before || !self.is_ripe() {
            return None;
        }
        let shown = self.shown.take().filter(|shown| !self.is_late(shown))?;
        Some(EventRecord::clone(&shown.record))
    }

    /// Whether a preview is of a call whose end the reader has passed.
    fn is_late(&self, shown: &Shown) -> bool {
        let Event::Preview(preview) = &shown.record.event else {
            return false;
        };
        let call = (shown.record.run, preview.operation());
        self.called.contains(&call)
    }

    /// Whether the reader has passed all that the preview at hand rests on.
    fn is_ripe(&self) -> bool {
        self.shown.as_ref().is_some_and(|shown| {
            match self.passed.get(&shown.record.run) {
                Some(passed) => *passed >= shown.entries,
                // All entries of its run may stand before the point at which this stream begins.
                None => shown.entries == 0 || self.begun_later,
            }
        })
    }

    /// Passes an entry, and returns its event.
    fn pass(&mut self, ready: Ready) -> Option<EventRecord> {
        if ready.is_last {
            self.passed.insert(ready.run, ready.sequence + 1);
        }
        let record = ready.record?;
        if let Event::ModelCalled { operation, .. } | Event::ToolCalled { operation, .. } =
            &record.event
        {
            if self.called.len() == ENDED {
                self.called.pop_front();
            }
            self.called.push_back((record.run, *operation));
        }
        self.ended(&record);
        Some(record)
    }

    /// All events up to the root's last one, or up to now if it has not ended.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn so_far(mut self) -> Result<Vec<EventRecord>, StoreError> {
        let mut records = Vec::new();
        self.pass_gate().await;
        if self.over {
            return Ok(records);
        }
        while self.read().await? {
            while let Some(ready) = self.ready.pop_front() {
                records.extend(self.pass(ready));
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
                    self.subscription = self.subscription.next(*next);
                }
                _ => self.over = true,
            }
        }
    }

    /// Checks whether the root had ended before the position from which this stream reads. `false`
    /// when it had not.
    async fn look_for_end(&mut self) -> Result<bool, StoreError> {
        self.is_partial = false;
        let status = self.store.run(self.root).await?.map(|row| row.status);
        // Its last entry may have been written since this stream read.
        if !status.is_some_and(RunStatus::is_ended) || self.read().await? {
            return Ok(true);
        }
        match status {
            Some(RunStatus::Continued) => {
                self.root = self.root.next();
                self.subscription = self.subscription.next(self.root);
                (self.is_partial, self.is_primed) = (true, false);
            }
            _ => self.over = true,
        }
        Ok(true)
    }

    async fn observe(&mut self, line: &TreeLine) -> Result<Vec<EventRecord>, StoreError> {
        if !self.observer.knows(line.run)
            && let Some(row) = self.store.run(line.run).await?
        {
            self.observer.learn(&row);
        }
        self.observer.observe(line)
    }

    /// Reads what was recorded before the point at which this stream begins.
    async fn prime(&mut self) -> Result<(), StoreError> {
        let mut passed = 0;
        while passed < self.after {
            let lines = self.store.read_tree(self.root, passed, PAGE.1).await?;
            for line in &lines {
                passed = line.stored.position;
                if passed <= self.after {
                    self.observe(line).await?;
                }
            }
            if lines.is_empty() {
                break;
            }
        }
        self.is_primed = true;
        Ok(())
    }

    /// Reads what there is. `false` when there is nothing more.
    async fn read(&mut self) -> Result<bool, StoreError> {
        if !self.is_primed {
            self.prime().await?;
        }
        let lines = self.store.read_tree(self.root, self.after, self.page);
        let lines = lines.await?;
        let any = !lines.is_empty();
        if any {
            let bytes: usize = lines.iter().map(|line| line.stored.line.text.len()).sum();
            self.page = (PAGE_BYTES * lines.len() / bytes.max(1)).clamp(PAGE.0, PAGE.1);
            self.interval.restart();
        }
        if !any && let Some(at) = self.store.deleted(self.root).await? {
            let run = self.root;
            return Err(StoreError::Deleted { run, at });
        }
        for line in lines {
            let position = line.stored.position;
            let records = self.observe(&line).await?;
            let is_new = |record: &EventRecord| {
                let place = (position, record.part);
                self.stopped_at.is_none_or(|stopped_at| place > stopped_at)
            };
            let mut records: Vec<_> = records.into_iter().filter(is_new).map(Some).collect();
            if records.is_empty() {
                records.push(None);
            }
            self.after = position;
            let last = records.len() - 1;
            let ready = records.into_iter().enumerate();
            self.ready.extend(ready.map(|(place, record)| Ready {
                run: line.run,
                sequence: line.stored.sequence,
                position,
                record,
                is_last: place == last,
            }));
        }
        self.keep_within_bound();
        if *self.subscription.position.borrow() < self.after {
            // Previews that are shown from here on come after this position, also where nothing was
            // published since the tree is watched.
            self.subscription.read_up_to(self.after);
        }
        Ok(any)
    }

    /// Counts the previews that are at hand when everything is over.
    fn leave_previews(&mut self) {
        while let Some(_left) = self.shown.take() {
            self.missed.previews += 1;
            self.look_for_preview();
        }
    }

    fn keep_within_bound(&mut self) {
        let Some(most) = self.most else { return };
        let events = |ready: &VecDeque<Ready>| ready.iter().filter(|r| r.record.is_some()).count();
        let mut waiting = events(&self.ready);
        while waiting > most
            && let Some(ready) = self.ready.pop_front()
        {
            if self.pass(ready).is_some() {
                self.missed.events += 1;
                waiting -= 1;
            }
        }
    }

    /// Waits for more to read, or for a preview.
    async fn wait(&mut self) {
        let look = self.clock.sleep(self.interval.pause());
        let Subscription {
            position, previews, ..
        } = &mut self.subscription;
        tokio::select! {
            biased;
            (shown, missed) = previews.next(), if self.previews && self.shown.is_none() => {
                (self.shown, self.missed.previews) = (Some(shown), self.missed.previews + missed);
            }
            Ok(()) = position.changed() => {}
            () = look => {}
        }
    }
}

opaque!(EventStream { root, after });
