//! Delivery: the loop that polls an agent's function, begins its operations, and gives it their
//! results one at a time, in the journal's order, live and in replay alike.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered, task::AtomicWaker};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    ChildNews, ChildResult, ChildStart, Command, News, Ports,
    journal::JournalWriter,
    leg::{CallIdentity, Delivery, Leg, Note, RecordedCall},
    load::{RecordedChild, RecordedDelivery},
    operation::{
        Arrival, ErasedAttempt, ErasedBegin, ErasedOperation, ErasedProgress, ErasedWait,
        FinishChild, Gate, Made, OperationContext, WaitFor,
    },
};
use crate::{
    contract::{Append, BoxFuture, InboxBody, InboxItem, StateWrite, StoreError},
    definition::Durability,
    vocabulary::{
        AgentError, Begun, Entry, ErrorKind, JournalId, OperationError, OperationId, Outcome,
        Question, QuestionKind, Resource, RunId, StopReason, Timestamp,
    },
};

/// The door of a child's parent. A parent that was restarted has another one.
#[derive(Clone, Debug, Default)]
pub struct ParentDoor(Arc<parking_lot::Mutex<Option<News>>>);

impl ParentDoor {
    /// The door of this parent.
    pub fn of(news: News) -> Self {
        let door = Self::default();
        door.set(news);
        door
    }

    /// The parent has this door now.
    pub fn set(&self, news: News) {
        *self.0.lock() = Some(news);
    }

    /// Tells the parent how this child stands. `false` when there is nobody to tell.
    pub(crate) fn tell(&self, run: RunId, news: ChildNews) -> bool {
        let parent = self.0.lock();
        parent
            .as_ref()
            .is_some_and(|parent| parent.tell(Command::Child { run, news }))
    }
}

/// How many times a conflicting write is tried again before it fails.
const WRITE_ATTEMPTS: u32 = 32;

/// How a leg's function came to rest.
pub(crate) enum LegEnd {
    /// It returned.
    Returned(Result<Outcome, AgentError>),
    /// All that the run waits for is outside, and nothing came for a while.
    Asleep { wake_at: Option<Timestamp> },
    /// It asked for something else than what is recorded.
    Diverged(AgentError),
    /// It is to be cancelled.
    Cancel { reason: String, record: bool },
    /// It is told to let go.
    LetGo,
    /// The store failed, or somebody else owns the run.
    Store(StoreError),
}

/// What the driver knows of an operation that it began.
struct Under {
    identity: CallIdentity,
    cancelled: CancellationToken,
}

/// A child run that is not known to have ended.
pub(crate) struct LiveChild {
    op: OperationId,
    /// Makes the result of the operation that waits for it.
    finish: Option<FinishChild>,
    idle: bool,
    wake_at: Option<Timestamp>,
}

/// Drives one run. It outlives the legs.
pub(crate) struct Driver {
    pub(crate) journal: JournalWriter,
    pub(crate) ports: Arc<dyn Ports>,
    pub(crate) news: News,
    pub(crate) commands: mpsc::UnboundedReceiver<Command>,
    /// Fires when the run or an ancestor is cancelled.
    pub(crate) cancelled: CancellationToken,
    pub(crate) deadline: Option<Timestamp>,
    pub(crate) durability: Durability,
    /// How long a run that waits for the outside stays in memory; `None` for ever (a child: its
    /// root decides).
    pub(crate) linger: Option<Duration>,
    pub(crate) max_entries: u64,
    pub(crate) park_on_drift: bool,
    /// The parent's door, for a child.
    pub(crate) parent: Option<ParentDoor>,
    pub(crate) replay: VecDeque<RecordedDelivery>,
    under: HashMap<OperationId, Under>,
    waits: HashMap<OperationId, ErasedWait>,
    timers: BTreeSet<(Timestamp, OperationId)>,
    pub(crate) children: HashMap<RunId, LiveChild>,
    ended_children: HashMap<RunId, ChildResult>,
    ready: VecDeque<(OperationId, Made)>,
    acts: FuturesUnordered<BoxFuture<'static, (OperationId, ErasedProgress)>>,
    inbox: VecDeque<InboxItem>,
    seen: std::collections::HashSet<String>,
    told_idle: bool,
}

/// Wakes the driver when the function can go on.
struct FunctionWaker {
    woken: AtomicBool,
    driver: AtomicWaker,
}

impl Wake for FunctionWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.driver.wake();
    }
}

