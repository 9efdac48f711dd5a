//! Events of a run and the runs below it, from any point on, recorded and live.

mod taker;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_util::{FutureExt as _, stream::Stream};

pub(super) use self::taker::{Beginning, FindTaker};

use super::{
    observers::{Shown, Subscription},
    poll_interval::PollInterval,
};
use crate::{
    contract::{BoxFuture, Clock, StoreError, StoreHandle, TreeLine},
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

/// The events of a run and all runs below it, in the order of their commits; of a turn that was said to a run under way,
/// then those of the run that took the turn.
///
/// The stream reads the journal at its own pace, so any number of streams, however slow, never
/// delay an agent. For a reader that does not read it holds at most 16 entries, or more of them that come to about
/// 256 KiB, and the newest 1,024 previews. A stream that is read later gives the same sequence, except for the previews. It
/// ends after the run's last event. A reader who prefers the newest events to all events takes it
/// [bounded](Self::bounded).
///
/// It is a [`Stream`], for the adapters of `futures` and `tokio-stream`; [`next`](Self::next) needs none of them.
pub struct EventStream {
    store: StoreHandle,
    clock: Arc<dyn Clock>,
    subscription: Subscription,
    observer: Observer,
    /// The run whose end is the end of the stream.
    top: RunId,
    /// The root of its tree.
    root: RunId,
    /// The roots whose ends were read: those that went on in this one, and those that did not take the turn.
    passed_roots: Vec<RunId>,
    /// The runs whose events are given, where the tree has others too.
    within: Option<HashSet<RunId>>,
    after: u64,
    /// How many entries are read next.
    page: usize,
    interval: PollInterval,
    /// The event at which an earlier reader stopped, by its position and part. It and the events before it are not given.
    stopped_at: Option<(u64, u32)>,
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
    /// The wait for the beginning of a turn that was submitted: the run that the turn begins or joins.
    beginning: Option<BoxFuture<'static, Option<RunId>>>,
    /// The look at the store that is under way.
    looking: Option<BoxFuture<'static, Result<Found, StoreError>>>,
    /// The wait for more to read, or for a preview.
    waiting: Option<BoxFuture<'static, ()>>,
    /// The pause before the next look at what another process may have written. Previews do not put it off.
    pause: Option<BoxFuture<'static, ()>>,
    /// Whether the last look found the end, and no other one is due.
    is_read: bool,
    /// How many recorded events may wait for the reader.
    most: Option<usize>,
    missed: Missed,
    /// The search for the run that takes the followed turn, until the root is known to be that run.
    taker: Option<FindTaker>,
    /// The search for that run that is under way.
    finding: Option<BoxFuture<'static, Result<Option<RunId>, StoreError>>>,
    /// The event that is given once it is known whether another run took the turn.
    held: Option<EventRecord>,
    over: bool,
}

/// The result of a look at the store.
enum Found {
    Lines(Vec<TreeLine>),
    /// The run is no root. This is the root of its tree.
    Root(RunId),
}

/// An entry that was read and not passed yet, with its event, if it has one that the reader may want. An entry with
/// several events is one of these for each.
struct Ready {
    run: RunId,
    sequence: u64,
    position: u64,
    record: Option<EventRecord>,
    /// Whether the event comes after the point at which an earlier reader stopped.
    is_new: bool,
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
        run: RunId,
        store: StoreHandle,
        clock: Arc<dyn Clock>,
        subscription: Subscription,
    ) -> Self {
        Self {
            subscription,
            store,
            clock,
            observer: Observer::new(),
            top: run,
            root: run,
            passed_roots: Vec::new(),
            within: None,
            after: 0,
            page: PAGE.0,
            interval: PollInterval::between(LOOK.0, LOOK.1),
            stopped_at: None,
            ready: VecDeque::new(),
            passed: HashMap::new(),
            called: VecDeque::new(),
            shown: None,
            previews: true,
            gate: None,
            beginning: None,
            looking: None,
            waiting: None,
            pause: None,
            is_read: false,
            most: None,
            missed: Missed::default(),
            taker: None,
            finding: None,
            held: None,
            over: false,
        }
    }

    /// The run whose end is the end of the stream, as far as is known.
    pub(super) fn top(&self) -> RunId {
        self.top
    }

    /// The same stream behind a check: it is empty unless the check gives `true`.
    pub(super) fn behind(mut self, gate: BoxFuture<'static, bool>) -> Self {
        self.gate = Some(gate);
        self
    }

    /// The same stream, for a turn that was submitted.
    pub(super) fn begun_by(mut self, beginning: Option<&Beginning>) -> Self {
        self.beginning = beginning.map(|beginning| {
            let mut run = beginning.run.clone();
            async move { *run.wait_for(Option::is_some).await.ok()? }.boxed()
        });
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
    pub fn after(self, position: u64) -> Self {
        self.after_event(position, u32::MAX)
    }

    /// The same stream, beginning after the event with this position and part
    /// ([`EventRecord::part`]).
    #[must_use]
    pub fn after_event(mut self, position: u64, part: u32) -> Self {
        self.stopped_at = Some((position, part));
        self
    }

    /// The same stream without previews: exactly what is recorded.
    #[must_use]
    pub fn recorded(mut self) -> Self {
        self.previews = false;
        self
    }

    /// The next event; `None` after the run's last one.
    ///
    /// It may be dropped while it waits (in `select!`) without losing an event.
    pub async fn next(&mut self) -> Option<Result<EventRecord, StoreError>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// All events up to the run's last one, or up to now if it has not ended.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn so_far(mut self) -> Result<Vec<EventRecord>, StoreError> {
        poll_fn(|cx| self.pass_gate(cx)).await;
        if poll_fn(|cx| Poll::Ready(self.begin(cx))).await.is_pending() {
            return Ok(Vec::new());
        }
        // A look that is under way may have missed what is there by now.
        self.looking = None;
        let mut records: Vec<_> = self.held.take().into_iter().collect();
        loop {
            while let Some(ready) = self.ready.pop_front() {
                records.extend(self.pass(ready));
            }
            // An entry is in the store a moment before it is published.
            if self.over || !poll_fn(|cx| self.read(cx)).await? {
                return Ok(records);
            }
        }
    }

    /// Ends the stream if the reader may see nothing of it.
    fn pass_gate(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(gate) = &mut self.gate {
            if !ready!(gate.poll_unpin(cx)) {
                (self.over, self.previews, self.taker) = (true, false, None);
            }
            self.gate = None;
        }
        Poll::Ready(())
    }

    /// Goes to the run that the followed turn begins or joins. Ends the stream if there will be none.
    fn begin(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(beginning) = &mut self.beginning {
            match ready!(beginning.poll_unpin(cx)) {
                // Its own run goes on with no other.
                Some(run) if run == self.top => self.taker = None,
                Some(run) => {
                    self.go_on_in(run);
                    self.passed_roots.clear();
                }
                None => (self.over, self.previews, self.taker) = (true, false, None),
            }
            self.beginning = None;
        }
        Poll::Ready(())
    }

    /// Takes the next preview in hand. Entries that were published before it are read first.
    fn look_for_preview(&mut self) {
        if self.previews && self.shown.is_none() {
            let (shown, missed) = self.subscription.previews.take();
            // Previews that a slow reader missed are gone; they were never more than hints.
            self.missed.previews += missed;
            self.shown = shown;
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
        self.take_preview()
    }

    /// The preview at hand, unless it is of a call whose end the reader has passed, or of a run that is not asked for.
    fn take_preview(&mut self) -> Option<EventRecord> {
        let record = self.shown.take()?.record;
        let Event::Preview(preview) = &record.event else {
            return None;
        };
        let is_late = self.called.contains(&(record.run, preview.operation()));
        let is_within = |runs: &HashSet<RunId>| runs.contains(&record.run);
        let is_wanted = !is_late && self.within.as_ref().is_none_or(is_within);
        is_wanted.then(|| EventRecord::clone(&record))
    }

    /// Whether the reader has passed all that the preview at hand rests on.
    fn is_ripe(&self) -> bool {
        self.shown.as_ref().is_some_and(|shown| {
            let passed = self.passed.get(&shown.record.run).copied();
            passed.unwrap_or(0) >= shown.entries
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
        ready.is_new.then_some(record)
    }

    /// Follows a run that went on in another journal, and notices its end.
    fn ended(&mut self, record: &EventRecord) {
        if record.run != self.top {
            return;
        }
        if let Event::RunEnded { end, .. } = &record.event {
            match end {
                RunResult::Continued(next) => {
                    self.top = *next;
                    if self.within.is_none() {
                        self.go_on_in(*next);
                    }
                }
                _ => self.over = true,
            }
        }
    }

    /// Goes on with another root, whose tree is one of its own.
    fn go_on_in(&mut self, root: RunId) {
        self.passed_roots.push(self.root);
        (self.top, self.root) = (root, root);
        (self.after, self.is_read) = (0, false);
        self.ready.clear();
        self.subscription = self.subscription.next(root);
    }

    /// Whether an event is of the runs that are asked for. An event that begins one of them adds it.
    fn is_within(&mut self, record: &EventRecord) -> bool {
        let Some(runs) = &mut self.within else {
            return true;
        };
        match &record.event {
            Event::RunStarted {
                parent: Some(parent),
                ..
            } if runs.contains(parent) => runs.insert(record.run),
            Event::RunEnded {
                end: RunResult::Continued(next),
                ..
            } if runs.contains(&record.run) => runs.insert(*next),
            _ => false,
        };
        runs.contains(&record.run)
    }

    /// Whether a look would find nothing: what this process writes is published.
    fn knows_all(&self) -> bool {
        self.is_read && !self.subscription.position.has_changed().unwrap_or(true)
    }

    /// Reads what there is. `false` when there is nothing more.
    fn read(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, StoreError>> {
        let position = &mut self.subscription.position;
        let looking = self.looking.get_or_insert_with(|| {
            // The look may miss what is published from here on.
            position.mark_unchanged();
            look(self.store.clone(), self.root, self.after, self.page).boxed()
        });
        let found = ready!(looking.poll_unpin(cx));
        self.looking = None;
        Poll::Ready(match found {
            Ok(Found::Lines(lines)) => self.take(lines),
            Ok(Found::Root(root)) => {
                self.root = root;
                self.within = Some(HashSet::from([self.top]));
                self.subscription = self.subscription.next(root);
                Ok(true)
            }
            Err(error) => Err(error),
        })
    }

    fn take(&mut self, lines: Vec<TreeLine>) -> Result<bool, StoreError> {
        let any = !lines.is_empty();
        self.is_read = lines.len() < self.page;
        if any {
            let bytes: usize = lines.iter().map(|line| line.stored.line.text.len()).sum();
            self.page = (PAGE_BYTES * lines.len() / bytes.max(1)).clamp(PAGE.0, PAGE.1);
            self.interval.restart();
            self.pause = None;
        }
        for line in lines {
            let position = line.stored.position;
            let records = self.observer.observe(&line)?.into_iter();
            let mut records: Vec<_> = records.filter(|record| self.is_within(record)).collect();
            self.after = position;
            let last = records.pop();
            let ready = |record: Option<EventRecord>, is_last| Ready {
                run: line.run,
                sequence: line.stored.sequence,
                position,
                is_new: record.as_ref().is_some_and(|record| {
                    let place = (position, record.part);
                    self.stopped_at.is_none_or(|stopped_at| place > stopped_at)
                }),
                record,
                is_last,
            };
            let before = records.into_iter().map(|record| ready(Some(record), false));
            self.ready.extend(before.chain([ready(last, true)]));
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
        let mut waiting = self.ready.iter().filter(|ready| ready.is_new).count();
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
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let (clock, interval) = (&self.clock, &mut self.interval);
        let pause = self
            .pause
            .get_or_insert_with(|| clock.sleep(interval.pause()));
        if pause.poll_unpin(cx).is_ready() {
            (self.pause, self.waiting, self.is_read) = (None, None, false);
            return Poll::Ready(());
        }
        let waiting = self.waiting.get_or_insert_with(|| {
            let mut position = self.subscription.position.clone();
            let previews = self.subscription.previews.clone();
            let shows = self.previews && self.shown.is_none();
            Box::pin(async move {
                tokio::select! {
                    biased;
                    () = previews.any(), if shows => {}
                    Ok(()) = position.changed() => {}
                    else => std::future::pending().await,
                }
            })
        });
        ready!(waiting.poll_unpin(cx));
        self.waiting = None;
        Poll::Ready(())
    }
}

/// The entries of a tree after a position. A run that has none there may not be its tree's root.
async fn look(
    store: StoreHandle,
    root: RunId,
    after: u64,
    page: usize,
) -> Result<Found, StoreError> {
    let lines = store.read_tree(root, after, page).await?;
    if lines.is_empty() {
        if let Some(at) = store.deleted(root).await? {
            return Err(StoreError::Deleted { run: root, at });
        }
        if after == 0
            && let Some(row) = store.run(root).await?
            && row.root != root
        {
            return Ok(Found::Root(row.root));
        }
    }
    Ok(Found::Lines(lines))
}

impl Stream for EventStream {
    type Item = Result<EventRecord, StoreError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let stream = self.get_mut();
        ready!(stream.pass_gate(cx));
        ready!(stream.begin(cx));
        loop {
            if stream.waiting.is_some() {
                ready!(stream.wait(cx));
            }
            stream.look_for_preview();
            // A reader with a bound sees the store as it is now, and not as it was at the last read.
            let reads = stream.most.is_some() || stream.ready.is_empty();
            if reads && !stream.over && !stream.knows_all() {
                match ready!(stream.read(cx)) {
                    Ok(true) => continue,
                    Err(error) if stream.ready.is_empty() => {
                        stream.over = true;
                        return Poll::Ready(Some(Err(error)));
                    }
                    _ => stream.is_read = true,
                }
            }
            let given = match stream.due_preview() {
                Some(preview) => Some(preview),
                None => match stream.ready.pop_front() {
                    Some(ready) => stream.pass(ready),
                    None if stream.over => match ready!(stream.go_on_with_taker(cx)) {
                        Ok(true) => None,
                        Ok(false) => {
                            stream.leave_previews();
                            return Poll::Ready(None);
                        }
                        Err(error) => return Poll::Ready(Some(Err(error))),
                    },
                    // All that was recorded before the preview is read, unless entries that it rests on are
                    // on their way.
                    None if stream.is_ripe() => stream.take_preview(),
                    None => {
                        ready!(stream.wait(cx));
                        None
                    }
                },
            };
            if let Some(record) = given {
                stream.is_read &= stream.most.is_none();
                return Poll::Ready(Some(Ok(record)));
            }
        }
    }
}

opaque!(EventStream { top, after });