/// What a turn of the loop came from.
enum Turn {
    Woken,
    Act(OperationId, ErasedProgress),
    Command(Option<Command>),
    Timer,
    Deadline,
    Linger,
    Failed(StoreError),
}

impl Driver {
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn new(
        journal: JournalWriter,
        ports: Arc<dyn Ports>,
        (news, commands): (News, mpsc::UnboundedReceiver<Command>),
        cancelled: CancellationToken,
        durability: Durability,
        linger: Option<Duration>,
        max_entries: u64,
        park_on_drift: bool,
    ) -> Self {
        Self {
            journal,
            ports,
            news,
            commands,
            cancelled,
            deadline: None,
            durability,
            linger,
            max_entries,
            park_on_drift,
            parent: None,
            replay: VecDeque::new(),
            under: HashMap::new(),
            waits: HashMap::new(),
            timers: BTreeSet::new(),
            children: HashMap::new(),
            ended_children: HashMap::new(),
            ready: VecDeque::new(),
            acts: FuturesUnordered::new(),
            inbox: VecDeque::new(),
            seen: std::collections::HashSet::new(),
            told_idle: false,
        }
    }

    /// Drives one leg's function until it comes to rest.
    pub(crate) async fn drive(
        &mut self,
        leg: &Arc<Leg>,
        function: BoxFuture<'static, Result<Outcome, AgentError>>,
    ) -> LegEnd {
        let mut function = Some(function);
        let waker = Arc::new(FunctionWaker {
            woken: AtomicBool::new(true),
            driver: AtomicWaker::new(),
        });
        let end = loop {
            if let Some(returned) = poll_function(&mut function, &waker) {
                function = None;
                break self.returned(leg, returned).await;
            }
            if let Some(end) = self.after_poll(leg) {
                break end;
            }
            match self.deliver_next(leg) {
                Ok(true) => continue,
                Ok(false) => {}
                Err(end) => break end,
            }
            self.begin_all(leg).await;
            if let Some((op, made)) = self.ready.pop_front() {
                self.complete(leg, op, made);
                continue;
            }
            self.match_inbox(leg);
            if waker.woken.load(Ordering::Acquire) {
                continue;
            }
            let idle = self.settle_idle();
            self.journal.flush();
            if let Some(end) = self.wait(leg, &waker, idle).await {
                break end;
            }
        };
        // The engine lets go of the function: what it drops now says nothing.
        leg.books.lock().detached = true;
        drop(function);
        end
    }

    async fn returned(&mut self, leg: &Arc<Leg>, returned: Result<Outcome, AgentError>) -> LegEnd {
        if let Some(end) = self.after_poll(leg) {
            return end;
        }
        if let Some(unread) = self.replay.front() {
            let recorded = leg.books.lock().recorded.get(&unread.op).cloned();
            let recorded = recorded.map_or_else(String::new, |call| describe(&call));
            let found = "the end of the function".to_owned();
            return LegEnd::Diverged(AgentError::Diverged {
                at: unread.op,
                recorded,
                found,
            });
        }
        LegEnd::Returned(returned)
    }

    /// Writes what the function noted and dropped. `Some` when it diverged.
    fn after_poll(&mut self, leg: &Arc<Leg>) -> Option<LegEnd> {
        let (notes, dropped, end) = {
            let mut books = leg.books.lock();
            if books.notes.is_empty() && books.dropped.is_empty() && books.end.is_none() {
                return None;
            }
            (
                std::mem::take(&mut books.notes),
                std::mem::take(&mut books.dropped),
                books.end.clone(),
            )
        };
        for op in dropped {
            self.drop_operation(leg, op);
        }
        for note in notes {
            let entry = match note {
                Note::Emitted { op, name, data } => Entry::Emitted { op, name, data },
                Note::Undo { op, call } => Entry::UndoRegistered { op, call },
                Note::Drifted {
                    op,
                    recorded,
                    found,
                } => {
                    if self.park_on_drift {
                        let (recorded, found) = (recorded.to_string(), found.to_string());
                        let error = AgentError::Diverged {
                            at: op,
                            recorded: format!("a model request with digest {recorded}"),
                            found: format!("one with digest {found}"),
                        };
                        return Some(LegEnd::Diverged(error));
                    }
                    Entry::Drifted {
                        op,
                        recorded,
                        found,
                    }
                }
            };
            self.journal.append(&entry);
        }
        match end {
            Some(error @ AgentError::Diverged { .. }) => Some(LegEnd::Diverged(error)),
            _ => None,
        }
    }

    /// Delivers the next recorded result. `Ok(false)` when none is left.
    fn deliver_next(&mut self, leg: &Arc<Leg>) -> Result<bool, LegEnd> {
        let Some(next) = self.replay.pop_front() else {
            return Ok(false);
        };
        if leg.deliver(next.op, Delivery::Recorded(next.result)) {
            return Ok(true);
        }
        let recorded = leg.books.lock().recorded.get(&next.op).cloned();
        let error = AgentError::Diverged {
            at: next.op,
            recorded: recorded.map_or_else(String::new, |call| describe(&call)),
            found: "a function that does not ask for it there".to_owned(),
        };
        leg.end(error.clone());
        Err(LegEnd::Diverged(error))
    }

    async fn begin_all(&mut self, leg: &Arc<Leg>) {
        loop {
            if self.cancelled.is_cancelled() {
                // Nothing new starts; the word that the run is cancelled is on its way.
                break;
            }
            let next = leg.books.lock().to_begin.pop_front();
            let Some((op, identity, resource, operation)) = next else {
                break;
            };
            if let Some(over) = resource.and_then(|resource| self.over_budget(leg, resource)) {
                let message = format!("{}", StopReason::BudgetExhausted(over));
                let error = OperationError::new(ErrorKind::Budget(over), message);
                let cancelled = CancellationToken::new();
                self.under.insert(
                    op,
                    Under {
                        identity,
                        cancelled,
                    },
                );
                // An error encodes the same whatever the result's type is.
                self.ready.push_back((op, Made::of::<Value>(Err(error))));
                continue;
            }
            self.begin(leg, op, identity, operation);
        }
    }

    fn over_budget(&self, leg: &Arc<Leg>, resource: Resource) -> Option<Resource> {
        if self.journal.entries() >= self.max_entries {
            return Some(Resource::Entries);
        }
        leg.books
            .lock()
            .spent
            .exhausted(&leg.start.budget, resource)
    }

    fn begin(
        &mut self,
        leg: &Arc<Leg>,
        op: OperationId,
        identity: CallIdentity,
        operation: ErasedOperation,
    ) {
        let cancelled = self.cancelled.child_token();
        let started = leg
            .books
            .lock()
            .recorded
            .get(&op)
            .and_then(|call| call.begun.clone());
        let cx = OperationContext {
            id: op,
            run: leg.run,
            ports: self.ports.clone(),
            cancelled: cancelled.clone(),
            started: started.clone(),
            leg: leg.clone(),
        };
        self.under.insert(
            op,
            Under {
                identity,
                cancelled: cancelled.clone(),
            },
        );
        match operation(cx) {
            ErasedBegin::Ready(made) => self.ready.push_back((op, made)),
            ErasedBegin::Act {
                record_start,
                gate,
                future,
            } => {
                if record_start && started.is_none() {
                    self.record_start(op, Begun::Effect);
                }
                let gated = self.durability == Durability::Sync || record_start;
                self.act(op, gated.then_some(gate), cancelled, future);
            }
            ErasedBegin::Wait(wait) => self.begin_wait(op, wait, started),
            ErasedBegin::Write(attempt) => self.attempt(op, attempt),
            ErasedBegin::Child {
                start,
                awaited,
                finish,
            } => {
                self.begin_child(op, start, awaited, finish, started);
            }
        }
    }

    fn record_start(&mut self, op: OperationId, begun: Begun) {
        let Some(under) = self.under.get(&op) else {
            return;
        };
        let CallIdentity { kind, name, digest } = under.identity.clone();
        self.journal.append(&Entry::Started {
            op,
            kind: kind.into(),
            name,
            digest,
            begun,
        });
    }

    fn act(
        &self,
        op: OperationId,
        gate: Option<Gate>,
        cancelled: CancellationToken,
        future: BoxFuture<'static, ErasedProgress>,
    ) {
        let (durable, mark) = (self.journal.durable.clone(), self.journal.entries());
        let gated = async move {
            if gate == Some(Gate::Before) && durable.reached(mark).await.is_err() {
                // The driver hears of the failure by itself and ends everything.
                return std::future::pending().await;
            }
            let progress = future.await;
            if gate == Some(Gate::After) && durable.reached(mark).await.is_err() {
                return std::future::pending().await;
            }
            progress
        };
        self.acts.push(Box::pin(async move {
            let progress = cancelled.run_until_cancelled(gated).await;
            (op, progress.unwrap_or(ErasedProgress::Cancelled))
        }));
    }

    fn attempt(&self, op: OperationId, attempt: ErasedAttempt) {
        self.acts.push(Box::pin(async move {
            let (made, writes) = attempt().await;
            (op, ErasedProgress::Write(made, writes, attempt))
        }));
    }

    fn begin_wait(&mut self, op: OperationId, wait: ErasedWait, started: Option<Begun>) {
        let (begun, timer) = match &wait.wait_for {
            WaitFor::Answer(question) => {
                (Some(Begun::Question(question.clone())), question.expires)
            }
            WaitFor::Result => (Some(Begun::Ticket), None),
            WaitFor::Timer(at) => (Some(Begun::Timer(*at)), Some(*at)),
            WaitFor::Message(_) => (None, None),
            WaitFor::Child(run) => {
                if let Some(result) = self.ended_children.get(run) {
                    let arrival = Arrival::Child(Box::new(result.clone()));
                    self.ready.push_back((op, (wait.finish)(arrival)));
                    return;
                }
                (None, None)
            }
        };
        // What an effect turned into is recorded too; the same waiting only once.
        let recorded = matches!(
            (&begun, &started),
            (Some(Begun::Question(_)), Some(Begun::Question(_)))
                | (Some(Begun::Ticket), Some(Begun::Ticket))
                | (Some(Begun::Timer(_)), Some(Begun::Timer(_)))
        );
        if let (Some(begun), false) = (begun, recorded) {
            self.record_start(op, begun);
        }
        self.timers.extend(timer.map(|at| (at, op)));
        self.waits.insert(op, wait);
    }

    fn begin_child(
        &mut self,
        op: OperationId,
        start: ChildStart,
        awaited: bool,
        finish: FinishChild,
        started: Option<Begun>,
    ) {
        let run = start.run;
        let finish = if awaited {
            Some(finish)
        } else {
            self.ready.push_back((op, finish(run, None)));
            None
        };
        let taken_up = self.children.get_mut(&run);
        if let Some(child) = taken_up {
            child.finish = finish;
            return;
        }
        self.children.insert(
            run,
            LiveChild {
                op,
                finish,
                idle: false,
                wake_at: None,
            },
        );
        if started.is_some() {
            self.ports.child(ChildStart {
                fresh: false,
                ..start
            });
            return;
        }
        self.record_start(op, Begun::Child(run));
        let (line, row) = super::task::first_entry(&start, self.journal.now());
        let child = Append::new(JournalId::Run(run), 0, 1, vec![line]).row(row);
        if let Some(mut batch) = self.journal.take() {
            batch.appends.push(child);
            self.journal.commit(batch);
        }
        let (durable, mark) = (self.journal.durable.clone(), self.journal.entries());
        self.acts.push(Box::pin(async move {
            match durable.reached(mark).await {
                Ok(()) => (op, ErasedProgress::Start(Box::new(start))),
                Err(_) => std::future::pending().await,
            }
        }));
    }

    /// Takes up a child that no replay begins again.
    pub(crate) fn take_up_child(
        &mut self,
        leg: &Arc<Leg>,
        child: RecordedChild,
        cancel: Option<String>,
        pinned: &Arc<crate::definition::Pinned>,
    ) {
        let RecordedChild { op, run, agent } = child;
        let child = LiveChild {
            op,
            finish: None,
            idle: false,
            wake_at: None,
        };
        self.children.insert(run, child);
        let start = leg.start.clone();
        let (pinned, news) = (pinned.clone(), self.news.clone());
        let child = ChildStart {
            run,
            parent: leg.run,
            agent,
            start,
            pinned,
            fresh: false,
            operation: op,
            cancel,
            news,
        };
        self.ports.child(child);
    }

    /// Records an operation's end and gives it to the function.
    fn complete(&mut self, leg: &Arc<Leg>, op: OperationId, made: Made) {
        let Some(under) = self.under.remove(&op) else {
            return;
        };
        for id in std::mem::take(&mut *leg.taken.lock()) {
            self.journal.strike(id);
        }
        self.waits.remove(&op);
        self.timers.retain(|(_, timer)| *timer != op);
        let CallIdentity { kind, name, digest } = under.identity;
        let result = made.json;
        let entry = Entry::Completed {
            op,
            kind: kind.into(),
            name,
            digest,
            result,
        };
        self.journal.append(&entry);
        if let Entry::Completed { result, .. } = entry {
            // An error made without knowing the result's type goes in by its JSON.
            let typeless = made.value.is::<Result<Value, OperationError>>();
            let delivery = if typeless {
                Delivery::Recorded(result)
            } else {
                Delivery::Live(made.value)
            };
            leg.deliver(op, delivery);
        }
    }

    /// The function does not want this operation's result any more.
    fn drop_operation(&mut self, leg: &Arc<Leg>, op: OperationId) {
        let recorded = {
            let mut books = leg.books.lock();
            books.to_begin.retain(|(id, ..)| *id != op);
            books.recorded.get(&op).cloned()
        };
        let Some(under) = self.under.remove(&op) else {
            // It was not begun in this life; an earlier one may have, and not have recorded
            // that it was dropped.
            if let Some(call) = recorded.filter(|call| !call.completed && !call.dropped)
                && let Some(begun) = call.begun
            {
                if let Begun::Child(run) = begun {
                    self.ports.cancel_child(run, "no longer wanted".to_owned());
                }
                self.journal.append(&Entry::Dropped { op });
            }
            return;
        };
        under.cancelled.cancel();
        self.waits.remove(&op);
        self.timers.retain(|(_, timer)| *timer != op);
        self.ready.retain(|(id, _)| *id != op);
        if under.identity.kind == "tool" {
            self.abort_in_background(leg.run, op);
        }
        let child = self.children.iter_mut().find(|(_, child)| child.op == op);
        if let Some((run, child)) = child
            && child.finish.take().is_some()
        {
            self.ports.cancel_child(*run, "no longer wanted".to_owned());
        }
        self.journal.append(&Entry::Dropped { op });
    }

    fn abort_in_background(&self, run: RunId, op: OperationId) {
        let abort = self.ports.abort_tool(run, op);
        self.acts.push(Box::pin(async move {
            abort.await;
            (op, ErasedProgress::Cancelled)
        }));
    }

    /// Whether all that the run waits for is outside, told to the parent and the index when it
    /// changes.
    fn settle_idle(&mut self) -> bool {
        let idle = self.acts.is_empty()
            && self.ready.is_empty()
            && self.children.values().all(|child| child.idle)
            && (!self.waits.is_empty() || !self.children.is_empty());
        if idle != self.told_idle {
            self.told_idle = idle;
            let wake_at = self.wake_at();
            if let Some(parent) = &self.parent {
                let news = if idle {
                    ChildNews::Idle { wake_at }
                } else {
                    ChildNews::Busy
                };
                parent.tell(self.journal.run, news);
            }
            self.journal.change_row(|row| {
                use crate::contract::RunStatus::{Running, Waiting};
                row.status = if idle { Waiting } else { Running };
                row.wake_at = wake_at.filter(|_| idle);
            });
        }
        idle
    }

    fn wake_at(&self) -> Option<Timestamp> {
        let timer = self.timers.first().map(|(at, _)| *at);
        let children = self.children.values().filter_map(|child| child.wake_at);
        children.chain(timer).chain(self.deadline).min()
    }

    /// Waits for whatever comes next. `Some` when the leg ends.
    async fn wait(
        &mut self,
        leg: &Arc<Leg>,
        waker: &Arc<FunctionWaker>,
        idle: bool,
    ) -> Option<LegEnd> {
        match self.next_turn(waker, idle).await {
            Turn::Woken => None,
            Turn::Act(op, progress) => self.progress(leg, op, progress).await,
            Turn::Timer => {
                self.fire_timer(leg);
                None
            }
            Turn::Deadline => Some(LegEnd::Cancel {
                reason: super::task::DEADLINE.to_owned(),
                record: true,
            }),
            Turn::Linger => Some(LegEnd::Asleep {
                wake_at: self.wake_at(),
            }),
            Turn::Failed(error) => Some(LegEnd::Store(error)),
            Turn::Command(command) => self.command(leg, command).await,
        }
    }

    async fn next_turn(&mut self, waker: &Arc<FunctionWaker>, idle: bool) -> Turn {
        let clock = self.ports.clock().clone();
        let sleep_until = |at: Option<Timestamp>| {
            let clock = clock.clone();
            async move {
                match at {
                    Some(at) => clock.sleep_until(at).await,
                    None => std::future::pending().await,
                }
            }
        };
        let woken = std::future::poll_fn(|cx| {
            waker.driver.register(cx.waker());
            if waker.woken.load(Ordering::Acquire) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        });
        let linger = self
            .linger
            .filter(|_| idle)
            .map(|linger| clock.now().after(linger));
        let timer = self.timers.first().map(|(at, _)| *at);
        tokio::select! {
            biased;
            error = self.journal.durable.failing() => Turn::Failed(error),
            command = self.commands.recv() => Turn::Command(command),
            () = woken => Turn::Woken,
            Some((op, progress)) = self.acts.next(), if !self.acts.is_empty() => {
                Turn::Act(op, progress)
            }
            () = sleep_until(timer), if timer.is_some() => Turn::Timer,
            () = sleep_until(self.deadline), if self.deadline.is_some() => Turn::Deadline,
            () = sleep_until(linger), if linger.is_some() => Turn::Linger,
        }
    }

    async fn progress(
        &mut self,
        leg: &Arc<Leg>,
        op: OperationId,
        progress: ErasedProgress,
    ) -> Option<LegEnd> {
        match progress {
            ErasedProgress::Done(made) => self.complete(leg, op, made),
            ErasedProgress::Wait(wait) if self.under.contains_key(&op) => {
                let call = leg.books.lock().recorded.get(&op).cloned();
                self.begin_wait(op, wait, call.and_then(|call| call.begun));
            }
            ErasedProgress::Wait(_) | ErasedProgress::Cancelled => {}
            ErasedProgress::Start(start) => {
                let cancelled = !self.children.contains_key(&start.run);
                if !cancelled {
                    self.ports.child(*start);
                }
            }
            ErasedProgress::Write(made, writes, attempt) => {
                return self.write(leg, op, made, writes, attempt).await;
            }
        }
        None
    }

    /// Commits a change of shared state together with its operation's result.
    async fn write(
        &mut self,
        leg: &Arc<Leg>,
        op: OperationId,
        mut made: Made,
        mut writes: Vec<StateWrite>,
        attempt: ErasedAttempt,
    ) -> Option<LegEnd> {
        if !self.under.contains_key(&op) {
            return None;
        }
        self.journal.flush();
        for _ in 0..WRITE_ATTEMPTS {
            if writes.is_empty() {
                self.complete(leg, op, made);
                return None;
            }
            let keys = writes
                .iter()
                .map(|w| (w.scope.clone(), w.key.clone()))
                .collect();
            let CallIdentity { kind, name, digest } = self.under.get(&op)?.identity.clone();
            let result = made.json.clone();
            self.journal.append(&Entry::Completed {
                op,
                kind: kind.into(),
                name,
                digest,
                result,
            });
            let mut batch = self.journal.take()?;
            batch.writes = writes;
            match self.journal.commit_checked(batch).await {
                Ok(()) => {
                    self.ports.state_changed(keys);
                    self.under.remove(&op);
                    leg.deliver(op, Delivery::Live(made.value));
                    return None;
                }
                Err(StoreError::Conflict { .. }) => {
                    self.journal.take_back(1);
                    self.ports.state_changed(keys);
                    (made, writes) = attempt().await;
                }
                Err(error) => return Some(LegEnd::Store(error)),
            }
        }
        let message = "others kept changing the value first; try again later".to_owned();
        let error = OperationError::new(ErrorKind::Conflict, message).retryable();
        self.complete(leg, op, Made::of::<Value>(Err(error)));
        None
    }

    async fn command(&mut self, leg: &Arc<Leg>, command: Option<Command>) -> Option<LegEnd> {
        match command {
            None | Some(Command::LetGo) => Some(LegEnd::LetGo),
            Some(Command::Cancel { reason }) => Some(LegEnd::Cancel {
                reason,
                record: false,
            }),
            Some(Command::Inbox) => self.read_inbox().await,
            Some(Command::Reattached) => {
                self.told_idle = false;
                None
            }
            Some(Command::Child { run, news }) => {
                self.child_news(leg, run, news);
                None
            }
        }
    }

    /// Reads the inbox. `Some` when it holds the run's cancellation or cannot be read.
    pub(crate) async fn read_inbox(&mut self) -> Option<LegEnd> {
        let items = match self.ports.inbox(self.journal.run).await {
            Ok(items) => items,
            Err(error) => return Some(LegEnd::Store(error)),
        };
        for item in items {
            if !self.seen.insert(item.id.clone()) {
                continue;
            }
            if let InboxBody::Cancel { reason } = item.body {
                self.journal.strike(item.id);
                return Some(LegEnd::Cancel {
                    reason,
                    record: true,
                });
            }
            self.inbox.push_back(item);
        }
        None
    }

    /// Gives what is in the inbox to the operations that wait for it.
    fn match_inbox(&mut self, leg: &Arc<Leg>) {
        let mut kept = VecDeque::new();
        while let Some(item) = self.inbox.pop_front() {
            if let Some(item) = self.match_item(leg, item) {
                kept.push_back(item);
            }
        }
        self.inbox = kept;
    }

    /// Deals with one item, or gives it back.
    fn match_item(&mut self, leg: &Arc<Leg>, item: InboxItem) -> Option<InboxItem> {
        let (op, arrival) = match &item.body {
            InboxBody::Answer { operation, value } => {
                (Some(*operation), Arrival::Answer(value.clone()))
            }
            InboxBody::Result { operation, result } => {
                (Some(*operation), Arrival::Result(result.clone()))
            }
            InboxBody::Message { name, value } => {
                let waiting = |wait: &ErasedWait| match wait.wait_for {
                    WaitFor::Message(wanted) => wanted == name,
                    _ => false,
                };
                let mut ops: Vec<_> = self.waits.iter().filter(|(_, w)| waiting(w)).collect();
                ops.sort_by_key(|(op, _)| **op);
                let op = ops.first().map(|(op, _)| **op);
                let Some(op) = op else { return Some(item) };
                (Some(op), Arrival::Message(value.clone()))
            }
            InboxBody::Steer(message) => {
                leg.steering.lock().push((item.id, message.clone()));
                return None;
            }
            InboxBody::CancelCall { operation } => {
                self.cancel_call(leg, *operation);
                self.journal.strike(item.id);
                return None;
            }
            InboxBody::Cancel { .. } | InboxBody::Retry => {
                self.journal.strike(item.id);
                return None;
            }
        };
        let op = op?;
        let fits = self
            .waits
            .get(&op)
            .is_some_and(|wait| fits(&wait.wait_for, &arrival));
        if fits {
            self.journal.strike(item.id);
            self.arrive(leg, op, arrival);
            return None;
        }
        let over = leg
            .books
            .lock()
            .recorded
            .get(&op)
            .is_some_and(|call| call.completed);
        if over || self.waits.contains_key(&op) {
            // The question is answered already, or this is no answer to it.
            self.journal.strike(item.id);
            return None;
        }
        Some(item)
    }

    fn arrive(&mut self, leg: &Arc<Leg>, op: OperationId, arrival: Arrival) {
        if let Some(wait) = self.waits.remove(&op) {
            let made = (wait.finish)(arrival);
            self.complete(leg, op, made);
        }
    }

    /// Ends one call from outside; the function gets an error and goes on.
    fn cancel_call(&mut self, leg: &Arc<Leg>, op: OperationId) {
        let Some(under) = self.under.get(&op) else {
            return;
        };
        under.cancelled.cancel();
        if under.identity.kind == "tool" {
            self.abort_in_background(leg.run, op);
        }
        if let Some((run, child)) = self.children.iter_mut().find(|(_, child)| child.op == op)
            && child.finish.take().is_some()
        {
            self.ports
                .cancel_child(*run, "this call was cancelled".to_owned());
        }
        let error = OperationError::new(ErrorKind::Cancelled, "this call was cancelled");
        self.complete(leg, op, Made::of::<Value>(Err(error)));
    }

    fn fire_timer(&mut self, leg: &Arc<Leg>) {
        let now = self.journal.now();
        let Some((at, op)) = self.timers.first().copied() else {
            return;
        };
        if at > now {
            return;
        }
        self.timers.remove(&(at, op));
        match self.waits.get(&op).map(|wait| &wait.wait_for) {
            Some(WaitFor::Timer(_)) => self.arrive(leg, op, Arrival::Timer),
            Some(WaitFor::Answer(question)) => match &question.default {
                Some(default) => {
                    let answer = Arrival::Answer(default.clone());
                    self.arrive(leg, op, answer);
                }
                None => {
                    let message = format!("nobody answered in time: {}", question.prompt);
                    let error = OperationError::new(ErrorKind::Expired, message);
                    self.complete(leg, op, Made::of::<Value>(Err(error)));
                }
            },
            _ => {}
        }
    }

    /// Takes note of how a child stands, and records its end.
    pub(crate) fn child_news(&mut self, leg: &Arc<Leg>, run: RunId, news: ChildNews) {
        match news {
            ChildNews::Idle { wake_at } => {
                if let Some(child) = self.children.get_mut(&run) {
                    (child.idle, child.wake_at) = (true, wake_at);
                }
            }
            ChildNews::Busy => {
                if let Some(child) = self.children.get_mut(&run) {
                    (child.idle, child.wake_at) = (false, None);
                }
            }
            ChildNews::Continued(next) => {
                if let Some(child) = self.children.remove(&run) {
                    self.children.insert(next, child);
                }
            }
            ChildNews::Ended { append, result } => self.child_ended(leg, run, append, *result),
        }
    }

    fn child_ended(
        &mut self,
        leg: &Arc<Leg>,
        run: RunId,
        append: Option<Box<Append>>,
        result: ChildResult,
    ) {
        let child = self.children.remove(&run);
        let finish = child.and_then(|child| child.finish.map(|finish| (child.op, finish)));
        let joined: Vec<OperationId> = self
            .waits
            .iter()
            .filter(|(_, wait)| wait.wait_for == WaitFor::Child(run))
            .map(|(op, _)| *op)
            .collect();
        match finish {
            Some((op, finish)) => {
                let made = finish(run, Some(result));
                self.complete(leg, op, made);
            }
            None => {
                let arrival = Arrival::Child(Box::new(result.clone()));
                for op in joined {
                    self.arrive(leg, op, arrival.clone());
                }
                self.ended_children.insert(run, result);
            }
        }
        let Some(append) = append else { return };
        // The child's end, what it settles, and the parent's result are one commit.
        let mut batch = self.journal.take().unwrap_or_default();
        batch.appends.push(*append);
        self.journal.commit(batch);
    }

    /// What was begun and has not ended, for the closing of a cancelled run.
    pub(crate) fn take_open(&mut self) -> Vec<(OperationId, CallIdentity)> {
        self.waits.clear();
        self.timers.clear();
        self.ready.clear();
        self.acts.clear();
        let mut open: Vec<_> = self
            .under
            .drain()
            .map(|(op, under)| (op, under.identity))
            .collect();
        open.sort_by_key(|(op, _)| *op);
        open
    }

    /// Whether anything that the finished function left behind is still under way.
    pub(crate) fn has_background(&self) -> bool {
        !self.acts.is_empty() || !self.children.is_empty()
    }

    /// Lets dropped calls and cancelled children come to their ends.
    pub(crate) async fn settle_background(&mut self, leg: &Arc<Leg>) -> Result<(), LegEnd> {
        let spawned: Vec<RunId> = self.children.keys().copied().collect();
        for run in spawned {
            self.ports
                .cancel_child(run, "the run that began it has ended".to_owned());
        }
        let waker = Arc::new(FunctionWaker {
            woken: AtomicBool::new(false),
            driver: AtomicWaker::new(),
        });
        while self.has_background() {
            self.journal.flush();
            match self.next_turn(&waker, false).await {
                Turn::Act(_, ErasedProgress::Start(start)) => {
                    // It was recorded and never started: it is taken up only to be ended.
                    let cancel = Some("the run that began it has ended".to_owned());
                    self.ports.child(ChildStart { cancel, ..*start });
                }
                Turn::Command(Some(Command::Child { run, news })) => {
                    self.child_news(leg, run, news);
                }
                Turn::Command(None | Some(Command::LetGo)) => return Err(LegEnd::LetGo),
                Turn::Failed(error) => return Err(LegEnd::Store(error)),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Whether this arrival ends this waiting.
fn fits(wait_for: &WaitFor, arrival: &Arrival) -> bool {
    match (wait_for, arrival) {
        (WaitFor::Answer(question), Arrival::Answer(value)) => answers(question, value),
        (WaitFor::Result, Arrival::Result(_)) | (WaitFor::Message(_), Arrival::Message(_)) => true,
        _ => false,
    }
}

/// Whether a value is an answer to this question at all.
pub fn answers(question: &Question, value: &Value) -> bool {
    match question.kind {
        QuestionKind::Choice => value
            .as_str()
            .is_some_and(|choice| question.options.iter().any(|o| o == choice)),
        QuestionKind::Confirmation | QuestionKind::InDoubt => value.is_boolean(),
        QuestionKind::Approval => {
            value.is_boolean() || value.get("approved").is_some_and(Value::is_boolean)
        }
        _ => true,
    }
}

fn describe(call: &RecordedCall) -> String {
    format!("{} {:?}", call.kind, call.name)
}

/// Polls the function until it can go no further. `Some` when it returned.
fn poll_function(
    function: &mut Option<BoxFuture<'static, Result<Outcome, AgentError>>>,
    waker: &Arc<FunctionWaker>,
) -> Option<Result<Outcome, AgentError>> {
    let task_waker = Waker::from(waker.clone());
    let mut cx = Context::from_waker(&task_waker);
    while waker.woken.swap(false, Ordering::AcqRel) {
        if let Poll::Ready(returned) = function.as_mut()?.poll_unpin(&mut cx) {
            *function = None;
            return Some(returned);
        }
    }
    None
}
